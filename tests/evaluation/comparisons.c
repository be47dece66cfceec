/*
 * Comparisons: scores of rows that fits have not seen, tests against direct computation, the
 * ablation's last row, sweeps, wrong requests.
 */
#include "bootstraps.h"
#include "data/pool/pool.h"
#include "fit/harness.h"
#include "report/report.h"
#include "stats/samples.h"
#include "stats/statistics.h"
#include "tasks/classification/classification.h"

#include <corestack/compare.h>
#include <corestack/files.h>
#include <corestack/metrics.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "check.h"
#include "temporary.h"

enum {
    ROWS = 180,
    CLASSES = 3,
    MEMBERS = 6,
    FOLDS = 4,
    NAMES = 64,
    PATH_CHARS = 128,
    CELLS = ROWS * CLASSES
};

typedef struct fixture {
    cst_context *context;
    float predictions[MEMBERS][CELLS];
    const float *data[MEMBERS];
    int32_t labels[ROWS];
    int32_t folds[ROWS];
    char folder[TEMPORARY_CHARS];
} fixture;

static fixture shared;

static const char *at(const fixture *f, const char *name);

static int setup(void **state) {
    fixture *f = &shared;
    cst_rng rng;
    memset(f, 0, sizeof *f);
    if (cst_context_create(&f->context) != CST_OK)
        return 1;
    cst_rng_init(&rng, 11, CST_STREAM_TEST, 1);
    for (int i = 0; i < ROWS; i++) {
        f->labels[i] = (int32_t)cst_rng_below(&rng, CLASSES);
        f->folds[i] = i % FOLDS;
    }
    for (int k = 0; k < MEMBERS; k++) {
        f->data[k] = f->predictions[k];
        for (int i = 0; i < ROWS; i++) {
            double p[CLASSES];
            double sum = 0;
            for (int c = 0; c < CLASSES; c++)
                sum += p[c] = exp(cst_rng_normal(&rng) + (1 + 0.2 * k) * (f->labels[i] == c));
            for (int c = 0; c < CLASSES; c++)
                f->predictions[k][i * CLASSES + c] = (float)(p[c] / sum);
        }
    }
    temporary_path(f->folder, sizeof f->folder, "protocol");
    *state = f;
    return mkdtemp(f->folder) == NULL;
}

static int teardown(void **state) {
    fixture *f = *state;
    static const char *const files[] = {"pool.json", "y.npy", "folds.npy", "a.npy", "b.npy",
                                        "c.npy",     "d.npy", "e.npy",     "f.npy"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        (void)unlink(at(f, files[i]));
    (void)rmdir(f->folder);
    cst_context_free(f->context);
    return 0;
}

static const char *at(const fixture *f, const char *name) {
    static char path[4][PATH_CHARS];
    static int next;
    next = (next + 1) % 4;
    (void)snprintf(path[next], PATH_CHARS, "%s/%s", f->folder, name);
    return path[next];
}

/* The manifest and its files; labels are written anew each time. */
static cst_pool *open_pool(fixture *f) {
    cst_pool *pool = NULL;
    FILE *manifest = fopen(at(f, "pool.json"), "w");
    assert_non_null(manifest);
    (void)fputs("{\"corestack_pool\": 1, \"task\": \"classification\", \"classes\": 3, "
                "\"output\": \"probability\", \"splits\": {\"oof\": {\"labels\": \"y.npy\", "
                "\"folds\": \"folds.npy\"}}, \"models\": [",
                manifest);
    for (int k = 0; k < MEMBERS; k++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%c.npy", 'a' + k);
        (void)fprintf(manifest, "%s{\"name\": \"%c\", \"predictions\": {\"oof\": \"%s\"}}",
                      k ? ", " : "", 'a' + k, name);
        assert_int_equal(cst_write_predictions(f->context, at(f, name), f->data[k], ROWS, CLASSES),
                         CST_OK);
    }
    (void)fputs("]}", manifest);
    assert_int_equal(fclose(manifest), 0);
    assert_int_equal(cst_write_folds(f->context, at(f, "y.npy"), f->labels, ROWS), CST_OK);
    assert_int_equal(cst_write_folds(f->context, at(f, "folds.npy"), f->folds, ROWS), CST_OK);
    if (cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL) != CST_OK)
        fail_msg("%s", cst_last_error(f->context));
    return pool;
}

/* What every method predicted. */
typedef struct kept {
    int count;
    char name[NAMES][64];
    float probabilities[NAMES][CELLS];
} kept;

static cst_status keep(void *user, const char *method, const char *split,
                       const float *probabilities, int64_t rows, int32_t classes) {
    kept *k = user;
    assert_string_equal(split, "oof");
    assert_true(rows == ROWS && classes == CLASSES && k->count < NAMES);
    (void)snprintf(k->name[k->count], sizeof k->name[0], "%s", method);
    memcpy(k->probabilities[k->count++], probabilities, sizeof k->probabilities[0]);
    return CST_OK;
}

static const float *find(const kept *k, const char *name) {
    for (int m = 0; m < k->count; m++)
        if (strcmp(k->name[m], name) == 0)
            return k->probabilities[m];
    fail_msg("no predictions of %s", name);
    return NULL;
}

static const char *const SETTINGS[] = {"gate.epochs=3"};

static cst_report *compare(fixture *f, const char *const *methods, int32_t count, int32_t resamples,
                           kept *into) {
    cst_pool *pool = open_pool(f);
    cst_report *report = NULL;
    cst_compare_options options = {.methods = methods,
                                   .method_count = count,
                                   .settings = SETTINGS,
                                   .setting_count = 1,
                                   .resamples = resamples,
                                   .seed = 3,
                                   .predicted = into ? keep : NULL,
                                   .user = into};
    if (into)
        into->count = 0;
    if (cst_compare(f->context, pool, &options, &report) != CST_OK)
        fail_msg("%s", cst_last_error(f->context));
    cst_pool_free(f->context, pool);
    return report;
}

/* What is predicted for a fold must not change by a bit when the fold's labels change, for any
 * method; the other folds' predictions must, or the test would see nothing. */
static void labels_of_a_fold_do_not_reach_its_predictions(void **state) {
    fixture *f = *state;
    static kept before;
    static kept after;
    int32_t labels[ROWS];
    memcpy(labels, f->labels, sizeof labels);
    cst_report_free(f->context, compare(f, NULL, 0, 0, &before));
    for (int i = 0; i < ROWS; i++)
        if (f->folds[i] == 1)
            f->labels[i] = (f->labels[i] + 1) % CLASSES;
    cst_report_free(f->context, compare(f, NULL, 0, 0, &after));
    memcpy(f->labels, labels, sizeof labels);
    assert_true(before.count > 15);
    assert_int_equal(before.count, after.count);
    for (int m = 0; m < before.count; m++) {
        bool others = false;
        for (int i = 0; i < ROWS; i++) {
            bool same = memcmp(before.probabilities[m] + i * CLASSES,
                               after.probabilities[m] + i * CLASSES, CLASSES * sizeof(float)) == 0;
            if (f->folds[i] == 1 && !same)
                fail_msg("%s: row %d of the changed fold", before.name[m], i);
            others = others || (f->folds[i] != 1 && !same);
        }
        if (strcmp(before.name[m], "average") != 0 && strcmp(before.name[m], "best-single") != 0 &&
            !others)
            fail_msg("%s does not see labels at all", before.name[m]);
    }
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("%s is not a number", key);
    return json_number_value(value);
}

/* Scores, intervals and tests are those of the predictions. */
static void the_document_is_about_the_predictions(void **state) {
    fixture *f = *state;
    static const char *const methods[] = {"average", "ridge", "greedy+temperature", "autogluon",
                                          "default"};
    static kept predictions;
    cst_report *report = compare(f, methods, 5, 200, &predictions);
    const json_t *root = cst_report_root(report);
    const json_t *rows = json_object_get(root, "rows");
    assert_int_equal(json_array_size(rows), 5);
    assert_string_equal(json_string_value(json_object_get(root, "scored")), "nested");
    assert_string_equal(json_string_value(json_object_get(root, "reference")), "default");
    assert_memory_equal(find(&predictions, "greedy+temperature"), find(&predictions, "autogluon"),
                        CELLS * sizeof(float));
    double nll[2][ROWS];
    unsigned char correct[2][ROWS];
    for (size_t m = 0; m < 5; m++) {
        const json_t *row = json_array_get(rows, m);
        cst_metrics metrics;
        cst_metric_intervals interval;
        const float *p = find(&predictions, methods[m]);
        assert_int_equal(cst_metrics_evaluate(f->context, p, ROWS, CLASSES, f->labels, 0, &metrics),
                         CST_OK);
        assert_true(number(row, "top1") == metrics.top1 && number(row, "nll") == metrics.nll);
        assert_true(number(row, "ece_classwise") == metrics.ece_classwise);
        assert_int_equal(
            bootstrap_metrics(f->context, p, ROWS, CLASSES, f->labels, 0, 200, 3, &interval),
            CST_OK);
        assert_close(json_number_value(json_array_get(json_object_get(row, "nll_ci"), 1)),
                     interval.nll.high, 1e-12);
        assert_true(json_is_object(json_object_get(row, "difference")) == (m != 4));
        bool blended = m == 1 || m == 4; /* no weight stands for a member */
        size_t length = blended ? MEMBERS : json_array_size(json_object_get(row, "weights"));
        assert_int_equal(length, MEMBERS);
    }
    /* The first two tests set the default beside the average. */
    const json_t *tests = json_object_get(root, "tests");
    assert_int_equal(json_array_size(tests), 8);
    cst_t_test t;
    cst_mcnemar_test mcnemar;
    for (int i = 0; i < 2; i++)
        assert_int_equal(cst_samples_fill(f->context, find(&predictions, i ? "average" : "default"),
                                          ROWS, CLASSES, f->labels,
                                          &(cst_samples){.nll = nll[i], .correct = correct[i]}),
                         CST_OK);
    assert_int_equal(cst_paired_t_test(f->context, nll[0], nll[1], ROWS, &t), CST_OK);
    cst_mcnemar(correct[0], correct[1], ROWS, &mcnemar);
    const json_t *first = json_array_get(tests, 0);
    assert_close(number(first, "p"), t.p, 1e-15);
    assert_close(number(first, "p_adjusted"), fmin(1, 4 * t.p), 1e-15);
    const json_t *second = json_array_get(tests, 1);
    assert_close(number(second, "p"), mcnemar.p, 1e-15);
    assert_int_equal(number(second, "only_a"), mcnemar.only_first);
    cst_report_free(f->context, report);
}

/* The row with every stage switched on is CoRe-Stack+, and the first the prototype. */
static void ablation_ends_at_the_paper(void **state) {
    fixture *f = *state;
    static const char *const methods[] = {"prototype", "paper"};
    static kept presets;
    static kept stages;
    cst_report_free(f->context, compare(f, methods, 2, 0, &presets));
    cst_pool *pool = open_pool(f);
    cst_report *report = NULL;
    cst_compare_options options = {
        .settings = SETTINGS, .setting_count = 1, .seed = 3, .predicted = keep, .user = &stages};
    assert_int_equal(cst_ablate(f->context, pool, &options, &report), CST_OK);
    assert_int_equal(stages.count, 6);
    assert_memory_equal(find(&presets, "prototype"), find(&stages, "prototype"),
                        CELLS * sizeof(float));
    assert_memory_equal(find(&presets, "paper"), find(&stages, "+S4 Laplace"),
                        CELLS * sizeof(float));
    const json_t *rows = json_object_get(cst_report_root(report), "rows");
    assert_int_equal(json_array_size(rows), 6);
    assert_true(number(json_array_get(rows, 2), "kappa_gram") >= 1);
    assert_true(number(json_array_get(rows, 2), "kappa_cka") >= 1);
    cst_report_free(f->context, report);
    cst_pool_free(f->context, pool);
}

static void sweeps(void **state) {
    fixture *f = *state;
    static const char *const sizes[] = {"2", "4", "6"};
    static const char *const methods[] = {"average", "best-single"};
    cst_pool *pool = open_pool(f);
    cst_report *report = NULL;
    cst_compare_options options = {.methods = methods, .method_count = 2, .seed = 5};
    cst_sweep_options over = {0, "pool.size", sizes, 3, 4};
    assert_int_equal(cst_sweep(f->context, pool, &over, &options, &report), CST_OK);
    const json_t *rows = json_object_get(cst_report_root(report), "rows");
    assert_int_equal(json_array_size(rows), 2 * 3 * 4);
    assert_int_equal(json_array_size(json_object_get(cst_report_root(report), "summary")), 6);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        size_t size = (size_t)atoi(json_string_value(json_object_get(row, "value")));
        assert_int_equal(json_array_size(json_object_get(row, "members")), size);
        assert_int_equal(number(row, "models"), i < 12 ? (double)size : 1);
    }
    /* All members: every draw is the same. */
    assert_true(number(json_array_get(rows, 8), "nll") == number(json_array_get(rows, 11), "nll"));
    assert_false(number(json_array_get(rows, 0), "nll") == number(json_array_get(rows, 1), "nll") &&
                 number(json_array_get(rows, 1), "nll") == number(json_array_get(rows, 2), "nll"));
    cst_report_free(f->context, report);
    static const char *const taus[] = {"0", "1"};
    static const char *const paper[] = {"prototype"};
    over = (cst_sweep_options){0, "pearson.threshold", taus, 2, 0};
    options.methods = paper;
    options.method_count = 1;
    assert_int_equal(cst_sweep(f->context, pool, &over, &options, &report), CST_OK);
    rows = json_object_get(cst_report_root(report), "rows");
    assert_int_equal(number(json_array_get(rows, 0), "models"), 1);
    assert_int_equal(number(json_array_get(rows, 1), "models"), MEMBERS);
    cst_report_free(f->context, report);
    /* "all" over pool.size is every method; tagged ones do not apply and have no rows. */
    static const char *const all[] = {"all"};
    static const char *const three[] = {"3"};
    over = (cst_sweep_options){0, "pool.size", three, 1, 1};
    options.methods = all;
    options.settings = SETTINGS;
    options.setting_count = 1;
    assert_int_equal(cst_sweep(f->context, pool, &over, &options, &report), CST_OK);
    rows = json_object_get(cst_report_root(report), "rows");
    assert_true(json_array_size(rows) > 12);
    for (size_t i = 0; i < json_array_size(rows); i++)
        assert_string_not_equal(
            json_string_value(json_object_get(json_array_get(rows, i), "method")), "snapshot");
    cst_report_free(f->context, report);
    cst_pool_free(f->context, pool);
}

/* A method that cannot be fitted is left out of "all", and named where it was asked for. */
static void constant_members(void **state) {
    fixture *f = *state;
    static const char *const ridge[] = {"average", "ridge"};
    static fixture flat;
    flat = *f;
    for (int k = 0; k < MEMBERS; k++) {
        flat.data[k] = flat.predictions[k];
        for (int j = 0; j < CELLS; j++)
            flat.predictions[k][j] = 1.0F / 3;
    }
    cst_report *report = compare(&flat, NULL, 0, 0, NULL);
    const json_t *rows = json_object_get(cst_report_root(report), "rows");
    assert_true(json_array_size(rows) >= 3);
    bool said = false;
    for (size_t i = 0; i < cst_notice_count(f->context); i++)
        said = said || strstr(cst_notice_at(f->context, i), "ridge is left out");
    assert_true(said);
    cst_report_free(f->context, report);
    cst_pool *pool = open_pool(&flat);
    cst_compare_options options = {.methods = ridge, .method_count = 2};
    assert_int_not_equal(cst_compare(f->context, pool, &options, &report), CST_OK);
    assert_non_null(strstr(cst_last_error(f->context), "method ridge: "));
    cst_pool_free(f->context, pool);
}

static void wrong_requests(void **state) {
    fixture *f = *state;
    cst_pool *pool = open_pool(f);
    cst_report *report = NULL;
    static const char *const nothing[] = {"nothing"};
    static const char *const paper[] = {"paper"};
    static const char *const tagged[] = {"snapshot"};
    static const char *const average[] = {"average"};
    static const char *const many[] = {"9"};
    static const char *const bad[] = {"gate.epochs=no"};
    static const char *const budget[] = {"keep.max_flops=5"};
    static const char *const twice[] = {"autogluon+platt"};
    const struct {
        cst_compare_options options;
        const char *says;
    } cases[] = {
        {{.methods = nothing, .method_count = 1}, "unknown method 'nothing'"},
        {{.methods = tagged, .method_count = 1}, "'ensemble'"},
        {{.methods = average, .method_count = 1, .reference = "ridge"}, "'ridge' is not one of"},
        {{.split = "test"}, "test"},
        {{.settings = bad, .setting_count = 1}, "gate.epochs"},
        {{.methods = twice, .method_count = 1}, "greedy+platt"},
        {{.methods = paper, .method_count = 1, .settings = budget, .setting_count = 1}, "no flops"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_not_equal(cst_compare(f->context, pool, &cases[i].options, &report), CST_OK);
        assert_null(report);
        if (!strstr(cst_last_error(f->context), cases[i].says))
            fail_msg("'%s' does not say '%s'", cst_last_error(f->context), cases[i].says);
    }
    cst_compare_options options = {.methods = average, .method_count = 1};
    cst_sweep_options over = {0, "pool.size", many, 1, 2};
    assert_int_equal(cst_sweep(f->context, pool, &over, &options, &report), CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(f->context), "from 1 to 6"));
    over.key = "evaluate.nested";
    assert_int_equal(cst_sweep(f->context, pool, &over, &options, &report), CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(f->context), "pointless"));
    over.key = "seed";
    over.values = &(const char *){"1e3"};
    assert_int_equal(cst_sweep(f->context, pool, &over, &options, &report), CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(f->context), "seed '1e3' is not"));
    over.values = many;
    over.key = "folds.count"; /* the pool has its own */
    options.methods = paper;
    assert_int_equal(cst_sweep(f->context, pool, &over, &options, &report), CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(f->context), "its own folds"));
    options.methods = average;
    static const char *const odd[] = {"+2", " 3", "03", "2x"};
    for (int i = 0; i < 4; i++) {
        over = (cst_sweep_options){0, "pool.size", odd + i, 1, 2};
        assert_int_equal(cst_sweep(f->context, pool, &over, &options, &report), CST_ERROR_ARGUMENT);
    }
    over.key = "cka.threshold";
    assert_int_equal(cst_sweep(f->context, pool, &over, &options, &report), CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(f->context), "has no options"));
    assert_int_equal(cst_compare(f->context, NULL, NULL, &report), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_ablate(NULL, pool, NULL, &report), CST_ERROR_ARGUMENT);
    for (size_t i = 0; cst_method_name(i); i++)
        assert_non_null(cst_method_describe(cst_method_name(i)));
    assert_null(cst_method_describe("nothing"));
    cst_pool_free(f->context, pool);
}

/* Logits in memory are probabilities by the time they are scored: the energy is left out, and the
 * reason is not that the pool holds probabilities. */
static void energy_needs_logits_from_files(void **state) {
    fixture *f = *state;
    static const char *const names[] = {"a", "b", "c"};
    static char split[] = "oof";
    static float logits[3][CELLS];
    const float *own[3];
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < CELLS; i++)
            logits[k][i] = 3 + logf(f->data[k][i]);
    for (int t = 0; t < 2; t++) {
        cst_pool *pool = NULL;
        for (int k = 0; k < 3; k++)
            own[k] = t ? logits[k] : f->data[k];
        cst_view views[2];
        cst_report *report = NULL;
        assert_int_equal(cst_pool_from_memory(f->context, &pool, split, own, names, 3, ROWS,
                                              CLASSES, f->labels,
                                              t ? CST_OUTPUT_LOGIT : CST_OUTPUT_PROBABILITY),
                         CST_OK);
        assert_int_equal(cst_pool_view(f->context, pool, split, &views[0]), CST_OK);
        views[1] = views[0];
        cst_target list[] = {{.split = split, .role = CST_TARGET_SCORED, .samples = ROWS},
                             {.split = split, .role = CST_TARGET_OOD, .samples = ROWS}};
        cst_targets targets = {.list = list, .count = 2, .scored = 1};
        const float *predicted[] = {f->data[0], f->data[1]};
        assert_int_equal(cst_report_begin(f->context, CST_REPORT_COMPARE, &report), CST_OK);
        json_t *row = cst_report_object(report, cst_report_root(report), "row");
        cst_shift_method method = {.row = row, .predicted = predicted, .views = views};
        cst_shift shift = {.report = report,
                           .pool = pool,
                           .targets = &targets,
                           .classes = CLASSES,
                           .methods = &method,
                           .count = 1,
                           .reference = -1};
        assert_int_equal(cst_shift_ood(f->context, &shift), CST_OK);
        const json_t *about = json_object_get(cst_report_root(report), "ood_detection");
        const char *why = json_string_value(json_object_get(about, "energy"));
        assert_non_null(why);
        assert_non_null(strstr(why, t ? "raw logits" : "the pool holds probabilities"));
        assert_int_equal(json_array_size(json_object_get(row, "ood_scores")), 4);
        assert_null(json_object_get(row, "ood_auroc_energy"));
        cst_report_free(f->context, report);
        cst_pool_free(f->context, pool);
    }
}

int suite_comparisons(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_of_a_fold_do_not_reach_its_predictions),
        cmocka_unit_test(the_document_is_about_the_predictions),
        cmocka_unit_test(ablation_ends_at_the_paper),
        cmocka_unit_test(sweeps),
        cmocka_unit_test(constant_members),
        cmocka_unit_test(wrong_requests),
        cmocka_unit_test(energy_needs_logits_from_files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
