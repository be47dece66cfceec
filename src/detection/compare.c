/*
 * Methods of detection side by side: AP of each, intervals over images, differences to one of them;
 * and a model beside simple fusion. method.md, sections 8 and 9.
 */
#include "detection/detection.h"
#include "detection/figures.h"
#include "la/la.h"
#include "model/fitted_on.h"

#include <math.h>
#include <string.h>

enum { METHODS_MAX = 256 };

typedef struct entry {
    cst_detect_method method;
    bool asked; /* by name, and not as one of all */
    cst_ap_matches *matches;
    cst_detection_scores scores;
    double *weights; /* [members], or NULL */
    int64_t detections;
    int32_t models;
    double flops_rel;
    double seconds;
    char detail[96];
} entry;

typedef struct comparison {
    cst_pool *pool;
    const cst_compare_options *options;
    const char *split;
    bool nested;
    cst_box_split train;
    cst_box_split other;        /* the split that is scored, where it is not "oof" */
    const cst_box_split *files; /* of the images that are scored */
    cst_box_training training;
    entry *entries; /* [METHODS_MAX] */
    int32_t count;
    int32_t reference;
    cst_ap_intervals *intervals;   /* [count] */
    cst_ap_intervals *differences; /* [count] */
} comparison;

/* ---- which methods ---- */

static cst_status add_method(cst_context *context, comparison *c, const char *name, bool asked) {
    cst_detect_method method;
    const cst_compare_options *o = c->options;
    cst_status status =
        cst_detect_method_parse(context, name, o->seed, o->settings, o->setting_count, &method);
    if (status != CST_OK)
        return status;
    if (method.rule == CST_DETECT_ROWS && method.rows.preset)
        cst_detect_adapt(&c->training.options, method.rows.preset, &method.rows.settings);
    for (int32_t m = 0; m < c->count; m++)
        if (strcmp(c->entries[m].method.name, name) == 0) {
            c->entries[m].asked = c->entries[m].asked || asked;
            return CST_OK;
        }
    if (method.rule == CST_DETECT_ROWS && !cst_method_applies(&method.rows, &c->training.source))
        return asked ? cst_fail(context, CST_ERROR_INPUT,
                                "%s needs members that the manifest tags for it (key 'ensemble'), "
                                "of deep ensembles and snapshots two; this pool has too few",
                                name)
                     : CST_OK;
    if (c->count == METHODS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "more than %d methods", METHODS_MAX);
    c->entries[c->count++] = (entry){.method = method, .asked = asked};
    return CST_OK;
}

static cst_status list_methods(cst_context *context, comparison *c) {
    const cst_compare_options *o = c->options;
    cst_status status = CST_OK;
    for (int32_t m = 0; status == CST_OK && (m < o->method_count || o->method_count < 1); m++) {
        bool all = o->method_count < 1 || strcmp(o->methods[m], "all") == 0;
        if (!all)
            status = add_method(context, c, o->methods[m], true);
        for (size_t i = 0; all && status == CST_OK && cst_detect_method_name(i); i++)
            status = add_method(context, c, cst_detect_method_name(i), false);
        if (o->method_count < 1)
            break;
    }
    const char *reference = o->reference ? o->reference : "default";
    c->reference = -1;
    for (int32_t m = 0; m < c->count; m++)
        if (strcmp(c->entries[m].method.name, reference) == 0)
            c->reference = m;
    if (status == CST_OK && c->reference < 0 && o->reference)
        status = cst_fail(context, CST_ERROR_ARGUMENT,
                          "the reference '%.60s' is not among the methods compared", reference);
    c->reference = c->reference < 0 ? 0 : c->reference;
    return status;
}

/* ---- one method ---- */

static void describe(const comparison *c, const cst_detect_fit *fit, entry *out) {
    double all = 0;
    double mine = 0;
    int32_t last = 0;
    for (int32_t k = 0; k < c->train.members; k++) {
        all += c->training.source.flops[k];
        if (!fit->uses[k])
            continue;
        mine += c->training.source.flops[k];
        out->models++;
        last = k;
    }
    out->flops_rel = all > 0 ? mine / all : NAN;
    out->seconds = fit->seconds;
    const char *own = fit->method.rows.baseline ? fit->rows.baseline.detail : "";
    (void)cst_snprintf(out->detail, sizeof out->detail, "%.90s",
                       *own               ? own
                       : out->models == 1 ? cst_pool_member_name(c->pool, last)
                                          : "");
}

static cst_status run_method(cst_context *context, const comparison *c, entry *out) {
    cst_detect_fit fit = {0};
    cst_coco_boxes *boxes = NULL;
    uint64_t seed = c->options->seed;
    cst_status status = cst_detect_fit_run(context, &out->method, &c->training, -1, seed, &fit);
    if (status == CST_OK)
        describe(c, &fit, out);
    if (status == CST_OK && fit.weights) {
        out->weights = fit.weights;
        fit.weights = NULL;
    }
    if (status == CST_OK && c->nested)
        status = cst_detect_nested(context, &out->method, &c->training, seed, &boxes);
    else if (status == CST_OK)
        status = cst_detect_fit_predict(context, &fit, &c->training.options.clusters, c->files,
                                        NULL, &boxes);
    CST_TRY(cst_ap_match(context, c->files->coco, boxes, &out->matches));
    CST_TRY(cst_ap_scores(context, out->matches, NULL, &out->scores, NULL));
    if (status == CST_OK)
        out->detections = boxes->count;
    cst_coco_boxes_free(context, boxes);
    cst_detect_fit_free(context, &fit);
    return status;
}

static void entry_free(cst_context *context, entry *e) {
    cst_ap_matches_free(context, e->matches);
    cst_free(context, e->weights);
    e->matches = NULL;
    e->weights = NULL;
}

/* A method that cannot be fitted on these rows: an error where it was asked for by name, else it is
 * left out with a notice. */
static cst_status give_up(cst_context *context, comparison *c, int32_t m, cst_status status) {
    char why[256];
    if (status != CST_ERROR_INPUT && status != CST_ERROR_NUMERIC)
        return status;
    (void)cst_snprintf(why, sizeof why, "%s", cst_last_error(context));
    if (c->entries[m].asked || c->count == 1)
        return cst_fail(context, status, "method %s: %s", c->entries[m].method.name, why);
    cst_notice(context, "%s is left out: %s", c->entries[m].method.name, why);
    entry_free(context, &c->entries[m]);
    memmove(c->entries + m, c->entries + m + 1, (size_t)(c->count - m - 1) * sizeof *c->entries);
    c->count--;
    if (c->reference == m)
        c->reference = 0;
    else if (c->reference > m)
        c->reference--;
    return CST_OK;
}

static cst_status run_methods(cst_context *context, comparison *c) {
    cst_status status = CST_OK;
    for (int32_t m = 0; status == CST_OK && m < c->count;) {
        status = cst_progress(context, c->entries[m].method.name, m, c->count);
        if (status != CST_OK)
            break;
        cst_notice_about(context, c->entries[m].method.name);
        status = run_method(context, c, &c->entries[m]);
        cst_notice_about(context, NULL);
        if (status == CST_OK)
            m++;
        else
            status = give_up(context, c, m, status);
    }
    return status;
}

static cst_status run_intervals(cst_context *context, comparison *c) {
    size_t count = (size_t)c->count;
    const cst_ap_matches **matches = cst_alloc(context, count, sizeof *matches);
    c->intervals = cst_alloc(context, count, sizeof *c->intervals);
    c->differences = cst_alloc(context, count, sizeof *c->differences);
    cst_status status = matches && c->intervals && c->differences ? CST_OK : CST_ERROR_MEMORY;
    for (size_t m = 0; status == CST_OK && m < count; m++)
        matches[m] = c->entries[m].matches;
    CST_TRY(cst_ap_bootstrap(context, matches, c->count, c->reference, c->options->resamples,
                             c->options->seed, c->intervals, c->differences));
    cst_free(context, matches);
    return status;
}

/* ---- document ---- */

static void put_row(cst_report *report, json_t *list, const comparison *c, int32_t m) {
    const entry *e = &c->entries[m];
    json_t *row = cst_report_add_object(report, list);
    cst_report_string(report, row, "method", e->method.name);
    cst_report_string(report, row, "detail", e->detail);
    cst_figures_put(report, row, &e->scores, &c->intervals[m]);
    cst_report_integer(report, row, "detections", e->detections);
    cst_report_integer(report, row, "models", e->models);
    cst_report_numbers(report, row, "weights", e->weights, e->weights ? c->train.members : 0);
    cst_report_number(report, row, "flops_rel", e->flops_rel);
    cst_report_number(report, row, "seconds", e->seconds);
    if (c->intervals[m].resamples > 0 && m != c->reference)
        cst_figures_difference(report, row, &c->differences[m]);
}

static cst_status write_report(cst_context *context, const comparison *c, double seconds,
                               cst_report **report) {
    cst_status status = cst_report_create(context, CST_REPORT_COMPARE, report);
    if (status != CST_OK)
        return status;
    json_t *root = cst_report_root(*report);
    cst_report_string(*report, root, "task", cst_task_name(CST_TASK_DETECTION));
    cst_report_string(*report, root, "split", c->split);
    cst_report_string(*report, root, "scored", c->nested ? "nested" : "held-out");
    cst_report_integer(*report, root, "samples", c->files->coco->images);
    cst_report_integer(*report, root, "images", c->files->coco->images);
    cst_report_integer(*report, root, "annotations", c->files->coco->count);
    cst_report_integer(*report, root, "classes", c->files->coco->categories);
    cst_report_integer(*report, root, "models_in", c->train.members);
    cst_report_integer(*report, root, "seed", (int64_t)c->options->seed);
    cst_report_string(*report, root, "reference", c->entries[c->reference].method.name);
    json_t *list = cst_report_list(*report, root, "rows");
    for (int32_t m = 0; m < c->count; m++)
        put_row(*report, list, c, m);
    (void)cst_report_list(*report, root, "tests");
    cst_figures_definition(*report, root);
    cst_report_integer(*report, root, "resamples", c->options->resamples);
    json_t *times = cst_report_object(*report, root, "seconds");
    cst_report_number(*report, times, "read", c->train.seconds + c->other.seconds);
    cst_report_number(*report, times, "total", seconds);
    cst_report_notices(*report, context);
    return cst_report_finish(context, *report);
}

/* ---- opening ---- */

/* Options that the settings give. */
static cst_status read_options(cst_context *context, const cst_compare_options *o,
                               cst_detect_options *detect, int32_t *folds) {
    cst_options *options = NULL;
    cst_status status = cst_options_create(context, &options);
    for (int32_t i = 0; status == CST_OK && i < o->setting_count; i++) {
        const char *equals = strchr(o->settings[i], '=');
        char key[CST_METHOD_NAME_CHARS];
        if (!equals || (size_t)(equals - o->settings[i]) >= sizeof key) {
            status = cst_fail(context, CST_ERROR_ARGUMENT, "setting '%.60s' is not KEY=VALUE",
                              o->settings[i]);
            break;
        }
        (void)cst_snprintf(key, sizeof key, "%.*s", (int)(equals - o->settings[i]), o->settings[i]);
        status = cst_options_set(context, options, key, equals + 1);
    }
    if (status == CST_OK) {
        cst_detect_options_read(options, detect);
        *folds = (int32_t)cst_option_integer(options, CST_OPT_FOLDS_COUNT);
    }
    cst_options_free(context, options);
    return status;
}

static cst_status open_scene(cst_context *context, comparison *c) {
    cst_detect_options detect;
    int32_t folds = 0;
    c->split = c->options->split ? c->options->split : "oof";
    c->nested = strcmp(c->split, "oof") == 0;
    c->files = c->nested ? &c->train : &c->other;
    if (c->options->predicted)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "a comparison of detections does not keep the boxes of every method; fit, "
                        "then predict");
    cst_status status = c->options->ood
                            ? cst_fail(context, CST_ERROR_UNSUPPORTED,
                                       "out-of-distribution splits are not for detection")
                            : read_options(context, c->options, &detect, &folds);
    CST_TRY(cst_box_split_open(context, c->pool, "oof", NULL, 0, &c->train));
    CST_TRY(cst_box_training_open(context, c->pool, "oof", &c->train, &detect, folds,
                                  c->options->seed, &c->training));
    if (status == CST_OK && !c->nested)
        status = cst_box_split_open(context, c->pool, c->split, NULL, 0, &c->other);
    if (status == CST_OK && !c->nested)
        status = cst_coco_same_categories(context, c->train.coco, c->other.coco);
    return status;
}

static void close_scene(cst_context *context, comparison *c) {
    for (int32_t m = 0; c->entries && m < c->count; m++)
        entry_free(context, &c->entries[m]);
    cst_free(context, c->entries);
    cst_free(context, c->intervals);
    cst_free(context, c->differences);
    cst_box_training_close(context, &c->training);
    cst_box_split_close(context, &c->train);
    cst_box_split_close(context, &c->other);
}

cst_status cst_detection_compare(cst_context *context, cst_pool *pool,
                                 const cst_compare_options *options, cst_report **report) {
    double start = cst_seconds();
    cst_compare_options given = options ? *options : (cst_compare_options){.resamples = 5000};
    comparison c = {.pool = pool, .options = &given};
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = open_scene(context, &c);
    if (status == CST_OK) {
        c.entries = cst_alloc(context, METHODS_MAX, sizeof *c.entries);
        status = c.entries ? list_methods(context, &c) : CST_ERROR_MEMORY;
    }
    CST_TRY(run_methods(context, &c));
    CST_TRY(run_intervals(context, &c));
    CST_TRY(write_report(context, &c, cst_seconds() - start, report));
    cst_la_leave();
    close_scene(context, &c);
    return cst_report_settle(context, status, report);
}

/* ---- a model ---- */

/* Simple fusion beside the model, fitted on split "oof". */
static cst_status put_baselines(cst_context *context, cst_report *report, cst_pool *pool,
                                const char *split, int32_t resamples, uint64_t seed) {
    static const char *const simple[] = {"best-single", "average", "wbf", "nms"};
    cst_compare_options options = {.split = split,
                                   .methods = simple,
                                   .method_count = sizeof simple / sizeof simple[0],
                                   .resamples = resamples,
                                   .seed = seed};
    /* On "oof" the simple ones are what they are there: nothing is nested but the best single. */
    comparison c = {.pool = pool, .options = &options};
    cst_status status = open_scene(context, &c);
    if (status == CST_OK) {
        c.entries = cst_alloc(context, METHODS_MAX, sizeof *c.entries);
        status = c.entries ? list_methods(context, &c) : CST_ERROR_MEMORY;
    }
    CST_TRY(run_methods(context, &c));
    CST_TRY(run_intervals(context, &c));
    if (status == CST_OK) {
        json_t *list = cst_report_list(report, cst_report_root(report), "baselines");
        for (int32_t m = 0; m < c.count; m++)
            put_row(report, list, &c, m);
    }
    close_scene(context, &c);
    return status;
}

static cst_status seen_in_fitting(cst_context *context, const cst_model *model, const char *split,
                                  const cst_coco *coco, bool *seen) {
    int32_t *labels = NULL;
    cst_status status = cst_detection_labels(context, coco, &labels);
    *seen = status == CST_OK && cst_fitted_on(model, split, labels, coco->count);
    cst_free(context, labels);
    if (*seen)
        cst_notice(context,
                   "the model was fitted on split '%s': its scores there say how well it fits, not "
                   "how well it predicts",
                   split);
    return status;
}

cst_status cst_detection_evaluate_model(cst_context *context, const cst_model *model,
                                        cst_pool *pool, const char *split, int baselines,
                                        int32_t resamples, uint64_t seed, cst_report **report) {
    cst_box_split files = {0};
    cst_coco_boxes *boxes = NULL;
    cst_ap_matches *matches = NULL;
    cst_detection_scores *by_category = NULL;
    cst_detection_scores scores;
    cst_ap_intervals intervals;
    bool seen = false;
    double start = cst_seconds();
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_detection_predict(context, model, pool, split, true, &files, &boxes);
    CST_TRY(seen_in_fitting(context, model, split, files.coco, &seen));
    CST_TRY(cst_ap_match(context, files.coco, boxes, &matches));
    if (status == CST_OK) {
        by_category = cst_alloc(context, (size_t)files.coco->categories, sizeof *by_category);
        status = by_category ? cst_ap_scores(context, matches, NULL, &scores, by_category)
                             : CST_ERROR_MEMORY;
    }
    CST_TRY(cst_ap_bootstrap(context, (const cst_ap_matches *const *)&matches, 1, 0, resamples,
                             seed, &intervals, NULL));
    CST_TRY(cst_report_create(context, CST_REPORT_EVALUATE, report));
    if (status == CST_OK) {
        json_t *root = cst_report_root(*report);
        cst_report_string(*report, root, "task", cst_task_name(CST_TASK_DETECTION));
        cst_report_string(*report, root, "split", split);
        cst_report_flag(*report, root, "seen_in_fitting", seen);
        cst_report_integer(*report, root, "models", model->members);
        cst_figures_document(*report, root, files.coco, boxes->count, &scores, &intervals,
                             by_category);
        cst_report_integer(*report, root, "seed", (int64_t)seed);
        if (baselines)
            status = put_baselines(context, *report, pool, split, resamples, seed);
        json_t *seconds = cst_report_object(*report, root, "seconds");
        cst_report_number(*report, seconds, "read", files.seconds);
        cst_report_number(*report, seconds, "total", cst_seconds() - start);
        cst_report_notices(*report, context);
    }
    CST_TRY(cst_report_finish(context, *report));
    cst_la_leave();
    cst_free(context, by_category);
    cst_ap_matches_free(context, matches);
    cst_coco_boxes_free(context, boxes);
    cst_box_split_close(context, &files);
    return cst_report_settle(context, status, report);
}
