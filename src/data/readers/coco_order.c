/*
 * A stable counting sort by category and then image, done in place from a permutation. After the
 * readers of COCO files.
 */
#include "data/readers/coco_order.h"

#include <string.h>

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

cst_status cst_coco_order(cst_context *context, void *records, int64_t count, size_t size,
                          size_t image_at, size_t category_at, int32_t images, int32_t categories,
                          int64_t **first) {
    unsigned char *bytes = records;
    *first = NULL;
    if (count > INT32_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "more than %d boxes in one file", INT32_MAX);
    int64_t *starts = cst_alloc(context, (size_t)images + 1, sizeof *starts);
    int64_t *next =
        cst_alloc(context, (size_t)(images > categories ? images : categories) + 1, sizeof *next);
    int32_t *by_category = cst_alloc(context, (size_t)count, sizeof *by_category);
    int32_t *order = cst_alloc(context, (size_t)count, sizeof *order);
    cst_status status = starts && next && by_category && order ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
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
        starts = NULL;
    }
    cst_free(context, starts);
    cst_free(context, next);
    cst_free(context, by_category);
    cst_free(context, order);
    return status;
}
