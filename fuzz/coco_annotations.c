/*
 * Fuzz target: COCO annotation files. src/data/readers/coco.h.
 */
#include "common/fuzz.h"
#include "data/readers/coco.h"

static void check(const cst_coco *coco) {
    for (int32_t i = 1; i < coco->images; i++)
        FUZZ_CHECK(coco->image_id[i] > coco->image_id[i - 1], "image ids ascend");
    for (int32_t i = 1; i < coco->categories; i++)
        FUZZ_CHECK(coco->category_id[i] > coco->category_id[i - 1], "category ids ascend");
    FUZZ_CHECK(coco->first[0] == 0 && coco->first[coco->images] == coco->count, "every box");
    for (int32_t i = 0; i < coco->images; i++)
        for (int64_t b = coco->first[i]; b < coco->first[i + 1]; b++) {
            const cst_coco_true *box = &coco->box[b];
            FUZZ_CHECK(box->image == i && box->category >= 0 && box->category < coco->categories,
                       "boxes have an image and a category");
            FUZZ_CHECK(box->w >= 0 && box->h >= 0 && box->area >= 0 && box->w <= 1e7, "sizes");
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file("gt.json", data, size);
    for (int images = 0; images < 2; images++) {
        cst_context *context = fuzz_begin(size, 64);
        cst_coco *coco = NULL;
        cst_status status = cst_coco_read(context, &coco, path, 0, images == 0);
        if (fuzz_good(context, status, false)) {
            check(coco);
            FUZZ_CHECK(cst_coco_same_categories(context, coco, coco) == CST_OK, "same as itself");
        }
        cst_coco_free(context, coco);
        fuzz_end(context);
    }
    return 0;
}
