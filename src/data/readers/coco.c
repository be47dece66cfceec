/* COCO files: annotations (images, categories, true boxes) and results, read and written.
 * docs/detection.md. */
#include "data/readers/coco.h"

#include "core/base.h"
#include "data/files/output.h"
#include "data/readers/coco_scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BIT(field) (1U << (field))
/* Farther than this from the origin no image reaches; areas and their sums stay finite. */
#define PIXELS_MAX 1e7

/* An annotation before the ids of images and categories are all known. */
typedef struct annotation {
    int64_t id, image_id, category_id, index;
    uint64_t offset;
    double bbox[4], area;
    bool crowd, has_id;
} annotation;

typedef struct gathered {
    void *items;
    int64_t count, room;
} gathered;

typedef struct gather {
    cst_scope *scope; /* of what stays */
    const char *path;
    gathered images, categories; /* cst_coco_record */
    gathered annotations;        /* annotation */
} gather;

/* A place at the end of the list, which may move. */
static void *add(cst_context *context, gathered *l, size_t size) {
    enum { FIRST = 64 };
    if (l->count == l->room) {
        int64_t more = l->room < FIRST ? FIRST : l->room + l->room / 2;
        void *grown = cst_grow(context, l->items, (size_t)l->count, (size_t)more, size);
        if (!grown)
            return NULL;
        l->items = grown;
        l->room = more;
    }
    return (unsigned char *)l->items + (size_t)l->count++ * size;
}

static cst_status take_image(cst_context *context, gather *g, const cst_coco_record *r) {
    CST_TRY(cst_coco_need(context, g->path, r, BIT(CST_COCO_ID)));
    bool width = r->seen & BIT(CST_COCO_WIDTH);
    bool height = r->seen & BIT(CST_COCO_HEIGHT);
    if ((width && !(r->width > 0 && isfinite(r->width))) ||
        (height && !(r->height > 0 && isfinite(r->height))))
        return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, r,
                               "has size %g x %g; both must be greater than 0", r->width,
                               r->height);
    if ((width && r->width > PIXELS_MAX) || (height && r->height > PIXELS_MAX))
        return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, r,
                               "has a side of %g pixels; the limit is %.0f pixels",
                               width && r->width > PIXELS_MAX ? r->width : r->height, PIXELS_MAX);
    cst_coco_record *image = add(context, &g->images, sizeof *image);
    if (!image)
        return CST_ERROR_MEMORY;
    *image = *r;
    image->width = width ? r->width : NAN;
    image->height = height ? r->height : NAN;
    return CST_OK;
}

static cst_status take_category(cst_context *context, gather *g, const cst_coco_record *r) {
    CST_TRY(cst_coco_need(context, g->path, r, BIT(CST_COCO_ID)));
    char *name = r->name ? cst_take_text(context, g->scope, r->name) : NULL;
    cst_coco_record *category = add(context, &g->categories, sizeof *category);
    if (!category || (r->name && !name))
        return CST_ERROR_MEMORY;
    *category = *r;
    category->name = name;
    return CST_OK;
}

static cst_status take_annotation(cst_context *context, gather *g, const cst_coco_record *r) {
    CST_TRY(cst_coco_need(context, g->path, r,
                          BIT(CST_COCO_IMAGE_ID) | BIT(CST_COCO_CATEGORY_ID) | BIT(CST_COCO_BBOX)));
    bool area = r->seen & BIT(CST_COCO_AREA);
    if (area && !(r->area >= 0 && isfinite(r->area)))
        return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, r, "has area %g", r->area);
    annotation *a = add(context, &g->annotations, sizeof *a);
    if (!a)
        return CST_ERROR_MEMORY;
    *a = (annotation){.id = r->id,
                      .image_id = r->image_id,
                      .category_id = r->category_id,
                      .index = r->index,
                      .offset = r->offset,
                      .area = area ? r->area : r->bbox[2] * r->bbox[3],
                      .crowd = r->crowd,
                      .has_id = r->seen & BIT(CST_COCO_ID)};
    memcpy(a->bbox, r->bbox, sizeof a->bbox);
    return CST_OK;
}

static cst_status take(cst_context *context, void *user, const cst_coco_record *record,
                       double share) {
    (void)share;
    return record->list == CST_COCO_IMAGES       ? take_image(context, user, record)
           : record->list == CST_COCO_CATEGORIES ? take_category(context, user, record)
                                                 : take_annotation(context, user, record);
}

CST_BY(by_id, cst_coco_record, CST_UP(id), 0, 0)

/* Sorts the records of a list by their ids, which go to *ids. */
static cst_status take_ids(cst_context *context, const gather *g, gathered *l, cst_coco_list of,
                           int32_t *count, int64_t **ids) {
    const cst_coco_record *record = l->items;
    if (l->count > INT32_MAX - 1)
        return cst_fail(context, CST_ERROR_LIMIT, "%s: more than %d %s", g->path, INT32_MAX,
                        cst_coco_list_plurals[of]);
    CST_TAKE(context, g->scope, *ids, l->count);
    if (l->count > 1)
        qsort(l->items, (size_t)l->count, sizeof *record, by_id);
    for (int64_t i = 0; i < l->count; i++) {
        (*ids)[i] = record[i].id;
        if (i > 0 && record[i].id == record[i - 1].id)
            return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, &record[i],
                                   "has id %" PRId64 ", which is also the id of another %s",
                                   record[i].id, cst_coco_list_names[of]);
    }
    *count = (int32_t)l->count;
    return CST_OK;
}

static cst_status put_images(cst_context *context, gather *g, cst_coco *out) {
    CST_TRY(take_ids(context, g, &g->images, CST_COCO_IMAGES, &out->images, &out->image_id));
    const cst_coco_record *image = g->images.items;
    CST_TAKE(context, g->scope, out->width, out->images);
    CST_TAKE(context, g->scope, out->height, out->images);
    for (int32_t i = 0; i < out->images; i++) {
        out->width[i] = image[i].width;
        out->height[i] = image[i].height;
    }
    return CST_OK;
}

static cst_status put_categories(cst_context *context, gather *g, cst_coco *out) {
    CST_TRY(take_ids(context, g, &g->categories, CST_COCO_CATEGORIES, &out->categories,
                     &out->category_id));
    const cst_coco_record *category = g->categories.items;
    CST_TAKE(context, g->scope, out->category_name, out->categories);
    for (int32_t c = 0; c < out->categories; c++)
        out->category_name[c] = category[c].name;
    return CST_OK;
}

/* What messages about an annotation, and the places of its box, need. */
static cst_coco_record record_of(const annotation *a) {
    cst_coco_record r = {.list = CST_COCO_ANNOTATIONS,
                         .index = a->index,
                         .offset = a->offset,
                         .image_id = a->image_id,
                         .category_id = a->category_id};
    memcpy(r.bbox, a->bbox, sizeof r.bbox);
    return r;
}

/* Sizes that are negative, not finite or above PIXELS_MAX, and boxes wholly outside an
 * image of width * height (NaN: not known). */
static cst_status check_box(cst_context *context, const char *path, const cst_coco_record *record,
                            double width, double height) {
    const double *b = record->bbox;
    if (!isfinite(b[0]) || !isfinite(b[1]) || !isfinite(b[2]) || !isfinite(b[3]))
        return cst_coco_refuse(context, path, CST_ERROR_INPUT, record,
                               "has a bbox with a number that is not finite");
    if (b[2] < 0 || b[3] < 0)
        return cst_coco_refuse(context, path, CST_ERROR_INPUT, record,
                               "has a bbox of negative size, %g x %g; bbox is [left, top, width, "
                               "height]",
                               b[2], b[3]);
    if (fabs(b[0]) > PIXELS_MAX || fabs(b[1]) > PIXELS_MAX || b[2] > PIXELS_MAX ||
        b[3] > PIXELS_MAX)
        return cst_coco_refuse(
            context, path, CST_ERROR_INPUT, record,
            "has bbox [%g, %g, %g, %g]; coordinates and sizes are limited to %.0f pixels", b[0],
            b[1], b[2], b[3], PIXELS_MAX);
    if (b[0] > width || b[1] > height || b[0] + b[2] < 0 || b[1] + b[3] < 0)
        return cst_coco_refuse(context, path, CST_ERROR_INPUT, record,
                               "has bbox [%g, %g, %g, %g], which is outside its image of %g x %g "
                               "pixels; bbox is [left, top, width, height] in pixels",
                               b[0], b[1], b[2], b[3], width, height);
    return CST_OK;
}

/* Positions of a record's image (*image: that of the record before, or -1) and category; checks its
 * box. */
static cst_status find_place(cst_context *context, const char *path, const cst_coco *coco,
                             const cst_coco_record *r, int32_t *image, int32_t *category) {
    const char *where = path == coco->path ? "the file" : coco->path;
    if (*image < 0 || coco->image_id[*image] != r->image_id)
        *image = cst_coco_image(coco, r->image_id);
    *category = cst_coco_category(coco, r->category_id);
    if (*image < 0)
        return cst_coco_refuse(context, path, CST_ERROR_INPUT, r,
                               "has image_id %" PRId64 ", but %s has no such image", r->image_id,
                               where);
    if (*category < 0)
        return cst_coco_refuse(context, path, CST_ERROR_INPUT, r,
                               "has category_id %" PRId64 ", but %s has no such category",
                               r->category_id, where);
    return check_box(context, path, r, coco->width[*image], coco->height[*image]);
}

static cst_status put_box(cst_context *context, const annotation *a, const cst_coco *coco,
                          cst_coco_true *out) {
    cst_coco_record r = record_of(a);
    *out = (cst_coco_true){.x = a->bbox[0],
                           .y = a->bbox[1],
                           .w = a->bbox[2],
                           .h = a->bbox[3],
                           .area = a->area,
                           .image = -1,
                           .crowd = a->crowd};
    return find_place(context, coco->path, coco, &r, &out->image, &out->category);
}

/* ---- order ---- */

enum { RECORD_BYTES_MAX = 128 };

static int32_t key_of(const unsigned char *record, size_t at) {
    int32_t key = 0;
    memcpy(&key, record + at, sizeof key);
    return key;
}

/* starts[k]: records whose key is below k; [keys + 1]. */
static void count_keys(const unsigned char *records, int64_t count, size_t size, size_t at,
                       int32_t keys, int64_t *starts) {
    memset(starts, 0, ((size_t)keys + 1) * sizeof *starts);
    for (int64_t i = 0; i < count; i++)
        starts[key_of(records + (size_t)i * size, at) + 1]++;
    for (int32_t k = 0; k < keys; k++)
        starts[k + 1] += starts[k];
}

/* records[i] = the record that stood at order[i], cycle by cycle; `order` is used up. */
static void permute(unsigned char *records, int64_t count, size_t size, int32_t *order) {
    unsigned char held[RECORD_BYTES_MAX];
    for (int64_t i = 0; i < count; i++) {
        if (order[i] == i)
            continue;
        memcpy(held, records + (size_t)i * size, size);
        int64_t to = i;
        while (order[to] != i) {
            int64_t from = order[to];
            memcpy(records + (size_t)to * size, records + (size_t)from * size, size);
            order[to] = (int32_t)to;
            to = from;
        }
        memcpy(records + (size_t)to * size, held, size);
        order[to] = (int32_t)to;
    }
}

/* Sorts records [count] of `size` bytes stably by image and category, int32_t at the given offsets.
 * *first ([images + 1], of the scope): where each image begins. */
static cst_status order_boxes(cst_context *context, cst_scope *own, void *records, int64_t count,
                              size_t size, size_t image_at, size_t category_at, int32_t images,
                              int32_t categories, int64_t **first) {
    CST_SCOPE(scope);
    unsigned char *bytes = records;
    *first = NULL;
    if (count > INT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "more than %d boxes in one file", INT32_MAX);
    CST_NEW(context, own, int64_t, starts, images + 1);
    CST_NEW(context, scope, int64_t, next, (images > categories ? images : categories) + 1);
    CST_NEW(context, scope, int32_t, by_category, count);
    CST_NEW(context, scope, int32_t, order, count);
    count_keys(bytes, count, size, category_at, categories, next);
    for (int64_t i = 0; i < count; i++)
        by_category[next[key_of(bytes + (size_t)i * size, category_at)]++] = (int32_t)i;
    count_keys(bytes, count, size, image_at, images, starts);
    memcpy(next, starts, ((size_t)images + 1) * sizeof *next);
    for (int64_t j = 0; j < count; j++) {
        int32_t i = by_category[j];
        order[next[key_of(bytes + (size_t)i * size, image_at)]++] = i;
    }
    permute(bytes, count, size, order);
    *first = starts;
    return CST_OK;
}

static cst_status put_boxes(cst_context *context, const gather *g, cst_coco *out) {
    annotation *list = g->annotations.items;
    out->count = g->annotations.count;
    CST_TAKE(context, &out->scope, out->box, out->count);
    for (int64_t i = 0; i < out->count; i++)
        CST_TRY(put_box(context, &list[i], out, &out->box[i]));
    CST_TRY(order_boxes(context, &out->scope, out->box, out->count, sizeof *out->box,
                        offsetof(cst_coco_true, image), offsetof(cst_coco_true, category),
                        out->images, out->categories, &out->first));
    if (out->count > 1)
        qsort(list, (size_t)out->count, sizeof *list, cst_by_i64);
    for (int64_t i = 1; i < out->count; i++) {
        cst_coco_record r = record_of(&list[i]);
        if (list[i].has_id && list[i - 1].has_id && list[i].id == list[i - 1].id)
            return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, &r,
                                   "has id %" PRId64 ", which is also the id of another annotation",
                                   list[i].id);
    }
    return CST_OK;
}

static void free_gather(cst_context *context, void *user) {
    gather *g = user;
    cst_free(context, g->images.items);
    cst_free(context, g->categories.items);
    cst_free(context, g->annotations.items);
}

static cst_status fill(cst_context *context, cst_coco *coco, const char *path, uint64_t zip_limit,
                       cst_coco_kind kind) {
    gather g = {.path = path, .scope = &coco->scope};
    CST_SCOPE(scope);
    CST_TRY(cst_scope_own(context, scope, free_gather, &g));
    coco->path = cst_take_text(context, &coco->scope, path);
    if (!coco->path)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_coco_scan(context, path, zip_limit, kind, take, &g));
    CST_TRY(put_images(context, &g, coco));
    CST_TRY(put_categories(context, &g, coco));
    return put_boxes(context, &g, coco);
}

cst_status cst_coco_read(cst_context *context, cst_coco **out, const char *path, uint64_t zip_limit,
                         bool labelled) {
    *out = cst_alloc(context, 1, sizeof **out);
    cst_status status = *out ? fill(context, *out, path, zip_limit,
                                    labelled ? CST_COCO_KIND_ANNOTATIONS : CST_COCO_KIND_IMAGES)
                             : CST_ERROR_MEMORY;
    if (status != CST_OK) {
        cst_coco_free(context, *out);
        *out = NULL;
    }
    return status;
}

void cst_coco_free(cst_context *context, cst_coco *coco) {
    if (coco)
        cst_scope_free(&coco->scope);
    cst_free(context, coco);
}

static int32_t find(const int64_t *ids, int32_t count, int64_t id) {
    const int64_t *found =
        count > 0 ? bsearch(&id, ids, (size_t)count, sizeof *ids, cst_by_i64) : NULL;
    return found ? (int32_t)(found - ids) : -1;
}

int32_t cst_coco_image(const cst_coco *coco, int64_t id) {
    return find(coco->image_id, coco->images, id);
}

int32_t cst_coco_category(const cst_coco *coco, int64_t id) {
    return find(coco->category_id, coco->categories, id);
}

cst_status cst_coco_same_categories(cst_context *context, const cst_coco *a, const cst_coco *b) {
    int32_t least = a->categories < b->categories ? a->categories : b->categories;
    for (int32_t c = 0; c < least; c++) {
        const char *x = a->category_name[c];
        const char *y = b->category_name[c];
        if (a->category_id[c] != b->category_id[c])
            return cst_fail(context, CST_ERROR_MISMATCH,
                            "%s has category id %" PRId64 " where %s has %" PRId64
                            "; both files need the same categories",
                            b->path, b->category_id[c], a->path, a->category_id[c]);
        if (x && y && strcmp(x, y) != 0)
            return cst_fail(
                context, CST_ERROR_MISMATCH,
                "%s calls category %" PRId64
                " '%.60s', but %s calls it '%.60s'; both files need the same categories",
                b->path, b->category_id[c], y, a->path, x);
    }
    if (a->categories != b->categories)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "%s has %" PRId32 " categories, but %s has %" PRId32
                        "; both files need the same categories",
                        b->path, b->categories, a->path, a->categories);
    return CST_OK;
}

/* ---- results ---- */

typedef struct box_gather {
    const char *path;
    const cst_coco *coco;
    bool probabilities;
    cst_coco_box *box;
    int64_t count, room;
    int32_t image; /* of the box before: files mostly go image by image */
} box_gather;

/* Room for another box: as much as the rest of the file holds if it goes on as it began. */
static cst_status make_room(cst_context *context, box_gather *g, double share) {
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

static cst_status take_box(cst_context *context, void *user, const cst_coco_record *r,
                           double share) {
    box_gather *g = user;
    CST_TRY(cst_coco_need(context, g->path, r,
                          BIT(CST_COCO_IMAGE_ID) | BIT(CST_COCO_CATEGORY_ID) | BIT(CST_COCO_BBOX) |
                              BIT(CST_COCO_SCORE)));
    int32_t category;
    CST_TRY(find_place(context, g->path, g->coco, r, &g->image, &category));
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
        boxes ? order_boxes(context, &boxes->scope, box, count, sizeof *box,
                            offsetof(cst_coco_box, image), offsetof(cst_coco_box, category), images,
                            categories, &boxes->first)
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
    box_gather g = {.path = path, .coco = coco, .probabilities = probabilities, .image = -1};
    *out = NULL;
    cst_status status =
        cst_coco_scan(context, path, zip_limit, CST_COCO_KIND_RESULTS, take_box, &g);
    if (status == CST_OK && !g.box) {
        g.box = cst_alloc(context, 1, sizeof *g.box);
        status = g.box ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status == CST_OK)
        return cst_coco_boxes_take(context, out, g.box, g.count, coco->images, coco->categories);
    cst_free(context, g.box);
    return status;
}

typedef struct scored_box {
    double score;
    int64_t place;
} scored_box;

CST_BY(by_falling_score, scored_box, CST_DOWN(score), CST_UP(place), 0)
CST_BY(by_place, scored_box, CST_UP(place), 0, 0)

cst_status cst_coco_boxes_best(cst_context *context, cst_coco_boxes *boxes, int32_t images,
                               int64_t most, double least) {
    int64_t room = 0;
    int64_t kept = 0;
    for (int32_t i = 0; i < images; i++)
        room = boxes->first[i + 1] - boxes->first[i] > room ? boxes->first[i + 1] - boxes->first[i]
                                                            : room;
    CST_SCOPE(scope);
    CST_NEW(context, scope, scored_box, order, room);
    int64_t from = 0;
    for (int32_t i = 0; i < images; i++) {
        int64_t end = boxes->first[i + 1];
        int64_t count = 0;
        for (int64_t b = from; b < end; b++)
            if (boxes->box[b].score >= least)
                order[count++] = (scored_box){boxes->box[b].score, b};
        if (count > most) {
            qsort(order, (size_t)count, sizeof *order, by_falling_score);
            count = most;
            qsort(order, (size_t)count, sizeof *order, by_place);
        }
        for (int64_t j = 0; j < count; j++)
            boxes->box[kept++] = boxes->box[order[j].place];
        boxes->first[i + 1] = kept;
        from = end;
    }
    boxes->count = kept;
    return CST_OK;
}

void cst_coco_boxes_free(cst_context *context, cst_coco_boxes *boxes) {
    if (!boxes)
        return;
    cst_free(context, boxes->box);
    cst_scope_free(&boxes->scope);
    cst_free(context, boxes);
}

/* A number of pixels to so many decimals, without zeros at the end. Boxes are within 1e8. */
static void put_pixels(char *out, double value, int decimals) {
    enum { ROOM = 32 };
    char digits[ROOM] = "";
    int count = 0;
    double power = 1;
    for (int k = 0; k < decimals; k++)
        power *= 10;
    int64_t rounded = llround(value * power);
    uint64_t left = (uint64_t)(rounded < 0 ? -rounded : rounded);
    for (; decimals > 0 && left % 10 == 0; left /= 10)
        decimals--;
    for (int k = 0; k <= decimals || left > 0; k++, left /= 10) {
        if (k == decimals && k > 0)
            digits[count++] = '.';
        digits[count++] = (char)('0' + left % 10);
    }
    if (rounded < 0)
        *out++ = '-';
    while (count > 0)
        *out++ = digits[--count];
    *out = '\0';
}

/* To the hundredth of a pixel; below ten pixels, to a thousandth of the shorter side. */
static int decimals_of(const cst_coco_box *box) {
    enum { FEWEST = 2, MOST = 8 };
    int decimals = FEWEST;
    for (double side = fmin(box->w, box->h); side < 10 && decimals < MOST; side *= 10)
        decimals++;
    return decimals;
}

static cst_status write_box(cst_context *context, cst_output_file *output, const cst_coco *coco,
                            const cst_coco_box *b, const char *mark) {
    const double values[4] = {b->x, b->y, b->w, b->h};
    char number[4][32];
    char line[512];
    int decimals = decimals_of(b);
    for (int j = 0; j < 4; j++) {
        if (!isfinite(values[j]) || !isfinite(b->score))
            return cst_fail(context, CST_ERROR_NUMERIC,
                            "image_id %" PRId64 ", category_id %" PRId64
                            ": a number of this box is not finite",
                            coco->image_id[b->image], coco->category_id[b->category]);
        put_pixels(number[j], values[j], decimals);
    }
    int length = cst_snprintf(line, sizeof line,
                              "%s\n{\"image_id\": %" PRId64 ", \"category_id\": %" PRId64
                              ", \"bbox\": [%s, %s, %s, %s], \"score\": %.6g}",
                              mark, coco->image_id[b->image], coco->category_id[b->category],
                              number[0], number[1], number[2], number[3], b->score);
    for (char *p = line; *p; p++) /* of a locale: no other comma is without a space behind it */
        if (*p == ',' && p[1] != ' ' && p[1] != '\n')
            *p = '.';
    return cst_output_write(context, output, line, (size_t)length);
}

cst_status cst_coco_write(cst_context *context, const char *path, const cst_coco *coco,
                          const cst_coco_boxes *boxes) {
    const char *end = boxes->count ? "\n]\n" : "[]\n";
    cst_output_file *output = NULL;
    CST_TRY(cst_output_open(context, &output, path));
    cst_status status = CST_OK;
    for (int64_t i = 0; status == CST_OK && i < boxes->count; i++)
        status = write_box(context, output, coco, &boxes->box[i], i ? "," : "[");
    CST_THEN(cst_output_write(context, output, end, strlen(end)));
    return cst_output_end(context, output, status);
}
