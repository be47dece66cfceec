/* Images, true boxes and members' boxes of a part, in their places. See the header. */
#include "tasks/detection/part.h"

#include "data/pool/division.h"
#include "data/pool/state.h"

/* place [images]: position of each image in the part, or -1. */
static void take_truth(cst_coco *coco, const int32_t *place, int32_t images) {
    int64_t to = 0;
    for (int32_t i = 0; i < coco->images; i++) {
        int64_t end = coco->first[i + 1];
        if (place[i] < 0)
            continue;
        coco->image_id[place[i]] = coco->image_id[i];
        coco->width[place[i]] = coco->width[i];
        coco->height[place[i]] = coco->height[i];
        int64_t from = coco->first[i];
        coco->first[place[i]] = to;
        for (int64_t b = from; b < end; b++) {
            coco->box[to] = coco->box[b];
            coco->box[to++].image = place[i];
        }
    }
    coco->first[images] = to;
    coco->count = to;
    coco->images = images;
}

static void take_boxes(cst_coco_boxes *boxes, const int32_t *place, int32_t all, int32_t images) {
    int64_t to = 0;
    for (int32_t i = 0; i < all; i++) {
        int64_t from = boxes->first[i];
        int64_t end = boxes->first[i + 1];
        if (place[i] < 0)
            continue;
        boxes->first[place[i]] = to;
        for (int64_t b = from; b < end; b++) {
            boxes->box[to] = boxes->box[b];
            boxes->box[to++].image = place[i];
        }
    }
    boxes->first[images] = to;
    boxes->count = to;
}

cst_status cst_box_split_take_part(cst_context *context, const cst_pool *pool, int32_t split,
                                   cst_box_split *files) {
    cst_division *division = cst_pool_division(pool);
    int32_t all = files->coco->images;
    int32_t images = 0;
    if (!division || (split != division->split && split != division->held))
        return CST_OK;
    const cst_units units = {
        .split = pool->manifest->splits[division->split].name, .unit = "images", .count = all};
    bool *held = cst_alloc(context, (size_t)all, sizeof *held);
    int32_t *place = cst_alloc(context, (size_t)all, sizeof *place);
    cst_status status = held && place
                            ? cst_divide(context, &units, division->share, division->seed, held)
                            : CST_ERROR_MEMORY;
    for (int32_t i = 0; status == CST_OK && i < all; i++)
        place[i] = held[i] == (split == division->held) ? images++ : -1;
    CST_THEN(cst_division_note(context, division, held, files->coco->image_id, all));
    if (status == CST_OK) {
        take_truth(files->coco, place, images);
        for (int32_t k = 0; k < files->members; k++)
            take_boxes(files->boxes[k], place, all, images);
    }
    cst_free(context, held);
    cst_free(context, place);
    return status;
}
