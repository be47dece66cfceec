/* `corestack inspect` and `bound` as text. Paper: sections "CKA-Guided Redundancy Projection" and
 * "Spectrum-Adaptive Regularization", appendix. */
#include "report/text.h"

#include <math.h>
#include <string.h>

enum { MATRIX_MEMBERS = 20, TOP_PAIRS = 20, EIGENVALUES_SHOWN = 12, MEMBER_ROWS = 60 };

/* Columns that the task has no scores for are left out as empty. */
static void print_members(cst_page *page, const json_t *root) {
    static const cst_column columns[] = CST_COLUMNS(
        {.header = "", .kind = CST_COLUMN_PLACE}, CST_WORDS("name", "member"),
        CST_PERCENT("top1", "top-1 %", 2), CST_NUMBER("rmse", "RMSE", 5),
        CST_NUMBER("mae", "MAE", 5), CST_NUMBER("log_loss", "log loss", 5),
        CST_NUMBER("r2", "R^2", 4), CST_NUMBER("nll", "NLL", 4), CST_NUMBER("ece", "ECE", 4),
        CST_NUMBER("brier", "Brier", 4), CST_QUANTITY("flops", "FLOPs"),
        {.key = "family", .header = "family", .kind = CST_COLUMN_TEXT, .spare = true});
    const json_t *members = json_object_get(root, "members");
    size_t count = json_array_size(members);
    cst_table table = {.page = page, .rows = members, .limit = MEMBER_ROWS};
    cst_page_heading(page, root, "Members");
    cst_table_add(&table, columns);
    cst_table_print(&table);
    if (count > MEMBER_ROWS)
        cst_page_print(page, "  and %zu more (--json lists them all)\n", count - MEMBER_ROWS);
}

/* ---- similarity ---- */

static double entry(const json_t *matrix, size_t row, size_t column) {
    return cst_json_number_at(json_array_get(matrix, row), column);
}

static void similarity_cell(cst_table *table, double value, double threshold) {
    cst_style style = value > threshold ? CST_BOLD : value < 0.5 ? CST_DIM : CST_PLAIN;
    if (isnan(value))
        cst_table_cell(table, CST_DIM, "-");
    else
        cst_table_cell(table, style, "%.0f", round(1000 * value) + 0.0); /* and not -0 */
}

/* CKA below the diagonal, Pearson above it: both are symmetric. */
static void print_matrix(cst_page *page, const json_t *root) {
    char headers[MATRIX_MEMBERS][4];
    const json_t *names = json_object_get(root, "models");
    const json_t *cka = json_object_get(root, "cka");
    const json_t *pearson = json_object_get(root, "pearson");
    double threshold = cst_json_number(root, "cluster_threshold");
    size_t count = json_array_size(names);
    bool both = json_array_size(pearson) > 0;
    cst_table table = {.page = page};
    cst_page_heading(page, root,
                     both ? "CKA below the diagonal, Pearson correlation above, in thousandths"
                          : "CKA in thousandths (the matrix is symmetric)");
    cst_table_add_one(&table, (cst_column){.header = ""});
    cst_table_add_one(&table, (cst_column){.header = "", .align = 'l'});
    for (size_t i = 0; i < count; i++) {
        (void)cst_snprintf(headers[i], sizeof headers[i], "%zu", i + 1);
        cst_table_add_one(&table, (cst_column){.header = headers[i], .align = 'n'});
    }
    for (size_t i = 0; i < count; i++) {
        cst_table_cell(&table, CST_DIM, "%zu", i + 1);
        cst_table_cell(&table, CST_PLAIN, "%s", cst_json_string_at(names, i));
        for (size_t j = 0; j < count; j++) {
            if (i == j)
                cst_table_cell(&table, CST_DIM, ".");
            else if (j < i)
                similarity_cell(&table, entry(cka, i, j), threshold);
            else if (both)
                similarity_cell(&table, entry(pearson, i, j), NAN);
            else
                cst_table_cell(&table, CST_PLAIN, "%s", "");
        }
    }
    cst_table_end(&table);
}

static void print_pairs(cst_page *page, const json_t *root) {
    static const cst_column columns[] =
        CST_COLUMNS({.header = "member", .align = 'l'}, {.header = "member", .align = 'l'},
                    {.header = "CKA"}, {.header = "Pearson"});
    const json_t *names = json_object_get(root, "models");
    const json_t *cka = json_object_get(root, "cka");
    size_t count = json_array_size(names);
    size_t pairs = count * (count - 1) / 2;
    size_t at = 0;
    CST_SCOPE(scope);
    cst_table table = {.page = page};
    cst_placed *ranks = cst_page_ranks(page, scope, pairs);
    if (!ranks)
        return;
    for (size_t a = 0; a < count; a++)
        for (size_t b = a + 1; b < count; b++)
            ranks[at++] = (cst_placed){.value = -entry(cka, b, a), .place = a * count + b};
    cst_page_rank(ranks, pairs);
    cst_page_print(page, "\n");
    cst_page_styled(page, CST_BOLD, "The %d most similar pairs of %zu", TOP_PAIRS, pairs);
    cst_page_print(page, "\n");
    cst_table_add(&table, columns);
    for (size_t i = 0; i < pairs && i < TOP_PAIRS; i++) {
        size_t a = ranks[i].place / count;
        size_t b = ranks[i].place % count;
        cst_table_cell(&table, CST_PLAIN, "%s", cst_json_string_at(names, a));
        cst_table_cell(&table, CST_PLAIN, "%s", cst_json_string_at(names, b));
        cst_table_number(&table, CST_PLAIN, 4, -ranks[i].value);
        cst_table_number(&table, CST_PLAIN, 4, entry(json_object_get(root, "pearson"), b, a));
    }
    cst_table_end(&table);
}

static void print_similarity(cst_page *page, const json_t *root) {
    size_t count = json_array_size(json_object_get(root, "models"));
    if (count < 2)
        return;
    if (count <= MATRIX_MEMBERS)
        print_matrix(page, root);
    else
        print_pairs(page, root);
    cst_page_fill(page, root,
                  "[  CKA: {cka_info.estimator}, {cka_info.statistic} statistic]"
                  "[{cka_info.estimator!}{cka_info.landmarks_max!}, at most "
                  "{cka_info.landmarks_max:0} landmarks, residual trace at most "
                  "{cka_info.residual_max:g2}][{cka_info.estimator!}\n]"
                  "[  Largest gap in the sorted values (elbow): {elbow:4}\n]");
}

static void print_clusters(cst_page *page, const json_t *root) {
    const json_t *clusters = json_object_get(root, "clusters");
    size_t alone = 0;
    cst_page_heading(page, root, "Clusters at CKA above {cluster_threshold:g4}");
    for (size_t i = 0; i < json_array_size(clusters); i++) {
        const json_t *cluster = json_array_get(clusters, i);
        if (json_array_size(cluster) < 2)
            alone++;
        else
            cst_page_line(page, cluster, "together", "{:names}");
    }
    if (alone)
        cst_page_print(page, "  %zu member%s in no cluster\n", alone, alone == 1 ? "" : "s");
}

/* ---- spectrum ---- */

static void print_eigenvalues(cst_page *page, const json_t *root) {
    const json_t *values = json_object_get(root, "eigenvalues");
    size_t count = json_array_size(values);
    bool ascending = cst_json_number_at(values, 0) < cst_json_number_at(values, count - 1);
    cst_page_print(page, "  eigenvalues         ");
    for (size_t i = 0; i < count && i < EIGENVALUES_SHOWN; i++) {
        cst_page_print(page, i ? ", " : "");
        cst_page_fill(page, json_array_get(values, ascending ? count - 1 - i : i), "{:g3}");
    }
    cst_page_print(page, count > EIGENVALUES_SHOWN ? ", ... (%zu)\n" : "\n", count);
}

/* The spectrum and the penalties; of a regression with several outputs one after another. */
static void print_spectrum(cst_page *page, const json_t *root) {
    static const cst_text_row rows[] = CST_ROWS(
        CST_LINE(NULL, "noise", CST_SPECTRUM),
        CST_LINE(NULL, "lambda",
                 "star {lambda.star:g4}, cv {lambda.cv:g4}, gcv {lambda.gcv:g4}, evidence "
                 "{lambda.evidence:g4}"),
        CST_LINE(NULL, "lambda*",
                 "{lambda_star.oof:g4} of the out-of-fold columns, {lambda_star.meta:g4} of the "
                 "meta-features"));
    const json_t *outputs = json_object_get(root, "outputs");
    size_t count = json_array_size(outputs);
    if (cst_document_task(root) == CST_TASK_MULTILABEL || cst_document_task(root) == CST_TASK_TOPK)
        return;
    cst_page_heading(page, root, "Spectrum");
    if (count == 0)
        print_eigenvalues(page, root);
    cst_page_line(page, root, "kappa",
                  "{kappa_gram:g4} of the Gram matrix, {kappa_cka:g4} of the CKA matrix");
    for (size_t d = 0; d < count || d == 0; d++) {
        const json_t *part = count ? json_array_get(outputs, d) : root;
        if (count) {
            cst_page_fill(page, part, "  output {name}\n");
            print_eigenvalues(page, part);
        }
        cst_text_rows(page, part, rows);
    }
}

static void print_class_counts(cst_page *page, const json_t *root) {
    const json_t *counts = json_object_get(root, "class_counts");
    double least = INFINITY;
    double most = 0;
    for (size_t i = 0; i < json_array_size(counts); i++) {
        least = fmin(least, cst_json_number_at(counts, i));
        most = fmax(most, cst_json_number_at(counts, i));
    }
    cst_page_print(page, "  samples of a class: %.0f to %.0f\n", least, most);
}

const cst_text_row cst_text_inspect[] = CST_ROWS(
    CST_TITLE(": split {split}, {samples:0} samples, [{output_count:0} "
              "output{output_count&s}|{classes:0} classes], {models:0} members\n"),
    CST_CODE("class_counts", print_class_counts), CST_CODE("members", print_members),
    CST_CODE(NULL, print_similarity), CST_CODE(NULL, print_clusters),
    CST_CODE(NULL, print_spectrum), CST_BULLETS("problems", "Problems"), CST_SUSPECTS, CST_NOTICES);

/* ---- bounds ---- */

#define BOUND ":g4}{vacuous* vacuous}: empirical {empirical:g4}, KL {kl:g4}[, {samples:0} rows]"

static const cst_text_row PAPER_BOUND[] = CST_ROWS(
    CST_LINE("pac_bayes", "bound of the paper", "{total" BOUND),
    CST_LINE("pac_bayes", "",
             "of a squared error that is {trivial:g4} without any member; its Phi is {phi:g4}"));

static const cst_column SETS[] =
    CST_COLUMNS(CST_WORDS("method", "method"), CST_PERCENT("coverage", "coverage %", 2),
                CST_NUMBER("mean_size", "classes in a set", 3), CST_NUMBER("empty", "empty", 0),
                CST_NUMBER("single", "single", 0), CST_PERCENT("assured", "assured %", 2));

/* Sets for the rows of another split, one line for each of its conditions. */
static const cst_column SHIFTED[] = CST_COLUMNS(
    CST_WORDS("kind", "kind"), CST_NUMBER("severity", "severity", 0),
    CST_NUMBER("samples", "rows", 0), CST_PERCENT("unlike", "unlike %", 0),
    CST_PERCENT("coverage", "coverage %", 2), CST_NUMBER("mean_size", "classes in a set", 3),
    CST_PERCENT("plain_coverage", "unweighted %", 2), CST_NUMBER("plain_mean_size", "classes", 3));

static const cst_column PARTS[] = CST_COLUMNS(
    CST_NUMBER("part", "part", 0), CST_WORDS("name", "name"),
    CST_NUMBER("calibration_samples", "calibrated on", 0), CST_NUMBER("samples", "rows", 0),
    CST_PERCENT("coverage", "coverage %", 2), CST_NUMBER("mean_size", "classes in a set", 3),
    CST_PERCENT("plain_coverage", "together %", 2));

static const cst_text_row BY_PARTS[] =
    CST_ROWS(CST_TABLE("under_shift.batches.0.parts", "By {under_shift.by}", PARTS));
static const cst_text_row BY_COSTS[] = CST_ROWS(CST_LINE(
    "under_shift.batches.0", "cost of a row", "{cost:g4}, of sets by alpha {plain_cost:g4}"));

static void print_use_of_weights(cst_page *page, const json_t *root) {
    const json_t *shift = json_object_get(root, "under_shift");
    const json_t *batches = json_object_get(shift, "batches");
    size_t weighted = 0;
    for (size_t i = 0; i < json_array_size(batches); i++)
        weighted += cst_json_flag(json_array_get(batches, i), "weighted");
    cst_page_fill(page, shift, "  weights             {weights}");
    if (json_array_size(batches) == 1)
        cst_page_fill(page, json_array_get(batches, 0),
                      weighted ? ": {reason}\n" : ", not used: {reason}\n");
    else
        cst_page_print(page, ": used in %zu of %zu conditions\n", weighted,
                       json_array_size(batches));
}

static const cst_text_row UNDER_SHIFT[] =
    CST_ROWS(CST_HEADING("Prediction sets for the rows of split '{under_shift.split}'"),
             CST_TABLE("under_shift.batches", NULL, SHIFTED), CST_CODE(NULL, print_use_of_weights),
             CST_GROUP("under_shift.by", BY_PARTS), CST_GROUP("under_shift.risk", BY_COSTS));

static const cst_column BINS[] =
    CST_COLUMNS(CST_NUMBER("from", "confidence", 4),
                {.key = "to {to:4}", .header = "", .kind = CST_COLUMN_FILLED, .align = 'i'},
                CST_NUMBER("count", "rows", 0), CST_NUMBER("value", "right", 4),
                CST_NUMBER("lower", "at least", 4), CST_NUMBER("upper", "at most", 4));

static void print_bound_clusters(cst_page *page, const json_t *root) {
    const json_t *clusters = json_object_get(root, "clusters");
    for (size_t c = 0; c < json_array_size(clusters); c++)
        cst_page_line(page, json_array_get(clusters, c), c == 0 ? "clusters" : "", "{:names}");
}

static const cst_text_row CLAIMS[] =
    CST_ROWS(CST_LINE("spectral", "kappa at least",
                      "{kappa_before_above:g4}, {holds_before?holds|not satisfied}"),
             CST_LINE("spectral", "after at most",
                      "{kappa_after_below:g4}, {holds_after?holds|not satisfied}"));

#define GAP "{gap:g6} above it; claimed: at most {claimed:g6}, {holds?holds|not satisfied}"
static const cst_text_row GAPS[] = CST_ROWS(CST_LINE("blending.inverse_rmse", "inverse RMSE", GAP),
                                            CST_LINE("blending.laplace", "Laplace", GAP));

#define SIGNS(flag) "{" flag "?signs of a leak|no sign}"
static const cst_text_row LEAKS[] = CST_ROWS(
    CST_HEADING("Leaks"),
    CST_LINE("leakage", "rows, ids, groups",
             SIGNS("rows_leak") ": {shared_rows:0} rows were used in the fit"),
    CST_LINE("leakage", "members' errors", SIGNS("members_leak")),
    CST_LINE("leakage", "permuted labels",
             SIGNS("fit_leaks") ": top-1 {permuted.top1:%2} %, by chance {permuted.chance:%2} %"));

const cst_text_row cst_text_bound[] = CST_ROWS(
    CST_TEXT(NULL, "Bounds on split '{split}', {samples:0} rows of {classes:0} classes\n"),
    CST_HEADING("Error rates, each bound with probability {delta:-g6}"),
    CST_LINE("holdout", "stack", "at most {bound:g4}: {errors:0} errors in {samples:0} rows"),
    CST_LINE("pac_bayes_kl", "random member", "{bound" BOUND),
    CST_LINE("tandem", "weighted vote", "{bound" BOUND), CST_GROUP("pac_bayes.total", PAPER_BOUND),
    CST_TABLE("conformal_methods",
              "Prediction sets that contain the class for {conformal_methods.0.alpha:-%g6} % of "
              "rows",
              SETS),
    CST_GROUP("under_shift", UNDER_SHIFT), CST_HEADING("Calibration"),
    CST_LINE("ece", "ECE", "{value:g4}, between {lower:g4} and {upper:g4}"),
    CST_LINE("calibration", "binned confidence",
             "within {epsilon:g4} of the accuracy in every bin"),
    CST_TABLE("calibration.bins", NULL, BINS),
    CST_HEADING("Clusters and spectrum, as defined in the paper"),
    CST_CODE(NULL, print_bound_clusters),
    CST_LINE(NULL, "epsilon, mu", "{epsilon:g4}, {mu:g4}: {incoherent?incoherent|not incoherent}"),
    CST_LINE(NULL, "kappa",
             "{kappa_gram_before:g4}, of one member per cluster {kappa_gram_after:g4}; of the CKA "
             "matrix {kappa_cka_before:g4} and {kappa_cka_after:g4}"),
    CST_GROUP("spectral.applies", CLAIMS), /* else nothing is claimed of the two */
    CST_LINE("spectral", "ratio at least", "{ratio_above:g4}, {holds_ratio?holds|not satisfied}"),
    CST_HEADING("Weights, as defined in the paper"),
    CST_LINE("blending", "lowest variance", "{minimum:g6}, of a single member {best:g6}"),
    CST_GROUP("blending.minimum", GAPS),
    CST_LINE("stability.perturbations.2", "ridge under noise",
             "moves by {change:g6}; at most {bound:g6}, by the paper at most {claimed:g6}"),
    CST_LINE("stability.folds", "ridge between folds",
             "moves by {change:g6}, by the paper at most {claimed:g6}"),
    CST_GROUP("leakage", LEAKS), CST_NOTICES);
