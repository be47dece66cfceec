/*
 * What `corestack bound` found, as text: certificates of errors, prediction sets, calibration, then
 * the paper's quantities. Last stage of the command without --json. Paper: appendix.
 */
#include "report/text.h"
#include "report/text_table.h"

#include <math.h>

/* "bound 0.0312 (vacuous)" of an object. */
static void print_bound(cst_page *page, const json_t *root, const char *key, const char *label,
                        const char *value) {
    const json_t *object = json_object_get(root, key);
    double samples = cst_json_number(object, "samples");
    cst_text_label(page, label);
    cst_page_numbers(page, 4, "#", cst_json_number(object, value));
    if (cst_json_flag(object, "vacuous"))
        cst_page_styled(page, CST_BOLD, " vacuous");
    cst_page_numbers(page, 4, ": empirical #, KL #", cst_json_number(object, "empirical"),
                     cst_json_number(object, "kl"));
    if (!isnan(samples))
        cst_page_print(page, ", %.0f rows", samples);
    cst_page_print(page, "\n");
}

static void print_errors(cst_page *page, const json_t *root) {
    const json_t *holdout = json_object_get(root, "holdout");
    const json_t *paper = json_object_get(root, "pac_bayes");
    cst_page_heading(page, "Error rates, each bound with probability %g",
                     1 - cst_json_number(root, "delta"));
    cst_text_label(page, "stack");
    cst_page_numbers(page, 4, "at most #", cst_json_number(holdout, "bound"));
    cst_page_print(page, ": %.0f errors in %.0f rows\n", cst_json_number(holdout, "errors"),
                   cst_json_number(holdout, "samples"));
    print_bound(page, root, "pac_bayes_kl", "random member", "bound");
    print_bound(page, root, "tandem", "weighted vote", "bound");
    if (isnan(cst_json_number(paper, "total")))
        return;
    print_bound(page, root, "pac_bayes", "bound of the paper", "total");
    cst_text_label(page, "");
    cst_page_numbers(page, 4, "of a squared error that is # without any member; its Phi is #\n",
                     cst_json_number(paper, "trivial"), cst_json_number(paper, "phi"));
}

static void print_sets(cst_page *page, const json_t *root) {
    static const cst_text_column columns[] = {
        {.key = "method", .header = "method", .kind = CST_COLUMN_TEXT},
        {.key = "coverage", .header = "coverage %", .decimals = 2, .scale = 100},
        {.key = "mean_size", .header = "classes in a set", .decimals = 3},
        {.key = "empty", .header = "empty"},
        {.key = "single", .header = "single"},
        {.key = "assured", .header = "assured %", .decimals = 2, .scale = 100}};
    const json_t *methods = json_object_get(root, "conformal_methods");
    cst_page_heading(page, "Prediction sets that contain the class for %g %% of rows",
                     100 * (1 - cst_json_number(json_array_get(methods, 0), "alpha")));
    cst_text_table_show(page, methods, columns, sizeof columns / sizeof columns[0]);
}

/* Sets for the rows of another split, one line for each of its conditions. */
static void print_under_shift(cst_page *page, const json_t *root) {
    static const cst_text_column columns[] = {
        {.key = "kind", .header = "kind", .kind = CST_COLUMN_TEXT},
        {.key = "severity", .header = "severity"},
        {.key = "samples", .header = "rows"},
        {.key = "unlike", .header = "unlike %", .decimals = 0, .scale = 100},
        {.key = "coverage", .header = "coverage %", .decimals = 2, .scale = 100},
        {.key = "mean_size", .header = "classes in a set", .decimals = 3},
        {.key = "plain_coverage", .header = "unweighted %", .decimals = 2, .scale = 100},
        {.key = "plain_mean_size", .header = "classes", .decimals = 3}};
    const json_t *shift = json_object_get(root, "under_shift");
    const json_t *batches = json_object_get(shift, "batches");
    size_t weighted = 0;
    size_t index = 0;
    const json_t *batch = NULL;
    if (!shift)
        return;
    json_array_foreach(batches, index, batch) weighted +=
        json_is_true(json_object_get(batch, "weighted"));
    cst_page_heading(page, "Prediction sets for the rows of split '%s'",
                     cst_json_text(shift, "split"));
    cst_text_table_show(page, batches, columns, sizeof columns / sizeof columns[0]);
    cst_text_label(page, "weights");
    cst_page_print(page, "%s", cst_json_text(shift, "weights"));
    if (json_array_size(batches) == 1)
        cst_page_print(page, "%s: %s\n", weighted ? "" : ", not used",
                       cst_json_text(json_array_get(batches, 0), "reason"));
    else
        cst_page_print(page, ": used in %zu of %zu conditions\n", weighted,
                       json_array_size(batches));
}

static void print_calibration(cst_page *page, const json_t *root) {
    static const char *const headers[] = {"confidence", "", "rows", "right", "at least", "at most"};
    const json_t *ece = json_object_get(root, "ece");
    const json_t *calibration = json_object_get(root, "calibration");
    const json_t *bins = json_object_get(calibration, "bins");
    cst_page_heading(page, "Calibration");
    cst_text_label(page, "ECE");
    cst_page_numbers(page, 4, "#, between # and #\n", cst_json_number(ece, "value"),
                     cst_json_number(ece, "lower"), cst_json_number(ece, "upper"));
    cst_text_label(page, "binned confidence");
    cst_page_numbers(page, 4, "within # of the accuracy in every bin\n",
                     cst_json_number(calibration, "epsilon"));
    cst_grid table;
    cst_grid_begin(&table, page, "rirrrr", headers);
    for (size_t b = 0; b < json_array_size(bins); b++) {
        const json_t *bin = json_array_get(bins, b);
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(bin, "from"));
        cst_grid_cell(&table, CST_PLAIN, "to %.4f", cst_json_number(bin, "to"));
        cst_grid_number(&table, CST_PLAIN, 0, cst_json_number(bin, "count"));
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(bin, "value"));
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(bin, "lower"));
        cst_grid_number(&table, CST_PLAIN, 4, cst_json_number(bin, "upper"));
    }
    cst_grid_end(&table);
}

static void print_claim(cst_page *page, const json_t *spectral, const char *what, const char *bound,
                        const char *holds) {
    cst_text_label(page, what);
    cst_page_numbers(page, 4, "#", cst_json_number(spectral, bound));
    cst_page_print(page, cst_json_flag(spectral, holds) ? ", holds\n" : ", not satisfied\n");
}

static void print_spectrum(cst_page *page, const json_t *root) {
    const json_t *clusters = json_object_get(root, "clusters");
    const json_t *spectral = json_object_get(root, "spectral");
    cst_page_heading(page, "Clusters and spectrum, as defined in the paper");
    for (size_t c = 0; c < json_array_size(clusters); c++) {
        cst_text_label(page, c == 0 ? "clusters" : "");
        cst_text_names(page, json_array_get(clusters, c));
    }
    cst_text_label(page, "epsilon, mu");
    cst_page_numbers(page, 4, "#, #", cst_json_number(root, "epsilon"),
                     cst_json_number(root, "mu"));
    cst_page_print(page,
                   cst_json_flag(root, "incoherent") ? ": incoherent\n" : ": not incoherent\n");
    cst_text_label(page, "kappa");
    cst_page_numbers(page, 4, "#, of one member per cluster #; of the CKA matrix ",
                     cst_json_number(root, "kappa_gram_before"),
                     cst_json_number(root, "kappa_gram_after"));
    cst_page_numbers(page, 4, "# and #\n", cst_json_number(root, "kappa_cka_before"),
                     cst_json_number(root, "kappa_cka_after"));
    if (cst_json_flag(spectral, "applies")) { /* else nothing is claimed of the two */
        print_claim(page, spectral, "kappa at least", "kappa_before_above", "holds_before");
        print_claim(page, spectral, "after at most", "kappa_after_below", "holds_after");
    }
    print_claim(page, spectral, "ratio at least", "ratio_above", "holds_ratio");
}

static void print_gap(cst_page *page, const json_t *blending, const char *key, const char *label) {
    const json_t *rule = json_object_get(blending, key);
    cst_text_label(page, label);
    cst_page_numbers(page, 6, "# above it; claimed: at most #", cst_json_number(rule, "gap"),
                     cst_json_number(rule, "claimed"));
    cst_page_print(page, cst_json_flag(rule, "holds") ? ", holds\n" : ", not satisfied\n");
}

static void print_weights(cst_page *page, const json_t *root) {
    const json_t *blending = json_object_get(root, "blending");
    const json_t *stability = json_object_get(root, "stability");
    const json_t *folds = json_object_get(stability, "folds");
    const json_t *moved = json_array_get(json_object_get(stability, "perturbations"), 2);
    cst_page_heading(page, "Weights, as defined in the paper");
    bool definite = !isnan(cst_json_number(blending, "minimum"));
    cst_text_label(page, "least variance");
    cst_page_numbers(page, 6, "#, of a single member #\n", cst_json_number(blending, "minimum"),
                     cst_json_number(blending, "best"));
    if (definite) {
        print_gap(page, blending, "inverse_rmse", "inverse RMSE");
        print_gap(page, blending, "laplace", "Laplace");
    }
    cst_text_label(page, "ridge under noise");
    cst_page_numbers(page, 6, "moves by #; at most #, by the paper at most #\n",
                     cst_json_number(moved, "change"), cst_json_number(moved, "bound"),
                     cst_json_number(moved, "claimed"));
    cst_text_label(page, "ridge between folds");
    cst_page_numbers(page, 6, "moves by #, by the paper at most #\n",
                     cst_json_number(folds, "change"), cst_json_number(folds, "claimed"));
}

static void print_leakage(cst_page *page, const json_t *root) {
    const json_t *leakage = json_object_get(root, "leakage");
    const json_t *permuted = json_object_get(leakage, "permuted");
    static const char *const flags[] = {"rows_leak", "members_leak", "fit_leaks"};
    static const char *const labels[] = {"rows, ids, groups", "members' errors", "permuted labels"};
    if (!leakage)
        return;
    cst_page_heading(page, "Leaks");
    for (int i = 0; i < 3; i++) {
        cst_text_label(page, labels[i]);
        cst_page_print(page, cst_json_flag(leakage, flags[i]) ? "signs of a leak" : "no sign");
        if (i == 0)
            cst_page_print(page, ": %.0f rows were used in the fit",
                           cst_json_number(leakage, "shared_rows"));
        if (i == 2)
            cst_page_print(page, ": top-1 %.2f %%, by chance %.2f %%",
                           100 * cst_json_number(permuted, "top1"),
                           100 * cst_json_number(permuted, "chance"));
        cst_page_print(page, "\n");
    }
}

void cst_text_bound(cst_page *page, const json_t *root, bool full) {
    (void)full;
    cst_page_print(page, "Bounds on split '%s', %.0f rows of %.0f classes\n",
                   cst_json_text(root, "split"), cst_json_number(root, "samples"),
                   cst_json_number(root, "classes"));
    print_errors(page, root);
    print_sets(page, root);
    print_under_shift(page, root);
    print_calibration(page, root);
    print_spectrum(page, root);
    print_weights(page, root);
    print_leakage(page, root);
    cst_text_bullets(page, root, "notices", "Notices");
}
