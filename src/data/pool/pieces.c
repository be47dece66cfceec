/*
 * Rows converted piece by piece, each piece small enough to stay in the cache. Under members that
 * are read from files and from the caller's arrays. docs/method.md#s0-rows-folds-ids.
 */
#include "data/pool/pieces.h"
#include "data/pool/row_diagnosis.h"

#include <stddef.h>

/* Values converted at a time: what stays in the cache. */
enum { PIECE_VALUES = 1 << 15 };

typedef struct buffers {
    unsigned char *raw; /* [piece][width] elements */
    float *narrow;      /* [piece][width] */
    double *wide;       /* [piece][width] */
} buffers;

/* Rows converted at a time, at most `rows`. */
static int64_t piece_rows(const cst_pieces *p, int64_t rows) {
    int64_t piece = PIECE_VALUES / p->convert.width > 0 ? PIECE_VALUES / p->convert.width : 1;
    return piece < rows ? piece : rows;
}

static void free_buffers(cst_context *context, buffers *b) {
    cst_free(context, b->raw);
    cst_free(context, b->narrow);
    cst_free(context, b->wide);
}

/* Freed with free_buffers also after a failure. */
static cst_status make_buffers(cst_context *context, const cst_pieces *p, int64_t rows,
                               buffers *b) {
    size_t cells = (size_t)rows * (size_t)p->convert.width;
    *b = (buffers){.raw = cst_alloc(context, cells, p->element->item),
                   .narrow = cst_alloc(context, cells, sizeof(float)),
                   .wide = cst_alloc(context, cells, sizeof(double))};
    return b->raw && b->narrow && b->wide ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status convert_rows(cst_context *context, const cst_pieces *p, cst_convert *convert,
                               int64_t first, int64_t count, const buffers *b, uint8_t *present,
                               float *out) {
    size_t width = (size_t)convert->width;
    size_t cells = (size_t)count * width;
    bool narrow = cst_npy_is_f32(p->element);
    cst_status status = CST_OK;
    if (!p->plain) {
        status = p->fetch(context, p->source, first, count, b->raw);
        if (status == CST_OK && narrow)
            cst_npy_decode_f32(p->element, b->raw, cells, b->narrow);
        else if (status == CST_OK)
            cst_npy_decode_f64(p->element, b->raw, cells, b->wide);
    }
    if (p->plain) {
        const float *rows = p->plain(p->source, first);
        bool dense = count > 1 && p->plain(p->source, first + 1) - rows == (ptrdiff_t)width;
        status = cst_convert_block(context, convert, first, dense ? count : 1, NULL, rows);
    } else if (status == CST_OK) {
        status =
            cst_convert_block(context, convert, first, count, narrow ? NULL : b->wide, b->narrow);
    }
    if (status == CST_OK && narrow && !p->plain && !p->split && !present)
        return cst_convert_rows_f32(context, convert, first, count, b->narrow, b->wide, out);
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        float *to = out + (size_t)i * (size_t)convert->classes;
        if (p->split && cst_pool_unfolded(p->split, first + i)) {
            if (present)
                present[first + i] = 0;
            continue;
        }
        const float *row =
            p->plain ? p->plain(p->source, first + i) : b->narrow + (size_t)i * width;
        status = narrow
                     ? cst_convert_row_f32(context, convert, first, i, row, b->wide, to)
                     : cst_convert_row(context, convert, first, i, b->wide + (size_t)i * width, to);
        if (present)
            present[first + i] = !convert->absent;
    }
    return status;
}

cst_status cst_pieces_read(cst_context *context, const cst_pieces *pieces, int64_t first,
                           int64_t count, float *out) {
    int64_t piece = piece_rows(pieces, count);
    cst_convert convert = pieces->convert;
    buffers b;
    cst_status status = make_buffers(context, pieces, piece, &b);
    for (int64_t at = 0; status == CST_OK && at < count; at += piece) {
        int64_t part = count - at < piece ? count - at : piece;
        status = convert_rows(context, pieces, &convert, first + at, part, &b, NULL,
                              out + (size_t)at * (size_t)convert.classes);
    }
    free_buffers(context, &b);
    return status;
}

/* Rows first..first+count-1 into out, or, with out NULL, nowhere. */
static cst_status convert_all(cst_context *context, const cst_pieces *pieces, int64_t first,
                              int64_t count, cst_convert *convert, float *out, uint8_t *present) {
    int64_t piece = piece_rows(pieces, count);
    size_t classes = (size_t)convert->classes;
    buffers b;
    float *scratch = cst_alloc(context, out ? 0 : (size_t)piece * classes, sizeof *scratch);
    cst_status status = make_buffers(context, pieces, piece, &b);
    if (!scratch)
        status = CST_ERROR_MEMORY;
    for (int64_t at = 0; status == CST_OK && at < count; at += piece) {
        int64_t part = count - at < piece ? count - at : piece;
        status = cst_poll(context);
        CST_THEN(convert_rows(context, pieces, convert, first + at, part, &b, present,
                              out ? out + (size_t)at * classes : scratch));
    }
    cst_free(context, scratch);
    free_buffers(context, &b);
    return status;
}

cst_status cst_pieces_all(cst_context *context, const cst_pieces *pieces, int64_t rows, float *out,
                          uint8_t *present, int64_t *absent) {
    cst_convert convert = pieces->convert;
    cst_status status = convert_all(context, pieces, 0, rows, &convert, out, present);
    CST_THEN(cst_convert_finish(context, &convert));
    for (int64_t i = 0; absent && i < rows; i++)
        *absent += !present[i];
    return status;
}

cst_status cst_pieces_look(cst_context *context, const cst_pieces *pieces, int64_t first,
                           int64_t count, cst_convert *convert) {
    *convert = pieces->convert;
    return count > 0 ? convert_all(context, pieces, first, count, convert, NULL, NULL) : CST_OK;
}
