/* Methods of detection: names, fit, prediction, nested prediction. See the header. */
#include "tasks/detection/detection.h"

#include "core/number.h"

#include <corestack/compare.h>
#include <math.h>
#include <string.h>

/* In the order of reports, before methods of rows. */
static const struct {
    const char *name;
    cst_box_rule rule;
    bool shared; /* other tasks have a method of this name, in a sense of their own */
    bool tuned;
    const char *definition;
} NATIVE[] = {
    {"best-single", CST_BOX_RULE_BEST, true, false,
     "the member with the highest AP on the images used for fitting; ties go to the first"},
    {"average", CST_BOX_RULE_MEAN, true, false,
     "clusters of boxes with the mean of all members' scores, 0 for members without a box"},
    {"wbf", CST_BOX_RULE_WBF, false, false,
     "weighted boxes fusion: clusters at IoU 0.55, score-weighted boxes, mean score times "
     "the fraction of models that agree"},
    {"wbf-tuned", CST_BOX_RULE_MEAN, false, true,
     "weighted boxes fusion of scores calibrated by isotonic regression for each member, with the "
     "IoU and the members' weights of the highest AP on the images used for fitting"},
    {"nms", CST_BOX_RULE_NMS, false, false,
     "non-maximum suppression on all boxes: boxes with an IoU above 0.5 with a kept box of "
     "higher score are removed"},
    {"soft-nms", CST_BOX_RULE_SOFT_NMS, false, false,
     "soft NMS on all boxes: scores are multiplied by exp(-IoU^2 / 0.5) for each "
     "higher-scoring box"},
    {"soft-nms-linear", CST_BOX_RULE_SOFT_NMS_LINEAR, false, false,
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
        out->tuned = NATIVE[native].tuned;
        out->definition = NATIVE[native].definition;
        return CST_OK;
    }
    cst_status status = cst_method_parse(context, text, seed, settings, setting_count, &out->rows);
    if (status == CST_OK)
        return CST_OK;
    char why[1024];
    (void)cst_snprintf(why, sizeof why, "%s", cst_last_error(context));
    return cst_fail(context, status,
                    "%s; for detections also wbf, wbf-tuned, nms, soft-nms and soft-nms-linear",
                    why);
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
        CST_TRY(cst_ap_match(context, own, split->coco, split->boxes[k], false, &matches));
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
                             int32_t fold, const bool *images, uint64_t seed, cst_method_fit *fit,
                             cst_box_scoring *scoring, cst_box_training *narrow) {
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
    CST_TRY(cst_box_training_again(context, scope, t, &t->options.clusters, fit->uses, images, seed,
                                   narrow));
    if (scoring) {
        cst_box_scoring_absent(narrow, scoring);
        cst_box_rows_absent(&narrow->rows, scoring->absent);
    }
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
        CST_TRY(refit_kept(context, scope, t, fold, NULL, seed, &out->rows, NULL, &narrow));
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

enum { PART_BOXES = 200000 };

cst_status cst_boxes_by_parts(cst_context *context, const cst_box_split *split, const bool *images,
                              int64_t most, double least, cst_part_boxes_fn make, const void *user,
                              cst_coco_boxes **out) {
    int32_t count = split->coco->images;
    int32_t made = 0;
    cst_status status = CST_OK;
    CST_SCOPE(scope);
    *out = NULL;
    CST_NEW(context, scope, bool, part, count);
    CST_NEW(context, scope, cst_coco_boxes *, parts, (count > 0 ? count : 1));
    for (int32_t from = 0, end = 0; status == CST_OK && (from < count || made == 0); from = end) {
        int64_t boxes = 0;
        memset(part, 0, (size_t)count * sizeof *part);
        for (; end < count && (end == from || boxes < PART_BOXES); end++) {
            part[end] = !images || images[end];
            for (int32_t k = 0; part[end] && k < split->members; k++)
                boxes += split->boxes[k]->first[end + 1] - split->boxes[k]->first[end];
        }
        status = make(context, user, part, &parts[made]);
        CST_THEN(cst_coco_boxes_best(context, parts[made], count, most, least));
        made++;
    }
    CST_THEN(join_parts(context, split, parts, made, out));
    for (int32_t p = 0; p < made; p++)
        cst_coco_boxes_free(context, parts[p]);
    return status;
}

/* ---- presets that choose by average precision ---- */

/* Calibrated scores, and clusters of them at the IoU that suits them. */
static cst_status begin_choice(cst_context *context, const cst_box_training *t, const bool *uses,
                               const bool *images, cst_detect_fit *out, cst_box_judge *judge) {
    CST_TRY(cst_box_scoring_fit(context, &out->scope, t->split, images, t->options.target_iou,
                                &out->scoring));
    *judge = (cst_box_judge){.split = t->split, .images = images, .options = t->options.clusters};
    CST_TRY(cst_box_choose_maps(context, judge, uses, out->scoring));
    if (!t->options.iou_given)
        CST_TRY(cst_box_choose_iou(context, judge, uses));
    out->options = judge->options;
    return CST_OK;
}

/* The mean score becomes a probability, so that scores of two fits are comparable. */
static cst_status learn_mean(cst_context *context, const cst_box_training *t, const bool *uses,
                             const bool *images, cst_detect_fit *out) {
    cst_box_training rows;
    CST_SCOPE(scope);
    out->rule = CST_BOX_RULE_MEAN;
    out->options.map = out->scoring->map;
    CST_TRY(cst_box_training_again(context, scope, t, &out->options, uses, images, 0, &rows));
    return cst_box_scoring_learn(context, &rows, uses, NULL, out->scoring);
}

/* Weighted boxes fusion with weights by AP, of boxes and scores alike. */
static cst_status fit_tuned(cst_context *context, const cst_box_training *t, const bool *uses,
                            const bool *images, cst_detect_fit *out) {
    size_t cells = (size_t)t->split->coco->categories * (size_t)t->split->members;
    cst_box_judge judge;
    cst_box_rows rows;
    CST_SCOPE(scope);
    CST_TAKE(context, &out->scope, out->fusion, cells);
    for (size_t i = 0; i < cells; i++)
        out->fusion[i] = uses[i % (size_t)t->split->members];
    memcpy(out->uses, uses, (size_t)t->split->members * sizeof *uses);
    CST_TRY(begin_choice(context, t, uses, images, out, &judge));
    CST_TRY(cst_box_rows_make(context, scope, t->split, &judge.options, uses, images, &rows));
    CST_TRY(cst_box_choose_weights(context, &judge, &rows, uses, NULL, out->scoring->share,
                                   out->fusion));
    return learn_mean(context, t, uses, images, out);
}

/* Equal weights of boxes and scores as they are. */
static cst_status fit_equal(cst_context *context, const cst_box_training *t, const bool *uses,
                            const bool *images, cst_detect_fit *out) {
    size_t members = (size_t)t->split->members;
    CST_TRY(cst_box_scoring_fit(context, &out->scope, t->split, images, t->options.target_iou,
                                &out->scoring));
    cst_box_scoring_plain(out->scoring, t->split->members);
    memcpy(out->uses, uses, members * sizeof *uses);
    out->fusion = NULL;
    out->options = t->options.clusters;
    return learn_mean(context, t, uses, images, out);
}

/* The stack on calibrated scores, of members selected by AP, and boxes with weights by AP. */
static cst_status fit_learned(cst_context *context, const cst_box_training *t, const bool *images,
                              uint64_t seed, cst_detect_fit *out) {
    size_t members = (size_t)t->split->members;
    size_t cells = (size_t)t->split->coco->categories * members;
    cst_method method = out->method.rows;
    cst_box_judge judge;
    cst_box_training all;
    cst_box_training narrow = {0};
    const cst_chooser chooser = {cst_box_choose, &judge, "1 - AP"};
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, every, members);
    memset(every, true, members);
    CST_TAKE(context, &out->scope, out->fusion, cells);
    CST_TRY(begin_choice(context, t, every, images, out, &judge));
    CST_TRY(cst_box_training_again(context, scope, t, &judge.options, NULL, images, seed, &all));
    cst_box_scoring_absent(&all, out->scoring);
    cst_box_rows_absent(&all.rows, out->scoring->absent);
    CST_TRY(
        cst_box_weights_fit(context, &all, -1, t->options.box_weights, every, NULL, out->fusion));
    judge.fusion = out->fusion;
    method.settings.selection.chooser = &chooser;
    CST_TRY(fit_once(context, &method, &all, -1, seed, NULL, 0, &out->rows));
    out->rows.method.settings.selection.chooser = NULL;
    bool fewer = out->rows.stages.kept_count < out->rows.members;
    if (fewer)
        CST_TRY(
            refit_kept(context, scope, &all, -1, images, seed, &out->rows, out->scoring, &narrow));
    const cst_box_training *last = fewer ? &narrow : &all;
    memcpy(out->uses, out->rows.uses, members * sizeof *out->uses);
    CST_NEW(context, scope, double, stack, members);
    CST_NEW(context, scope, float, scores, 2 * last->rows.clusters.rows);
    stack_weights(&out->rows, stack);
    CST_TRY(cst_box_weights_fit(context, last, -1, t->options.box_weights, out->uses, stack,
                                out->fusion));
    cst_view view = cst_box_rows_view(&last->rows);
    CST_TRY(cst_method_fit_predict(context, &out->rows, &view, scores));
    CST_TRY(cst_box_scoring_learn(context, last, out->uses, scores, out->scoring));
    cst_box_scoring_rows(out->scoring, &last->rows, out->uses, scores);
    out->rule = CST_BOX_RULE_LEARNERS;
    return t->options.box_weights == CST_BOX_WEIGHTS_PRECISION
               ? cst_box_choose_weights(context, &judge, &last->rows, out->uses, scores, NULL,
                                        out->fusion)
               : CST_OK;
}

/* What predicts the images outside a half: 0 the stack, 1 equal weights, 2 tuned ones. */
enum { KINDS = 3 };

static cst_status predict_half(cst_context *context, const cst_box_training *t, int kind,
                               const bool *uses, const bool *in, const bool *out_of, uint64_t seed,
                               const cst_detect_method *method, cst_coco_boxes **boxes) {
    cst_detect_fit fit = {
        .method = *method, .options = t->options.clusters, .rule = CST_BOX_RULE_MEAN};
    fit.method.rows.settings.measure = CST_MEASURE_NONE; /* copies do no harm here */
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_detect_fit, &fit);
    CST_TAKE(context, &fit.scope, fit.uses, t->split->members);
    if (kind == 0)
        CST_TRY(fit_learned(context, t, in, seed, &fit));
    else if (kind == 1)
        CST_TRY(fit_equal(context, t, uses, in, &fit));
    else
        CST_TRY(fit_tuned(context, t, uses, in, &fit));
    return cst_detect_fit_predict(context, &fit, t->split, out_of, boxes);
}

/* 1 - AP of each kind on images of halves by fits on the other half, [KINDS][CST_AP_PARTS]. */
static cst_status judge_kinds(cst_context *context, const cst_box_training *t, const bool *uses,
                              const bool *images, uint64_t seed, const cst_detect_method *method,
                              double *loss) {
    int32_t count = t->split->coco->images;
    cst_box_judge judge = {.split = t->split, .images = images};
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, half, 2 * count);
    for (int32_t i = 0, seen = 0; i < count; i++)
        if (images[i])
            half[(seen++ % 2) * count + i] = true;
    for (int kind = 0; kind < KINDS; kind++) {
        cst_coco_boxes *parts[2] = {0};
        cst_coco_boxes *boxes = NULL;
        cst_status status = CST_OK;
        for (int h = 0; h < 2; h++)
            CST_THEN(predict_half(context, t, kind, uses, half + h * count, half + (1 - h) * count,
                                  seed, method, &parts[h]));
        CST_THEN(join_parts(context, t->split, parts, 2, &boxes));
        CST_THEN(cst_box_judge_boxes(context, &judge, boxes, INFINITY, loss + kind * CST_AP_PARTS));
        for (int h = 0; h < 2; h++)
            cst_coco_boxes_free(context, parts[h]);
        cst_coco_boxes_free(context, boxes);
        CST_TRY(status);
    }
    return CST_OK;
}

/* The stack stays unless equal or tuned weights have a higher AP by more than the error. */
static cst_status accept(cst_context *context, const cst_box_training *t, const bool *images,
                         uint64_t seed, cst_detect_fit *out) {
    double loss[KINDS * CST_AP_PARTS];
    cst_status status = judge_kinds(context, t, out->uses, images, seed, &out->method, loss);
    if (status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC) /* too few images to halve */
        return CST_OK;
    CST_TRY(status);
    for (int kind = 0; kind < KINDS; kind++) {
        out->ap[kind] = 1;
        for (int b = 0; b < CST_AP_PARTS; b++)
            out->ap[kind] -= loss[kind * CST_AP_PARTS + b] / CST_AP_PARTS;
    }
    int best = 0;
    for (int kind = 1; kind < KINDS; kind++)
        if (cst_box_is_better(loss + kind * CST_AP_PARTS, loss + best * CST_AP_PARTS))
            best = kind;
    if (best == 0)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, uses, t->split->members);
    memcpy(uses, out->uses, (size_t)t->split->members * sizeof *uses);
    return best == 2 ? fit_tuned(context, t, uses, images, out)
                     : fit_equal(context, t, uses, images, out);
}

/* Members that were selected and of whose clusters all are right leave nothing to learn: equal
 * weights, and the mean score as it is. */
static cst_status fit_flawless(cst_context *context, const cst_box_training *t, const bool *images,
                               cst_detect_fit *out) {
    cst_status status = fit_equal(context, t, out->rows.uses, images, out);
    return status == CST_ERROR_INPUT && out->rule == CST_BOX_RULE_MEAN ? CST_OK : status;
}

static bool chooses(const cst_detect_method *method) {
    const char *preset = method->rows.preset;
    return method->tuned || (method->rule == CST_BOX_RULE_LEARNERS && preset &&
                             strcmp(preset, "paper") != 0 && strcmp(preset, "prototype") != 0);
}

/* On the images of the sample without a fold. */
static cst_status choose(cst_context *context, const cst_box_training *t, int32_t fold,
                         uint64_t seed, cst_detect_fit *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, images, t->split->coco->images);
    CST_NEW(context, scope, bool, every, t->split->members);
    memset(every, true, (size_t)t->split->members);
    for (int32_t i = 0; i < t->split->coco->images; i++)
        images[i] = t->sample[i] && (fold < 0 || t->image_folds[i] != fold);
    if (out->method.tuned)
        return fit_tuned(context, t, every, images, out);
    cst_status status = fit_learned(context, t, images, seed, out);
    if (status == CST_ERROR_INPUT && out->rows.uses)
        return fit_flawless(context, t, images, out);
    CST_TRY(status);
    return accept(context, t, images, seed, out);
}

cst_status cst_detect_fit_run(cst_context *context, const cst_detect_method *method,
                              const cst_box_training *training, int32_t fold, uint64_t seed,
                              cst_detect_fit *out) {
    double start = cst_seconds();
    size_t members = (size_t)training->rows.members;
    size_t categories = (size_t)training->rows.clusters.categories;
    *out = (cst_detect_fit){.method = *method,
                            .rule = method->rule,
                            .options = training->options.clusters,
                            .ap = {NAN, NAN, NAN}};
    CST_TAKE(context, &out->scope, out->uses, members);
    if (chooses(method)) {
        CST_TRY(choose(context, training, fold, seed, out));
    } else if (method->rule == CST_BOX_RULE_LEARNERS) {
        CST_TAKE(context, &out->scope, out->fusion, members * categories);
        CST_TRY(fit_rows(context, training, fold, seed, out));
    } else if (method->rule == CST_BOX_RULE_BEST) {
        CST_TRY(choose_best(context, training, fold, out));
    } else {
        memset(out->uses, true, members * sizeof *out->uses);
    }
    if (out->rule == CST_BOX_RULE_BEST || out->rule == CST_BOX_RULE_MEAN) {
        double sum = 0;
        CST_TAKE(context, &out->scope, out->weights, members);
        for (size_t k = 0; k < members; k++) {
            out->weights[k] = out->uses[k] ? out->scoring ? out->scoring->share[k] : 1 : 0;
            sum += out->weights[k];
        }
        for (size_t k = 0; k < members; k++)
            out->weights[k] /= sum;
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

typedef struct cluster_job {
    const cst_detect_fit *fit;
    const cst_box_split *split;
} cluster_job;

static cst_status predict_clusters(cst_context *context, const void *user, const bool *images,
                                   cst_coco_boxes **out) {
    const cst_detect_fit *fit = ((const cluster_job *)user)->fit;
    const cst_box_split *split = ((const cluster_job *)user)->split;
    CST_SCOPE(scope);
    cst_box_rows rows;
    CST_TRY(cst_box_rows_make(context, scope, split, &fit->options, fit->uses, images, &rows));
    CST_NEW(context, scope, float, scores, 2 * rows.clusters.rows);
    bool stacked = fit->rule == CST_BOX_RULE_LEARNERS;
    cst_view view = cst_box_rows_view(&rows);
    if (fit->scoring && stacked)
        cst_box_rows_absent(&rows, fit->scoring->absent);
    if (stacked && rows.clusters.rows > 0)
        CST_TRY(cst_method_fit_predict(context, &fit->rows, &view, scores));
    for (int64_t i = 0; !stacked && i < rows.clusters.rows; i++)
        scores[2 * i + 1] = (float)cst_cluster_mean(&rows.clusters, i);
    if (fit->scoring)
        cst_box_scoring_rows(fit->scoring, &rows, fit->uses, scores);
    return cst_cluster_boxes(context, &rows.clusters, split->coco, fit->fusion, scores + 1, 2, out);
}

cst_status cst_detect_fit_predict(cst_context *context, const cst_detect_fit *fit,
                                  const cst_box_split *split, const bool *images,
                                  cst_coco_boxes **out) {
    const cluster_job job = {fit, split};
    bool best = fit->rule == CST_BOX_RULE_BEST;
    if (fit->rule == CST_BOX_RULE_LEARNERS || fit->rule == CST_BOX_RULE_MEAN)
        return cst_boxes_by_parts(context, split, images, CST_BEST_BOXES, 0, predict_clusters, &job,
                                  out);
    *out = NULL;
    CST_TRY(cst_suppress(context, split->coco,
                         (const cst_coco_boxes *const *)split->boxes + (best ? fit->best : 0),
                         best ? 1 : split->members, fit->rule, images, out));
    return cst_coco_boxes_best(context, *out, split->coco->images, CST_BEST_BOXES, 0);
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
    return cst_detect_fit_predict(context, &fit, t->split, images, &job->parts[fold]);
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
