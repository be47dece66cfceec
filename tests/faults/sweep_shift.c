/*
 * Calls of a sweep on new data: the guard, label shift, bounds with weights and the monitor, which
 * need more rows than the calls of the other tasks. Members are drawn as a signal and noise; split
 * "new" has more noise, split "shares" other class shares.
 */
#include "model/guard.h"
#include "sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIT = 260, FRESH = 120, POOL = 4, WINDOW = 50, STREAM = 60 };

enum { OOF, CALIBRATION, NEW, SHARES, SPLITS };

static const char *const SPLIT[SPLITS] = {"oof", "test", "new", "shares"};
static const int COUNT[SPLITS] = {FIT, FRESH, FRESH, FRESH};

static float drawn[SPLITS][POOL][FIT * CLASSES];

static struct {
    cst_pool *pool;
    cst_model *model;       /* of two members; two are left out */
    cst_model *steps;       /* of all, with a cascade */
    const float *kept[2];   /* their rows of "new" */
    const float *others[2]; /* of the others */
    cst_guard_report *unlike;
    cst_guard_report *like; /* of "shares" */
    float *shares;          /* prediction */
} made;

static uint32_t state = 2463534242u;

static float uniform(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216;
}

static float noise(void) {
    float sum = -6;
    for (int i = 0; i < 12; i++)
        sum += uniform();
    return sum;
}

static void draw_split(world *w, int split) {
    int32_t labels[FIT];
    char name[64];
    for (int i = 0; i < COUNT[split]; i++) {
        labels[i] = split == SHARES && i % 6 ? 0 : i % CLASSES;
        float signal[CLASSES];
        for (int c = 0; c < CLASSES; c++)
            signal[c] = (c == labels[i] ? 3.0f : 0) + noise();
        for (int k = 0; k < POOL; k++) {
            float *p = drawn[split][k] + (size_t)i * CLASSES;
            float sum = 0;
            for (int c = 0; c < CLASSES; c++) {
                p[c] =
                    expf(signal[c] + (0.3f + 0.2f * (float)k + (split == NEW ? 3 : 0)) * noise());
                sum += p[c];
            }
            for (int c = 0; c < CLASSES; c++)
                p[c] /= sum;
        }
    }
    for (int k = 0; k < POOL; k++) {
        (void)snprintf(name, sizeof name, "shift/%c.%s.npy", 'a' + k, SPLIT[split]);
        must(w->quiet,
             cst_write_predictions(w->quiet, in_folder(w, name), drawn[split][k], COUNT[split],
                                   CLASSES),
             name);
    }
    (void)snprintf(name, sizeof name, "shift/%s.npy", SPLIT[split]);
    must(w->quiet, cst_write_folds(w->quiet, in_folder(w, name), labels, COUNT[split]), name);
}

static void write_manifest(world *w) {
    FILE *file = fopen(in_folder(w, "shift/pool.json"), "wb");
    if (!file)
        exit(1);
    (void)fprintf(file, "{\"corestack_pool\": 1, \"task\": \"classification\", \"classes\": "
                        "[\"x\", \"y\", \"z\"], \"splits\": {");
    for (int s = 0; s < SPLITS; s++)
        (void)fprintf(file, "%s\"%s\": {\"labels\": \"%s.npy\"}", s ? ", " : "", SPLIT[s],
                      SPLIT[s]);
    (void)fprintf(file, "}, \"models\": [");
    for (int k = 0; k < POOL; k++) {
        (void)fprintf(file, "%s{\"name\": \"%c\", \"flops\": 1000, \"predictions\": {",
                      k ? ", " : "", 'a' + k);
        for (int s = 0; s < SPLITS; s++)
            (void)fprintf(file, "%s\"%s\": \"%c.%s.npy\"", s ? ", " : "", SPLIT[s], 'a' + k,
                          SPLIT[s]);
        (void)fprintf(file, "}}");
    }
    if (fprintf(file, "]}") < 0 || fclose(file) != 0)
        exit(1);
}

void shift_make(world *w) {
    cst_context *q = w->quiet;
    cst_options *options = NULL;
    float *out = NULL;
    int64_t rows = 0;
    const cst_guard automatic = {.mode = CST_GUARD_AUTO};
    if (mkdir(in_folder(w, "shift"), 0777) != 0)
        exit(1);
    for (int s = 0; s < SPLITS; s++)
        draw_split(w, s);
    write_manifest(w);
    must(q, cst_pool_open(q, &made.pool, in_folder(w, "shift/pool.json"), NULL), "shift");
    for (int s = 0; s < SPLITS; s++)
        must(q, cst_pool_load(q, made.pool, SPLIT[s]), SPLIT[s]);
    must(q, cst_options_create(q, &options), "options");
    must(q, cst_options_set(q, options, "keep.max", "2"), "keep.max");
    must(q, cst_fit(q, made.pool, "oof", options, &made.model, NULL), "fit");
    must(q, cst_options_set(q, options, "keep.max", "0"), "keep.max");
    must(q, cst_options_set(q, options, "cascade", "true"), "cascade");
    must(q, cst_options_set(q, options, "cascade.alpha", "0.2"), "cascade.alpha");
    must(q, cst_options_set(q, options, "cascade.loss", "1000"), "cascade.loss");
    must(q, cst_fit(q, made.pool, "oof", options, &made.steps, NULL), "fit");
    cst_options_free(q, options);
    for (int32_t m = 0; m < 2; m++) {
        const char *kept = cst_model_member_name(made.model, m);
        const char *other = cst_model_other_name(made.model, m);
        if (!kept || !other)
            exit(1);
        made.kept[m] = drawn[NEW][kept[0] - 'a'];
        made.others[m] = drawn[NEW][other[0] - 'a'];
    }
    must(q,
         cst_model_predict_guarded(q, made.model, made.pool, "new", &automatic, &out, &rows,
                                   &made.unlike),
         "guard");
    cst_free(q, out);
    must(q,
         cst_model_predict_guarded(q, made.model, made.pool, "shares", NULL, &made.shares, &rows,
                                   &made.like),
         "guard");
    if (made.unlike->fired != 1 || made.like->fired != 0) {
        (void)fprintf(stderr, "the guard does not tell the splits apart\n");
        exit(1);
    }
}

void shift_free(world *w) {
    cst_context *q = w->quiet;
    cst_guard_report_free(q, made.unlike);
    cst_guard_report_free(q, made.like);
    cst_free(q, made.shares);
    cst_model_free(q, made.model);
    cst_model_free(q, made.steps);
    cst_pool_free(q, made.pool);
}

static void add_guard(trial *t, const cst_guard_report *report) {
    if (!report)
        return;
    add_bytes(t, &report->batch[0].pi, sizeof report->batch[0].pi);
    add_bytes(t, &report->batch[0].lambda, sizeof report->batch[0].lambda);
    add_bytes(t, report->lambda, FRESH * sizeof(double));
}

/* Of a new pool: the members that were left out are read when the guard fires. */
static void predict_guarded(trial *t) {
    const cst_guard guard = {.mode = CST_GUARD_AUTO};
    cst_pool *pool = NULL;
    float *out = NULL;
    int64_t rows = 0;
    cst_guard_report *report = NULL;
    must(t->c, cst_pool_open(t->c, &pool, in_folder(t->w, "shift/pool.json"), NULL), "pool");
    TRY(t, cst_model_predict_guarded(t->c, made.model, pool, "new", &guard, &out, &rows, &report),
        out == NULL && rows == 0 && report == NULL);
    add_bytes(t, out, (size_t)rows * CLASSES * sizeof *out);
    add_guard(t, report);
    cst_guard_report_free(t->c, report);
    cst_free(t->c, out);
    cst_pool_free(t->c, pool);
}

/* A report is marked as failed once something could not be stored: a fresh one each. */
static cst_status guard_document(trial *t, cst_report **report) {
    cst_report_free(t->c, *report);
    cst_status status = cst_report_create(t->c, report, "predict");
    return status == CST_OK ? cst_report_set_guard(t->c, *report, CST_GUARD_AUTO, made.unlike)
                            : status;
}

static void document(trial *t) {
    cst_report *report = NULL;
    TRY(t, guard_document(t, &report), true);
    add_report(t, report);
    cst_report_free(t->c, report);
}

/* The rows after it show that a failure left the window as it was. */
static void predictor_set_guard(trial *t) {
    cst_predictor *predictor = NULL;
    float out[STREAM * CLASSES] = {0};
    must(t->c, cst_predictor_create(t->c, &predictor, made.model), "predictor");
    TRY(t, cst_predictor_set_guard(predictor, WINDOW), true);
    if (t->again == CST_OK)
        must(t->c,
             cst_predictor_predict_guarded(predictor, made.kept, made.others, STREAM, out, NULL),
             "stream");
    (void)snprintf(t->message, sizeof t->message, "%s",
                   t->status == CST_OK ? ""
                   : t->least > 0      ? "set TMPDIR"
                                       : "memory"); /* not kept */
    add_bytes(t, out, sizeof out);
    cst_predictor_free(t->c, predictor);
}

/* Documented to allocate nothing: alloc_sweep.c sees that. */
static void predictor_predict_guarded(trial *t) {
    cst_predictor *predictor = NULL;
    cst_guard_batch found = {0};
    float out[STREAM * CLASSES] = {0};
    must(t->c, cst_predictor_create(t->c, &predictor, made.model), "predictor");
    must(t->c, cst_predictor_set_guard(predictor, WINDOW), "window");
    TRY(t, cst_predictor_predict_guarded(predictor, made.kept, made.others, STREAM, out, &found),
        true);
    add_bytes(t, out, sizeof out);
    add_bytes(t, &found.pi, sizeof found.pi);
    cst_predictor_free(t->c, predictor);
}

/* ---- a cascade ---- */

static void fit_cascade(trial *t) {
    cst_options *options = NULL;
    cst_model *model = NULL;
    cst_report *report = NULL;
    must(t->c, cst_options_create(t->c, &options), "options");
    must(t->c, cst_options_set(t->c, options, "cascade", "true"), "cascade");
    must(t->c, cst_options_set(t->c, options, "cascade.alpha", "0.2"), "cascade.alpha");
    must(t->c, cst_options_set(t->c, options, "meta.learners", "log-linear"), "meta.learners");
    must(t->c, cst_options_set(t->c, options, "redundancy.measure", "none"), "measure");
    must(t->c, cst_options_set(t->c, options, "select.direction", "none"), "select");
    must(t->c, cst_options_set(t->c, options, "evaluate.nested", "false"), "nested");
    must(t->c, cst_options_set(t->c, options, "checks", "false"), "checks");
    must(t->c, cst_options_set(t->c, options, "noise", "off"), "noise");
    TRY(t, cst_fit(t->c, made.pool, "oof", options, &model, &report),
        model == NULL && report == NULL);
    if (model)
        add_bytes(t, &(int){cst_model_has_cascade(model)}, sizeof(int));
    cst_report_free(t->c, report);
    cst_model_free(t->c, model);
    cst_options_free(t->c, options);
}

static void model_cascade(trial *t) {
    float out[FRESH * CLASSES] = {0};
    int32_t ran[FRESH] = {0};
    TRY(t, cst_model_cascade(t->c, made.steps, made.pool, "new", NULL, FRESH, out, ran), true);
    add_bytes(t, out, sizeof out);
    add_bytes(t, ran, sizeof ran);
}

static cst_status steps_document(trial *t, const int32_t *ran, cst_report **report) {
    cst_report_free(t->c, *report);
    cst_status status = cst_report_create(t->c, report, "predict");
    return status == CST_OK ? cst_report_set_cascade(t->c, *report, made.steps, ran, 2) : status;
}

static void cascade_document(trial *t) {
    static const int32_t ran[] = {1, 2};
    cst_report *report = NULL;
    TRY(t, steps_document(t, ran, &report), true);
    add_report(t, report);
    cst_report_free(t->c, report);
}

static void cascade_create(trial *t) {
    cst_predictor *predictor = NULL;
    cst_cascade *cascade = NULL;
    must(t->c, cst_predictor_create(t->c, &predictor, made.steps), "predictor");
    TRY(t, cst_cascade_create(t->c, &cascade, predictor, 3), cascade == NULL);
    add_bytes(t, &(int){cascade != NULL}, sizeof(int));
    cst_cascade_free(t->c, cascade);
    cst_predictor_free(t->c, predictor);
}

/* All members of a row. */
static cst_status run_row(cst_cascade *cascade, float *out) {
    cst_status status = cst_cascade_start(cascade, 0, 1);
    for (int32_t k = 0; status == CST_OK && k >= 0;) {
        k = cst_cascade_next(cascade, 0);
        const char *name = cst_model_member_name(made.steps, k);
        if (name)
            status = cst_cascade_give(cascade, 0, drawn[NEW][name[0] - 'a']);
    }
    (void)cst_cascade_answer(cascade, 0, out);
    return status;
}

/* Documented to allocate nothing. */
static void cascade_give(trial *t) {
    cst_predictor *predictor = NULL;
    cst_cascade *cascade = NULL;
    float out[CLASSES] = {0};
    must(t->c, cst_predictor_create(t->c, &predictor, made.steps), "predictor");
    must(t->c, cst_predictor_set_guard(predictor, WINDOW), "window");
    must(t->c, cst_cascade_create(t->c, &cascade, predictor, 3), "cascade");
    TRY(t, run_row(cascade, out), true);
    add_bytes(t, out, sizeof out);
    cst_cascade_free(t->c, cascade);
    cst_predictor_free(t->c, predictor);
}

static void label_shift(trial *t, cst_label_method method) {
    float out[FRESH * CLASSES];
    cst_label_report *report = NULL;
    memcpy(out, made.shares, sizeof out);
    TRY(t, cst_model_label_shift(t->c, made.model, method, made.like, FRESH, out, &report),
        report == NULL && memcmp(out, made.shares, sizeof out) == 0);
    add_bytes(t, out, sizeof out);
    cst_label_report_free(t->c, report);
}

static void label_shift_em(trial *t) {
    label_shift(t, CST_LABEL_EM);
}

static void label_shift_bbse(trial *t) {
    label_shift(t, CST_LABEL_BBSE);
}

static cst_status shares_document(trial *t, const cst_label_report *found, cst_report **report) {
    cst_report_free(t->c, *report);
    cst_status status = cst_report_create(t->c, report, "predict");
    return status == CST_OK ? cst_report_set_label_shift(t->c, *report, made.model, found) : status;
}

static void label_document(trial *t) {
    float out[FRESH * CLASSES];
    cst_label_report *found = NULL;
    cst_report *report = NULL;
    memcpy(out, made.shares, sizeof out);
    must(t->c, cst_model_label_shift(t->c, made.model, CST_LABEL_EM, made.like, FRESH, out, &found),
         "label shift");
    TRY(t, shares_document(t, found, &report), true);
    add_report(t, report);
    cst_report_free(t->c, report);
    cst_label_report_free(t->c, found);
}

static void bound_for(trial *t, const char *split, cst_bound_weights weights) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "sets.npy"));
    const cst_bound_batch batch = {.split = split, .weights = weights, .sets = path};
    cst_report *report = NULL;
    TRY(t, cst_bound_shifted(t->c, made.model, made.pool, NULL, &batch, &report),
        report == NULL && access(path, F_OK) != 0);
    add_report(t, report);
    add_file(t, path);
    (void)unlink(path);
    cst_report_free(t->c, report);
}

static void bound_covariate(trial *t) {
    bound_for(t, "new", CST_BOUND_COVARIATE);
}

static void bound_label(trial *t) {
    bound_for(t, "shares", CST_BOUND_LABEL);
}

/* ---- the monitor ---- */

static cst_monitor *monitor_of(trial *t) {
    cst_monitor *monitor = NULL;
    must(t->w->quiet, cst_monitor_create(t->w->quiet, &monitor, made.model, NULL), "monitor");
    return monitor;
}

static void add_monitor(trial *t, const cst_monitor *monitor) {
    double evidence = cst_monitor_evidence(monitor);
    int64_t rows = cst_monitor_rows(monitor);
    add_bytes(t, &evidence, sizeof evidence);
    add_bytes(t, &rows, sizeof rows);
}

static void watch(trial *t, cst_monitor *monitor, const char *split) {
    must(t->w->quiet, cst_monitor_batch(t->w->quiet, monitor, made.pool, split, NULL, NULL),
         "batch");
}

static void monitor_create(trial *t) {
    cst_monitor *monitor = NULL;
    TRY(t, cst_monitor_create(t->c, &monitor, made.model, NULL), monitor == NULL);
    add_monitor(t, monitor);
    cst_monitor_free(t->c, monitor);
}

/* The second batch, after which the first is still there. */
static void monitor_batch(trial *t) {
    int alarm = 0;
    cst_report *report = NULL;
    cst_monitor *monitor = NULL;
    must(t->c, cst_monitor_create(t->c, &monitor, made.model, NULL), "monitor");
    must(t->c, cst_monitor_batch(t->c, monitor, made.pool, "test", NULL, NULL), "batch");
    double before = cst_monitor_evidence(monitor);
    TRY(t, cst_monitor_batch(t->c, monitor, made.pool, "new", "hour 2", &alarm),
        cst_monitor_rows(monitor) == FRESH && cst_monitor_evidence(monitor) <= before &&
            cst_monitor_evidence(monitor) >= before && !cst_monitor_alarm(monitor));
    add_bytes(t, &alarm, sizeof alarm);
    add_monitor(t, monitor);
    must(t->w->quiet, cst_monitor_report(t->w->quiet, monitor, &report), "report");
    add_report(t, report);
    cst_report_free(t->w->quiet, report);
    cst_monitor_free(t->c, monitor);
}

static void monitor_report(trial *t) {
    cst_report *report = NULL;
    cst_monitor *monitor = monitor_of(t);
    watch(t, monitor, "new");
    TRY(t, cst_monitor_report(t->c, monitor, &report), report == NULL);
    add_report(t, report);
    cst_report_free(t->c, report);
    cst_monitor_free(t->w->quiet, monitor);
}

static void monitor_save(trial *t) {
    char path[512];
    cst_monitor *monitor = monitor_of(t);
    watch(t, monitor, "test");
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.monitor"));
    TRY(t, cst_monitor_save(t->c, monitor, path), access(path, F_OK) != 0);
    add_file(t, path);
    (void)unlink(path);
    cst_monitor_free(t->w->quiet, monitor);
}

static void monitor_load(trial *t) {
    char path[512];
    cst_monitor *loaded = NULL;
    cst_monitor *monitor = monitor_of(t);
    watch(t, monitor, "test");
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "read.monitor"));
    must(t->w->quiet, cst_monitor_save(t->w->quiet, monitor, path), "state");
    cst_monitor_free(t->w->quiet, monitor);
    TRY(t, cst_monitor_load(t->c, &loaded, made.model, path, NULL), loaded == NULL);
    add_monitor(t, loaded);
    cst_monitor_free(t->c, loaded);
}

/* ---- models with what these calls compare with ---- */

static void fit(trial *t) {
    cst_model *model = NULL;
    cst_options *options = NULL;
    must(t->c, cst_options_create(t->c, &options), "options");
    must(t->c, cst_options_set(t->c, options, "folds.count", "2"), "folds.count");
    must(t->c, cst_options_set(t->c, options, "keep.max", "2"), "keep.max");
    TRY(t, cst_fit(t->c, made.pool, "oof", options, &model, NULL), model == NULL);
    add_model(t, model);
    cst_model_free(t->c, model);
    cst_options_free(t->c, options);
}

static void adapt(trial *t) {
    const cst_adapt_options options = {.split = "new", .unlabeled = "new"};
    cst_model *model = NULL;
    TRY(t, cst_adapt(t->c, made.model, made.pool, &options, &model, NULL), model == NULL);
    add_model(t, model);
    cst_model_free(t->c, model);
}

static void load(trial *t) {
    void *bytes = NULL;
    size_t size = 0;
    cst_model *model = NULL;
    must(t->w->quiet, cst_model_save_memory(t->w->quiet, made.model, &bytes, &size), "model");
    TRY(t, cst_model_load_memory(t->c, &model, bytes, size), model == NULL);
    add_model(t, model);
    cst_model_free(t->c, model);
    cst_free(t->w->quiet, bytes);
}

static void predict_maps(trial *t) {
    char path[512];
    int64_t cases = 0;
    cst_guard_report *report = NULL;
    (void)snprintf(path, sizeof path, "%s", in_folder(t->w, "written.npy"));
    TRY(t,
        cst_segmentation_predict_guarded(t->c, t->w->maps_model, t->w->segmentation, "oof", NULL,
                                         CST_MAP_FLOAT16, NULL, path, &cases, NULL, &report),
        report == NULL && access(path, F_OK) != 0);
    add_bytes(t, &cases, sizeof cases);
    add_file(t, path);
    (void)unlink(path);
    cst_guard_report_free(t->c, report);
}

const sweep_call SWEEP_SHIFT[] = {
    {"cst_model_predict_guarded", "", predict_guarded},
    {"cst_report_set_guard", "", document},
    {"cst_predictor_set_guard", "", predictor_set_guard},
    {"cst_predictor_predict_guarded", "", predictor_predict_guarded},
    {"cst_segmentation_predict_guarded", "", predict_maps},
    {"cst_fit", "with a cascade", fit_cascade},
    {"cst_model_cascade", "", model_cascade},
    {"cst_report_set_cascade", "", cascade_document},
    {"cst_cascade_create", "", cascade_create},
    {"cst_cascade_start", "to the last member", cascade_give},
    {"cst_cascade_give", "to the last member", cascade_give},
    {"cst_model_label_shift", "EM", label_shift_em},
    {"cst_model_label_shift", "BBSE", label_shift_bbse},
    {"cst_report_set_label_shift", "", label_document},
    {"cst_bound_shifted", "covariate shift", bound_covariate},
    {"cst_bound_shifted", "label shift", bound_label},
    {"cst_monitor_create", "", monitor_create},
    {"cst_monitor_batch", "", monitor_batch},
    {"cst_monitor_report", "", monitor_report},
    {"cst_monitor_save", "", monitor_save},
    {"cst_monitor_load", "", monitor_load},
    {"cst_fit", "with a reference", fit},
    {"cst_adapt", "unlabelled rows", adapt},
    {"cst_model_load_memory", "with a reference", load},
};
const size_t SWEEP_SHIFT_COUNT = sizeof SWEEP_SHIFT / sizeof SWEEP_SHIFT[0];
