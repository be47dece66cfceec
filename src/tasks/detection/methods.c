/* Methods of detection: names, fit, prediction, nested prediction. See the header. */
#include "tasks/detection/detection.h"

#include "core/number.h"

#include <corestack/compare.h>
#include <string.h>

/* In the order of reports, before methods of rows. */
static const struct {
    const char *name;
    cst_box_rule rule;
    bool shared; /* other tasks have a method of this name, in a sense of their own */
    const char *definition;
} NATIVE[] = {
    {"best-single", CST_BOX_RULE_BEST, true,
     "the member with the highest AP on the images used for fitting; ties go to the first"},
    {"average", CST_BOX_RULE_MEAN, true,
     "clusters of boxes with the mean of all members' scores, 0 for members without a box"},
    {"wbf", CST_BOX_RULE_WBF, false,
     "weighted boxes fusion: clusters at IoU 0.55, score-weighted boxes, mean score times "
     "the fraction of models that agree"},
    {"nms", CST_BOX_RULE_NMS, false,
     "non-maximum suppression on all boxes: boxes with an IoU above 0.5 with a kept box of "
     "higher score are removed"},
    {"soft-nms", CST_BOX_RULE_SOFT_NMS, false,
     "soft NMS on all boxes: scores are multiplied by exp(-IoU^2 / 0.5) for each "
     "higher-scoring box"},
    {"soft-nms-linear", CST_BOX_RULE_SOFT_NMS_LINEAR, false,
     "soft NMS on all boxes: scores are multiplied by 1 - IoU for each higher-scoring box "
     "with an IoU above 0.3"},
};
enum { NATIVE_COUNT = sizeof NATIVE / sizeof NATIVE[0] };

static int find_native(const char *name) {
    for (int i = 0; i < NATIVE_COUNT; i++)
        if (strcmp(NATIVE[i].name, name) == 0)
            return i;
    return -1;
}

const char *cst_detection_method_name(size_t index) {
    for (int i = 0; i < NATIVE_COUNT; i++)
        if (!NATIVE[i].shared && index-- == 0)
            return NATIVE[i].name;
    return NULL;
}

const char *cst_detection_method_describe(const char *name) {
    int native = name ? find_native(name) : -1;
    return native < 0 || NATIVE[native].shared ? NULL : NATIVE[native].definition;
}

const char *cst_detect_method_name(size_t index) {
    if (index < NATIVE_COUNT)
        return NATIVE[index].name;
    index -= NATIVE_COUNT;
    for (size_t i = 0; cst_method_name(i); i++) {
        if (find_native(cst_method_name(i)) >= 0)
            continue;
        if (index-- == 0)
            return cst_method_name(i);
    }
    return NULL;
}

cst_status cst_detect_method_parse(cst_context *context, const char *text, uint64_t seed,
                                   const char *const *settings, int32_t setting_count,
                                   cst_detect_method *out) {
    *out = (cst_detect_method){0};
    int native = find_native(text);
    if (native >= 0) {
        out->rule = NATIVE[native].rule;
        out->definition = NATIVE[native].definition;
        return CST_OK;
    }
    cst_status status = cst_method_parse(context, text, seed, settings, setting_count, &out->rows);
    if (status == CST_OK)
        return CST_OK;
    char why[1024];
    (void)cst_snprintf(why, sizeof why, "%s", cst_last_error(context));
    return cst_fail(context, status,
                    "%s; for detections also wbf, nms, soft-nms and soft-nms-linear", why);
}

/* The member whose own file has the highest AP on the images of the fit. */
static cst_status choose_best(cst_context *context, const cst_box_training *t, int32_t fold,
                              cst_detect_fit *out) {
    const cst_box_split *split = t->split;
    CST_SCOPE(scope);
    double best = -2;
    CST_NEW(context, scope, int32_t, times, split->coco->images);
    for (int32_t i = 0; i < split->coco->images; i++)
        times[i] = fold < 0 || t->image_folds[i] != fold;
    for (int32_t k = 0; k < split->members; k++) {
        CST_SCOPE(own);
        cst_ap_matches matches;
        cst_detection_scores scores;
        double *scratch;
        CST_TRY(cst_ap_match(context, own, split->coco, split->boxes[k], &matches));
        CST_TAKE(context, own, scratch, cst_ap_scratch(&matches));
        cst_ap_main_scores(&matches, times, scratch, &scores);
        if (scores.ap > best) {
            best = scores.ap;
            out->best = k;
        }
    }
    out->uses[out->best] = true;
    return CST_OK;
}

/* A member's weight in a mix, or in the blend's linear and log-linear learners. */
static void stack_weights(const cst_method_fit *fit, double *out) {
    const cst_model *model = fit->method.baseline ? NULL : fit->stages.fit.model;
    for (int32_t k = 0; k < fit->members; k++)
        out[k] = fit->weights ? fit->weights[k] : fit->uses[k];
    if (fit->weights || !model)
        return;
    for (int32_t j = 0; j < fit->stages.kept_count; j++) {
        double sum = 0;
        for (int32_t m = 0; m < model->learners; m++)
            sum += model->learner[m].blend * model->learner[m].weights[j];
        out[fit->stages.kept[j]] = sum;
    }
}

/* One fit on the rows of `t` without a fold, of the members [count] or (NULL) all. */
static cst_status fit_once(cst_context *context, const cst_method *method,
                           const cst_box_training *t, int32_t fold, uint64_t seed,
                           const int32_t *members, int32_t count, cst_method_fit *out) {
    cst_fold_rows rows = {.inside = t->source}; /* all of them */
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, members ? count : 0);
    if (fold >= 0)
        CST_TRY(cst_fold_rows_make(context, scope, &t->source, fold, seed, &rows));
    cst_view all = rows.inside.view;
    if (members)
        rows.inside.view = cst_view_members(&all, members, count, pointers);
    return cst_method_fit_run(context, method, &rows.inside, seed, out);
}

/* The learners of `from`, fitted on the kept members alone, in place of those of `to`. */
static cst_status take_learners(cst_context *context, cst_method_fit *from, cst_method_fit *to) {
    cst_meta_fit_free(context, &to->stages.fit);
    cst_calibrator_free(context, &to->calibrator);
    to->stages.fit = from->stages.fit;
    to->calibrator = from->calibrator;
    to->mix = from->mix;
    from->stages.fit = (cst_meta_fit){0};
    from->calibrator = (cst_calibrator){0};
    to->weights = NULL;
    if (!from->weights)
        return CST_OK;
    CST_TAKE(context, &to->scope, to->weights, to->members);
    for (int32_t j = 0; j < to->stages.kept_count; j++)
        to->weights[to->stages.kept[j]] = from->weights[j];
    return CST_OK;
}

/* Learners are fitted again on clusters of the kept members' boxes, `narrow`. */
CST_OWNED(cst_method_fit)

static cst_status refit_kept(cst_context *context, cst_scope *scope, const cst_box_training *t,
                             int32_t fold, uint64_t seed, cst_method_fit *fit,
                             cst_box_training *narrow) {
    cst_method method = fit->method;
    cst_settings *s = &method.settings;
    cst_method_fit again = {0};
    s->measure = CST_MEASURE_NONE;
    s->select = false;
    s->drop = false;
    s->keep_max = 0;
    s->keep_fraction = 0;
    s->limits = (cst_limits){0};
    s->front = false;
    CST_SCOPE(own);
    CST_TRY(cst_box_training_part(context, scope, t, t->split, fit->uses, NULL,
                                  t->source.view.members, narrow));
    CST_OWN(context, own, cst_method_fit, &again);
    CST_TRY(fit_once(context, &method, narrow, fold, seed, fit->stages.kept, fit->stages.kept_count,
                     &again));
    return take_learners(context, &again, fit);
}

static cst_status fit_rows(cst_context *context, const cst_box_training *t, int32_t fold,
                           uint64_t seed, cst_detect_fit *out) {
    CST_SCOPE(scope);
    cst_box_training narrow = {0};
    bool preset = !out->method.rows.baseline;
    int32_t members = t->rows.members;
    CST_TRY(fit_once(context, &out->method.rows, t, fold, seed, NULL, 0, &out->rows));
    bool fewer = preset && out->rows.stages.kept_count < out->rows.members;
    if (fewer)
        CST_TRY(refit_kept(context, scope, t, fold, seed, &out->rows, &narrow));
    CST_NEW(context, scope, double, stack, members);
    stack_weights(&out->rows, stack);
    /* Baselines fuse as they weigh; the presets as the option says. */
    cst_box_weights rule = preset ? t->options.box_weights : CST_BOX_WEIGHTS_STACK;
    CST_TRY(cst_box_weights_fit(context, fewer ? &narrow : t, fold, rule, out->rows.uses, stack,
                                out->fusion));
    memcpy(out->uses, out->rows.uses, (size_t)members * sizeof *out->uses);
    out->weights = out->rows.weights;
    return CST_OK;
}

cst_status cst_detect_fit_run(cst_context *context, const cst_detect_method *method,
                              const cst_box_training *training, int32_t fold, uint64_t seed,
                              cst_detect_fit *out) {
    double start = cst_seconds();
    size_t members = (size_t)training->rows.members;
    size_t categories = (size_t)training->rows.clusters.categories;
    *out = (cst_detect_fit){.method = *method};
    CST_TAKE(context, &out->scope, out->uses, members);
    if (method->rule == CST_BOX_RULE_LEARNERS) {
        CST_TAKE(context, &out->scope, out->fusion, members * categories);
        CST_TRY(fit_rows(context, training, fold, seed, out));
    } else if (method->rule == CST_BOX_RULE_BEST) {
        CST_TRY(choose_best(context, training, fold, out));
    } else {
        memset(out->uses, true, members * sizeof *out->uses);
    }
    if (method->rule == CST_BOX_RULE_BEST || method->rule == CST_BOX_RULE_MEAN) {
        CST_TAKE(context, &out->scope, out->weights, members);
        for (size_t k = 0; k < members; k++)
            out->weights[k] =
                method->rule == CST_BOX_RULE_BEST ? out->uses[k] : 1.0 / (double)members;
    }
    out->seconds = cst_seconds() - start;
    return CST_OK;
}

void cst_detect_fit_free(cst_context *context, cst_detect_fit *fit) {
    cst_method_fit_free(context, &fit->rows);
    cst_scope_free(&fit->scope);
    *fit = (cst_detect_fit){0};
}

/* A rule for boxes weighs its members alike: a mixture, of whose scores only the rule is used. */
cst_status cst_detect_fit_model(cst_context *context, cst_detect_fit *fit, int32_t members,
                                cst_made_model *out) {
    int32_t count = 0;
    CST_SCOPE(scope);
    *out = (cst_made_model){0};
    if (fit->method.rule == CST_BOX_RULE_LEARNERS)
        return cst_method_fit_model(context, &fit->rows, out);
    CST_NEW(context, scope, double, weights, members);
    cst_status status = cst_members_used(context, fit->uses, members, &out->kept, &count);
    for (int32_t k = 0; k < members; k++)
        weights[k] = 1.0 / (double)count;
    cst_baseline_fit mean = {.baseline = cst_baseline_find("average"),
                             .members = members,
                             .classes = 2,
                             .weights = weights};
    CST_THEN(cst_baseline_fit_model(context, &mean, out->kept, count, &out->model));
    if (status != CST_OK)
        cst_made_model_free(context, out);
    return status;
}

static cst_status predict_clusters(cst_context *context, const cst_detect_fit *fit,
                                   const cst_cluster_options *options, const cst_box_split *split,
                                   const bool *images, cst_coco_boxes **out) {
    CST_SCOPE(scope);
    cst_box_rows rows;
    CST_TRY(cst_box_rows_make(context, scope, split, options, fit->uses, images, &rows));
    CST_NEW(context, scope, float, scores, 2 * rows.clusters.rows);
    cst_view view = cst_box_rows_view(&rows);
    if (fit->method.rule == CST_BOX_RULE_MEAN)
        for (int64_t i = 0; i < rows.clusters.rows; i++)
            scores[2 * i + 1] = (float)cst_cluster_mean(&rows.clusters, i);
    else if (rows.clusters.rows > 0)
        CST_TRY(cst_method_fit_predict(context, &fit->rows, &view, scores));
    return cst_cluster_boxes(context, &rows.clusters, split->coco, fit->fusion, scores + 1, 2, out);
}

cst_status cst_detect_fit_predict(cst_context *context, const cst_detect_fit *fit,
                                  const cst_cluster_options *options, const cst_box_split *split,
                                  const bool *images, cst_coco_boxes **out) {
    cst_box_rule rule = fit->method.rule;
    bool best = rule == CST_BOX_RULE_BEST;
    *out = NULL;
    return rule == CST_BOX_RULE_LEARNERS || rule == CST_BOX_RULE_MEAN
               ? predict_clusters(context, fit, options, split, images, out)
               : cst_suppress(context, split->coco,
                              (const cst_coco_boxes *const *)split->boxes + (best ? fit->best : 0),
                              best ? 1 : split->members, rule, images, out);
}

typedef struct nested_job {
    const cst_detect_method *method;
    const cst_box_training *training;
    uint64_t seed;
    cst_coco_boxes **parts; /* [folds] */
} nested_job;

/* Folds are of images, so rows of the training do not say all. */
static cst_status nested_task(cst_context *context, void *user, int64_t task) {
    const nested_job *job = user;
    const cst_box_training *t = job->training;
    int32_t fold = (int32_t)task;
    CST_SCOPE(scope);
    cst_detect_fit fit = {0};
    CST_NEW(context, scope, bool, images, t->split->coco->images);
    for (int32_t i = 0; i < t->split->coco->images; i++)
        images[i] = t->image_folds[i] == fold;
    CST_OWN(context, scope, cst_detect_fit, &fit);
    CST_TRY(cst_detect_fit_run(context, job->method, t, fold, job->seed, &fit));
    return cst_detect_fit_predict(context, &fit, &t->options.clusters, t->split, images,
                                  &job->parts[fold]);
}

static cst_status join_parts(cst_context *context, const cst_box_split *split,
                             cst_coco_boxes *const *parts, int32_t count, cst_coco_boxes **out) {
    int64_t all = 0;
    for (int32_t f = 0; f < count; f++)
        all += parts[f]->count;
    cst_coco_box *box = cst_alloc(context, (size_t)all, sizeof *box);
    if (!box)
        return CST_ERROR_MEMORY;
    all = 0;
    for (int32_t f = 0; f < count; f++) {
        memcpy(box + all, parts[f]->box, (size_t)parts[f]->count * sizeof *box);
        all += parts[f]->count;
    }
    return cst_coco_boxes_take(context, out, box, all, split->coco->images,
                               split->coco->categories);
}

cst_status cst_detect_nested(cst_context *context, const cst_detect_method *method,
                             const cst_box_training *training, uint64_t seed,
                             cst_coco_boxes **out) {
    int32_t folds = training->source.fold_count;
    nested_job job = {.method = method, .training = training, .seed = seed};
    CST_SCOPE(scope);
    *out = NULL;
    CST_TAKE(context, scope, job.parts, folds);
    cst_status status = cst_parallel_for(context, folds, nested_task, &job);
    CST_THEN(join_parts(context, training->split, job.parts, folds, out));
    for (int32_t f = 0; f < folds; f++)
        cst_coco_boxes_free(context, job.parts[f]);
    return status;
}
