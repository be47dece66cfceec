/* The reference of a fit: what its out-of-fold rows measure. After stage S4. model/shift/novelty.h.
 */
#include "model/shift/parts.h"

enum { FINE = 128, SCORE_KNOTS = 8192 };

static const double RIDGE = 1e-3; /* of the covariance of log(H + 1e-3) */

/* Evenly spaced members of the distance. */
static cst_status choose_members(cst_context *context, cst_novelty *novelty) {
    int32_t all = novelty->members;
    novelty->size = all < CST_NOVELTY_MEMBERS_MAX ? all : CST_NOVELTY_MEMBERS_MAX;
    size_t size = (size_t)novelty->size;
    novelty->place = cst_alloc(context, size, sizeof *novelty->place);
    novelty->mean = cst_alloc(context, size, sizeof *novelty->mean);
    novelty->covariance = cst_alloc(context, size * size, sizeof *novelty->covariance);
    novelty->factor = cst_alloc(context, size * size, sizeof *novelty->factor);
    if (!novelty->place || !novelty->mean || !novelty->covariance || !novelty->factor)
        return CST_ERROR_MEMORY;
    for (int32_t j = 0; j < novelty->size; j++)
        novelty->place[j] = (int32_t)((int64_t)j * all / novelty->size);
    return CST_OK;
}

/* Rows of the view that are in the reference: one of each of as many equal parts, at random, so
 * that an order of the rows with a period does no harm. */
static int64_t choose_rows(int64_t rows, int64_t *chosen) {
    int64_t count = rows < CST_NOVELTY_ROWS_MAX ? rows : CST_NOVELTY_ROWS_MAX;
    cst_rng rng;
    cst_rng_init(&rng, 0, CST_STREAM_NOVELTY, 0);
    for (int64_t i = 0; i < count; i++) {
        int64_t from = rows / count * i + rows % count * i / count;
        int64_t to = rows / count * (i + 1) + rows % count * (i + 1) / count;
        chosen[i] = from + (to - from > 1 ? cst_rng_below(&rng, to - from) : 0);
    }
    return count;
}

typedef struct job {
    const cst_view *view; /* of the chosen rows */
    const cst_novelty *novelty;
    cst_novelty_rows *rows;
} job;

static cst_status measure_block(cst_context *worker, void *user, int64_t block) {
    const job *j = user;
    int64_t first = cst_block_first(block);
    cst_novelty_rows part = {.spread = j->rows->spread + first,
                             .logs = j->rows->logs + first * j->novelty->size,
                             .class = j->rows->class + first,
                             .there = j->rows->there + first};
    return cst_novelty_measure(worker, j->view, j->novelty->place, j->novelty->size, first,
                               cst_block_size(j->view->rows, block), &part);
}

/* Mean and covariance of the rows outside `fold`; of all for fold -1. */
static void moments(const cst_novelty *novelty, const float *logs, const int32_t *fold_of,
                    int64_t rows, int32_t fold, double *mean, double *covariance) {
    int32_t size = novelty->size;
    int64_t count = 0;
    memset(mean, 0, (size_t)size * sizeof *mean);
    memset(covariance, 0, (size_t)size * (size_t)size * sizeof *covariance);
    for (int64_t i = 0; i < rows; i++) {
        if (fold_of[i] == fold)
            continue;
        count++;
        for (int32_t j = 0; j < size; j++)
            mean[j] += (double)logs[i * size + j];
    }
    for (int32_t j = 0; j < size; j++)
        mean[j] /= count > 0 ? (double)count : 1;
    for (int64_t i = 0; i < rows; i++) {
        const float *row = logs + i * size;
        if (fold_of[i] == fold)
            continue;
        for (int32_t j = 0; j < size; j++)
            for (int32_t l = 0; l <= j; l++)
                covariance[j * size + l] += ((double)row[j] - mean[j]) * ((double)row[l] - mean[l]);
    }
    for (int32_t j = 0; j < size; j++)
        for (int32_t l = 0; l <= j; l++) {
            double value = covariance[j * size + l] / (count > 1 ? (double)(count - 1) : 1);
            covariance[j * size + l] = value + (j == l ? RIDGE : 0);
            covariance[l * size + j] = covariance[j * size + l];
        }
}

/* Distances of the rows of each fold with the moments of the others. */
static cst_status cross_distances(cst_context *context, const cst_novelty *novelty,
                                  const float *logs, const int32_t *fold_of, int64_t rows,
                                  int32_t fold_count, float *out) {
    size_t size = (size_t)novelty->size;
    double *mean = cst_alloc(context, size, sizeof *mean);
    double *covariance = cst_alloc(context, size * size, sizeof *covariance);
    double *inverse = cst_alloc(context, size * size, sizeof *inverse);
    cst_status status = mean && covariance && inverse ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t fold = 0; status == CST_OK && fold < fold_count; fold++) {
        moments(novelty, logs, fold_of, rows, fold, mean, covariance);
        status = cst_novelty_invert(context, novelty->size, covariance, inverse);
        for (int64_t i = 0; status == CST_OK && i < rows; i++)
            if (fold_of[i] == fold)
                out[i] = (float)cst_novelty_distance(novelty->size, mean, inverse,
                                                     logs + (size_t)i * size);
    }
    cst_free(context, mean);
    cst_free(context, covariance);
    cst_free(context, inverse);
    return status;
}

/* Which classes have a table of their own; the others share the first, which is of their rows, or
 * of all where those are few. */
static cst_status plan_tables(cst_context *context, cst_novelty *novelty, const int32_t *class,
                              int64_t *count) {
    novelty->table_of = cst_alloc(context, (size_t)novelty->classes, sizeof *novelty->table_of);
    if (!novelty->table_of)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < novelty->rows; i++)
        count[class[i]]++;
    novelty->tables = 1;
    for (int32_t c = 0; c < novelty->classes; c++)
        novelty->table_of[c] = count[c] >= CST_NOVELTY_CLASS_MIN ? novelty->tables++ : 0;
    novelty->score = cst_alloc(context, (size_t)novelty->tables, sizeof *novelty->score);
    return novelty->score ? CST_OK : CST_ERROR_MEMORY;
}

/* How finely ranks are kept, so that all tables of scores together stay small. */
static int32_t choose_fine(const cst_novelty *novelty, const int64_t *count, int64_t shared) {
    for (int32_t fine = FINE; fine > 8; fine /= 2) {
        int64_t knots = cst_novelty_knots(shared, fine);
        for (int32_t c = 0; c < novelty->classes; c++)
            knots += novelty->table_of[c] > 0 ? cst_novelty_knots(count[c], fine) : 0;
        if (knots <= SCORE_KNOTS)
            return fine;
    }
    return 8;
}

/* The tables of scores, by the class that the average predicts. */
static cst_status score_tables(cst_context *context, cst_novelty *novelty, const int32_t *class,
                               const uint32_t *scores) {
    int64_t *count = cst_alloc(context, (size_t)novelty->classes, sizeof *count);
    uint32_t *keys = cst_alloc(context, (size_t)novelty->rows, sizeof *keys);
    cst_status status = count && keys ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(plan_tables(context, novelty, class, count));
    int64_t few = 0;
    for (int32_t c = 0; status == CST_OK && c < novelty->classes; c++)
        few += novelty->table_of[c] == 0 ? count[c] : 0;
    bool all = few < CST_NOVELTY_CLASS_MIN;
    int32_t fine = status == CST_OK ? choose_fine(novelty, count, all ? novelty->rows : few) : FINE;
    for (int32_t t = 0; status == CST_OK && t < novelty->tables; t++) {
        int64_t used = 0;
        for (int64_t i = 0; i < novelty->rows; i++)
            if (novelty->table_of[class[i]] == t || (t == 0 && all))
                keys[used++] = scores[i];
        status = cst_novelty_table_make(context, keys, used, fine, &novelty->score[t]);
    }
    cst_free(context, count);
    cst_free(context, keys);
    return status;
}

/* The tables, from what was measured and the rows' folds. */
static cst_status make_tables(cst_context *context, cst_novelty *novelty,
                              const cst_novelty_rows *rows, const int32_t *fold_of,
                              int32_t fold_count) {
    int64_t count = novelty->rows;
    float *distance = cst_alloc(context, (size_t)count, sizeof *distance);
    uint32_t *keys = cst_alloc(context, (size_t)count, sizeof *keys);
    cst_status status = distance && keys ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(cross_distances(context, novelty, rows->logs, fold_of, count, fold_count, distance));
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        keys[i] = cst_novelty_key(rows->spread[i]);
    CST_THEN(cst_novelty_table_make(context, keys, count, FINE, &novelty->spread));
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        keys[i] = cst_novelty_key(distance[i]);
    CST_THEN(cst_novelty_table_make(context, keys, count, FINE, &novelty->distance));
    for (int64_t i = 0; status == CST_OK && i < count; i++)
        keys[i] =
            cst_novelty_score(cst_novelty_count(&novelty->spread, cst_novelty_key(rows->spread[i])),
                              cst_novelty_count(&novelty->distance, cst_novelty_key(distance[i])));
    CST_THEN(score_tables(context, novelty, rows->class, keys));
    cst_free(context, distance);
    cst_free(context, keys);
    return status;
}

/* The reference from the chosen rows. */
static cst_status fit_rows(cst_context *context, const cst_view *view, const int32_t *fold_of,
                           int32_t fold_count, cst_novelty *novelty) {
    cst_novelty_rows rows = {0};
    job j = {.view = view, .novelty = novelty, .rows = &rows};
    novelty->rows = view->rows;
    cst_status status = choose_members(context, novelty);
    CST_THEN(cst_novelty_rows_alloc(context, view->rows, novelty->size, &rows));
    const cst_share filled[] = {
        cst_share_rows(rows.spread, view->rows, sizeof *rows.spread),
        cst_share_rows(rows.logs, view->rows, (size_t)novelty->size * sizeof *rows.logs),
        cst_share_rows(rows.class, view->rows, sizeof *rows.class),
        cst_share_rows(rows.there, view->rows, sizeof *rows.there)};
    CST_THEN(cst_parallel_fill(context, cst_block_count(view->rows), measure_block, &j, filled, 4));
    if (status == CST_OK)
        moments(novelty, rows.logs, fold_of, view->rows, -1, novelty->mean, novelty->covariance);
    CST_THEN(cst_novelty_factor(context, novelty));
    CST_THEN(make_tables(context, novelty, &rows, fold_of, fold_count));
    cst_novelty_rows_free(context, &rows);
    return status;
}

cst_status cst_novelty_fit(cst_context *context, const cst_view *kept, const int32_t *folds,
                           int32_t fold_count, cst_novelty **out) {
    *out = NULL;
    if (kept->rows < CST_NOVELTY_ROWS_MIN || kept->classes < 2)
        return CST_OK;
    size_t most = (size_t)(kept->rows < CST_NOVELTY_ROWS_MAX ? kept->rows : CST_NOVELTY_ROWS_MAX);
    int64_t *index = cst_alloc(context, most, sizeof *index);
    int32_t *fold_of = cst_alloc(context, most, sizeof *fold_of);
    cst_novelty *novelty = cst_alloc(context, 1, sizeof *novelty);
    cst_status status = index && fold_of && novelty ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        cst_view view = *kept;
        *novelty = (cst_novelty){.classes = kept->classes, .members = kept->members};
        view.rows = choose_rows(kept->rows, index);
        view.index = index;
        view.presence = NULL; /* what was filled in is what the fit read */
        for (int64_t i = 0; i < view.rows; i++) {
            fold_of[i] = folds[index[i]];
            index[i] = kept->index ? kept->index[index[i]] : index[i];
        }
        status = fit_rows(context, &view, fold_of, fold_count, novelty);
    }
    if (status == CST_OK)
        *out = novelty;
    else
        cst_novelty_free(context, novelty);
    cst_free(context, index);
    cst_free(context, fold_of);
    return status;
}
