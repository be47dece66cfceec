/* Rows converted piece by piece, each piece small enough to stay in the cache: of files, of maps
 * and of the caller's arrays, into memory, into a store's file, or only looked at. */
#include "data/pool/state.h"

#include <stddef.h>
#include <string.h>

/* Values converted at a time: what stays in the cache. */
enum { PIECE_VALUES = 1 << 15 };

typedef struct buffers {
    int64_t rows;       /* of a piece */
    unsigned char *raw; /* [rows][width] elements */
    float *narrow;      /* [rows][width] */
    double *wide;       /* [rows][width] */
    double *sorted;     /* [width] */
} buffers;

/* For pieces of at most `rows` rows. */
static cst_status take_buffers(cst_context *context, cst_scope *scope, const cst_pieces *p,
                               int64_t rows, buffers *b) {
    int64_t piece = PIECE_VALUES / p->convert.width > 0 ? PIECE_VALUES / p->convert.width : 1;
    b->rows = piece < rows ? piece : rows;
    size_t cells = (size_t)b->rows * (size_t)p->convert.width;
    CST_TAKE(context, scope, b->raw, p->element ? cells * p->element->item : 0);
    CST_TAKE(context, scope, b->narrow, p->narrow ? cells : 0);
    CST_TAKE(context, scope, b->wide, p->narrow ? (size_t)p->convert.width : cells);
    CST_TAKE(context, scope, b->sorted, p->convert.width);
    return CST_OK;
}

/* Decodes a piece that cannot be used in place, and announces its rows to `convert`. */
static cst_status open_piece(cst_context *context, const cst_pieces *p, cst_convert *convert,
                             int64_t first, int64_t count, const buffers *b) {
    size_t cells = (size_t)count * (size_t)convert->width;
    if (p->plain) {
        const float *rows = p->plain(p->source, first);
        bool dense =
            count > 1 && p->plain(p->source, first + 1) - rows == (ptrdiff_t)convert->width;
        return cst_convert_block(context, convert, first, dense ? count : 1, NULL, rows);
    }
    CST_TRY(p->read ? p->read(context, p->source, first, count, b->narrow, b->wide)
                    : p->fetch(context, p->source, first, count, b->raw));
    if (!p->read && p->narrow)
        cst_npy_decode_f32(p->element, b->raw, cells, b->narrow);
    else if (!p->read)
        cst_npy_decode_f64(p->element, b->raw, cells, b->wide);
    return cst_convert_block(context, convert, first, count, p->narrow ? NULL : b->wide, b->narrow);
}

static cst_status convert_row(cst_context *context, const cst_pieces *p, cst_convert *convert,
                              int64_t first, int64_t i, const buffers *b, float *out) {
    size_t width = (size_t)convert->width;
    double *row = b->wide + (size_t)i * width;
    if (p->narrow)
        return cst_convert_row_f32(context, convert, first, i,
                                   p->plain ? p->plain(p->source, first + i)
                                            : b->narrow + (size_t)i * width,
                                   b->wide, out);
    for (size_t j = 0; convert->column_class && j < width; j++)
        b->sorted[convert->column_class[j]] = row[j];
    return cst_convert_row(context, convert, first, i, convert->column_class ? b->sorted : row,
                           out);
}

static int64_t place_of(const cst_pieces *p, int64_t row) {
    return p->place ? p->place(p->source, row) : row;
}

static cst_status convert_rows(cst_context *context, const cst_pieces *p, cst_convert *convert,
                               int64_t first, int64_t count, const buffers *b,
                               const cst_pieces_out *to, float *out) {
    CST_TRY(open_piece(context, p, convert, first, count, b));
    if (p->narrow && !p->plain && !p->split && !to->present && !to->normalisers)
        return cst_convert_rows_f32(context, convert, first, count, b->narrow, b->wide, out);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = place_of(p, first + i);
        if (p->split && cst_pool_unfolded(p->split, at))
            continue;
        CST_TRY(convert_row(context, p, convert, first, i, b, out + i * convert->classes));
        if (to->present)
            to->present[at] = !convert->absent;
        if (to->normalisers)
            to->normalisers[at] = convert->normaliser;
    }
    return CST_OK;
}

/* Rows that are not in their place yet. */
static cst_status put_rows(cst_context *context, const cst_pieces *p, int64_t first, int64_t count,
                           const cst_pieces_out *to, const float *rows) {
    size_t classes = (size_t)p->convert.classes;
    if (to->entry && !p->place)
        return cst_store_write(context, to->entry, first, count, rows);
    for (int64_t i = 0; i < count; i++, rows += classes) {
        int64_t at = place_of(p, first + i);
        if (to->entry)
            CST_TRY(cst_store_write(context, to->entry, at, 1, rows));
        else if (to->memory)
            memcpy(to->memory + (size_t)(at - to->from) * classes, rows, classes * sizeof *rows);
    }
    return CST_OK;
}

cst_status cst_pieces_run(cst_context *context, const cst_pieces *p, cst_convert *convert,
                          int64_t first, int64_t count, const cst_pieces_out *to) {
    size_t classes = (size_t)convert->classes;
    bool direct = to->memory && !p->place;
    float *scratch = NULL;
    buffers b;
    CST_SCOPE(scope);
    CST_TRY(take_buffers(context, scope, p, count, &b));
    if (!direct)
        CST_TAKE(context, scope, scratch, (size_t)b.rows * classes);
    for (int64_t at = first; at < first + count; at += b.rows) {
        int64_t part = first + count - at < b.rows ? first + count - at : b.rows;
        float *rows = direct ? to->memory + (size_t)(at - to->from) * classes : scratch;
        CST_TRY(cst_poll(context));
        CST_TRY(convert_rows(context, p, convert, at, part, &b, to, rows));
        if (!direct)
            CST_TRY(put_rows(context, p, at, part, to, rows));
    }
    return CST_OK;
}

cst_status cst_pieces_read(cst_context *context, const cst_pieces *pieces, int64_t first,
                           int64_t count, float *out) {
    cst_convert convert = pieces->convert;
    return cst_pieces_run(context, pieces, &convert, first, count,
                          &(cst_pieces_out){.memory = out, .from = first});
}

cst_status cst_pieces_all(cst_context *context, const cst_pieces *pieces, int64_t rows,
                          const cst_pieces_out *to) {
    cst_convert convert = pieces->convert;
    CST_TRY(cst_pieces_run(context, pieces, &convert, 0, rows, to));
    return cst_convert_finish(context, &convert);
}

/* ---- an npy ---- */

static cst_status fetch_npy(cst_context *context, const void *source, int64_t first, int64_t count,
                            unsigned char *raw) {
    return cst_npy_fetch(context, source, first, count, raw);
}

static cst_status read_kept(cst_context *context, const void *source, int64_t first, int64_t count,
                            float *out) {
    return cst_pieces_read(context, source, first, count, out);
}

/* Converts of the rows that are read only these. */
static cst_status gather_kept(cst_context *context, const void *source, const int64_t *rows,
                              int64_t count, float *out) {
    const cst_pieces *p = source;
    cst_convert convert = p->convert;
    size_t width = (size_t)convert.width;
    int64_t span = rows[count - 1] - rows[0] + 1;
    CST_SCOPE(scope);
    CST_NEW(context, scope, unsigned char, raw, (size_t)span *width * p->element->item);
    CST_NEW(context, scope, float, narrow, width);
    CST_NEW(context, scope, double, wide, width);
    CST_TRY(cst_poll(context));
    CST_TRY(p->fetch(context, p->source, rows[0], span, raw));
    for (int64_t i = 0; i < count; i++) {
        size_t at = (size_t)(rows[i] - rows[0]) * width * p->element->item;
        cst_npy_decode_f32(p->element, raw + at, width, narrow);
        CST_TRY(cst_convert_block(context, &convert, rows[i], 1, NULL, narrow));
        CST_TRY(cst_convert_row_f32(context, &convert, rows[i], 0, narrow, wide,
                                    out + i * convert.classes));
    }
    return CST_OK;
}

cst_status cst_pieces_keep(cst_context *context, cst_scope *scope, const cst_pieces *from,
                           int64_t first, int64_t count, cst_convert *looked,
                           cst_store_entry *out) {
    CST_NEW(context, scope, cst_pieces, pieces, 1);
    *pieces = *from;
    *looked = from->convert;
    if (count > 0)
        CST_TRY(cst_pieces_run(context, pieces, looked, first, count, &(cst_pieces_out){0}));
    bool some = from->narrow && from->fetch && !from->read && !from->plain && !from->split;
    *out = (cst_store_entry){
        .source = pieces, .read = read_kept, .read_rows = some ? gather_kept : NULL};
    return CST_OK;
}

cst_status cst_pieces_entry(cst_context *context, cst_scope *scope, const cst_convert *convert,
                            int64_t first, int64_t count, cst_convert *looked,
                            cst_store_entry *out) {
    const cst_npy *npy = convert->rows->npy;
    return cst_pieces_keep(context, scope,
                           &(cst_pieces){.element = npy,
                                         .narrow = cst_npy_is_f32(npy),
                                         .convert = *convert,
                                         .source = npy,
                                         .fetch = fetch_npy},
                           first, count, looked, out);
}
