/*
 * The error for the name of a split that a pool does not have: its splits, and the nearest name.
 * Under every command that takes a split.
 */
#include "core/buffer.h"
#include "data/pool/state.h"

#include <string.h>

enum { NAME_CHARS = 64, SHOWN = 12 };

/* Insertions, deletions, changes and swaps of neighbours, of the first characters. */
static int distance(const char *a, const char *b) {
    int rows[3][NAME_CHARS + 1];
    size_t n = strnlen(a, NAME_CHARS);
    size_t m = strnlen(b, NAME_CHARS);
    int *before = rows[0];
    int *last = rows[1];
    int *now = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = before[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int change = last[j - 1] + (a[i - 1] != b[j - 1]);
            int least = last[j] < now[j - 1] ? last[j] + 1 : now[j - 1] + 1;
            least = change < least ? change : least;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            now[j] = swapped && before[j - 2] + 1 < least ? before[j - 2] + 1 : least;
        }
        int *free = before;
        before = last;
        last = now;
        now = free;
    }
    return last[m];
}

static const char *nearest(const cst_pool *pool, const char *split) {
    const char *found = NULL;
    int least = (int)strnlen(split, NAME_CHARS) / 3 + 1;
    for (int32_t s = 0; s < cst_pool_splits(pool); s++) {
        int d = distance(split, cst_pool_split_name(pool, s));
        if (d < least || (d == least && !found)) {
            least = d;
            found = cst_pool_split_name(pool, s);
        }
    }
    return found;
}

cst_status cst_fail_split(cst_context *context, cst_status status, const cst_pool *pool,
                          const char *split) {
    cst_buffer text = {.context = context};
    const char *near = nearest(pool, split);
    int32_t count = (int32_t)cst_pool_splits(pool);
    if (near) {
        cst_buffer_add_text(&text, "; did you mean '");
        cst_buffer_add_text(&text, near);
        cst_buffer_add_text(&text, "'? Its splits are ");
    } else {
        cst_buffer_add_text(&text, count == 1 ? "; its only split is " : "; its splits are ");
    }
    for (int32_t s = 0; s < count && s < SHOWN; s++) {
        cst_buffer_add_text(&text, s ? ", '" : "'");
        cst_buffer_add_text(&text, cst_pool_split_name(pool, s));
        cst_buffer_add_text(&text, "'");
    }
    if (count > SHOWN)
        cst_buffer_add_text(&text, ", ...");
    if (text.status == CST_OK)
        status = cst_fail(context, status, "the pool has no split '%.100s'%.500s", split,
                          count > 0 ? text.bytes : "");
    else
        status = text.status;
    cst_free(context, text.bytes);
    return status;
}
