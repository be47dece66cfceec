/* Calls that make a model's boxes of those of its members, for a profile. */
#include "fit/profile.h"
#include "core/arguments.h"
#include "tasks/detection/detection.h"

#include <corestack/pool.h>

#include <string.h>

enum { IMAGES = 1024 }; /* different images that calls take in turn, where there are so many */

/* Consecutive images as files of their own. */
typedef struct window {
    cst_coco coco;             /* borrows names, ids and sizes */
    cst_coco_boxes *boxes;     /* [members of the model] */
    cst_coco_boxes **pointers; /* the same */
    cst_box_split split;
} window;

typedef struct box_calls {
    cst_scope scope;
    int32_t *positions; /* of the model's members in the pool, then 0, 1, 2, ... */
    cst_box_split files;
    window *single; /* [samples]: one image each */
    window *batch;  /* [samples / batch] */
} box_calls;

static cst_status window_boxes(cst_context *context, cst_scope *scope, const cst_coco_boxes *from,
                               int32_t first, int32_t count, cst_coco_boxes *out) {
    int64_t start = from->first[first];
    out->count = from->first[first + count] - start;
    CST_TAKE(context, scope, out->box, out->count);
    CST_TAKE(context, scope, out->first, count + 1);
    for (int64_t i = 0; i < out->count; i++) {
        out->box[i] = from->box[start + i];
        out->box[i].image -= first;
    }
    for (int32_t i = 0; i <= count; i++)
        out->first[i] = from->first[first + i] - start;
    return CST_OK;
}

static cst_status window_make(cst_context *context, box_calls *calls, int32_t members,
                              int32_t first, int32_t count, window *out) {
    const cst_coco *whole = calls->files.coco;
    out->coco = *whole;
    out->coco.images = count;
    out->coco.image_id = whole->image_id + first;
    out->coco.width = whole->width + first;
    out->coco.height = whole->height + first;
    out->coco.count = 0;
    out->coco.box = NULL;
    CST_TAKE(context, &calls->scope, out->coco.first, count + 1);
    CST_TAKE(context, &calls->scope, out->boxes, members);
    CST_TAKE(context, &calls->scope, out->pointers, members);
    out->split = (cst_box_split){.coco = &out->coco, .members = members, .boxes = out->pointers};
    for (int32_t k = 0; k < members; k++) {
        out->pointers[k] = &out->boxes[k];
        CST_TRY(window_boxes(context, &calls->scope, calls->files.boxes[calls->positions[k]], first,
                             count, &out->boxes[k]));
    }
    return CST_OK;
}

static cst_status make_windows(cst_context *context, box_calls *calls, int32_t members,
                               int64_t images, int64_t size, window **out) {
    CST_TAKE(context, &calls->scope, *out, images / size);
    for (int64_t i = 0; i < images / size; i++)
        CST_TRY(
            window_make(context, calls, members, (int32_t)(i * size), (int32_t)size, &(*out)[i]));
    return CST_OK;
}

static double bytes_of(const window *w) {
    double bytes = 0;
    for (int32_t k = 0; k < w->split.members; k++)
        bytes += (double)w->boxes[k].count * sizeof(cst_coco_box);
    return bytes;
}

static cst_status open(cst_context *context, cst_pool *pool, const char *split,
                       const cst_model *model, int64_t batch, cst_profile_work *out) {
    box_calls *calls = cst_alloc(context, 1, sizeof *calls);
    *out = (cst_profile_work){.model = model, .data = calls};
    if (!calls)
        return CST_ERROR_MEMORY;
    CST_TAKE(context, &calls->scope, calls->positions, model->members);
    CST_TRY(
        cst_detection_open(context, model, pool, split, false, calls->positions, &calls->files));
    int64_t images = calls->files.coco->images;
    int64_t wanted = batch > IMAGES ? batch : IMAGES;
    if (images < 1)
        return cst_fail(context, CST_ERROR_INPUT, "split '%s' has no images to predict", split);
    out->samples = images < wanted ? images : wanted;
    out->batch = batch < out->samples ? batch : out->samples;
    CST_TRY(make_windows(context, calls, model->members, out->samples, 1, &calls->single));
    CST_TRY(make_windows(context, calls, model->members, out->samples, out->batch, &calls->batch));
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
    cst_status status =
        cst_detection_fuse(measured, work->model, &w->split, calls->positions, &boxes);
    cst_coco_boxes_free(measured, boxes);
    return status;
}

static void close_boxes(cst_context *context, cst_profile_work *work) {
    box_calls *calls = work->data;
    if (!calls)
        return;
    cst_scope_free(&calls->scope);
    cst_box_split_close(context, &calls->files);
    cst_free(context, calls);
    *work = (cst_profile_work){0};
}

const cst_profile_ops cst_profile_boxes = {.open = open, .call = call, .close = close_boxes};
