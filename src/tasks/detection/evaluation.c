/* The table of detection. Chosen by src/tasks. docs/detection.md. */
#include "tasks/detection/detection.h"

#include "data/pool/state.h"
#include "fit/harness.h"
#include "fit/profile.h"
#include "model/fit_rows.h"

#include <math.h>
#include <string.h>

static const char *define_figure(const char *score) {
    static const char *const definitions[][2] = {
        {"AP", "mean over categories and IoU 0.50:0.05:0.95 of the precision at 101 recall "
               "levels"},
        {"AP50", "AP at IoU 0.50"},
        {"AP75", "AP at IoU 0.75"},
        {"APs", "AP on small ground-truth boxes, below 32 x 32 pixels"},
        {"APm", "AP on medium ground-truth boxes, 32 x 32 to 96 x 96 pixels"},
        {"APl", "AP on large ground-truth boxes, above 96 x 96 pixels"},
        {"AR1", "mean over categories and IoU of the recall with at most 1 box per image and "
                "category"},
        {"AR10", "mean over categories and IoU of the recall with at most 10 boxes per image "
                 "and category"},
        {"AR100", "mean over categories and IoU of the recall with at most 100 boxes per "
                  "image and category"},
        {"ARs", "AR100 on small ground-truth boxes"},
        {"ARm", "AR100 on medium ground-truth boxes"},
        {"ARl", "AR100 on large ground-truth boxes"}};
    for (size_t i = 0; i < sizeof definitions / sizeof definitions[0]; i++)
        if (strcmp(score, definitions[i][0]) == 0)
            return definitions[i][1];
    return NULL;
}

static void put_categories(cst_report *report, json_t *object, const cst_coco *truth,
                           const cst_detection_scores *by_category) {
    json_t *list = cst_report_list(report, object, "categories");
    for (int32_t c = 0; c < truth->categories; c++) {
        json_t *row = cst_report_add_object(report, list);
        int64_t boxes = 0;
        for (int64_t g = 0; g < truth->count; g++)
            boxes += truth->box[g].category == c && !truth->box[g].crowd;
        CST_PUT(report, row, CST_I("id", truth->category_id[c]),
                CST_S("name", truth->category_name[c]), CST_I("boxes", boxes));
        cst_figures_put(report, row, &by_category[c]);
    }
}

enum { AP = 0, AP50 = 1, AP75 = 2, AR100 = 8 };

/* Not defined without true boxes. */
static double or_nan(double score) {
    return score < 0 ? NAN : score;
}

/* scratch: how often each image counts [images], then that of the figures. */
static void figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch, int64_t lanes,
                    int64_t stride, double *out) {
    const void *const *matches = b->user;
    double *room = scratch;
    int32_t *times = (void *)(room + (b->scratch / sizeof *room - (size_t)drawn->rows));
    for (int64_t l = 0; l < lanes; l++) {
        for (int64_t i = 0; i < drawn->rows; i++)
            times[i] = drawn->lane[l * drawn->padded + i];
        for (int32_t m = 0; m < b->methods; m++) {
            cst_detection_scores scores;
            double *to = out + (int64_t)m * CST_DETECTION_FIGURES * stride + l;
            cst_ap_main_scores(matches[m], times, room, &scores);
            to[AP * stride] = or_nan(scores.ap);
            to[AP50 * stride] = or_nan(scores.ap50);
            to[AP75 * stride] = or_nan(scores.ap75);
            to[AR100 * stride] = or_nan(scores.ar100);
        }
    }
}

static cst_status bootstrap(cst_context *context, const cst_evaluation *e,
                            const void *const *results, int32_t count, int32_t reference,
                            int32_t resamples, cst_intervals *out) {
    size_t most = 0;
    int32_t images = ((const cst_ap_matches *)results[0])->images;
    out->done = images > 0;
    if (images < 1)
        return CST_OK;
    for (int32_t m = 0; m < count; m++)
        most = cst_ap_scratch(results[m]) > most ? cst_ap_scratch(results[m]) : most;
    const cst_bootstrap b = {.samples = {images},
                             .seed = {e->options->seed},
                             .resamples = resamples,
                             .methods = count,
                             .scores = CST_DETECTION_FIGURES,
                             .skipped = ~(1U << AP | 1U << AP50 | 1U << AP75 | 1U << AR100),
                             .scratch = (most + (size_t)images) *
                                        sizeof(double), /* times take half of their part */
                             .figures = figures,
                             .user = (const void *)results};
    return cst_bootstrap_intervals(context, &b, reference, out->interval, out->difference, out->p);
}

/* An evaluation's data. That of some members borrows annotations and boxes of the whole. */
typedef struct state {
    cst_box_split train;        /* split "oof" */
    cst_box_split other;        /* the split that is scored, unless it is that */
    const cst_box_split *files; /* of the images that are scored */
    cst_box_training training;
    double start; /* of the reading of a file of detections; else 0 */
} state;

/* Boxes of a method, a model or a file: an entry's result. */
typedef struct scored {
    cst_ap_matches matches;
    cst_detection_scores *by_category; /* [categories], in evaluations; else NULL */
    int64_t detections;
    cst_detect_fit fit; /* that is wanted as a model */
} scored;

static state *state_of(const cst_evaluation *e) {
    return e->data;
}

static const scored *result_of(const cst_entry *entry) {
    return entry->result;
}

static void release(cst_context *context, void *data) {
    state *s = data;
    cst_box_split_close(context, &s->train);
    cst_box_split_close(context, &s->other);
}

CST_OWNED(cst_options)

/* Split "oof" with every member, and its clusters. */
static cst_status open_training(cst_context *context, cst_evaluation *e, bool *checks) {
    state *s = e->data;
    const cst_compare_options *o = e->options;
    cst_options *options = NULL;
    CST_SCOPE(scope);
    CST_TRY(cst_method_options(context, "default", o->seed, o->settings, (int32_t)o->setting_count,
                               &options));
    CST_OWN(context, scope, cst_options, options);
    *checks = cst_option_flag(options, CST_OPT_CHECKS) && !e->checked;
    CST_TRY(cst_box_training_open(context, &e->scope, &e->pool, cst_evaluation_fitted(e), options,
                                  e->checked ? NULL : &e->findings, false, &s->train,
                                  &s->training));
    e->members = s->train.members;
    e->source = &s->training.source;
    return CST_OK;
}

/* A model predicts images itself; methods need every member's boxes and clusters of "oof". */
static cst_status open(cst_context *context, cst_evaluation *e, const cst_model *model) {
    bool checks = false;
    state *s = e->data;
    s->files = e->nested ? &s->train : &s->other;
    if (model)
        return CST_OK;
    cst_box_split_close(context, &s->other);
    CST_TRY(open_training(context, e, &checks));
    if (!e->nested) {
        CST_TRY(cst_box_split_open(context, e->pool, e->split, NULL, 0, true, &s->other));
        CST_TRY(cst_coco_same_categories(context, s->train.coco, s->other.coco));
        if (checks && !e->brief)
            CST_TRY(cst_box_check_scored(context, e->pool, e->split, &s->other));
    }
    e->checked = true;
    return CST_OK;
}

/* A split with some members, whose boxes are borrowed. */
static cst_status split_part(cst_context *context, const cst_box_split *whole, cst_evaluation *e,
                             cst_box_split *out) {
    *out = *whole;
    out->members = e->members;
    CST_TAKE(context, &e->scope, out->boxes, e->members);
    for (int32_t j = 0; whole->boxes && j < e->members; j++)
        out->boxes[j] = whole->boxes[e->positions[j]];
    return CST_OK;
}

static cst_status subset(cst_context *context, const cst_evaluation *e, cst_evaluation *out) {
    const state *whole = e->data;
    state *s = out->data;
    s->files = e->nested ? &s->train : &s->other;
    out->source = &s->training.source;
    CST_TRY(split_part(context, &whole->train, out, &s->train));
    CST_TRY(split_part(context, &whole->other, out, &s->other));
    CST_TRY(cst_box_training_part(context, &out->scope, &whole->training, &s->train, out->positions,
                                  out->members, &s->training));
    /* Clusters depend on the members, and so do the similarities. */
    return cst_evaluation_similarities(context, out);
}

static cst_status parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                        int32_t count, cst_entry *entry) {
    cst_detect_method *method = entry->method;
    cst_options *options = NULL;
    cst_detect_options detect;
    CST_TRY(
        cst_detect_method_parse(context, entry->name, e->options->seed, settings, count, method));
    if (method->rule != CST_BOX_RULE_LEARNERS) {
        entry->definition = method->definition;
        return CST_OK;
    }
    cst_entry_take_method(&method->rows, entry);
    if (!entry->preset)
        return CST_OK;
    /* Detection's own settings of a preset. */
    CST_TRY(
        cst_method_options(context, entry->preset, e->options->seed, settings, count, &options));
    cst_detect_options_read(options, &detect);
    cst_detect_adapt(&detect, entry->preset, &method->rows.settings);
    cst_options_free(context, options);
    return CST_OK;
}

static cst_status score(cst_context *context, const cst_evaluation *e, const cst_coco_boxes *boxes,
                        cst_entry *entry) {
    cst_detection_scores scores;
    scored *r = entry->result;
    CST_TRY(
        cst_ap_match(context, &entry->scope, state_of(e)->files->coco, boxes, true, &r->matches));
    if (e->brief)
        CST_TAKE(context, &entry->scope, r->by_category, r->matches.categories);
    CST_TRY(cst_ap_scores(context, &r->matches, NULL, &scores, r->by_category));
    r->detections = boxes->count;
    memcpy(entry->scores, &scores, sizeof scores);
    return CST_OK;
}

static cst_status take_fit(cst_context *context, const cst_evaluation *e, cst_detect_fit *fit,
                           cst_entry *entry) {
    memcpy(entry->uses, fit->uses, (size_t)e->members * sizeof *entry->uses);
    CST_TRY(cst_entry_take_weights(context, fit->weights, e->members, entry));
    entry->mix = entry->weights ? fit->rows.mix : CST_MIX_OTHER;
    entry->seconds = fit->seconds;
    if (fit->method.rule == CST_BOX_RULE_LEARNERS) {
        (void)cst_snprintf(entry->detail, sizeof entry->detail, "%.100s",
                           fit->method.rows.baseline ? fit->rows.baseline.detail : "");
        (void)cst_snprintf(entry->calibrator, sizeof entry->calibrator, "%.60s",
                           fit->rows.calibrator.detail);
    }
    if (!entry->keep)
        return CST_OK;
    CST_TRY(cst_detect_fit_model(context, fit, e->members, &entry->made));
    scored *r = entry->result;
    r->fit = *fit;
    *fit = (cst_detect_fit){0};
    CST_OWN(context, &entry->scope, cst_detect_fit, &r->fit);
    return CST_OK;
}

CST_OWNED(cst_coco_boxes)

static cst_status run_method(cst_context *context, const cst_evaluation *e, cst_entry *entry) {
    const state *s = e->data;
    uint64_t seed = e->options->seed;
    cst_detect_fit fit = {0};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_detect_fit, &fit);
    CST_TRY(cst_detect_fit_run(context, entry->method, &s->training, -1, seed, &fit));
    if (!e->unscored) {
        cst_coco_boxes *boxes = NULL;
        CST_TRY(e->nested ? cst_detect_nested(context, entry->method, &s->training, seed, &boxes)
                          : cst_detect_fit_predict(context, &fit, s->files, NULL, &boxes));
        CST_OWN(context, scope, cst_coco_boxes, boxes);
        CST_TRY(score(context, e, boxes, entry));
    }
    return take_fit(context, e, &fit, entry);
}

static cst_status run_model(cst_context *context, const cst_evaluation *e, const cst_model *model,
                            cst_entry *entry) {
    state *s = e->data;
    cst_coco_boxes *boxes = NULL;
    CST_SCOPE(scope);
    CST_TRY(cst_detection_predict(context, model, e->pool, e->split, true, CST_BEST_BOXES, 0,
                                  &s->other, &boxes));
    CST_OWN(context, scope, cst_coco_boxes, boxes);
    CST_TRY(cst_box_check_scored(context, e->pool, e->split, &s->other));
    return score(context, e, boxes, entry);
}

static cst_status run(cst_context *context, const cst_evaluation *e, const cst_model *model,
                      cst_entry *entry) {
    return model ? run_model(context, e, model, entry) : run_method(context, e, entry);
}

static cst_status label(cst_context *context, const cst_evaluation *e, const cst_options *options,
                        cst_entry *entry) {
    const state *s = e->data;
    cst_model *model = entry->made.model;
    const cst_detect_fit *fit = &result_of(entry)->fit;
    const cst_fused fused = {&fit->options, fit->rule, fit->fusion, fit->scoring};
    return cst_detect_label(context, e->pool, cst_evaluation_fitted(e), &s->train, &s->training,
                            options, entry->name, &fused, entry->made.kept, model);
}

static cst_status seen(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       bool *out) {
    const cst_coco *coco = state_of(e)->files->coco;
    CST_SCOPE(scope);
    int32_t *labels;
    CST_TRY(cst_detection_labels(context, scope, coco, &labels));
    *out = cst_seen_labels(context, e, model, labels, coco->count);
    return CST_OK;
}

/* Detections of the user's own for the images scored. */
static cst_status own(cst_context *context, const cst_evaluation *e,
                      const cst_own_predictions *given, cst_entry *entry) {
    cst_box_split files = {.coco = state_of(e)->files->coco, .members = 1};
    cst_coco_boxes *boxes = NULL;
    CST_SCOPE(scope);
    if (!given->path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "'%.80s': detections of your own come from a COCO results file, not from "
                        "an array",
                        given->name);
    const char *path = NULL;
    CST_TRY(cst_pool_own_file(context, scope, e->pool, e->split, given, &path));
    CST_TRY(cst_coco_read_boxes(context, &boxes, path, e->pool ? e->pool->zip_limit : 0, files.coco,
                                false));
    CST_OWN(context, scope, cst_coco_boxes, boxes);
    files.boxes = &boxes;
    CST_TRY(cst_box_check_scored(context, NULL, path, &files));
    return score(context, e, boxes, entry);
}

/* A file of detections and one of annotations. */
typedef struct box_files {
    const char *detections, *annotations;
} box_files;

static cst_status score_file(cst_context *context, cst_evaluation *e, cst_entry *entry,
                             const void *user) {
    const box_files *files = user;
    state *s = e->data;
    cst_coco_boxes *boxes = NULL;
    CST_SCOPE(scope);
    s->files = &s->other;
    s->start = cst_seconds();
    CST_TRY(cst_coco_read(context, &s->other.coco, files->annotations, 0, true));
    CST_TRY(cst_coco_read_boxes(context, &boxes, files->detections, 0, s->other.coco, false));
    CST_OWN(context, scope, cst_coco_boxes, boxes);
    s->other.seconds = cst_seconds() - s->start;
    if (boxes->count == 0)
        cst_notice(context, "%s has no boxes: is it the right file?", files->detections);
    CST_TRY(cst_box_check_scored(
        context, NULL, NULL,
        &(cst_box_split){.coco = s->other.coco, .members = 1, .boxes = &boxes}));
    return score(context, e, boxes, entry);
}

cst_status cst_evaluate_detections(cst_context *context, const char *detections,
                                   const char *annotations, int64_t resamples, uint64_t seed,
                                   cst_report **report) {
    return cst_evaluate_detections_against(context, detections, annotations, NULL, resamples, seed,
                                           report);
}

cst_status cst_evaluate_detections_against(cst_context *context, const char *detections,
                                           const char *annotations, const char *against,
                                           int64_t resamples_given, uint64_t seed,
                                           cst_report **report) {
    char name[CST_METHOD_NAME_CHARS];
    CST_CLEAR(report);
    CST_ENTER(context);
    CST_COUNT(context, resamples, resamples_given);
    CST_SEED(context, seed);
    CST_RESAMPLES(context, resamples);
    if (!detections || !annotations || !report)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_evaluate_detections: two paths and the report are required");
    const box_files files = {detections, annotations};
    const cst_own_predictions own = cst_own_file(against, name);
    return cst_why(context,
                   cst_run_alone(context, &cst_detection_ops, NULL, NULL, against ? &own : NULL,
                                 NULL, resamples, seed, score_file, &files, report));
}

static void put_size(cst_report *report, const cst_evaluation *e) {
    const cst_coco *coco = state_of(e)->files->coco;
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_I("samples", coco->images), CST_I("images", coco->images),
            CST_I("annotations", coco->count), CST_I("classes", coco->categories));
    cst_figures_definition(report, root);
}

static cst_status describe(cst_context *context, cst_part part, const cst_description *d) {
    const state *s = d->e->data;
    (void)context;
    if (part == CST_PART_SIZE)
        put_size(d->report, d->e);
    else if (part == CST_PART_ROW)
        cst_report_integer(d->report, d->object, "detections", result_of(d->entries)->detections);
    else if (part == CST_PART_OWN)
        put_categories(d->report, d->object, s->files->coco, result_of(d->entries)->by_category);
    else if (part == CST_PART_MORE && s->start > 0)
        CST_PUT(d->report, cst_report_object(d->report, d->object, "seconds"),
                CST_N("read", s->other.seconds), CST_N("total", cst_seconds() - s->start));
    return CST_OK;
}

static const char *const BASELINES[] = {"best-single", "average", "wbf", "nms", NULL};

const cst_task_ops cst_detection_ops = {
    .task = CST_TASK_DETECTION,
    .unit = "images",
    .tested = {"AP"},
    .baselines = BASELINES,
    .state_bytes = sizeof(state),
    .method_bytes = sizeof(cst_detect_method),
    .result_bytes = sizeof(scored),
    .release = release,
    .fit = cst_detection_fit,
    .inspect = cst_detection_inspect,
    .method_name = cst_detect_method_name,
    .definition = define_figure,
    .open = open,
    .subset = subset,
    .parse = parse,
    .run = run,
    .own = own,
    .label = label,
    .hash = cst_box_pool_hash,
    .seen = seen,
    .bootstrap = bootstrap,
    .describe = describe,
    .profile = &cst_profile_boxes,
};
