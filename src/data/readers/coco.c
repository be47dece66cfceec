/* The reader of COCO annotation files: images, categories, true boxes. docs/detection.md. */
#include "data/readers/coco.h"

#include "data/readers/coco_scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BIT(field) (1U << (field))

/* Entries begin with their id, for cst_by_i64. */
typedef struct image_entry {
    int64_t id;
    double width, height;
    cst_coco_record record; /* for messages */
} image_entry;

typedef struct category_entry {
    int64_t id;
    char *name;
    cst_coco_record record;
} category_entry;

/* An annotation before the ids of images and categories are all known. */
typedef struct annotation {
    int64_t id, image_id, category_id, index;
    uint64_t offset;
    double bbox[4], area;
    bool crowd, has_id;
} annotation;

typedef struct gather {
    cst_scope *scope; /* of what stays */
    const char *path;
    image_entry *images;
    category_entry *categories;
    annotation *annotations;
    int64_t image_count, category_count, annotation_count;
    int64_t image_room, category_room, annotation_room;
} gather;

/* Room for one more element; the array may move. */
static void *room(cst_context *context, void *array, int64_t count, int64_t *capacity,
                  size_t size) {
    enum { FIRST = 64 };
    if (array && count < *capacity)
        return array;
    int64_t more = *capacity < FIRST ? FIRST : *capacity + *capacity / 2;
    void *grown = array ? cst_grow(context, array, (size_t)count, (size_t)more, size)
                        : cst_alloc(context, (size_t)more, size);
    if (grown)
        *capacity = more;
    return grown;
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
    if ((width && r->width > CST_COCO_PIXELS_MAX) || (height && r->height > CST_COCO_PIXELS_MAX))
        return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, r,
                               "has a side of %g pixels; the limit is %.0f pixels",
                               width && r->width > CST_COCO_PIXELS_MAX ? r->width : r->height,
                               CST_COCO_PIXELS_MAX);
    image_entry *grown = room(context, g->images, g->image_count, &g->image_room, sizeof *grown);
    if (!grown)
        return CST_ERROR_MEMORY;
    g->images = grown;
    grown[g->image_count++] =
        (image_entry){r->id, width ? r->width : NAN, height ? r->height : NAN, *r};
    return CST_OK;
}

static cst_status take_category(cst_context *context, gather *g, const cst_coco_record *r) {
    CST_TRY(cst_coco_need(context, g->path, r, BIT(CST_COCO_ID)));
    category_entry *grown =
        room(context, g->categories, g->category_count, &g->category_room, sizeof *grown);
    if (!grown)
        return CST_ERROR_MEMORY;
    g->categories = grown;
    char *name = r->name ? cst_take_text(context, g->scope, r->name) : NULL;
    if (r->name && !name)
        return CST_ERROR_MEMORY;
    grown[g->category_count++] = (category_entry){r->id, name, *r};
    return CST_OK;
}

static cst_status take_annotation(cst_context *context, gather *g, const cst_coco_record *r) {
    cst_status status =
        cst_coco_need(context, g->path, r,
                      BIT(CST_COCO_IMAGE_ID) | BIT(CST_COCO_CATEGORY_ID) | BIT(CST_COCO_BBOX));
    if (status != CST_OK)
        return status;
    bool area = r->seen & BIT(CST_COCO_AREA);
    if (area && !(r->area >= 0 && isfinite(r->area)))
        return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, r, "has area %g", r->area);
    annotation *grown =
        room(context, g->annotations, g->annotation_count, &g->annotation_room, sizeof *grown);
    if (!grown)
        return CST_ERROR_MEMORY;
    g->annotations = grown;
    annotation *a = &grown[g->annotation_count++];
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

static cst_status put_images(cst_context *context, gather *g, cst_coco *out) {
    if (g->image_count > INT32_MAX - 1)
        return cst_fail(context, CST_ERROR_LIMIT, "%s: more than %d images", g->path, INT32_MAX);
    size_t count = (size_t)g->image_count;
    CST_TAKE(context, &out->scope, out->image_id, count);
    CST_TAKE(context, &out->scope, out->width, count);
    CST_TAKE(context, &out->scope, out->height, count);
    if (count > 1)
        qsort(g->images, count, sizeof *g->images, cst_by_i64);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && g->images[i].id == g->images[i - 1].id)
            return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, &g->images[i].record,
                                   "has id %" PRId64 ", which is also the id of another image",
                                   g->images[i].id);
        out->image_id[i] = g->images[i].id;
        out->width[i] = g->images[i].width;
        out->height[i] = g->images[i].height;
    }
    out->images = (int32_t)count;
    return CST_OK;
}

static cst_status put_categories(cst_context *context, gather *g, cst_coco *out) {
    if (g->category_count > INT32_MAX - 1)
        return cst_fail(context, CST_ERROR_LIMIT, "%s: more than %d categories", g->path,
                        INT32_MAX);
    size_t count = (size_t)g->category_count;
    CST_TAKE(context, &out->scope, out->category_id, count);
    CST_TAKE(context, &out->scope, out->category_name, count);
    if (count > 1)
        qsort(g->categories, count, sizeof *g->categories, cst_by_i64);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && g->categories[i].id == g->categories[i - 1].id)
            return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, &g->categories[i].record,
                                   "has id %" PRId64 ", which is also the id of another category",
                                   g->categories[i].id);
        out->category_id[i] = g->categories[i].id;
        out->category_name[i] = g->categories[i].name;
    }
    out->categories = (int32_t)count;
    return CST_OK;
}

static cst_status put_box(cst_context *context, const gather *g, const annotation *a,
                          const cst_coco *coco, cst_coco_true *out) {
    cst_coco_record r = {.list = CST_COCO_ANNOTATIONS, .index = a->index, .offset = a->offset};
    memcpy(r.bbox, a->bbox, sizeof r.bbox);
    int32_t image = cst_coco_image(coco, a->image_id);
    int32_t category = cst_coco_category(coco, a->category_id);
    if (image < 0)
        return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, &r,
                               "has image_id %" PRId64 ", but the file has no such image",
                               a->image_id);
    if (category < 0)
        return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, &r,
                               "has category_id %" PRId64 ", but the file has no such category",
                               a->category_id);
    cst_status status =
        cst_coco_check_box(context, g->path, &r, coco->width[image], coco->height[image]);
    *out = (cst_coco_true){.x = a->bbox[0],
                           .y = a->bbox[1],
                           .w = a->bbox[2],
                           .h = a->bbox[3],
                           .area = a->area,
                           .image = image,
                           .category = category,
                           .crowd = a->crowd};
    return status;
}

static cst_status put_boxes(cst_context *context, const gather *g, cst_coco *out) {
    size_t count = (size_t)g->annotation_count;
    CST_TAKE(context, &out->scope, out->box, count);
    for (size_t i = 0; i < count; i++)
        CST_TRY(put_box(context, g, &g->annotations[i], out, &out->box[i]));
    out->count = g->annotation_count;
    CST_TRY(cst_coco_order(context, &out->scope, out->box, out->count, sizeof *out->box,
                           offsetof(cst_coco_true, image), offsetof(cst_coco_true, category),
                           out->images, out->categories, &out->first));
    if (count > 1)
        qsort(g->annotations, count, sizeof *g->annotations, cst_by_i64);
    for (size_t i = 1; i < count; i++) {
        const annotation *a = &g->annotations[i];
        cst_coco_record r = {.list = CST_COCO_ANNOTATIONS, .index = a->index, .offset = a->offset};
        if (a->has_id && a[-1].has_id && a->id == a[-1].id)
            return cst_coco_refuse(context, g->path, CST_ERROR_INPUT, &r,
                                   "has id %" PRId64 ", which is also the id of another annotation",
                                   a->id);
    }
    return CST_OK;
}

static void free_gather(cst_context *context, void *gathered) {
    gather *g = gathered;
    cst_free(context, g->images);
    cst_free(context, g->categories);
    cst_free(context, g->annotations);
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

static cst_status read_file(cst_context *context, cst_coco **out, const char *path,
                            uint64_t zip_limit, cst_coco_kind kind) {
    *out = cst_alloc(context, 1, sizeof **out);
    if (!*out)
        return CST_ERROR_MEMORY;
    cst_status status = fill(context, *out, path, zip_limit, kind);
    if (status != CST_OK) {
        cst_coco_free(context, *out);
        *out = NULL;
    }
    return status;
}

cst_status cst_coco_read(cst_context *context, cst_coco **out, const char *path,
                         uint64_t zip_limit) {
    return read_file(context, out, path, zip_limit, CST_COCO_KIND_ANNOTATIONS);
}

cst_status cst_coco_read_images(cst_context *context, cst_coco **out, const char *path,
                                uint64_t zip_limit) {
    return read_file(context, out, path, zip_limit, CST_COCO_KIND_IMAGES);
}

void cst_coco_free(cst_context *context, cst_coco *coco) {
    if (coco)
        cst_scope_free(&coco->scope);
    cst_free(context, coco);
}

static int32_t find(const int64_t *ids, int32_t count, int64_t id) {
    int32_t low = 0;
    int32_t high = count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ids[low] == id ? low : -1;
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

cst_status cst_coco_order(cst_context *context, cst_scope *own, void *records, int64_t count,
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
