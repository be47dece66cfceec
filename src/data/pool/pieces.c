/* Rows converted piece by piece, each piece small enough to stay in the cache. Used for members
 * read from files and from the caller's arrays. */
#include "data/pool/state.h"

#include <stddef.h>

/* Values converted at a time: what stays in the cache. */
enum { PIECE_VALUES = 1 << 15 };

typedef struct buffers {
    int64_t rows;       /* of a piece */
    unsigned char *raw; /* [rows][width] elements */
    float *narrow;      /* [rows][width] */
    double *wide;       /* [rows][width] */
} buffers;

/* For pieces of at most `rows` rows. */
static cst_status take_buffers(cst_context *context, cst_scope *scope, const cst_pieces *p,
                               int64_t rows, buffers *b) {
    int64_t piece = PIECE_VALUES / p->convert.width > 0 ? PIECE_VALUES / p->convert.width : 1;
    b->rows = piece < rows ? piece : rows;
    size_t cells = (size_t)b->rows * (size_t)p->convert.width;
    CST_TAKE(context, scope, b->raw, cells * p->element->item);
    CST_TAKE(context, scope, b->narrow, cells);
    CST_TAKE(context, scope, b->wide, cells);
    return CST_OK;
}

/* Decodes a piece that cannot be used in place, and announces its rows to `convert`. */
static cst_status open_piece(cst_context *context, const cst_pieces *p, cst_convert *convert,
                             int64_t first, int64_t count, const buffers *b) {
    size_t cells = (size_t)count * (size_t)convert->width;
    bool narrow = cst_npy_is_f32(p->element);
    if (p->plain) {
        const float *rows = p->plain(p->source, first);
        bool dense =
            count > 1 && p->plain(p->source, first + 1) - rows == (ptrdiff_t)convert->width;
        return cst_convert_block(context, convert, first, dense ? count : 1, NULL, rows);
    }
    CST_TRY(p->fetch(context, p->source, first, count, b->raw));
    if (narrow)
        cst_npy_decode_f32(p->element, b->raw, cells, b->narrow);
    else
        cst_npy_decode_f64(p->element, b->raw, cells, b->wide);
    return cst_convert_block(context, convert, first, count, narrow ? NULL : b->wide, b->narrow);
}

static cst_status convert_rows(cst_context *context, const cst_pieces *p, cst_convert *convert,
                               int64_t first, int64_t count, const buffers *b, uint8_t *present,
                               float *out) {
    size_t width = (size_t)convert->width;
    bool narrow = cst_npy_is_f32(p->element);
    CST_TRY(open_piece(context, p, convert, first, count, b));
    if (narrow && !p->plain && !p->split && !present)
        return cst_convert_rows_f32(context, convert, first, count, b->narrow, b->wide, out);
    for (int64_t i = 0; i < count; i++) {
        float *to = out + (size_t)i * (size_t)convert->classes;
        if (p->split && cst_pool_unfolded(p->split, first + i)) {
            if (present)
                present[first + i] = 0;
            continue;
        }
        const float *row =
            p->plain ? p->plain(p->source, first + i) : b->narrow + (size_t)i * width;
        CST_TRY(narrow
                    ? cst_convert_row_f32(context, convert, first, i, row, b->wide, to)
                    : cst_convert_row(context, convert, first, i, b->wide + (size_t)i * width, to));
        if (present)
            present[first + i] = !convert->absent;
    }
    return CST_OK;
}

cst_status cst_pieces_read(cst_context *context, const cst_pieces *pieces, int64_t first,
                           int64_t count, float *out) {
    cst_convert convert = pieces->convert;
    buffers b;
    CST_SCOPE(scope);
    CST_TRY(take_buffers(context, scope, pieces, count, &b));
    for (int64_t at = 0; at < count; at += b.rows) {
        int64_t part = count - at < b.rows ? count - at : b.rows;
        CST_TRY(convert_rows(context, pieces, &convert, first + at, part, &b, NULL,
                             out + (size_t)at * (size_t)convert.classes));
    }
    return CST_OK;
}

/* Converts rows first..first+count-1 into out; with out NULL only checks them. */
static cst_status convert_all(cst_context *context, const cst_pieces *pieces, int64_t first,
                              int64_t count, cst_convert *convert, float *out, uint8_t *present) {
    size_t classes = (size_t)convert->classes;
    float *scratch = NULL;
    buffers b;
    CST_SCOPE(scope);
    CST_TRY(take_buffers(context, scope, pieces, count, &b));
    if (!out)
        CST_TAKE(context, scope, scratch, (size_t)b.rows * classes);
    for (int64_t at = 0; at < count; at += b.rows) {
        int64_t part = count - at < b.rows ? count - at : b.rows;
        CST_TRY(cst_poll(context));
        CST_TRY(convert_rows(context, pieces, convert, first + at, part, &b, present,
                             out ? out + (size_t)at * classes : scratch));
    }
    return CST_OK;
}

cst_status cst_pieces_all(cst_context *context, const cst_pieces *pieces, int64_t rows, float *out,
                          uint8_t *present, int64_t *absent) {
    cst_convert convert = pieces->convert;
    CST_TRY(convert_all(context, pieces, 0, rows, &convert, out, present));
    CST_TRY(cst_convert_finish(context, &convert));
    for (int64_t i = 0; absent && i < rows; i++)
        *absent += !present[i];
    return CST_OK;
}

/* ---- an npy ---- */

static cst_status fetch_npy(cst_context *context, const void *source, int64_t first, int64_t count,
                            unsigned char *raw) {
    const cst_pieces *pieces = source;
    return cst_npy_fetch(context, pieces->convert.rows->npy, first, count, raw);
}

static cst_status read_npy(cst_context *context, const void *source, int64_t first, int64_t count,
                           float *out) {
    return cst_pieces_read(context, source, first, count, out);
}

cst_status cst_pieces_entry(cst_context *context, cst_scope *scope, const cst_convert *convert,
                            int64_t first, int64_t count, cst_convert *looked,
                            cst_store_entry *out) {
    CST_NEW(context, scope, cst_pieces, pieces, 1);
    *pieces = (cst_pieces){
        .element = convert->rows->npy, .convert = *convert, .source = pieces, .fetch = fetch_npy};
    *looked = *convert;
    if (count > 0)
        CST_TRY(convert_all(context, pieces, first, count, looked, NULL, NULL));
    *out = (cst_store_entry){.source = pieces, .read = read_npy};
    return CST_OK;
}
