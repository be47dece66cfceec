/*
 * Calls of a sweep that need no pool of files: options, folds, scores, statistics, reports, pools
 * from memory, prediction.
 */
#include "sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void context_create(trial *t) {
    cst_context *made = NULL;
    TRY(t, cst_context_create(&made), made == NULL);
    cst_context_free(made);
}

static void context_create_with(trial *t) {
    cst_context *made = NULL;
    TRY(t, cst_context_create_with(&made, NULL, NULL), made == NULL);
    cst_context_free(made);
}

static void options_create(trial *t) {
    cst_options *made = NULL;
    TRY(t, cst_options_create(t->c, &made), made == NULL);
    cst_options_free(t->c, made);
}

static void folds_stratified(trial *t) {
    int32_t out[ROWS] = {0};
    TRY(t, cst_folds_stratified(t->c, t->w->labels, ROWS, 4, 1, out), true);
    add_bytes(t, out, sizeof out);
}

static void folds_time(trial *t) {
    int32_t out[ROWS] = {0};
    TRY(t, cst_folds_time(t->c, t->w->groups, ROWS, 2, out), true);
    add_bytes(t, out, sizeof out);
}

static void folds_grouped(trial *t) {
    int32_t out[ROWS] = {0};
    TRY(t, cst_folds_grouped(t->c, t->w->labels, t->w->groups, ROWS, 4, 1, out), true);
    add_bytes(t, out, sizeof out);
}

static void folds_quantile(trial *t) {
    int32_t out[ROWS] = {0};
    TRY(t, cst_folds_quantile(t->c, t->w->targets, OUTPUTS, NULL, ROWS, 4, 1, out), true);
    add_bytes(t, out, sizeof out);
}

/* ---- scores ---- */

static void metrics_evaluate(trial *t) {
    cst_metrics out = {0};
    TRY(t, cst_metrics_evaluate(t->c, t->w->p[0], ROWS, CLASSES, t->w->labels, 0, &out), true);
    add_bytes(t, &out.top1, sizeof(double) * 8);
}

static void metrics_reliability(trial *t) {
    cst_reliability_bin out[CST_METRIC_BINS] = {{0}};
    TRY(t, cst_metrics_reliability(t->c, t->w->p[0], ROWS, CLASSES, t->w->labels, 0, out), true);
    for (int b = 0; b < CST_METRIC_BINS; b++)
        add_bytes(t, &out[b].count, sizeof out[b].count);
}

enum { DRAWS = 20 };

static cst_predicted_values predicted(const world *w) {
    return (cst_predicted_values){.rows = ROWS, .outputs = OUTPUTS, .mean = w->v[0]};
}

static void metric_score(trial *t) {
    static const char *const names[] = {"auc", "f1-macro", "ece-smooth"};
    const cst_scored_rows rows = {
        .rows = ROWS, .columns = CLASSES, .values = t->w->p[0], .labels = t->w->labels};
    double out = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        TRY(t, cst_metric_score(t->c, names[i], &rows, &out), true);
    add_bytes(t, &out, sizeof out);
}

static cst_status half(void *user, const cst_scored_rows *rows, double *out) {
    (void)user;
    (void)rows;
    *out = 0.5;
    return CST_OK;
}

/* In a context of its own, which keeps the metric. */
static void add_metric(trial *t) {
    const cst_metric_ops ops = {.name = "half", .score = half};
    cst_context *kept = t->c;
    must(NULL, cst_context_create(&t->c), "context");
    TRY(t, cst_context_add_metric(t->c, &ops), true);
    cst_context_free(t->c);
    t->c = kept;
}

static void fit_for_metric(trial *t) {
    cst_options *options = NULL;
    cst_model *model = NULL;
    cst_report *report = NULL;
    must(t->w->quiet, cst_options_create(t->w->quiet, &options), "options");
    must(t->w->quiet, cst_options_set(t->w->quiet, options, "metric", "f1-macro"), "metric");
    TRY(t, cst_fit_method(t->c, t->w->pool, "oof", "average", options, &model, &report),
        model == NULL && report == NULL);
    cst_report_free(t->c, report);
    cst_model_free(t->c, model);
    cst_options_free(t->w->quiet, options);
}

static void value_metrics(trial *t) {
    cst_predicted_values given = predicted(t->w);
    cst_value_metrics average = {0};
    cst_value_metrics each[OUTPUTS] = {{0}};
    TRY(t, cst_value_metrics_evaluate(t->c, &given, t->w->targets, &average, each), true);
    add_bytes(t, &average.rmse, sizeof average.rmse * 4);
}

static void evaluate_labels(trial *t) {
    cst_segmentation_scores out = {0};
    TRY(t,
        cst_segmentation_evaluate_labels(t->c, t->w->labels, t->w->labels, 2, 4, 6, CLASSES, 255, 0,
                                         &out, NULL),
        true);
    add_bytes(t, &out.miou, sizeof out.miou);
}

/* ---- reports ---- */

static void report_new(trial *t) {
    cst_report *report = NULL;
    TRY(t, cst_report_create(t->c, &report, "folds"), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
}

/* A report is marked as failed once something could not be stored; the setters are tried on a fresh
 * one each. */
static void report_set_string(trial *t) {
    cst_report *report = NULL;
    must(t->c, cst_report_create(t->c, &report, "folds"), "report");
    TRY(t, cst_report_set_string(t->c, report, "key", "value"), true);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void report_set_integer(trial *t) {
    cst_report *report = NULL;
    must(t->c, cst_report_create(t->c, &report, "folds"), "report");
    TRY(t, cst_report_set_integer(t->c, report, "key", 7), true);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void report_set_number(trial *t) {
    cst_report *report = NULL;
    must(t->c, cst_report_create(t->c, &report, "swag"), "report");
    TRY(t, cst_report_set_number(t->c, report, "key", 0.5), true);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void report_set_strings(trial *t) {
    static const char *const values[] = {"a", "b", "c"};
    cst_report *report = NULL;
    must(t->c, cst_report_create(t->c, &report, "swa"), "report");
    TRY(t, cst_report_set_strings(t->c, report, "key", values, 3), true);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void report_set_integers(trial *t) {
    const int64_t values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    cst_report *report = NULL;
    must(t->c, cst_report_create(t->c, &report, "folds"), "report");
    TRY(t, cst_report_set_integers(t->c, report, "key", values, 10), true);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void show(trial *t, char *text) {
    add_text(t, text ? text : "");
    cst_free(t->c, text);
}

static void report_json(trial *t) {
    char *text = NULL;
    TRY(t, cst_report_json(t->c, t->w->report, &text), text == NULL);
    show(t, text);
}

static void report_text(trial *t) {
    char *text = NULL;
    TRY(t, cst_report_text(t->c, t->w->report, 0, &text), text == NULL);
    show(t, text);
}

static void report_text_full(trial *t) {
    char *text = NULL;
    TRY(t, cst_report_text_full(t->c, t->w->rows, 1, &text), text == NULL);
    show(t, text);
}

static void report_csv(trial *t) {
    char *text = NULL;
    TRY(t, cst_report_csv(t->c, t->w->rows, &text), text == NULL);
    show(t, text);
}

static void report_markdown(trial *t) {
    char *text = NULL;
    TRY(t, cst_report_markdown(t->c, t->w->rows, &text), text == NULL);
    show(t, text);
}

static void report_latex(trial *t) {
    char *text = NULL;
    TRY(t, cst_report_latex(t->c, t->w->rows, &text), text == NULL);
    show(t, text);
}

/* ---- pools from memory, prediction ---- */

static const char *const NAMES[MEMBERS] = {"a", "b", "c"};

static void add_pool(trial *t, const cst_pool *pool, int32_t width) {
    if (pool)
        add_bytes(t, cst_pool_predictions(pool, "oof", 1), sizeof(float) * ROWS * (size_t)width);
}

static void pool_from_arrays(trial *t) {
    cst_pool *pool = NULL;
    cst_array arrays[MEMBERS];
    for (int k = 0; k < MEMBERS; k++)
        arrays[k] = (cst_array){
            .data = t->w->p[k], .row_step = CLASSES * sizeof(float), .column_step = sizeof(float)};
    static const char *const classes[CLASSES] = {"x", "y", "z"};
    const cst_pool_arrays given = {.members = MEMBERS,
                                   .rows = ROWS,
                                   .classes = CLASSES,
                                   .predictions = arrays,
                                   .names = NAMES,
                                   .class_names = classes,
                                   .labels = t->w->labels,
                                   .groups = t->w->groups};
    TRY(t, cst_pool_from_arrays(t->c, &pool, &given), pool == NULL);
    add_pool(t, pool, CLASSES);
    cst_pool_free(t->c, pool);
}

/* ---- lists of the likeliest classes ---- */

enum { LISTED = 2 };

static cst_status open_lists(cst_context *c, const world *w, double *lists, cst_pool **pool) {
    static const int64_t listed[MEMBERS] = {LISTED, LISTED, LISTED};
    cst_array arrays[MEMBERS];
    const int width = 2 * LISTED + 1;
    for (int k = 0; k < MEMBERS; k++) {
        double *row = lists + (ptrdiff_t)k * ROWS * width;
        arrays[k] = (cst_array){.data = row,
                                .type = CST_NUMBER_FLOAT64,
                                .row_step = width * (int64_t)sizeof(double),
                                .column_step = sizeof(double)};
        for (int i = 0; i < ROWS; i++, row += width) {
            for (int j = 0; j < LISTED; j++) {
                row[j] = j;
                row[LISTED + j] = log((double)w->p[k][i * CLASSES + j]);
            }
            row[2 * LISTED] = NAN;
        }
    }
    const cst_pool_arrays given = {.struct_size = sizeof given,
                                   .task = CST_TASK_TOPK,
                                   .members = MEMBERS,
                                   .rows = ROWS,
                                   .classes = CLASSES,
                                   .predictions = arrays,
                                   .names = NAMES,
                                   .labels = w->labels,
                                   .listed = listed};
    return cst_pool_from_arrays(c, pool, &given);
}

static void pool_of_lists(trial *t) {
    cst_pool *pool = NULL;
    double lists[MEMBERS * ROWS * (2 * LISTED + 1)];
    TRY(t, open_lists(t->c, t->w, lists, &pool), pool == NULL);
    cst_pool_free(t->c, pool);
}

static void fit_lists(trial *t) {
    cst_pool *pool = NULL;
    cst_model *model = NULL;
    cst_report *report = NULL;
    double lists[MEMBERS * ROWS * (2 * LISTED + 1)];
    must(t->c, open_lists(t->c, t->w, lists, &pool), "pool");
    TRY(t, cst_fit(t->c, pool, "oof", NULL, &model, &report), model == NULL && report == NULL);
    cst_model_free(t->c, model);
    cst_report_free(t->c, report);
    cst_pool_free(t->c, pool);
}

static void predict_lists(trial *t) {
    cst_pool *pool = NULL;
    cst_model *model = NULL;
    cst_topk *topk = NULL;
    double lists[MEMBERS * ROWS * (2 * LISTED + 1)];
    must(t->c, open_lists(t->c, t->w, lists, &pool), "pool");
    must(t->c, cst_fit_method(t->c, pool, "oof", "average", NULL, &model, NULL), "fit");
    TRY(t, cst_model_predict_topk(t->c, model, pool, "oof", 0, &topk), topk == NULL);
    if (topk)
        add_bytes(t, topk->logprobs, ROWS * LISTED * sizeof *topk->logprobs);
    cst_topk_free(t->c, topk);
    cst_model_free(t->c, model);
    cst_pool_free(t->c, pool);
}

static void write_lists(trial *t) {
    cst_pool *pool = NULL;
    cst_model *model = NULL;
    int64_t rows = 0;
    double lists[MEMBERS * ROWS * (2 * LISTED + 1)];
    const char *path = in_folder(t->w, "lists.npz");
    must(t->c, open_lists(t->c, t->w, lists, &pool), "pool");
    must(t->c, cst_fit_method(t->c, pool, "oof", "average", NULL, &model, NULL), "fit");
    TRY(t, cst_model_write_topk(t->c, model, pool, "oof", 0, path, &rows),
        rows == 0 && access(path, F_OK) != 0);
    (void)unlink(path);
    cst_model_free(t->c, model);
    cst_pool_free(t->c, pool);
}

/* Rows that members lack are filled in. */
static cst_status open_missing(cst_context *c, const world *w, float own[ROWS * CLASSES],
                               cst_pool **pool) {
    cst_array arrays[MEMBERS];
    memcpy(own, w->p[0], ROWS * CLASSES * sizeof *own);
    for (int i = 0; i < 3 * CLASSES; i++)
        own[5 * CLASSES + i] = NAN;
    for (int k = 0; k < MEMBERS; k++)
        arrays[k] = (cst_array){.data = k == 0 ? own : w->p[k],
                                .row_step = CLASSES * sizeof(float),
                                .column_step = sizeof(float)};
    const cst_pool_arrays given = {.members = MEMBERS,
                                   .rows = ROWS,
                                   .classes = CLASSES,
                                   .predictions = arrays,
                                   .names = NAMES,
                                   .labels = w->labels,
                                   .missing = 1};
    return cst_pool_from_arrays(c, pool, &given);
}

static void pool_with_gaps(trial *t) {
    cst_pool *pool = NULL;
    float own[ROWS * CLASSES];
    TRY(t, open_missing(t->c, t->w, own, &pool), pool == NULL);
    add_pool(t, pool, CLASSES);
    cst_pool_free(t->c, pool);
}

static void predict_pool_with_gaps(trial *t) {
    cst_pool *pool = NULL;
    float own[ROWS * CLASSES];
    float *out = NULL;
    int64_t rows = 0;
    must(t->c, open_missing(t->c, t->w, own, &pool), "pool");
    TRY(t, cst_model_predict_pool(t->c, t->w->model, pool, "oof", &out, &rows), out == NULL);
    add_bytes(t, out, (size_t)rows * CLASSES * sizeof *out);
    cst_free(t->c, out);
    cst_pool_free(t->c, pool);
}

static void fit_with_gaps(trial *t) {
    cst_pool *pool = NULL;
    cst_model *model = NULL;
    float own[ROWS * CLASSES];
    must(t->c, open_missing(t->c, t->w, own, &pool), "pool");
    TRY(t, cst_fit(t->c, pool, "oof", NULL, &model, NULL), model == NULL);
    add_model(t, model);
    cst_model_free(t->c, model);
    cst_pool_free(t->c, pool);
}

/* A pool whose rows are of two domains and of none. */
static cst_status open_domains(cst_context *c, const world *w, cst_pool **pool) {
    cst_array arrays[MEMBERS];
    const char *domains[ROWS];
    for (int k = 0; k < MEMBERS; k++)
        arrays[k] = (cst_array){
            .data = w->p[k], .row_step = CLASSES * sizeof(float), .column_step = sizeof(float)};
    for (int i = 0; i < ROWS; i++)
        domains[i] = i % 5 == 0 ? NULL : i % 2 ? "sketch" : "photo";
    const cst_pool_arrays given = {.members = MEMBERS,
                                   .rows = ROWS,
                                   .classes = CLASSES,
                                   .predictions = arrays,
                                   .names = NAMES,
                                   .labels = w->labels,
                                   .domains = domains};
    return cst_pool_from_arrays(c, pool, &given);
}

static void pool_with_domains(trial *t) {
    cst_pool *pool = NULL;
    TRY(t, open_domains(t->c, t->w, &pool), pool == NULL);
    add_pool(t, pool, CLASSES);
    cst_pool_free(t->c, pool);
}

static void fit_with_domains(trial *t) {
    cst_pool *pool = NULL;
    cst_model *model = NULL;
    cst_options *options = NULL;
    must(t->c, open_domains(t->c, t->w, &pool), "pool");
    must(t->c, cst_options_create(t->c, &options), "options");
    must(t->c, cst_options_set(t->c, options, "domain.aware", "true"), "option");
    must(t->c, cst_options_set(t->c, options, "meta.learners", "log-linear"), "option");
    must(t->c, cst_options_set(t->c, options, "folds.count", "2"), "option");
    TRY(t, cst_fit(t->c, pool, "oof", options, &model, NULL), model == NULL);
    add_model(t, model);
    cst_model_free(t->c, model);
    cst_options_free(t->c, options);
    cst_pool_free(t->c, pool);
}

/* The same, with rows held out: the parts have domains too. */
static void hold_out_domains(trial *t) {
    static const char *const methods[] = {"average"};
    static const char *const settings[] = {"folds.count=2", "checks=false"};
    const cst_compare_options options = {.methods = methods,
                                         .method_count = 1,
                                         .settings = settings,
                                         .setting_count = 2,
                                         .holdout = 0.4};
    cst_pool *pool = NULL;
    cst_report *report = NULL;
    must(t->c, open_domains(t->c, t->w, &pool), "pool");
    TRY(t, cst_compare(t->c, pool, &options, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
    cst_pool_free(t->c, pool);
}

static void pool_read(trial *t) {
    float out[4 * CLASSES] = {0};
    TRY(t, cst_pool_read(t->c, t->w->pool, "oof", 1, 3, 4, out), true);
    add_bytes(t, out, sizeof out);
}

static void model_predict(trial *t) {
    float out[ROWS * CLASSES] = {0};
    TRY(t, cst_model_predict(t->c, t->w->model, t->w->data, ROWS, out), true);
    add_bytes(t, out, sizeof out);
}

static void model_predict_values(trial *t) {
    float mean[ROWS * OUTPUTS] = {0};
    float variance[ROWS * OUTPUTS] = {0};
    TRY(t, cst_model_predict_values(t->c, t->w->values_model, t->w->values, ROWS, mean, variance),
        true);
    add_bytes(t, mean, sizeof mean);
    add_bytes(t, variance, sizeof variance);
}

static void model_intervals(trial *t) {
    float mean[ROWS * OUTPUTS];
    float variance[ROWS * OUTPUTS];
    float lower[ROWS * OUTPUTS] = {0};
    float upper[ROWS * OUTPUTS] = {0};
    must(t->w->quiet,
         cst_model_predict_values(t->w->quiet, t->w->values_model, t->w->values, ROWS, mean,
                                  variance),
         "values");
    TRY(t, cst_model_intervals(t->c, t->w->values_model, 0.9, mean, variance, ROWS, lower, upper),
        true);
    add_bytes(t, upper, sizeof upper);
}

static void predictor_create(trial *t) {
    cst_predictor *made = NULL;
    float out[ROWS * CLASSES] = {0};
    TRY(t, cst_predictor_create(t->c, &made, t->w->model), made == NULL);
    if (made)
        must(t->c, cst_predictor_predict(made, t->w->data, ROWS, out), "predictor");
    add_bytes(t, out, sizeof out);
    cst_predictor_free(t->c, made);
}

/* Documented to allocate nothing: alloc_sweep.c sees that. */
static void predictor_predict(trial *t) {
    cst_predictor *made = NULL;
    float out[ROWS * CLASSES] = {0};
    must(t->c, cst_predictor_create(t->c, &made, t->w->model), "predictor");
    TRY(t, cst_predictor_predict(made, t->w->data, ROWS, out), true);
    add_bytes(t, out, sizeof out);
    cst_predictor_free(t->c, made);
}

static void predictor_predict_arrays(trial *t) {
    cst_predictor *made = NULL;
    float out[ROWS * CLASSES] = {0};
    cst_array arrays[MEMBERS];
    for (int k = 0; k < MEMBERS; k++)
        arrays[k] =
            (cst_array){t->w->data[k], CST_NUMBER_FLOAT32, CLASSES * sizeof(float), sizeof(float)};
    must(t->c, cst_predictor_create(t->c, &made, t->w->model), "predictor");
    TRY(t, cst_predictor_predict_arrays(made, arrays, ROWS, out), true);
    add_bytes(t, out, sizeof out);
    cst_predictor_free(t->c, made);
}

static void predictor_predict_present(trial *t) {
    cst_predictor *made = NULL;
    float out[ROWS * CLASSES] = {0};
    const uint8_t present[MEMBERS] = {1};
    must(t->c, cst_predictor_create(t->c, &made, t->w->model), "predictor");
    TRY(t, cst_predictor_predict_present(made, t->w->data, present, ROWS, out), true);
    add_bytes(t, out, sizeof out);
    cst_predictor_free(t->c, made);
}

/* ---- a stream ---- */

static cst_adapter *adapter_of(trial *t) {
    cst_adapter *made = NULL;
    must(t->w->quiet, cst_adapter_create(t->w->quiet, &made, t->w->model, NULL, 0, NULL),
         "adapter");
    return made;
}

static void adapter_create(trial *t) {
    cst_adapter *made = NULL;
    TRY(t, cst_adapter_create(t->c, &made, t->w->model, NULL, 0, NULL), made == NULL);
    cst_adapter_free(t->c, made);
}

static void adapter_observe(trial *t) {
    cst_adapter *made = adapter_of(t);
    float out[ROWS * CLASSES] = {0};
    int64_t ticket = 0;
    TRY(t, cst_adapter_observe(t->c, made, t->w->data, ROWS, out, &ticket), ticket == -1);
    add_bytes(t, out, sizeof out);
    cst_adapter_free(t->w->quiet, made);
}

static void adapter_label(trial *t) {
    cst_adapter *made = adapter_of(t);
    float out[ROWS * CLASSES] = {0};
    int64_t ticket = 0;
    must(t->w->quiet, cst_adapter_observe(t->w->quiet, made, t->w->data, ROWS, out, &ticket),
         "rows");
    TRY(t, cst_adapter_label(t->c, made, 3, 1), true);
    cst_adapter_free(t->w->quiet, made);
}

static void adapter_save(trial *t) {
    char path[512];
    cst_adapter *made = adapter_of(t);
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.state"));
    TRY(t, cst_adapter_save(t->c, made, path), access(path, F_OK) != 0);
    add_file(t, path);
    (void)unlink(path);
    cst_adapter_free(t->w->quiet, made);
}

static void adapter_load(trial *t) {
    char path[512];
    cst_adapter *made = adapter_of(t);
    cst_adapter *loaded = NULL;
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "read.state"));
    must(t->w->quiet, cst_adapter_save(t->w->quiet, made, path), "state");
    TRY(t, cst_adapter_load(t->c, &loaded, t->w->model, path), loaded == NULL);
    cst_adapter_free(t->c, loaded);
    cst_adapter_free(t->w->quiet, made);
}

/* With a new adapter, since one has seen some of the rows after a failure. */
static cst_status run_online(trial *t, float **out, int64_t *rows, cst_report **report) {
    cst_adapter *made = NULL;
    const cst_online_options options = {.split = "oof"};
    cst_status status = cst_adapter_create(t->c, &made, t->w->model, NULL, 0, NULL);
    if (status == CST_OK)
        status = cst_online(t->c, made, t->w->pool, &options, out, rows, report);
    cst_adapter_free(t->c, made);
    return status;
}

static void online(trial *t) {
    float *out = NULL;
    int64_t rows = 0;
    cst_report *report = NULL;
    TRY(t, run_online(t, &out, &rows, &report), out == NULL && rows == 0 && report == NULL);
    add_bytes(t, out, (size_t)rows * CLASSES * sizeof *out);
    cst_free(t->c, out);
    cst_report_free(t->c, report);
}

static void model_save_memory(trial *t) {
    void *bytes = NULL;
    size_t size = 0;
    TRY(t, cst_model_save_memory(t->c, t->w->model, &bytes, &size), bytes == NULL && size == 0);
    add_bytes(t, bytes, size);
    cst_free(t->c, bytes);
}

static void model_load_memory(trial *t) {
    void *bytes = NULL;
    size_t size = 0;
    cst_model *model = NULL;
    must(t->w->quiet, cst_model_save_memory(t->w->quiet, t->w->model, &bytes, &size), "model");
    TRY(t, cst_model_load_memory(t->c, &model, bytes, size), model == NULL);
    add_model(t, model);
    cst_model_free(t->c, model);
    cst_free(t->w->quiet, bytes);
}

const sweep_call SWEEP_SMALL[] = {
    {"cst_context_create", "", context_create},
    {"cst_context_create_with", "", context_create_with},
    {"cst_options_create", "", options_create},
    {"cst_folds_stratified", "", folds_stratified},
    {"cst_folds_time", "", folds_time},
    {"cst_folds_grouped", "", folds_grouped},
    {"cst_folds_quantile", "", folds_quantile},
    {"cst_metrics_evaluate", "", metrics_evaluate},
    {"cst_metrics_reliability", "", metrics_reliability},
    {"cst_metric_score", "", metric_score},
    {"cst_context_add_metric", "", add_metric},
    {"cst_fit_method", "metric", fit_for_metric},
    {"cst_value_metrics_evaluate", "", value_metrics},
    {"cst_segmentation_evaluate_labels", "", evaluate_labels},
    {"cst_report_create", "", report_new},
    {"cst_report_set_string", "", report_set_string},
    {"cst_report_set_integer", "", report_set_integer},
    {"cst_report_set_number", "", report_set_number},
    {"cst_report_set_strings", "", report_set_strings},
    {"cst_report_set_integers", "", report_set_integers},
    {"cst_report_json", "", report_json},
    {"cst_report_text", "", report_text},
    {"cst_report_text_full", "", report_text_full},
    {"cst_report_csv", "", report_csv},
    {"cst_report_markdown", "", report_markdown},
    {"cst_report_latex", "", report_latex},
    {"cst_pool_from_arrays", "", pool_from_arrays},
    {"cst_fit", "missing", fit_with_gaps},
    {"cst_pool_from_arrays", "missing", pool_with_gaps},
    {"cst_model_predict_pool", "missing", predict_pool_with_gaps},
    {"cst_pool_from_arrays", "domains", pool_with_domains},
    {"cst_fit", "domains", fit_with_domains},
    {"cst_compare", "domains", hold_out_domains},
    {"cst_pool_read", "", pool_read},
    {"cst_model_predict", "", model_predict},
    {"cst_model_predict_values", "", model_predict_values},
    {"cst_model_intervals", "", model_intervals},
    {"cst_adapter_create", "", adapter_create},
    {"cst_adapter_observe", "", adapter_observe},
    {"cst_adapter_label", "", adapter_label},
    {"cst_adapter_save", "", adapter_save},
    {"cst_adapter_load", "", adapter_load},
    {"cst_online", "", online},
    {"cst_predictor_predict_arrays", "", predictor_predict_arrays},
    {"cst_predictor_create", "", predictor_create},
    {"cst_predictor_predict", "", predictor_predict},
    {"cst_predictor_predict_present", "", predictor_predict_present},
    {"cst_model_save_memory", "", model_save_memory},
    {"cst_model_load_memory", "", model_load_memory},
    {"cst_pool_from_arrays", "lists", pool_of_lists},
    {"cst_fit", "lists", fit_lists},
    {"cst_model_predict_topk", "", predict_lists},
    {"cst_model_write_topk", "", write_lists},
};
const size_t SWEEP_SMALL_COUNT = sizeof SWEEP_SMALL / sizeof SWEEP_SMALL[0];
