/*
 * Calls of a sweep that fit, compare and evaluate, for each task.
 */
#include "sweep.h"

static void fit_on(trial *t, cst_pool *pool) {
    cst_model *model = NULL;
    cst_report *report = NULL;
    TRY(t, cst_fit(t->c, pool, "oof", t->w->options, &model, &report),
        model == NULL && report == NULL);
    add_model(t, model);
    add_report(t, report);
    cst_model_free(t->c, model);
    cst_report_free(t->c, report);
}

static void fit_classes(trial *t) {
    fit_on(t, t->w->pool);
}

/* With a calibration map, a network and rules for boxes among them. */
static void fit_methods_on(trial *t, cst_pool *pool, const char *method) {
    cst_model *model = NULL;
    cst_report *report = NULL;
    TRY(t, cst_fit_method(t->c, pool, "oof", method, NULL, &model, &report),
        model == NULL && report == NULL);
    add_model(t, model);
    add_report(t, report);
    cst_model_free(t->c, model);
    cst_report_free(t->c, report);
}

static void fit_method_classes(trial *t) {
    fit_methods_on(t, t->w->pool, "greedy+isotonic");
}

static void fit_method_linear(trial *t) {
    fit_methods_on(t, t->w->pool, "ridge+vector");
}

static void fit_method_pool(trial *t) {
    fit_methods_on(t, t->w->pool, "log-linear");
}

static void fit_method_values(trial *t) {
    fit_methods_on(t, t->w->regression, "ridge");
}

static void fit_method_maps(trial *t) {
    fit_methods_on(t, t->w->segmentation, "default+temperature");
}

static void fit_method_boxes(trial *t) {
    fit_methods_on(t, t->w->detection, "wbf");
}

static void fit_values(trial *t) {
    fit_on(t, t->w->regression);
}

/* Rows with weights, some of them 0. */
static void fit_weighted(trial *t) {
    static const char *const names[MEMBERS] = {"ada", "bob", "cyd"};
    double weights[ROWS];
    cst_array arrays[MEMBERS];
    cst_pool *pool = NULL;
    for (int i = 0; i < ROWS; i++)
        weights[i] = i % 8 == 5 ? 0 : 1 + i % 3;
    for (int k = 0; k < MEMBERS; k++)
        arrays[k] = (cst_array){
            .data = t->w->p[k], .row_step = CLASSES * sizeof(float), .column_step = sizeof(float)};
    const cst_pool_arrays given = {.members = MEMBERS,
                                   .rows = ROWS,
                                   .classes = CLASSES,
                                   .predictions = arrays,
                                   .names = names,
                                   .labels = t->w->labels,
                                   .weights = weights};
    if (cst_pool_from_arrays(t->w->quiet, &pool, &given) == CST_OK)
        fit_on(t, pool);
    cst_pool_free(t->w->quiet, pool);
}

/* Within limits on cost, of classes and of values. */
static void fit_within(trial *t) {
    static const char *const names[MEMBERS] = {"ada", "bob", "cyd"};
    const double latency[MEMBERS] = {1, 2, 3};
    double targets[ROWS];
    cst_array arrays[MEMBERS];
    cst_options *options = NULL;
    cst_context *quiet = t->w->quiet;
    bool ready = cst_options_create(quiet, &options) == CST_OK &&
                 cst_options_set(quiet, options, "folds.count", "2") == CST_OK &&
                 cst_options_set(quiet, options, "evaluate.nested", "false") == CST_OK &&
                 cst_options_set(quiet, options, "keep.max_latency", "4") == CST_OK &&
                 cst_options_set(quiet, options, "target.transform", "log1p") == CST_OK;
    for (int i = 0; i < ROWS; i++)
        targets[i] = t->w->labels[i] + 0.1 * (i % 7);
    for (int values = 0; ready && values < 2; values++) {
        cst_pool *pool = NULL;
        cst_model *model = NULL;
        cst_report *report = NULL;
        for (int k = 0; k < MEMBERS; k++)
            arrays[k] = (cst_array){.data = t->w->p[k],
                                    .row_step = CLASSES * sizeof(float),
                                    .column_step = sizeof(float)};
        const cst_pool_arrays given = {.task =
                                           values ? CST_TASK_REGRESSION : CST_TASK_CLASSIFICATION,
                                       .members = MEMBERS,
                                       .rows = ROWS,
                                       .classes = values ? 1 : CLASSES,
                                       .predictions = arrays,
                                       .names = names,
                                       .latency_ms = latency,
                                       .labels = values ? NULL : t->w->labels,
                                       .targets = values ? targets : NULL};
        if (cst_pool_from_arrays(quiet, &pool, &given) == CST_OK) {
            TRY(t, cst_fit(t->c, pool, "oof", options, &model, &report),
                model == NULL && report == NULL);
            add_model(t, model);
            add_report(t, report);
        }
        cst_model_free(t->c, model);
        cst_report_free(t->c, report);
        cst_pool_free(quiet, pool);
    }
    cst_options_free(quiet, options);
}

static void fit_maps(trial *t) {
    fit_on(t, t->w->segmentation);
}

static void fit_boxes(trial *t) {
    fit_on(t, t->w->detection);
}

static void show(trial *t) {
    cst_report *report = NULL;
    TRY(t, cst_show(t->c, t->w->model, t->w->pool, NULL, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void show_boxes(trial *t) {
    cst_report *report = NULL;
    TRY(t, cst_show(t->c, t->w->boxes_model, t->w->detection, "oof", &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void inspect_in(trial *t, cst_pool *pool) {
    cst_report *report = NULL;
    TRY(t, cst_inspect(t->c, pool, "oof", t->w->options, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void inspect_classes(trial *t) {
    inspect_in(t, t->w->pool);
}

static void inspect_values(trial *t) {
    inspect_in(t, t->w->regression);
}

static void inspect_maps(trial *t) {
    inspect_in(t, t->w->segmentation);
}

static void inspect_boxes(trial *t) {
    inspect_in(t, t->w->detection);
}

/* Few methods: each has a fit of its own above or is short. */
static void compare_in(trial *t, cst_pool *pool, const char *first, const char *second) {
    const char *const methods[] = {first, second};
    static const char *const settings[] = {"folds.count=2"};
    const cst_compare_options options = {.methods = methods,
                                         .method_count = 2,
                                         .settings = settings,
                                         .setting_count = 1,
                                         .resamples = 10};
    cst_report *report = NULL;
    TRY(t, cst_compare(t->c, pool, &options, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void compare_classes(trial *t) {
    compare_in(t, t->w->pool, "greedy", "average");
}

static void compare_values(trial *t) {
    compare_in(t, t->w->regression, "greedy", "average");
}

/* A method of the caller's own: the mean, and what it has in memory. */
static cst_status mean_fit(void *user, const cst_method_rows *rows, void **fitted) {
    (void)user;
    (void)rows;
    *fitted = malloc(1);
    return *fitted ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status mean_predict(void *user, void *fitted, const cst_method_rows *rows, float *out) {
    (void)user;
    (void)fitted;
    for (int64_t i = 0; i < rows->rows; i++)
        for (int64_t c = 0; c < rows->columns; c++) {
            float *to = out + i * rows->columns + c;
            *to = 0;
            for (int64_t k = 0; k < rows->members; k++)
                *to += rows->predictions[(i * rows->members + k) * rows->columns + c] /
                       (float)rows->members;
        }
    return CST_OK;
}

static void mean_free(void *user, void *fitted) {
    (void)user;
    free(fitted);
}

static void compare_added(trial *t, cst_pool *pool) {
    const cst_method_ops ops = {
        .name = "mean", .fit = mean_fit, .predict = mean_predict, .free = mean_free};
    (void)cst_context_add_method(t->c, &ops); /* the first time */
    compare_in(t, pool, "mean", "average");
}

/* In a context of its own, which keeps the method. */
static void add_method(trial *t) {
    const cst_method_ops ops = {.name = "own", .fit = mean_fit, .predict = mean_predict};
    cst_context *kept = t->c;
    must(NULL, cst_context_create(&t->c), "context");
    TRY(t, cst_context_add_method(t->c, &ops), true);
    cst_context_free(t->c);
    t->c = kept;
}

static void compare_added_classes(trial *t) {
    compare_added(t, t->w->pool);
}

static void compare_added_values(trial *t) {
    compare_added(t, t->w->regression);
}

static void compare_maps(trial *t) {
    compare_in(t, t->w->segmentation, "best-single", "average");
}

static void compare_boxes(trial *t) {
    compare_in(t, t->w->detection, "nms", "wbf");
}

/* Two calls of each size; times differ, so that the report is not compared. */
static void profile_of(trial *t, const cst_model *model, cst_pool *pool, const char *method) {
    static const char *const settings[] = {"folds.count=2"};
    const cst_profile_options options = {.split = "oof",
                                         .methods = &method,
                                         .method_count = 1,
                                         .settings = settings,
                                         .setting_count = 1,
                                         .batch = 3,
                                         .calls = 2};
    cst_report *report = NULL;
    TRY(t, cst_profile(t->c, model, pool, &options, &report), report == NULL);
    cst_report_free(t->c, report);
}

static void profile_classes(trial *t) {
    profile_of(t, t->w->model, t->w->pool, "average");
}

static void profile_values(trial *t) {
    profile_of(t, t->w->values_model, t->w->regression, "average");
}

static void profile_maps(trial *t) {
    profile_of(t, t->w->maps_model, t->w->segmentation, "average");
}

static void profile_boxes(trial *t) {
    profile_of(t, t->w->boxes_model, t->w->detection, "wbf");
}

/* Two divisions, whose rows are held out. */
static void repeat_in(trial *t, cst_pool *pool, const char *method) {
    const char *const methods[] = {method};
    static const char *const settings[] = {"folds.count=2", "checks=false"};
    const cst_compare_options options = {.methods = methods,
                                         .method_count = 1,
                                         .settings = settings,
                                         .setting_count = 2,
                                         .splits = 2,
                                         .holdout = 0.4};
    cst_report *report = NULL;
    TRY(t, cst_compare(t->c, pool, &options, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void repeat_classes(trial *t) {
    repeat_in(t, t->w->pool, "average");
}

static void repeat_values(trial *t) {
    repeat_in(t, t->w->regression, "average");
}

static void repeat_maps(trial *t) {
    repeat_in(t, t->w->segmentation, "average");
}

static void repeat_boxes(trial *t) {
    repeat_in(t, t->w->detection, "wbf");
}

static void ablate(trial *t) {
    static const char *const settings[] = {"folds.count=2", "gate.epochs=2"};
    const cst_compare_options options = {.split = "test", .settings = settings, .setting_count = 2};
    cst_report *report = NULL;
    TRY(t, cst_ablate(t->c, t->w->files, &options, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void sweep(trial *t) {
    static const char *const values[] = {"2"};
    static const char *const methods[] = {"average"};
    const cst_sweep_options what = {
        .key = "pool.size", .values = values, .value_count = 1, .draws = 2};
    const cst_compare_options options = {.split = "test", .methods = methods, .method_count = 1};
    cst_report *report = NULL;
    TRY(t, cst_sweep(t->c, t->w->files, &what, &options, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void evaluate_member(trial *t) {
    cst_report *report = NULL;
    TRY(t, cst_evaluate_member(t->c, t->w->pool, "oof", 1, NULL, 10, 1, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void evaluate_model_in(trial *t, const cst_model *model, cst_pool *pool) {
    const cst_evaluate_options options = {.split = "oof", .resamples = 10, .seed = 1};
    cst_report *report = NULL;
    TRY(t, cst_evaluate_stack(t->c, model, pool, &options, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void evaluate_classes(trial *t) {
    evaluate_model_in(t, t->w->model, t->w->files);
}

static void evaluate_values(trial *t) {
    evaluate_model_in(t, t->w->values_model, t->w->regression);
}

static void evaluate_maps(trial *t) {
    evaluate_model_in(t, t->w->maps_model, t->w->segmentation);
}

static void evaluate_boxes(trial *t) {
    evaluate_model_in(t, t->w->boxes_model, t->w->detection);
}

static void evaluate_stack(trial *t) {
    const cst_evaluate_options options = {.split = "test", .resamples = 10};
    cst_report *report = NULL;
    TRY(t, cst_evaluate_stack(t->c, t->w->model, t->w->files, &options, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void adapt(trial *t) {
    const cst_adapt_options options = {.split = "test"};
    cst_model *model = NULL;
    cst_report *report = NULL;
    TRY(t, cst_adapt(t->c, t->w->model, t->w->files, &options, &model, &report),
        model == NULL && report == NULL);
    add_model(t, model);
    add_report(t, report);
    cst_model_free(t->c, model);
    cst_report_free(t->c, report);
}

static void suggest(trial *t) {
    int64_t rows[5] = {0};
    TRY(t, cst_adapt_suggest(t->c, t->w->model, t->w->files, "test", 5, rows), true);
    add_bytes(t, rows, sizeof rows);
}

static void bound(trial *t) {
    const cst_bound_options options = {.split = "test"};
    cst_report *report = NULL;
    TRY(t, cst_bound(t->c, t->w->model, t->w->files, &options, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void bound_leaks(trial *t) {
    const cst_bound_options options = {.split = "test", .leakage = 1};
    cst_report *report = NULL;
    TRY(t, cst_bound(t->c, t->w->model, t->w->files, &options, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void bound_new_rows(trial *t) {
    const cst_bound_options options = {.split = "test"};
    const cst_bound_batch batch = {.split = "oof"};
    cst_report *report = NULL;
    TRY(t, cst_bound_shifted(t->c, t->w->model, t->w->files, &options, &batch, &report),
        report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void bound_by_class(trial *t) {
    const cst_bound_options options = {.split = "test"};
    const cst_bound_batch batch = {.split = "oof", .by = CST_BOUND_BY_CLASS};
    cst_report *report = NULL;
    TRY(t, cst_bound_shifted(t->c, t->w->model, t->w->files, &options, &batch, &report),
        report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void thresholds(trial *t) {
    double out = 0;
    TRY(t,
        cst_conformal_thresholds(t->c, t->w->targets, NULL, NULL, ROWS * OUTPUTS, 1, 0.1, 0, &out),
        true);
    add_bytes(t, &out, sizeof out);
}

const sweep_call SWEEP_TASKS[] = {
    {"cst_fit", "classification", fit_classes},
    {"cst_fit", "regression", fit_values},
    {"cst_fit", "rows with weights", fit_weighted},
    {"cst_fit", "within limits", fit_within},
    {"cst_fit", "segmentation", fit_maps},
    {"cst_fit", "detection", fit_boxes},
    {"cst_fit_method", "classification", fit_method_classes},
    {"cst_fit_method", "linear", fit_method_linear},
    {"cst_fit_method", "log-linear", fit_method_pool},
    {"cst_fit_method", "regression", fit_method_values},
    {"cst_fit_method", "segmentation", fit_method_maps},
    {"cst_fit_method", "detection", fit_method_boxes},
    {"cst_adapt", "", adapt},
    {"cst_adapt_suggest", "", suggest},
    {"cst_show", "classification", show},
    {"cst_show", "detection", show_boxes},
    {"cst_inspect", "classification", inspect_classes},
    {"cst_inspect", "regression", inspect_values},
    {"cst_inspect", "segmentation", inspect_maps},
    {"cst_inspect", "detection", inspect_boxes},
    {"cst_compare", "classification", compare_classes},
    {"cst_compare", "regression", compare_values},
    {"cst_context_add_method", "", add_method},
    {"cst_compare", "classification, own method", compare_added_classes},
    {"cst_compare", "regression, own method", compare_added_values},
    {"cst_compare", "segmentation", compare_maps},
    {"cst_compare", "detection", compare_boxes},
    {"cst_compare", "classification, held out", repeat_classes},
    {"cst_compare", "regression, held out", repeat_values},
    {"cst_compare", "segmentation, held out", repeat_maps},
    {"cst_compare", "detection, held out", repeat_boxes},
    {"cst_ablate", "", ablate},
    {"cst_sweep", "", sweep},
    {"cst_profile", "classification", profile_classes},
    {"cst_profile", "regression", profile_values},
    {"cst_profile", "segmentation", profile_maps},
    {"cst_profile", "detection", profile_boxes},
    {"cst_evaluate_member", "", evaluate_member},
    {"cst_evaluate_stack", "classification", evaluate_classes},
    {"cst_evaluate_stack", "regression", evaluate_values},
    {"cst_evaluate_stack", "segmentation", evaluate_maps},
    {"cst_evaluate_stack", "detection", evaluate_boxes},
    {"cst_evaluate_stack", "", evaluate_stack},
    {"cst_bound", "", bound},
    {"cst_bound", "leaks", bound_leaks},
    {"cst_bound_shifted", "", bound_new_rows},
    {"cst_bound_shifted", "by class", bound_by_class},
    {"cst_conformal_thresholds", "", thresholds},
};
const size_t SWEEP_TASKS_COUNT = sizeof SWEEP_TASKS / sizeof SWEEP_TASKS[0];
