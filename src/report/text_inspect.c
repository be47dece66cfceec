/*
 * What `corestack inspect` found, as text: members, similarity, clusters, spectrum, the four
 * penalties, problems. Paper: sections "CKA-Guided Redundancy Projection" and "Spectrum-Adaptive
 * Regularization".
 */
#include "report/text.h"
#include "report/text_table.h"

#include <math.h>
#include <string.h>

enum { MATRIX_MEMBERS = 20, TOP_PAIRS = 20, EIGENVALUES_SHOWN = 12, MEMBER_ROWS = 60 };

static double entry(const json_t *matrix, size_t row, size_t column) {
    return cst_json_number_at(json_array_get(matrix, row), column);
}

/* Columns that the task has no scores for are left out as empty. */
static void print_members(cst_page *page, const json_t *root) {
    static const cst_text_column columns[] = {
        {.header = "", .kind = CST_COLUMN_PLACE},
        {.key = "name", .header = "member", .kind = CST_COLUMN_TEXT},
        {.key = "top1", .header = "top-1 %", .decimals = 2, .scale = 100},
        {.key = "rmse", .header = "RMSE", .decimals = 5},
        {.key = "mae", .header = "MAE", .decimals = 5},
        {.key = "r2", .header = "R^2", .decimals = 4},
        {.key = "nll", .header = "NLL", .decimals = 4},
        {.key = "ece", .header = "ECE", .decimals = 4},
        {.key = "brier", .header = "Brier", .decimals = 4},
        {.key = "flops", .header = "FLOPs", .kind = CST_COLUMN_QUANTITY},
        {.key = "family", .header = "family", .kind = CST_COLUMN_TEXT}};
    const json_t *members = json_object_get(root, "members");
    size_t count = json_array_size(members);
    cst_text_table table = {.page = page, .rows = members, .limit = MEMBER_ROWS};
    if (count == 0)
        return;
    cst_page_heading(page, "Members");
    cst_text_table_add(&table, columns, sizeof columns / sizeof columns[0]);
    cst_text_table_print(&table);
    if (count > MEMBER_ROWS)
        cst_page_print(page, "  and %zu more (--json lists them all)\n", count - MEMBER_ROWS);
}

/* ---- similarity ---- */

static void similarity_cell(cst_grid *table, double value, double threshold) {
    cst_style style = value > threshold ? CST_BOLD : value < 0.5 ? CST_DIM : CST_PLAIN;
    if (isnan(value))
        cst_grid_cell(table, CST_DIM, "-");
    else if (fabs(value) < 0.9995)
        cst_grid_cell(table, style, "%s.%03.0f", value < -0.0005 ? "-" : "", 1000 * fabs(value));
    else
        cst_grid_cell(table, style, "%.2f", value);
}

/* CKA below the diagonal, Pearson above it: both are symmetric. */
static void print_matrix(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"",   "",   "1",  "2",  "3",  "4",  "5",  "6",
                                          "7",  "8",  "9",  "10", "11", "12", "13", "14",
                                          "15", "16", "17", "18", "19", "20"};
    char align[MATRIX_MEMBERS + 3] = "rl";
    const json_t *names = json_object_get(root, "models");
    const json_t *cka = json_object_get(root, "cka");
    const json_t *pearson = json_object_get(root, "pearson");
    double threshold = cst_json_number(root, "cluster_threshold");
    size_t count = json_array_size(names);
    bool both = json_array_size(pearson) > 0;
    cst_page_heading(page, both ? "CKA below the diagonal, Pearson correlation above"
                                : "CKA (the matrix is symmetric)");
    cst_grid table;
    memset(align + 2, 'r', count);
    cst_grid_begin(&table, page, align, headers);
    for (size_t i = 0; i < count; i++) {
        cst_grid_cell(&table, CST_DIM, "%zu", i + 1);
        cst_grid_cell(&table, CST_PLAIN, "%s", cst_json_string_at(names, i));
        for (size_t j = 0; j < count; j++) {
            if (i == j)
                cst_grid_cell(&table, CST_DIM, ".");
            else if (j < i)
                similarity_cell(&table, entry(cka, i, j), threshold);
            else if (both)
                similarity_cell(&table, entry(pearson, i, j), NAN);
            else
                cst_grid_cell(&table, CST_PLAIN, "%s", "");
        }
    }
    cst_grid_end(&table);
}

static void print_pairs(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"member", "member", "CKA", "Pearson"};
    const json_t *names = json_object_get(root, "models");
    const json_t *cka = json_object_get(root, "cka");
    const json_t *pearson = json_object_get(root, "pearson");
    size_t count = json_array_size(names);
    size_t pairs = count * (count - 1) / 2;
    cst_ranked *ranks = cst_text_ranks(page, pairs);
    if (!ranks)
        return;
    size_t at = 0;
    for (size_t a = 0; a < count; a++)
        for (size_t b = a + 1; b < count; b++)
            ranks[at++] = (cst_ranked){.value = -entry(cka, b, a), .place = a * count + b};
    cst_text_rank(ranks, pairs);
    cst_page_heading(page, "The %d most similar pairs of %zu", TOP_PAIRS, pairs);
    cst_grid table;
    cst_grid_begin(&table, page, "llrr", headers);
    for (size_t i = 0; i < pairs && i < TOP_PAIRS; i++) {
        size_t a = ranks[i].place / count;
        size_t b = ranks[i].place % count;
        cst_grid_cell(&table, CST_PLAIN, "%s", cst_json_string_at(names, a));
        cst_grid_cell(&table, CST_PLAIN, "%s", cst_json_string_at(names, b));
        cst_grid_number(&table, CST_PLAIN, 4, -ranks[i].value);
        cst_grid_number(&table, CST_PLAIN, 4, entry(pearson, b, a));
    }
    cst_grid_end(&table);
    cst_free(page->text.context, ranks);
}

static void print_similarity(cst_page *page, const json_t *root) {
    const json_t *info = json_object_get(root, "cka_info");
    const char *estimator = cst_json_string(info, "estimator");
    double landmarks = cst_json_number(info, "landmarks_max");
    double residual = cst_json_number(info, "residual_max");
    size_t count = json_array_size(json_object_get(root, "models"));
    if (count < 2)
        return;
    if (count <= MATRIX_MEMBERS)
        print_matrix(page, root);
    else
        print_pairs(page, root);
    if (estimator)
        cst_page_print(page, "  CKA: %s, %s statistic", estimator,
                       cst_json_text(info, "statistic"));
    if (estimator && landmarks > 0)
        cst_page_print(page, ", at most %.0f landmarks, residual trace at most %.2g", landmarks,
                       residual);
    if (estimator)
        cst_page_print(page, "\n");
    double elbow = cst_json_number(root, "elbow");
    if (!isnan(elbow))
        cst_page_print(page, "  Largest gap in the sorted values (elbow): %.4f\n", elbow);
}

static void print_clusters(cst_page *page, const json_t *root) {
    const json_t *clusters = json_object_get(root, "clusters");
    size_t alone = 0;
    cst_page_heading(page, "Clusters at CKA above %.4g",
                     cst_json_number(root, "cluster_threshold"));
    for (size_t i = 0; i < json_array_size(clusters); i++) {
        const json_t *cluster = json_array_get(clusters, i);
        if (json_array_size(cluster) < 2) {
            alone++;
            continue;
        }
        cst_text_label(page, "together");
        cst_text_names(page, cluster);
    }
    if (alone)
        cst_page_print(page, "  %zu member%s in no cluster\n", alone, alone == 1 ? "" : "s");
}

/* ---- spectrum ---- */

static void print_eigenvalues(cst_page *page, const json_t *root) {
    const json_t *values = json_object_get(root, "eigenvalues");
    size_t count = json_array_size(values);
    bool ascending = cst_json_number_at(values, 0) < cst_json_number_at(values, count - 1);
    cst_text_label(page, "eigenvalues");
    for (size_t i = 0; i < count && i < EIGENVALUES_SHOWN; i++) {
        cst_page_print(page, i ? ", " : "");
        cst_page_numbers(page, 3, "#", cst_json_number_at(values, ascending ? count - 1 - i : i));
    }
    cst_page_print(page, count > EIGENVALUES_SHOWN ? ", ... (%zu)\n" : "\n", count);
}

static void print_lambdas(cst_page *page, const json_t *root) {
    static const char *const keys[] = {"star", "cv", "gcv", "evidence"};
    const json_t *lambda = json_object_get(root, "lambda");
    cst_text_label(page, "lambda");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        cst_page_print(page, "%s%s ", i ? ", " : "", keys[i]);
        cst_page_numbers(page, 4, "#", cst_json_number(lambda, keys[i]));
    }
    cst_page_print(page, "\n");
    const json_t *star = json_object_get(root, "lambda_star");
    cst_text_label(page, "lambda*");
    cst_page_numbers(page, 4, "# of the out-of-fold columns, # of the meta-features\n",
                     cst_json_number(star, "oof"), cst_json_number(star, "meta"));
}

/* The spectrum and the penalties; of a regression with several outputs one after another. */
static void print_spectrum(cst_page *page, const json_t *root) {
    const json_t *outputs = json_object_get(root, "outputs");
    size_t count = json_array_size(outputs);
    cst_page_heading(page, "Spectrum");
    if (count == 0)
        print_eigenvalues(page, root);
    cst_text_label(page, "kappa");
    cst_page_numbers(page, 4, "# of the Gram matrix, # of the CKA matrix\n",
                     cst_json_number(root, "kappa_gram"), cst_json_number(root, "kappa_cka"));
    for (size_t d = 0; d < count || d == 0; d++) {
        const json_t *part = count ? json_array_get(outputs, d) : root;
        if (count) {
            cst_page_print(page, "  output %s\n", cst_json_text(part, "name"));
            print_eigenvalues(page, part);
        }
        cst_text_noise(page, part, "noise");
        print_lambdas(page, part);
    }
}

static void print_classes(cst_page *page, const json_t *root) {
    const json_t *counts = json_object_get(root, "class_counts");
    size_t count = json_array_size(counts);
    double least = INFINITY;
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        least = fmin(least, cst_json_number_at(counts, i));
        most = fmax(most, cst_json_number_at(counts, i));
    }
    if (count)
        cst_page_print(page, "  samples of a class: %.0f to %.0f\n", least, most);
}

void cst_text_inspect(cst_page *page, const json_t *root, bool full) {
    (void)full;
    bool values = cst_document_task(root) == CST_TASK_REGRESSION;
    double width = cst_json_number(root, values ? "output_count" : "classes");
    cst_page_styled(page, CST_BOLD, "corestack inspect");
    cst_page_print(page, ": split %s, %.0f samples, %.0f %s%s, %zu members\n",
                   cst_json_text(root, "split"), cst_json_number(root, "samples"), width,
                   values ? "output" : "classes", values && width > 1 ? "s" : "",
                   json_array_size(json_object_get(root, "models")));
    print_classes(page, root);
    print_members(page, root);
    print_similarity(page, root);
    print_clusters(page, root);
    print_spectrum(page, root);
    cst_text_bullets(page, root, "problems", "Problems");
    cst_text_bullets(page, root, "notices", "Notices");
}
