/*
 * Reads the section of a model file with what the monitor compares rows with, trusting nothing.
 * Before the monitor. docs/model-format.md.
 */
#include "model/reader.h"

#include <float.h>
#include <inttypes.h>

static const double NATS_MAX = 1e6; /* of entropies, which are at most log C */

static int64_t get_rows(cst_reader *r, const char *what, int64_t most) {
    return cst_reader_int(r, what, 0, (int32_t)most);
}

static void get_cut(cst_reader *r, cst_watch_cut *cut) {
    cut->threshold = cst_reader_f64(r, "a threshold of the confidence", 0, 2);
    cut->share = cst_reader_f64(r, "a share of rows at a threshold", 0, 1);
}

/* [count] classes, ascending. */
static void get_classes(cst_reader *r, int32_t count, int32_t classes, int32_t *out) {
    for (int32_t i = 0; i < count && r->status == CST_OK; i++)
        out[i] = cst_reader_int(r, "a class", i > 0 ? out[i - 1] + 1 : 0, classes - 1);
}

static void get_edges(cst_reader *r, cst_watch *watch) {
    size_t at = r->at;
    size_t count = (size_t)watch->tables * CST_WATCH_STATISTICS * CST_WATCH_EDGES;
    float *edge =
        r->status == CST_OK ? cst_reader_f32s(r, count, "a threshold", (double)FLT_MAX) : NULL;
    cst_free(r->context, watch->edge);
    watch->edge = edge;
    for (size_t e = 1; edge && r->status == CST_OK && e < count; e++)
        if (e % CST_WATCH_EDGES && edge[e] > edge[e - 1])
            cst_reader_refuse(r, at + 4 * e,
                              "thresholds of a statistic are not in descending "
                              "order");
}

static void get_members(cst_reader *r, cst_watch *watch) {
    for (int32_t k = 0; k <= watch->members && r->status == CST_OK; k++) {
        watch->entropy[k] = cst_reader_f64(r, "a mean entropy", 0, NATS_MAX);
        watch->deviation[k] = cst_reader_f64(r, "a deviation of the entropy", 0, NATS_MAX);
        if (k < watch->members) {
            watch->predicted[k] = get_rows(r, "the rows that a member predicted", watch->rows);
            watch->apart[k] =
                get_rows(r, "the rows that a member predicts otherwise", watch->predicted[k]);
        }
        for (int32_t g = 0; g < watch->groups && r->status == CST_OK; g++)
            watch->share[(size_t)k * (size_t)watch->groups + (size_t)g] =
                get_rows(r, "the rows of a predicted class", watch->rows);
    }
}

void cst_watch_get(cst_reader *r, cst_model *model) {
    cst_watch sizes = {.classes = model->classes, .members = model->members};
    if (model->task != CST_TASK_CLASSIFICATION)
        cst_reader_refuse(r, r->at, "section MONI is in a model of %s", cst_task_name(model->task));
    int64_t rows = cst_reader_int(r, "the rows of the fit", 1, CST_WATCH_ROWS_MAX);
    int64_t whole = cst_reader_int(r, "the rows that every member predicted", 1, (int32_t)rows);
    size_t at = r->at;
    sizes.tables = cst_reader_int(r, "the number of tables", 1, CST_WATCH_TABLES_MAX);
    sizes.groups = cst_reader_int(r, "the number of groups", 1, CST_WATCH_GROUPS_MAX);
    size_t members = (size_t)model->members;
    size_t least = 124 * (size_t)sizes.tables + (members + 1) * (16 + 4 * (size_t)sizes.groups);
    if (r->status == CST_OK && least > r->end - r->at)
        cst_reader_refuse(r, at,
                          "%" PRId32 " tables and %" PRId32 " groups are declared, but %zu bytes "
                          "are left",
                          sizes.tables, sizes.groups, r->end - r->at);
    if (r->status == CST_OK)
        r->status = cst_watch_alloc(r->context, &sizes, &model->watch);
    if (r->status != CST_OK)
        return;
    cst_watch *watch = model->watch;
    watch->rows = rows;
    watch->whole = whole;
    watch->accuracy = cst_reader_f64(r, "the accuracy of the fit", 0, 1);
    watch->confidence = cst_reader_f64(r, "the confidence of the fit", 0, 1.001);
    watch->ece = cst_reader_f64(r, "the ECE of the fit", 0, 1);
    get_cut(r, &watch->stack);
    get_cut(r, &watch->average);
    get_classes(r, watch->tables - 1, watch->classes, watch->table_class);
    for (int32_t t = 0; t < watch->tables && r->status == CST_OK; t++)
        watch->table_rows[t] = get_rows(r, "the rows of a table", rows);
    get_edges(r, watch);
    get_classes(r, watch->groups - 1, watch->classes, watch->group_class);
    get_members(r, watch);
}
