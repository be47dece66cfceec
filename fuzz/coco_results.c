/*
 * Fuzz target: COCO results files, for a fixed set of images and categories.
 * src/data/readers/coco.h.
 */
#include "common/fuzz.h"
#include "data/readers/coco.h"

#include <math.h>
#include <string.h>

static const char ANNOTATIONS[] =
    "{\"images\": [{\"id\": 1, \"width\": 100, \"height\": 80}, {\"id\": 7},"
    " {\"id\": 9223372036854775807, \"width\": 640, \"height\": 480}],"
    " \"categories\": [{\"id\": 1, \"name\": \"cat\"}, {\"id\": 3}], \"annotations\": []}";

/* Writes what was read and reads it again. */
static void write_back(cst_context *context, const cst_coco *coco, const cst_coco_boxes *boxes) {
    cst_coco_boxes *again = NULL;
    const char *path = fuzz_file("back.json", "", 0);
    FUZZ_CHECK(cst_coco_write(context, path, coco, boxes) == CST_OK,
               "boxes that were read can be written");
    /* Rounded, a box that only touches its image may be outside of it. */
    bool read = cst_coco_read_boxes(context, &again, path, 0, coco, false) == CST_OK;
    FUZZ_CHECK(!read || again->count == boxes->count, "boxes that were written are read back");
    for (int64_t i = 0; read && i < boxes->count; i++) {
        const cst_coco_box *a = &boxes->box[i];
        const cst_coco_box *b = &again->box[i];
        FUZZ_CHECK(fabs(a->x - b->x) < 0.006 && fabs(a->y - b->y) < 0.006 &&
                       fabs(a->w - b->w) < 0.006 && fabs(a->h - b->h) < 0.006 &&
                       fabs(a->score - b->score) <= 1e-5 * fabs(a->score) && a->image == b->image &&
                       a->category == b->category,
                   "boxes are read back to the hundredth of a pixel");
    }
    cst_coco_boxes_free(context, again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *annotations = fuzz_file("gt.json", ANNOTATIONS, strlen(ANNOTATIONS));
    const char *path = fuzz_file("dt.json", data, size);
    for (int probabilities = 0; probabilities < 2; probabilities++) {
        cst_context *context = fuzz_begin(size, 64);
        cst_coco *coco = NULL;
        cst_coco_boxes *boxes = NULL;
        FUZZ_CHECK(cst_coco_read(context, &coco, annotations, 0, true) == CST_OK,
                   "the annotations");
        cst_status status = cst_coco_read_boxes(context, &boxes, path, 0, coco, probabilities);
        if (fuzz_good(context, status, false)) {
            for (int64_t i = 0; i < boxes->count; i++)
                FUZZ_CHECK(isfinite(boxes->box[i].score) && boxes->box[i].w >= 0, "finite boxes");
            write_back(context, coco, boxes);
        }
        cst_coco_boxes_free(context, boxes);
        cst_coco_free(context, coco);
        fuzz_end(context);
    }
    return 0;
}
