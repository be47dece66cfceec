/* COCO results: the reader and the writer of scored boxes. docs/detection.md. */
#include "data/files/output.h"
#include "data/readers/coco.h"
#include "data/readers/coco_scan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define BIT(field) (1U << (field))

typedef struct gather {
    const char *path;
    const cst_coco *coco;
    bool probabilities;
    cst_coco_box *box;
    int64_t count, room;
    int32_t image; /* of the box before: files mostly go image by image */
} gather;

/* Room for another box: as much as the rest of the file holds if it goes on as it began. */
static cst_status make_room(cst_context *context, gather *g, double share) {
    enum { FIRST = 1024 };
    if (g->count < g->room)
        return CST_OK;
    int64_t least = g->room + g->room / 8 + FIRST;
    double expected = g->count > 0 && share > 0 ? 1.01 * (double)g->count / share : 0;
    int64_t more = expected > (double)least && expected < INT32_MAX ? (int64_t)expected : least;
    cst_coco_box *grown = cst_grow(context, g->box, (size_t)g->count, (size_t)more, sizeof *grown);
    if (!grown)
        return CST_ERROR_MEMORY;
    g->box = grown;
    g->room = more;
    return CST_OK;
}

static cst_status take(cst_context *context, void *user, const cst_coco_record *r, double share) {
    gather *g = user;
    CST_TRY(cst_coco_need(context, g->path, r,
                          BIT(CST_COCO_IMAGE_ID) | BIT(CST_COCO_CATEGORY_ID) | BIT(CST_COCO_BBOX) |
                              BIT(CST_COCO_SCORE)));
    int32_t category;
    CST_TRY(cst_coco_place(context, g->path, g->coco, r, &g->image, &category));
    if (!isfinite(r->score))
        return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, r,
                               "has a score that is not finite");
    if (g->probabilities && !(r->score >= 0 && r->score <= 1))
        return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, r,
                               "has score %g; scores must be probabilities from 0 to 1", r->score);
    CST_TRY(make_room(context, g, share));
    g->box[g->count++] = (cst_coco_box){.x = r->bbox[0],
                                        .y = r->bbox[1],
                                        .w = r->bbox[2],
                                        .h = r->bbox[3],
                                        .score = r->score,
                                        .image = g->image,
                                        .category = category};
    return CST_OK;
}

cst_status cst_coco_boxes_take(cst_context *context, cst_coco_boxes **out, cst_coco_box *box,
                               int64_t count, int32_t images, int32_t categories) {
    *out = NULL;
    cst_coco_boxes *boxes = cst_alloc(context, 1, sizeof *boxes);
    cst_status status =
        boxes ? cst_coco_order(context, &boxes->scope, box, count, sizeof *box,
                               offsetof(cst_coco_box, image), offsetof(cst_coco_box, category),
                               images, categories, &boxes->first)
              : CST_ERROR_MEMORY;
    if (status != CST_OK) {
        cst_free(context, box);
        cst_coco_boxes_free(context, boxes);
        return status;
    }
    boxes->box = box;
    boxes->count = count;
    *out = boxes;
    return CST_OK;
}

cst_status cst_coco_read_boxes(cst_context *context, cst_coco_boxes **out, const char *path,
                               uint64_t zip_limit, const cst_coco *coco, bool probabilities) {
    gather g = {.path = path, .coco = coco, .probabilities = probabilities, .image = -1};
    *out = NULL;
    cst_status status = cst_coco_scan(context, path, zip_limit, CST_COCO_KIND_RESULTS, take, &g);
    if (status == CST_OK && !g.box) {
        g.box = cst_alloc(context, 1, sizeof *g.box);
        status = g.box ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status == CST_OK)
        return cst_coco_boxes_take(context, out, g.box, g.count, coco->images, coco->categories);
    cst_free(context, g.box);
    return status;
}

void cst_coco_boxes_free(cst_context *context, cst_coco_boxes *boxes) {
    if (!boxes)
        return;
    cst_free(context, boxes->box);
    cst_scope_free(&boxes->scope);
    cst_free(context, boxes);
}

/* The shortest of the texts with 15 to 17 digits that reads back as the same number. */
static void print_number(char *out, size_t room, double value) {
    enum { FEWEST = 15, MAX = 17 };
    for (int digits = FEWEST; digits <= MAX; digits++) {
        (void)cst_snprintf(out, room, "%.*g", digits, value);
        for (char *p = out; *p; p++)
            if (*p == ',') /* of a locale */
                *p = '.';
        double back = cst_coco_number(out, strlen(out));
        if (!(back < value) && !(back > value))
            return;
    }
}

static cst_status put_box(cst_context *context, cst_output_file *output, const cst_coco *coco,
                          const cst_coco_box *b, const char *mark) {
    const double values[5] = {b->x, b->y, b->w, b->h, b->score};
    char number[5][32];
    char line[512];
    for (int j = 0; j < 5; j++) {
        if (!isfinite(values[j]))
            return cst_fail(context, CST_ERROR_NUMERIC,
                            "image_id %" PRId64 ", category_id %" PRId64
                            ": a number of this box is not finite",
                            coco->image_id[b->image], coco->category_id[b->category]);
        print_number(number[j], sizeof number[j], values[j]);
    }
    int length = cst_snprintf(line, sizeof line,
                              "%s\n{\"image_id\": %" PRId64 ", \"category_id\": %" PRId64
                              ", \"bbox\": [%s, %s, %s, %s], \"score\": %s}",
                              mark, coco->image_id[b->image], coco->category_id[b->category],
                              number[0], number[1], number[2], number[3], number[4]);
    return cst_output_write(context, output, line, (size_t)length);
}

cst_status cst_coco_write(cst_context *context, const char *path, const cst_coco *coco,
                          const cst_coco_boxes *boxes) {
    const char *end = boxes->count ? "\n]\n" : "[]\n";
    cst_output_file *output = NULL;
    CST_TRY(cst_output_open(context, &output, path));
    cst_status status = CST_OK;
    for (int64_t i = 0; status == CST_OK && i < boxes->count; i++)
        status = put_box(context, output, coco, &boxes->box[i], i ? "," : "[");
    CST_THEN(cst_output_write(context, output, end, strlen(end)));
    return cst_output_end(context, output, status);
}
