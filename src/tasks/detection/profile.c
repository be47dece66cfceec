/*
 * Calls that make a model's boxes of those of its members, for one image or many, for a profile.
 * After a fit. Paper: section "Deployment Efficiency: Latency and Memory".
 */
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
    int32_t *positions; /* of the model's members in the pool, then 0, 1, 2, ... */
    cst_box_split files;
    int64_t singles;
    window *single; /* [singles]: one image each */
    int64_t batches;
    window *batch; /* [batches] */
} box_calls;

static void window_free(cst_context *context, window *w) {
    for (int32_t k = 0; w->boxes && k < w->split.members; k++) {
        cst_free(context, w->boxes[k].box);
        cst_free(context, w->boxes[k].first);
    }
    cst_free(context, w->boxes);
    cst_free(context, (void *)w->pointers);
    cst_free(context, w->coco.first);
}

/* One member's boxes of `count` images from `first` on. */
static cst_status window_boxes(cst_context *context, const cst_coco_boxes *from, int32_t first,
                               int32_t count, cst_coco_boxes *out) {
    int64_t start = from->first[first];
    out->count = from->first[first + count] - start;
    out->box = cst_alloc(context, (size_t)out->count, sizeof *out->box);
    out->first = cst_alloc(context, (size_t)count + 1, sizeof *out->first);
    if (!out->box || !out->first)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < out->count; i++) {
        out->box[i] = from->box[start + i];
        out->box[i].image -= first;
    }
    for (int32_t i = 0; i <= count; i++)
        out->first[i] = from->first[first + i] - start;
    return CST_OK;
}

static cst_status window_make(cst_context *context, const box_calls *calls, int32_t members,
                              int32_t first, int32_t count, window *out) {
    const cst_coco *whole = calls->files.coco;
    out->coco = *whole;
    out->coco.images = count;
    out->coco.image_id = whole->image_id + first;
    out->coco.width = whole->width + first;
    out->coco.height = whole->height + first;
    out->coco.count = 0;
    out->coco.box = NULL;
    out->coco.first = cst_alloc(context, (size_t)count + 1, sizeof *out->coco.first);
    out->boxes = cst_alloc(context, (size_t)members, sizeof *out->boxes);
    out->pointers = cst_alloc(context, (size_t)members, sizeof(cst_coco_boxes *));
    out->split = (cst_box_split){.coco = &out->coco, .members = members, .boxes = out->pointers};
    cst_status status = out->coco.first && out->boxes && out->pointers ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t k = 0; status == CST_OK && k < members; k++) {
        out->pointers[k] = &out->boxes[k];
        status = window_boxes(context, calls->files.boxes[calls->positions[k]], first, count,
                              &out->boxes[k]);
    }
    return status;
}

static cst_status make_windows(cst_context *context, const box_calls *calls, int32_t members,
                               int64_t images, int64_t size, int64_t *count, window **out) {
    int64_t windows = images / size;
    *out = cst_alloc(context, (size_t)windows, sizeof **out);
    cst_status status = *out ? CST_OK : CST_ERROR_MEMORY;
    for (*count = 0; status == CST_OK && *count < windows; ++*count)
        status = window_make(context, calls, members, (int32_t)(*count * size), (int32_t)size,
                             &(*out)[*count]);
    return status;
}

/* Bytes of the boxes that the first window reads. */
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
    calls->positions = cst_alloc(context, (size_t)model->members, sizeof *calls->positions);
    cst_status status = calls->positions ? cst_detection_open(context, model, pool, split, false,
                                                              calls->positions, &calls->files)
                                         : CST_ERROR_MEMORY;
    if (status == CST_OK && calls->files.coco->images < 1)
        status = cst_fail(context, CST_ERROR_INPUT, "split '%s' has no images to predict", split);
    if (status == CST_OK) {
        int64_t images = calls->files.coco->images;
        int64_t wanted = batch > IMAGES ? batch : IMAGES;
        out->samples = images < wanted ? images : wanted;
        out->batch = batch < out->samples ? batch : out->samples;
    }
    CST_THEN(make_windows(context, calls, model->members, out->samples, 1, &calls->singles,
                          &calls->single));
    CST_THEN(make_windows(context, calls, model->members, out->samples, out->batch, &calls->batches,
                          &calls->batch));
    if (status == CST_OK)
        out->largest_bytes = bytes_of(&calls->batch[0]);
    for (int32_t k = 0; status == CST_OK && k < model->members; k++)
        calls->positions[k] = k; /* windows have the model's members alone */
    return status;
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
    for (int64_t i = 0; calls->single && i < work->samples; i++)
        window_free(context, &calls->single[i]);
    for (int64_t i = 0; calls->batch && i < work->samples / work->batch; i++)
        window_free(context, &calls->batch[i]);
    cst_free(context, calls->single);
    cst_free(context, calls->batch);
    cst_free(context, calls->positions);
    cst_box_split_close(context, &calls->files);
    cst_free(context, calls);
    *work = (cst_profile_work){0};
}

const cst_profile_ops cst_profile_boxes = {.open = open, .call = call, .close = close_boxes};
