/* Calls that make a model's boxes of those of its members, for a profile. */
#include "fit/profile.h"
#include "core/arguments.h"
#include "tasks/detection/detection.h"

#include <corestack/pool.h>

#include <string.h>

enum { IMAGES = 1024 }; /* different images that calls take in turn, where there are so many */

/* Consecutive images as files of their own. */
typedef struct window {
    cst_coco coco;       /* borrows names, ids and sizes */
    cst_box_split split; /* of the members of the model */
} window;

typedef struct box_calls {
    int32_t *positions; /* of the model's members in the pool, then 0, 1, 2, ... */
    cst_box_split files;
    window *single; /* [samples]: one image each */
    window *batch;  /* [samples / batch] */
} box_calls;

static cst_status window_boxes(cst_context *context, cst_scope *scope, const cst_coco_boxes *from,
                               int32_t first, int32_t count, cst_coco_boxes **out) {
    int64_t start = from->first[first];
    CST_NEW(context, scope, cst_coco_boxes, boxes, 1);
    boxes->count = from->first[first + count] - start;
    CST_TAKE(context, scope, boxes->box, boxes->count);
    CST_TAKE(context, scope, boxes->first, count + 1);
    for (int64_t i = 0; i < boxes->count; i++) {
        boxes->box[i] = from->box[start + i];
        boxes->box[i].image -= first;
    }
    for (int32_t i = 0; i <= count; i++)
        boxes->first[i] = from->first[first + i] - start;
    *out = boxes;
    return CST_OK;
}

static cst_status window_make(cst_context *context, const cst_profile_work *work, int32_t first,
                              int32_t count, window *out) {
    const box_calls *calls = work->data;
    const cst_coco *whole = calls->files.coco;
    int32_t members = work->model->members;
    out->coco = *whole;
    out->coco.images = count;
    out->coco.image_id = whole->image_id + first;
    out->coco.width = whole->width + first;
    out->coco.height = whole->height + first;
    out->coco.count = 0;
    out->coco.box = NULL;
    CST_TAKE(context, work->scope, out->coco.first, count + 1);
    out->split = (cst_box_split){.coco = &out->coco, .members = members};
    CST_TAKE(context, work->scope, out->split.boxes, members);
    for (int32_t k = 0; k < members; k++)
        CST_TRY(window_boxes(context, work->scope, calls->files.boxes[calls->positions[k]], first,
                             count, &out->split.boxes[k]));
    return CST_OK;
}

static cst_status make_windows(cst_context *context, const cst_profile_work *work, int64_t size,
                               window **out) {
    CST_TAKE(context, work->scope, *out, work->samples / size);
    for (int64_t i = 0; i < work->samples / size; i++)
        CST_TRY(window_make(context, work, (int32_t)(i * size), (int32_t)size, &(*out)[i]));
    return CST_OK;
}

static double bytes_of(const window *w) {
    double bytes = 0;
    for (int32_t k = 0; k < w->split.members; k++)
        bytes += (double)w->split.boxes[k]->count * sizeof(cst_coco_box);
    return bytes;
}

static cst_status open(cst_context *context, cst_pool *pool, const char *split, int64_t batch,
                       cst_profile_work *out) {
    const cst_model *model = out->model;
    box_calls *calls = out->data;
    CST_OWN(context, out->scope, cst_box_split, &calls->files);
    CST_TAKE(context, out->scope, calls->positions, model->members);
    CST_TRY(
        cst_detection_open(context, model, pool, split, false, calls->positions, &calls->files));
    int64_t images = calls->files.coco->images;
    int64_t wanted = batch > IMAGES ? batch : IMAGES;
    if (images < 1)
        return cst_fail(context, CST_ERROR_INPUT, "split '%s' has no images to predict", split);
    out->samples = images < wanted ? images : wanted;
    out->batch = batch < out->samples ? batch : out->samples;
    CST_TRY(make_windows(context, out, 1, &calls->single));
    CST_TRY(make_windows(context, out, out->batch, &calls->batch));
    out->largest_bytes = bytes_of(&calls->batch[0]);
    for (int32_t k = 0; k < model->members; k++)
        calls->positions[k] = k; /* windows have the model's members alone */
    return CST_OK;
}

static cst_status call(cst_context *measured, const cst_profile_work *work, int64_t first,
                       int64_t count) {
    const box_calls *calls = work->data;
    const window *w = count == 1 ? &calls->single[first] : &calls->batch[first / count];
    cst_coco_boxes *boxes = NULL;
    CST_ENTER(measured);
    cst_status status = cst_detection_fuse(measured, work->model, &w->split, calls->positions,
                                           CST_BEST_BOXES, 0, &boxes);
    cst_coco_boxes_free(measured, boxes);
    return status;
}

const cst_profile_ops cst_profile_boxes = {
    .data_bytes = sizeof(box_calls), .open = open, .call = call};
