/*
 * Predictions of a split, written piece by piece into an npy file: each rank writes the rows that
 * it predicts, and none has all of them in memory. The last stage on several ranks. Paper: the
 * blended prediction of "Laplace-Approximate Bayesian Blender".
 */
#include "base/ranks.h"
#include "io/npy.h"
#include "io/output_ranks.h"
#include "model/guard.h"
#include "model/patterns.h"
#include "model/predict.h"
#include "pool/pool.h"

#include <string.h>

/* Bytes of a piece at most. */
static const size_t PIECE_BYTES = (size_t)1 << 26;

typedef struct filing {
    const cst_model *model;
    const cst_view *view;
    cst_predict_job job;
    cst_output_file *output; /* NULL: another rank writes */
    bool all;                /* every rank writes */
    bool written;            /* every rank has written the stack's prediction */
    int64_t first;           /* blocks of this rank */
    int64_t last;
    int64_t piece;            /* blocks of a piece */
    float *rows;              /* [piece * rows of a block][classes] */
    cst_lean_row *stack;      /* [rows], where the guard measures them; else NULL */
    cst_guard_mixing *mixing; /* where the guard acts; else NULL */
} filing;

static size_t row_bytes(const filing *f) {
    return (size_t)f->view->classes * sizeof *f->rows;
}

/* Rows of blocks first..last-1. */
static int64_t rows_of(const filing *f, int64_t first, int64_t last) {
    int64_t end = cst_block_first(last) < f->view->rows ? cst_block_first(last) : f->view->rows;
    return end - cst_block_first(first);
}

static uint64_t place_of(const filing *f, int64_t block) {
    return CST_NPY_HEAD_BYTES + (uint64_t)cst_block_first(block) * row_bytes(f);
}

/* Predicts some blocks into f->rows. */
static cst_status get_piece(cst_context *context, filing *f, int64_t first, int64_t last) {
    if (f->written)
        return cst_output_read_at(context, f->output, place_of(f, first), f->rows,
                                  (size_t)rows_of(f, first, last) * row_bytes(f));
    return cst_predict_blocks(context, &f->job, first, last, f->rows);
}

static cst_status put_piece(cst_context *context, filing *f, int64_t first, int64_t last) {
    return cst_output_write_at(context, f->output, place_of(f, first), f->rows,
                               (size_t)rows_of(f, first, last) * row_bytes(f));
}

typedef cst_status piece_fn(cst_context *context, filing *f, int64_t first, int64_t last);

/* Calls `fn` for the pieces of this rank, with their rows. */
static cst_status for_pieces(cst_context *context, filing *f, piece_fn *fn) {
    cst_status status = CST_OK;
    for (int64_t at = f->first; status == CST_OK && at < f->last; at += f->piece) {
        int64_t end = f->last - at < f->piece ? f->last : at + f->piece;
        status = cst_poll(context);
        CST_TRY(fn(context, f, at, end));
    }
    return status;
}

/* First pass: measures rows for the guard, and writes the file if all ranks write. */
static cst_status first_piece(cst_context *context, filing *f, int64_t first, int64_t last) {
    cst_status status = get_piece(context, f, first, last);
    if (status == CST_OK && f->stack)
        cst_lean_measure(f->rows, rows_of(f, first, last), f->view->classes, NULL, 0, NULL,
                         f->stack + cst_block_first(first), NULL);
    return status == CST_OK && f->all ? put_piece(context, f, first, last) : status;
}

static cst_status first_pass(cst_context *context, filing *f) {
    cst_status status = f->all || f->stack ? for_pieces(context, f, first_piece) : CST_OK;
    cst_share measured = {0};
    if (f->stack)
        measured = cst_share_rows(f->stack, f->view->rows, sizeof *f->stack);
    status = cst_ranks_fill(context, status, cst_block_count(f->view->rows), &measured,
                            f->stack != NULL);
    f->written = f->all;
    return status;
}

static cst_status look_piece(cst_context *context, filing *f, int64_t first, int64_t last) {
    if (!cst_guard_mixing_any(f->mixing, first, last))
        return CST_OK;
    cst_status status = get_piece(context, f, first, last);
    return status == CST_OK ? cst_guard_mixing_look(context, f->mixing, first, last, f->rows)
                            : status;
}

static cst_status mix_piece(cst_context *context, filing *f, int64_t first, int64_t last) {
    if (!cst_guard_mixing_any(f->mixing, first, last))
        return CST_OK;
    cst_status status = get_piece(context, f, first, last);
    CST_TRY(cst_guard_mixing_apply(context, f->mixing, first, last, f->rows));
    return status == CST_OK ? put_piece(context, f, first, last) : status;
}

/* The last pass if only rank 0 writes: pieces in the order of rows, each divided among the ranks.
 */
static cst_status send_pieces(cst_context *context, filing *f, cst_status status) {
    int64_t blocks = cst_block_count(f->view->rows);
    int64_t turn = f->piece * cst_context_ranks(context);
    for (int64_t at = 0; status == CST_OK && at < blocks; at += turn) {
        int64_t count = blocks - at < turn ? blocks - at : turn;
        int64_t first = 0;
        int64_t last = 0;
        void *all = NULL;
        size_t bytes = 0;
        cst_ranks_part(context, count, 1, &first, &last);
        status = cst_poll(context);
        if (status == CST_OK && first < last)
            status = get_piece(context, f, at + first, at + last);
        if (status == CST_OK && first < last && f->mixing &&
            cst_guard_mixing_any(f->mixing, at + first, at + last))
            status = cst_guard_mixing_apply(context, f->mixing, at + first, at + last, f->rows);
        size_t own = first < last ? (size_t)rows_of(f, at + first, at + last) * row_bytes(f) : 0;
        status = cst_ranks_gather(context, status, f->rows, own, &all, &bytes);
        if (status == CST_OK && f->output)
            status = cst_output_write(context, f->output, all, bytes);
        cst_free(context, all);
    }
    return status;
}

/* The blocks of this rank, and how many are worked on at a time. */
static cst_status plan(cst_context *context, filing *f, bool measures) {
    int64_t blocks = cst_block_count(f->view->rows);
    size_t block = CST_BLOCK_ROWS * row_bytes(f); /* 2^24 classes: no overflow */
    size_t room = cst_context_memory(context) / 16 / (size_t)cst_context_ranks(context);
    room = room < PIECE_BYTES ? room : PIECE_BYTES;
    f->piece = room / block > 0 ? (int64_t)(room / block) : 1;
    f->piece = f->piece < blocks ? f->piece : blocks > 0 ? blocks : 1;
    cst_ranks_part(context, blocks, 1, &f->first, &f->last);
    f->rows = cst_alloc(context, (size_t)f->piece, block);
    if (measures)
        f->stack = cst_alloc(context, (size_t)f->view->rows, sizeof *f->stack);
    return f->rows && (f->stack || !measures) ? CST_OK : CST_ERROR_MEMORY;
}

static cst_status open_file(cst_context *context, filing *f, cst_status status, const char *path,
                            int64_t conditions) {
    char head[CST_NPY_HEAD_BYTES];
    size_t bytes = 0;
    int64_t rows = f->view->rows;
    if (status == CST_OK && (!cst_size_mul((size_t)rows, row_bytes(f), &bytes) ||
                             !cst_size_add(bytes, sizeof head, &bytes)))
        status = cst_fail(context, CST_ERROR_LIMIT, "%lld rows of %d classes are too many",
                          (long long)rows, (int)f->view->classes);
    status = cst_output_open_ranks(context, status, &f->output, path, bytes, &f->all);
    if (status != CST_OK || cst_context_rank(context) != 0)
        return status;
    cst_npy_head_f32(head, conditions, conditions > 0 ? rows / conditions : rows, f->view->classes);
    return f->all ? cst_output_write_at(context, f->output, 0, head, sizeof head)
                  : cst_output_write(context, f->output, head, sizeof head);
}

/* Mixes in the average of all members if the guard acts. */
static cst_status lean(cst_context *context, filing *f, cst_pool *pool, const char *split,
                       cst_guard_report *report, const float ***pointers, cst_view *all) {
    cst_status status =
        cst_guard_all(context, f->model, pool, split, f->view, report, pointers, all);
    CST_TRY(cst_guard_mixing_begin(context, f->model, report, all, &f->mixing));
    if (status != CST_OK || !cst_guard_mixing_looks(f->mixing))
        return status;
    status = for_pieces(context, f, look_piece);
    return cst_guard_mixing_settle(context, f->mixing, status);
}

static cst_status write_split(cst_context *context, filing *f, cst_pool *pool, const char *split,
                              const cst_guard *guard, cst_guard_report **report) {
    const float **pointers = NULL;
    cst_view all = {0};
    cst_status status = first_pass(context, f);
    CST_TRY(cst_model_view_tell(context, f->model, split, f->view));
    if (status == CST_OK)
        cst_model_domains_tell(context, f->model, split, f->view);
    CST_TRY(cst_guard_test_split(context, f->model, pool, split, f->view, guard, NULL, &f->stack,
                                 report));
    if (status == CST_OK && *report && guard->mode == CST_GUARD_AUTO && !f->model->adapted &&
        (*report)->fired > 0)
        status = lean(context, f, pool, split, *report, &pointers, &all);
    if (status == CST_OK && *report)
        cst_guard_tell(context, f->model, split, guard->mode, *report);
    if (!f->all)
        status = send_pieces(context, f, status);
    else if (status == CST_OK && f->mixing)
        status = for_pieces(context, f, mix_piece);
    cst_guard_mixing_end(context, f->mixing);
    cst_free(context, (void *)pointers);
    return status;
}

/* With absent members, every rank has all rows. */
static cst_status write_whole(cst_context *context, const cst_model *model, cst_pool *pool,
                              const char *split, const cst_guard *guard, const char *path,
                              int64_t *rows, cst_guard_report **report) {
    float *out = NULL;
    cst_status status =
        cst_model_predict_guarded(context, model, pool, split, guard, &out, rows, report);
    int32_t conditions = status == CST_OK ? cst_pool_conditions(pool, split) : 0;
    if (status == CST_OK && cst_context_rank(context) == 0)
        status = conditions > 0 ? cst_npy_write_pages_f32(context, path, out, conditions,
                                                          *rows / conditions, model->classes)
                                : cst_npy_write_f32(context, path, out, *rows, model->classes);
    cst_free(context, out);
    return cst_ranks_meet(context, status);
}

static cst_status predict_file(cst_context *context, const cst_model *model, cst_pool *pool,
                               const char *split, const cst_guard *guard, const char *path,
                               int64_t *rows, cst_guard_report **report) {
    cst_guard_report *found = NULL;
    const float **pointers = NULL;
    cst_view view = {0};
    filing f = {.model = model, .view = &view};
    cst_status status = cst_model_view(context, model, pool, split, &pointers, &view);
    if (status == CST_OK && cst_view_has_absent(&view)) {
        cst_free(context, (void *)pointers);
        return write_whole(context, model, pool, split, guard, path, rows, report);
    }
    if (status == CST_OK) {
        bool measures =
            guard->mode != CST_GUARD_OFF && model->novelty && cst_guard_measures(model, &view);
        status = cst_predict_begin(context, model, -1, &view, false, true, &f.job);
        CST_TRY(plan(context, &f, measures));
        status = open_file(context, &f, status, path, cst_pool_conditions(pool, split));
        CST_TRY(write_split(context, &f, pool, split, guard, &found));
        status = cst_output_end_ranks(context, status, f.output);
        cst_predict_end(context, &f.job);
    }
    cst_free(context, f.rows);
    cst_free(context, f.stack);
    cst_free(context, (void *)pointers);
    if (status == CST_OK) {
        *rows = view.rows;
        *report = found;
        return CST_OK;
    }
    cst_guard_report_free(context, found);
    return status;
}

cst_status cst_model_predict_file(cst_context *context, const cst_model *model, cst_pool *pool,
                                  const char *split, const cst_guard *guard, const char *path,
                                  int64_t *rows, cst_guard_report **report) {
    static const cst_guard usual = {.mode = CST_GUARD_WARN, .batch = 0};
    int64_t count = 0;
    cst_guard_report *found = NULL;
    if (rows)
        *rows = 0;
    if (report)
        *report = NULL;
    CST_ENTER(context);
    CST_CHECK(context, model, MODEL, "model");
    CST_CHECK(context, pool, POOL, "pool");
    if (!model || !pool || !split || !path ||
        (guard &&
         (guard->batch < 0 || guard->mode < CST_GUARD_OFF || guard->mode > CST_GUARD_AUTO)))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_predict_file: model, pool, split, path, a mode of the guard "
                        "and a batch >= 0 are required");
    cst_status status =
        predict_file(context, model, pool, split, guard ? guard : &usual, path, &count, &found);
    if (status == CST_OK && rows)
        *rows = count;
    if (status == CST_OK && report)
        *report = found;
    else
        cst_guard_report_free(context, found);
    return cst_why(context, status);
}
