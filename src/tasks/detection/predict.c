/* A fitted stack's boxes for a split. docs/detection.md#the-stack. */
#include "model/absent.h"
#include "tasks/detection/detection.h"

#include <inttypes.h>
#include <string.h>

static cst_status check_categories(cst_context *context, const cst_fusion *fusion,
                                   const cst_coco *coco) {
    for (int32_t c = 0; c < fusion->categories && c < coco->categories; c++) {
        const char *ours = fusion->category_name[c];
        const char *theirs = coco->category_name[c];
        if (fusion->category_id[c] != coco->category_id[c])
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "%s has category id %" PRId64 ", but the model has %" PRId64
                            "; both files need the same categories",
                            coco->path, coco->category_id[c], fusion->category_id[c]);
        if (ours && theirs && strcmp(ours, theirs) != 0)
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "%s calls category %" PRId64
                            " '%.60s', but the model '%.60s'; both need the same categories",
                            coco->path, coco->category_id[c], theirs, ours);
    }
    if (fusion->categories != coco->categories)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s has %" PRId32 " categories, but the model has %" PRId32, coco->path,
                        coco->categories, fusion->categories);
    return CST_OK;
}

static cst_status match_members(cst_context *context, const cst_model *model, const cst_pool *pool,
                                int32_t *positions) {
    for (int32_t k = 0; k < model->members; k++) {
        positions[k] = cst_pool_member_index(pool, model->member_names[k]);
        if (positions[k] < 0)
            return cst_fail(
                context, CST_ERROR_MISMATCH,
                "the model needs member '%s', which is not in the pool; predict without it "
                "with --missing allow",
                model->member_names[k]);
    }
    return CST_OK;
}

/* The scoring of a model by positions of the pool, [members]. */
static cst_status spread(cst_context *context, cst_scope *scope, const cst_box_scoring *from,
                         int32_t count, const int32_t *positions, size_t members,
                         cst_box_scoring *out) {
    *out = *from;
    CST_TAKE(context, scope, out->map, members);
    CST_TAKE(context, scope, out->absent, members);
    CST_TAKE(context, scope, out->share, members);
    for (int32_t j = 0; j < count; j++) {
        out->map[positions[j]] = from->map[j];
        out->absent[positions[j]] = from->absent[j];
        out->share[positions[j]] = from->share[j];
    }
    return CST_OK;
}

/* Scores of the clusters and their fused boxes. positions: of the model's members in the pool. */
static cst_status predict_rows(cst_context *context, const cst_model *model,
                               const cst_box_split *split, const int32_t *positions,
                               cst_box_rows *rows, cst_coco_boxes **out) {
    const cst_fusion *fusion = model->fusion;
    size_t members = (size_t)split->members;
    int64_t count = rows->clusters.rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scores, 2 * count);
    CST_NEW(context, scope, double, weights, ((size_t)fusion->categories * members));
    CST_NEW(context, scope, const float *, pointers, model->members);
    for (int32_t c = 0; c < fusion->categories; c++)
        for (int32_t k = 0; k < model->members; k++)
            weights[(size_t)c * members + (size_t)positions[k]] =
                fusion->weights[(size_t)c * (size_t)model->members + (size_t)k];
    bool stacked = fusion->rule == CST_BOX_RULE_LEARNERS;
    cst_box_scoring scoring;
    CST_NEW(context, scope, bool, uses, members);
    for (int32_t k = 0; k < model->members; k++)
        uses[positions[k]] = true;
    if (fusion->scoring) {
        CST_TRY(
            spread(context, scope, fusion->scoring, model->members, positions, members, &scoring));
        if (stacked)
            cst_box_rows_absent(rows, scoring.absent);
    }
    cst_view view = cst_box_rows_view(rows);
    cst_view kept = cst_view_members(&view, positions, model->members, pointers);
    for (int64_t i = 0; !stacked && i < count; i++)
        scores[2 * i + 1] = (float)(cst_cluster_mean(&rows->clusters, i) * (double)members /
                                    (double)model->members);
    if (count > 0 && stacked)
        CST_TRY(cst_stack_predict_reported(context, model, &kept, scores));
    if (fusion->scoring)
        cst_box_scoring_rows(&scoring, rows, uses, scores);
    return cst_cluster_boxes(context, &rows->clusters, split->coco, weights, scores + 1, 2, out);
}

cst_status cst_detection_open(cst_context *context, const cst_model *model, const cst_pool *pool,
                              const char *split, bool labelled, int32_t *positions,
                              cst_box_split *out) {
    CST_TRY(match_members(context, model, pool, positions));
    CST_TRY(cst_box_split_open(context, pool, split, positions, model->members, labelled, out));
    return check_categories(context, model->fusion, out->coco);
}

typedef struct fuse_job {
    const cst_model *model;
    const cst_box_split *split;
    const int32_t *positions;
} fuse_job;

static cst_status fuse_part(cst_context *context, const void *user, const bool *images,
                            cst_coco_boxes **out) {
    const fuse_job *job = user;
    const cst_fusion *fusion = job->model->fusion;
    cst_box_rows rows;
    cst_cluster_options options = {
        .iou = fusion->iou, .min_score = fusion->min_score, .max_boxes = fusion->max_boxes};
    cst_box_scoring scoring = {0};
    CST_SCOPE(scope);
    if (fusion->scoring) {
        CST_TRY(spread(context, scope, fusion->scoring, job->model->members, job->positions,
                       (size_t)job->split->members, &scoring));
        options.map = scoring.map;
    }
    CST_TRY(cst_box_rows_make(context, scope, job->split, &options, NULL, images, &rows));
    return predict_rows(context, job->model, job->split, job->positions, &rows, out);
}

cst_status cst_detection_fuse(cst_context *context, const cst_model *model,
                              const cst_box_split *split, const int32_t *positions, int64_t most,
                              double least, cst_coco_boxes **out) {
    cst_box_rule rule = model->fusion->rule;
    CST_SCOPE(scope);
    if (rule != CST_BOX_RULE_LEARNERS && rule != CST_BOX_RULE_MEAN) {
        CST_NEW(context, scope, const cst_coco_boxes *, boxes, model->members);
        for (int32_t k = 0; k < model->members; k++)
            boxes[k] = split->boxes[positions[k]];
        CST_TRY(cst_suppress(context, split->coco, boxes, model->members, rule, NULL, out));
        return cst_coco_boxes_best(context, *out, split->coco->images, most, least);
    }
    const fuse_job job = {model, split, positions};
    return cst_boxes_by_parts(context, split, NULL, most, least, fuse_part, &job, out);
}

static cst_status predict(cst_context *context, const cst_model *model, const cst_pool *pool,
                          const char *split, bool labelled, int64_t most, double least,
                          cst_box_split *split_out, cst_coco_boxes **out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, positions, model->members);
    CST_TRY(cst_detection_open(context, model, pool, split, labelled, positions, split_out));
    const cst_box_agreement *fitted = model->fusion->agreement;
    if (!labelled && fitted && fitted->members == model->members)
        CST_TRY(cst_box_check_agreement(context, pool, split, fitted, split_out, positions));
    return cst_detection_fuse(context, model, split_out, positions, most, least, out);
}

/* With the model of those members whose boxes are there. */
static cst_status predict_without(cst_context *context, const cst_model *model,
                                  const cst_pool *pool, const char *split, bool labelled,
                                  int64_t most, double least, const uint8_t *present,
                                  cst_box_split *split_out, cst_coco_boxes **out) {
    cst_room room;
    cst_status status = cst_room_make(context, model, &room);
    CST_THEN(cst_room_fill(context, &room, present));
    if (status == CST_OK) {
        cst_absent_tell(context, model, split, present);
        if (model->fusion->rule == CST_BOX_RULE_LEARNERS) /* the other rules have no weights */
            cst_room_tell(context, &room);
    }
    CST_THEN(predict(context, &room.model, pool, split, labelled, most, least, split_out, out));
    cst_room_free(&room);
    return status;
}

cst_status cst_detection_predict(cst_context *context, const cst_model *model, const cst_pool *pool,
                                 const char *split, bool labelled, int64_t most, double least,
                                 cst_box_split *split_out, cst_coco_boxes **out) {
    *split_out = (cst_box_split){0};
    *out = NULL;
    CST_SCOPE(scope);
    bool all = true;
    CST_NEW(context, scope, uint8_t, present, model->members);
    for (int32_t k = 0; k < model->members; k++) {
        int32_t position = cst_pool_member_index(pool, model->member_names[k]);
        present[k] = !cst_pool_misses(pool) ||
                     (position >= 0 && cst_pool_member_has_split(pool, position, split));
        all = all && present[k];
    }
    CST_TRY(cst_model_check_names(context, model, pool, split));
    return all ? predict(context, model, pool, split, labelled, most, least, split_out, out)
               : predict_without(context, model, pool, split, labelled, most, least, present,
                                 split_out, out);
}

cst_status cst_model_predict_detections(cst_context *context, const cst_model *model,
                                        cst_pool *pool, const char *split, const char *path,
                                        int64_t most, double least, int64_t *images,
                                        int64_t *detections) {
    CST_ENTER(context);
    if (!model || !pool || !split || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_predict_detections: model, pool, split and path are required");
    if (!model->fusion || cst_pool_task(pool) != CST_TASK_DETECTION)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the model was fitted for %s, but the task of the pool is %s; detections "
                        "need a model and a pool for detection",
                        cst_task_text(model->task), cst_task_text(cst_pool_task(pool)));
    if (most < 0 || !(least >= 0 && least <= 1))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_predict_detections: %lld boxes of an image with scores of at "
                        "least %g; the number must be 0 or more, the score from 0 to 1",
                        (long long)most, least);
    cst_box_split files;
    cst_coco_boxes *boxes = NULL;
    most = most > 0 ? most : CST_BEST_BOXES;
    cst_status status =
        cst_detection_predict(context, model, pool, split, false, most, least, &files, &boxes);
    CST_THEN(cst_coco_write(context, path, files.coco, boxes));
    if (status == CST_OK && images)
        *images = files.coco->images;
    if (status == CST_OK && detections)
        *detections = boxes->count;
    cst_coco_boxes_free(context, boxes);
    cst_box_split_close(context, &files);
    return cst_why(context, status);
}
