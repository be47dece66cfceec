/*
 * Hashes of rows, and the smallest of them as a sample of the rows: a row of the fit is in the
 * sample or has a larger hash, wherever it comes from. Between fitting and scoring.
 * docs/model-format.md#sett.
 */
#include "model/row_sketch.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- hashes ---- */

typedef struct hash_job {
    const cst_view *view;
    uint64_t *out;
} hash_job;

/* FNV-1a by words of 32 bits. */
static uint64_t add_word(uint64_t hash, uint32_t word) {
    return (hash ^ word) * UINT64_C(0x100000001b3);
}

/* Every bit of the result depends on every bit (the last step of MurmurHash3), so that the smallest
 * hashes are a fair sample of the rows. */
static uint64_t finish(uint64_t hash) {
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ (hash >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ (hash >> 33);
}

static uint64_t add_row(uint64_t hash, const float *row, size_t classes) {
    for (size_t c = 0; c < classes; c++) {
        uint32_t bits = 0;
        memcpy(&bits, &row[c], sizeof bits);
        hash = add_word(hash, bits);
    }
    return hash;
}

static cst_status hash_block(cst_context *context, void *user, int64_t block) {
    const hash_job *job = user;
    const cst_view *view = job->view;
    size_t classes = (size_t)view->classes;
    int64_t first = cst_block_first(block);
    int64_t size = cst_block_size(view->rows, block);
    uint64_t *out = job->out + first;
    CST_SCOPE(scope);
    float *scratch;
    CST_TAKE(context, scope, scratch, (size_t)size * classes);
    for (int64_t i = 0; i < size; i++)
        out[i] = add_word(UINT64_C(0xcbf29ce484222325), (uint32_t)cst_view_label(view, first + i));
    for (int32_t k = 0; k < view->members; k++) {
        const float *p = NULL;
        CST_TRY(cst_view_rows(context, view, k, first, size, scratch, &p));
        for (int64_t i = 0; i < size; i++)
            out[i] = add_row(out[i], p + (size_t)i * classes, classes);
    }
    for (int64_t i = 0; i < size; i++)
        out[i] = finish(out[i]);
    return CST_OK;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

cst_status cst_row_hashes(cst_context *context, const cst_view *view, uint64_t **out) {
    hash_job job = {view, cst_alloc(context, (size_t)view->rows, sizeof *job.out)};
    cst_status status = CST_ERROR_MEMORY;
    const cst_share filled = cst_share_rows(job.out, view->rows, sizeof *job.out);
    if (job.out)
        status =
            cst_parallel_fill(context, cst_block_count(view->rows), hash_block, &job, &filled, 1);
    CST_THEN(cst_sort(context, job.out, (size_t)view->rows, sizeof *job.out, by_value));
    if (status != CST_OK) {
        cst_free(context, job.out);
        job.out = NULL;
    }
    *out = job.out;
    return status;
}

/* How many of sorted hashes [rows] another one equals. */
static int64_t count_repeated(const uint64_t *hashes, int64_t rows) {
    int64_t repeated = 0;
    for (int64_t i = 0; i < rows; i++)
        repeated +=
            (i > 0 && hashes[i] == hashes[i - 1]) || (i + 1 < rows && hashes[i] == hashes[i + 1]);
    return repeated;
}

/* How many of sorted [count] from `at` on are `hash`. */
static int64_t times(const uint64_t *sorted, int64_t count, int64_t at, uint64_t hash) {
    int64_t end = at;
    while (end < count && sorted[end] == hash)
        end++;
    return end - at;
}

cst_row_match cst_row_hashes_match(const uint64_t *known, int64_t count, uint64_t largest,
                                   const uint64_t *hashes, int64_t rows) {
    cst_row_match match = {0};
    int64_t at = 0;
    for (int64_t i = 0; i < rows && hashes[i] <= largest;) {
        int64_t size = times(hashes, rows, i, hashes[i]);
        while (at < count && known[at] < hashes[i])
            at++;
        int64_t there = times(known, count, at, hashes[i]);
        match.looked_at += size;
        match.found += there > 0 ? size : 0;
        match.contents += there <= 1;
        match.contents_found += there == 1;
        match.single += there <= 1 && size == 1;
        i += size;
    }
    return match;
}

/* ---- sketches ---- */

cst_status cst_row_sketch_of(cst_context *context, const cst_view *view, cst_row_sketch *out) {
    *out = (cst_row_sketch){.rows = view->rows};
    uint64_t *hashes = NULL;
    cst_status status = cst_row_hashes(context, view, &hashes);
    if (status == CST_OK) {
        out->repeated = count_repeated(hashes, view->rows);
        for (int64_t i = 0; i < view->rows && out->count < CST_SKETCH_ROWS; i++)
            if (i == 0 || hashes[i] != hashes[i - 1])
                out->least[out->count++] = hashes[i];
    }
    cst_free(context, hashes);
    return status;
}

cst_row_match cst_row_sketch_match(const cst_row_sketch *sketch, const uint64_t *hashes,
                                   int64_t rows) {
    /* A sketch that is not full has every row there was. */
    bool full = sketch->count == CST_SKETCH_ROWS;
    uint64_t largest = full ? sketch->least[sketch->count - 1] : UINT64_MAX;
    return cst_row_hashes_match(sketch->least, sketch->count, largest, hashes, rows);
}

/* ---- as text ---- */

enum { HEX = 16, HEAD_CHARS = 64 };

char *cst_row_sketch_print(cst_context *context, const char *key, const cst_row_sketch *sketch) {
    char text[HEAD_CHARS + CST_SKETCH_ROWS * (HEX + 1)];
    size_t length = (size_t)cst_snprintf(text, HEAD_CHARS, "%.16s.rows=%" PRId64 ":%" PRId64, key,
                                         sketch->rows, sketch->repeated);
    for (int32_t i = 0; i < sketch->count; i++)
        length += (size_t)cst_snprintf(text + length, HEX + 2, "%c%016" PRIx64, i ? ',' : ':',
                                       sketch->least[i]);
    return cst_strdup(context, text);
}

/* A count and the colon behind it; NULL where it is none. */
static const char *read_count(const char *text, int64_t *out) {
    if (!text || !isdigit((unsigned char)*text))
        return NULL;
    char *end = NULL;
    *out = strtoll(text, &end, 10);
    return *end == ':' ? end + 1 : NULL;
}

bool cst_row_sketch_read(const char *text, cst_row_sketch *out) {
    *out = (cst_row_sketch){0};
    text = read_count(read_count(text, &out->rows), &out->repeated);
    while (text && out->count < CST_SKETCH_ROWS) {
        if (strspn(text, "0123456789abcdef") != HEX)
            return false;
        uint64_t hash = strtoull(text, NULL, 16);
        if (out->count > 0 && hash <= out->least[out->count - 1])
            return false;
        out->least[out->count++] = hash;
        text += HEX;
        if (!*text)
            return out->count <= out->rows && out->repeated <= out->rows;
        text = *text == ',' ? text + 1 : NULL;
    }
    return false;
}
