/*
 * Offsets of label maps for the scores of each fold and for a model. After the folds' fits, before
 * their scores. docs/segmentation.md, "Label maps".
 */
#include "tasks/segmentation/decide.h"
#include "tasks/segmentation/nested.h"

#include <string.h>

/* Folds are put together to at most this many blocks, of which every two are left out once. */
enum { BLOCKS_MAX = 5 };

typedef struct offset_search {
    const cst_nesting *nesting;
    const cst_training *source; /* with the table that all fits share */
    const cst_fold_fits *fits;
    int32_t blocks;
    cst_method_fit *pairs; /* [blocks][blocks]: at [a][b], a < b, the fit without these two */
    int32_t *block;        /* [rows] of the sample */
    float *held;           /* [rows][classes] */
    float *part;           /* [rows][classes] */
    int32_t *labels;       /* [rows] */
    int64_t *index;        /* [rows] */
    double *prior;         /* [2][classes] */
} offset_search;

/* ---- fits without two blocks ---- */

/* Folds with blocks a and b as fold 0 and the others in their order. Returns how many. */
static int32_t merge_folds(const offset_search *s, int32_t a, int32_t b, int32_t *folds) {
    int32_t count = 1;
    for (int32_t f = 0; f < s->fits->count; f++) {
        int32_t block = f % s->blocks;
        int32_t number = block == a || block == b ? 0 : count++;
        for (int64_t i = 0; i < s->source->view.rows; i++)
            folds[i] = s->source->folds[i] == f ? number : folds[i];
    }
    return count;
}

static cst_status fit_pair(cst_context *worker, void *user, int64_t task) {
    const offset_search *s = user;
    int32_t a = (int32_t)(task / s->blocks);
    int32_t b = (int32_t)(task % s->blocks);
    if (a >= b)
        return CST_OK;
    const cst_segment_settings *settings = s->nesting->settings;
    int32_t classes = s->source->view.classes;
    cst_method_fit *fit = &s->pairs[task];
    cst_training merged = *s->source;
    double *prior = cst_alloc(worker, 2 * (size_t)classes, sizeof *prior);
    merged.folds = cst_alloc(worker, (size_t)s->source->view.rows, sizeof *merged.folds);
    cst_status status = prior && merged.folds ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        merged.fold_count = merge_folds(s, a, b, merged.folds);
        cst_fold_shares(s->fits, classes, s->blocks, a, b, prior, prior + classes);
        status =
            cst_method_fit_without(worker, s->nesting->method, &merged, 0, settings->seed, fit);
    }
    CST_THEN(cst_method_prior_correct(worker, prior, prior + classes, settings, fit));
    cst_free(worker, prior);
    cst_free(worker, merged.folds);
    return status;
}

/* With two folds there is no third to fit on: each fold's own fit stands for the pair. */
static cst_status fit_pairs(cst_context *context, offset_search *s) {
    const cst_training *source = s->nesting->source;
    cst_training shared = *source;
    cst_compact *table = NULL;
    if (s->blocks < 3)
        return CST_OK;
    cst_status status = CST_OK;
    if (!s->nesting->method->baseline)
        status = cst_stages_table(context, &source->view, source->folds, source->fold_count,
                                  &s->nesting->method->settings, &table);
    cst_compact_attach(&shared.view, table);
    s->source = &shared;
    CST_THEN(cst_parallel_turns(context, (int64_t)s->blocks * s->blocks, fit_pair, s));
    s->source = source;
    cst_logtable_unshare(context, table);
    return status;
}

static const cst_method_fit *fit_without(const offset_search *s, int32_t a, int32_t b) {
    if (s->blocks < 3)
        return &s->fits->fits[a];
    return &s->pairs[a < b ? a * s->blocks + b : b * s->blocks + a];
}

/* ---- choosing ---- */

/* Probabilities of the rows whose key is `key` by a fit, to their places in `held`. */
static cst_status predict_rows(cst_context *context, offset_search *s, const cst_method_fit *fit,
                               const int32_t *keys, int32_t key) {
    size_t classes = (size_t)s->source->view.classes;
    const float *from = s->part;
    cst_view inside;
    cst_view rows;
    cst_view_split(&s->source->view, keys, key, s->index, &inside, &rows);
    cst_status status = cst_method_fit_predict(context, fit, &rows, s->part);
    for (int64_t i = 0; status == CST_OK && i < s->source->view.rows; i++) {
        if (keys[i] != key)
            continue;
        memcpy(s->held + (size_t)i * classes, from, classes * sizeof *from);
        from += classes;
    }
    return status;
}

/* Offsets for the rows that are not in block `block` (-1: for all), as they are predicted in
 * `held`; prior and share are of them. */
static cst_status choose(cst_context *context, offset_search *s, int32_t block, const double *prior,
                         const double *share, double *out) {
    size_t classes = (size_t)s->source->view.classes;
    int64_t count = 0;
    for (int64_t i = 0; i < s->source->view.rows; i++) {
        if (s->block[i] == block)
            continue;
        memcpy(s->part + (size_t)count * classes, s->held + (size_t)i * classes,
               classes * sizeof *s->part);
        s->labels[count++] = s->source->view.labels[i];
    }
    return cst_offsets_choose(context, s->part, s->labels, count, (int32_t)classes, prior, share,
                              out);
}

/* For the scores of block a's folds: the rows of each other block by the fit without it and a. */
static cst_status choose_without(cst_context *context, offset_search *s, int32_t a, double *out) {
    int32_t classes = s->source->view.classes;
    cst_status status = CST_OK;
    for (int32_t b = 0; status == CST_OK && b < s->blocks; b++)
        if (b != a)
            status = predict_rows(context, s, fit_without(s, a, b), s->block, b);
    cst_fold_shares(s->fits, classes, s->blocks, a, a, s->prior, s->prior + classes);
    CST_THEN(choose(context, s, a, s->prior, s->prior + classes, out + (ptrdiff_t)a * classes));
    for (int32_t f = a + s->blocks; status == CST_OK && f < s->fits->count; f += s->blocks)
        memcpy(out + (ptrdiff_t)f * classes, out + (ptrdiff_t)a * classes,
               (size_t)classes * sizeof *out);
    return status;
}

static cst_status open_search(cst_context *context, offset_search *s) {
    size_t rows = (size_t)s->source->view.rows;
    size_t classes = (size_t)s->source->view.classes;
    s->pairs = cst_alloc(context, (size_t)s->blocks * (size_t)s->blocks, sizeof *s->pairs);
    s->block = cst_alloc(context, rows, sizeof *s->block);
    s->held = cst_alloc(context, rows, classes * sizeof *s->held);
    s->part = cst_alloc(context, rows, classes * sizeof *s->part);
    s->labels = cst_alloc(context, rows, sizeof *s->labels);
    s->index = cst_alloc(context, rows, sizeof *s->index);
    s->prior = cst_alloc(context, 2 * classes, sizeof *s->prior);
    if (!s->pairs || !s->block || !s->held || !s->part || !s->labels || !s->index || !s->prior)
        return CST_ERROR_MEMORY;
    for (size_t i = 0; i < rows; i++)
        s->block[i] = s->source->folds[i] % s->blocks;
    return CST_OK;
}

static void close_search(cst_context *context, offset_search *s) {
    for (int32_t i = 0; s->pairs && i < s->blocks * s->blocks; i++)
        cst_method_fit_free(context, &s->pairs[i]);
    cst_free(context, s->pairs);
    cst_free(context, s->block);
    cst_free(context, s->held);
    cst_free(context, s->part);
    cst_free(context, s->labels);
    cst_free(context, s->index);
    cst_free(context, s->prior);
}

cst_status cst_fold_offsets(cst_context *context, const cst_nesting *nesting,
                            const cst_fold_fits *fits, bool scored, double **out) {
    size_t classes = (size_t)nesting->source->view.classes;
    offset_search s = {.nesting = nesting,
                       .source = nesting->source,
                       .fits = fits,
                       .blocks = fits->count < BLOCKS_MAX ? fits->count : BLOCKS_MAX};
    double *offsets = cst_alloc(context, (size_t)fits->count + 1, classes * sizeof *offsets);
    cst_status status = offsets ? open_search(context, &s) : CST_ERROR_MEMORY;
    for (int32_t f = 0; status == CST_OK && f < fits->count; f++)
        status = predict_rows(context, &s, &fits->fits[f], nesting->source->folds, f);
    CST_THEN(choose(context, &s, -1, nesting->sample->prior, nesting->sample->share,
                    offsets + (size_t)fits->count * classes));
    if (status == CST_OK && scored)
        status = fit_pairs(context, &s);
    for (int32_t a = 0; status == CST_OK && scored && a < s.blocks; a++)
        status = choose_without(context, &s, a, offsets);
    close_search(context, &s);
    if (status != CST_OK) {
        cst_free(context, offsets);
        offsets = NULL;
    }
    *out = offsets;
    return status;
}
