/* Sorting arrays that may be larger than the memory budget, in pieces that are merged in order:
 * glibc's qsort takes an uncounted array as large as its input. */
#include "core/context.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 4 << 20 };

/* Merges from[first..middle-1] and from[middle..end-1] into the same place of `to`. */
static void merge(cst_context *context, const char *from, char *to, size_t size, size_t first,
                  size_t middle, size_t end, cst_compare_fn compare) {
    size_t left = first;
    size_t right = middle;
    for (size_t at = first; at < end; at++) {
        cst_trim_item(context, (int64_t)at);
        bool take_left = right == end ||
                         (left < middle && compare(from + left * size, from + right * size) <= 0);
        memcpy(to + at * size, from + (take_left ? left++ : right++) * size, size);
    }
}

cst_status cst_sort(cst_context *context, void *items, size_t count, size_t size,
                    cst_compare_fn compare) {
    size_t piece = PIECE_BYTES / size;
    if (count <= piece) {
        if (count > 1)
            qsort(items, count, size, compare);
        return CST_OK;
    }
    char *from = items;
    char *to = cst_alloc(context, count, size);
    char *scratch = to;
    if (!to)
        return CST_ERROR_MEMORY;
    for (size_t first = 0; first < count; first += piece) {
        cst_trim(context);
        qsort(from + first * size, count - first < piece ? count - first : piece, size, compare);
    }
    for (size_t width = piece; width < count; width *= 2) {
        for (size_t first = 0; first < count; first += 2 * width) {
            size_t middle = count - first < width ? count : first + width;
            size_t end = count - middle < width ? count : middle + width;
            merge(context, from, to, size, first, middle, end, compare);
        }
        char *merged = to;
        to = from;
        from = merged;
    }
    if (from == scratch)
        cst_copy(context, items, scratch, count * size);
    cst_free(context, scratch);
    return CST_OK;
}

#define BY(name, type)                                                                             \
    int name(const void *a, const void *b) {                                                       \
        type x = *(const type *)a;                                                                 \
        type y = *(const type *)b;                                                                 \
        return (x > y) - (x < y);                                                                  \
    }
BY(cst_by_f64, double)
BY(cst_by_i64, int64_t)
BY(cst_by_u64, uint64_t)
BY(cst_by_u32, uint32_t)

int cst_by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}
