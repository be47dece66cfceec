/*
 * What `corestack profile` measured, as text: methods from end to end, their meta-layers, members,
 * and the paper's figures.
 * Last stage of a profile without --json. Paper: table "Inference efficiency".
 */
#include "report/text_methods.h"

#include <string.h>

static const cst_text_column METHOD = {
    .key = "method", .header = "method", .kind = CST_COLUMN_TEXT};

static void print_conditions(cst_page *page, const json_t *root) {
    const json_t *measured = json_object_get(root, "measured");
    const char *unit = cst_json_text(measured, "unit");
    bool parallel = strcmp(cst_json_text(measured, "members"), "parallel") == 0;
    cst_page_print(page, "  split %s, %.0f %s in memory, batches of %.0f, %.0f thread%s, %s\n",
                   cst_json_text(root, "split"), cst_json_number(measured, "samples"), unit,
                   cst_json_number(measured, "batch"), cst_json_number(measured, "threads"),
                   cst_json_number(measured, "threads") > 1 ? "s" : "",
                   cst_json_text(measured, "cpu"));
    cst_page_print(page, "  Members run %s.\n",
                   parallel ? "at the same time, each on a device of its own"
                            : "one after another, all in memory");
}

static void print_whole(cst_page *page, const json_t *root, const json_t *rows) {
    int32_t count = 0;
    const cst_score_spec *score = cst_scores_of(root, CST_SCORES_OF_TASK, &count);
    const cst_text_column first = {.header = score->label,
                                   .kind = CST_COLUMN_SCORE,
                                   .decimals = score->decimals,
                                   .score = score,
                                   .places = cst_score_places(rows, score)};
    static const cst_text_column columns[] = {
        {.key = "models", .header = "K"},
        {.key = "flops_rel", .header = "FLOPs", .decimals = 3},
        {.key = "latency_ms", .header = "latency (ms)", .decimals = 3},
        {.key = "memory_bytes", .header = "peak memory (bytes)", .kind = CST_COLUMN_QUANTITY},
        {.key = "throughput", .header = "throughput (1/s)", .decimals = 1}};
    cst_text_table table = {.page = page, .root = root, .rows = rows};
    cst_page_heading(page, "From end to end: members as the manifest gives them, meta-layer "
                           "measured here");
    cst_text_table_add(&table, &METHOD, 1);
    cst_text_table_add(&table, &first, 1);
    cst_text_table_add(&table, columns, sizeof columns / sizeof columns[0]);
    cst_text_table_print(&table);
}

static void print_meta(cst_page *page, const json_t *rows) {
    static const cst_text_column columns[] = {
        {.key = "single_p50_us", .header = "1: p50 (us)", .decimals = 2},
        {.key = "single_p99_us", .header = "p99", .decimals = 2},
        {.key = "single_calls", .header = "calls"},
        {.key = "batch_p50_us", .header = "batch: p50 (us)", .decimals = 1},
        {.key = "batch_p99_us", .header = "p99", .decimals = 1},
        {.key = "batch_calls", .header = "calls"},
        {.key = "meta_throughput", .header = "1/s", .kind = CST_COLUMN_QUANTITY},
        {.key = "meta_memory_bytes", .header = "memory", .kind = CST_COLUMN_QUANTITY},
        {.key = "model_bytes", .header = "model", .kind = CST_COLUMN_QUANTITY},
        {.key = "gate_parameters", .header = "gate"}};
    cst_page_heading(page, "Meta-layer, measured here");
    cst_text_table table = {.page = page, .rows = rows};
    cst_text_table_add(&table, &METHOD, 1);
    cst_text_table_add(&table, columns, sizeof columns / sizeof columns[0]);
    cst_text_table_print(&table);
    cst_page_paragraph(page, "1: a call with one sample; batch: with a whole batch. memory: bytes "
                             "that a batch needs; model: bytes of its file; gate: parameters.");
}

static void print_members(cst_page *page, const json_t *root) {
    static const cst_text_column columns[] = {
        {.key = "name", .header = "member", .kind = CST_COLUMN_TEXT},
        {.key = "passes", .header = "passes"},
        {.key = "flops", .header = "FLOPs", .kind = CST_COLUMN_QUANTITY},
        {.key = "params", .header = "parameters", .kind = CST_COLUMN_QUANTITY},
        {.key = "latency_ms", .header = "latency (ms)", .decimals = 3},
        {.key = "memory_bytes", .header = "peak memory (bytes)", .kind = CST_COLUMN_QUANTITY}};
    cst_page_heading(page, "Members, as the manifest gives them");
    cst_text_table_show(page, json_object_get(root, "members"), columns,
                        sizeof columns / sizeof columns[0]);
}

static void print_paper(cst_page *page, const json_t *root) {
    static const cst_text_column columns[] = {
        {.key = "name", .header = "method", .kind = CST_COLUMN_TEXT},
        {.key = "top1", .header = "top-1 %", .decimals = 1, .scale = 100},
        {.key = "models", .header = "K"},
        {.key = "flops_rel", .header = "FLOPs", .decimals = 2},
        {.key = "latency_ms", .header = "latency (ms)", .decimals = 1},
        {.key = "memory_gb", .header = "peak memory (GB)", .decimals = 1},
        {.key = "throughput", .header = "throughput (1/s)"}};
    const json_t *paper = json_object_get(root, "paper");
    cst_page_heading(page, "Reported by the paper, not measured here: %s, %s, batches of %.0f",
                     cst_json_text(paper, "data"), cst_json_text(paper, "device"),
                     cst_json_number(paper, "batch"));
    cst_text_table_show(page, json_object_get(paper, "rows"), columns,
                        sizeof columns / sizeof columns[0]);
}

void cst_text_profile(cst_page *page, const json_t *root, bool full) {
    const json_t *rows = json_object_get(root, "rows");
    const char *model = cst_json_string(root, "model");
    cst_page_styled(page, CST_BOLD, "corestack profile");
    cst_page_print(page, "%s%s\n", model ? ": " : "", model ? model : "");
    print_conditions(page, root);
    print_whole(page, root, rows);
    print_meta(page, rows);
    if (full)
        print_members(page, root);
    print_paper(page, root);
    cst_text_end(page, root);
}
