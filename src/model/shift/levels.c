/*
 * The levels of rows: where what is measured of them is among the rows of the fit. Before the test
 * of a batch. model/shift/novelty.h.
 */
#include "model/shift/parts.h"

static double level_of(const cst_novelty *novelty, float spread, double distance, int32_t class) {
    int64_t j = cst_novelty_count(&novelty->spread, cst_novelty_key(spread));
    int64_t m = cst_novelty_count(&novelty->distance, cst_novelty_key((float)distance));
    const cst_novelty_table *table = &novelty->score[novelty->table_of[class]];
    int64_t count = cst_novelty_count(table, cst_novelty_score(j, m));
    return (double)(1 + count) / (double)(table->rows + 1);
}

/* The members of the distance that are there, with the part of the covariance that is theirs. */
typedef struct part {
    uint32_t there;
    int32_t size;
    double *mean;       /* [size] */
    double *covariance; /* [size][size] */
    double *inverse;    /* [size][size] */
    float *logs;        /* [size] */
} part;

static cst_status part_alloc(cst_context *worker, const cst_novelty *novelty, part *p) {
    size_t size = (size_t)novelty->size;
    p->mean = cst_alloc(worker, size, sizeof *p->mean);
    p->covariance = cst_alloc(worker, size * size, sizeof *p->covariance);
    p->inverse = cst_alloc(worker, size * size, sizeof *p->inverse);
    p->logs = cst_alloc(worker, size, sizeof *p->logs);
    return p->mean && p->covariance && p->inverse && p->logs ? CST_OK : CST_ERROR_MEMORY;
}

static void part_free(cst_context *worker, part *p) {
    cst_free(worker, p->mean);
    cst_free(worker, p->covariance);
    cst_free(worker, p->inverse);
    cst_free(worker, p->logs);
}

static cst_status part_of(cst_context *worker, const cst_novelty *novelty, uint32_t there,
                          part *p) {
    int32_t from[CST_NOVELTY_MEMBERS_MAX];
    if (p->size > 0 && p->there == there)
        return CST_OK;
    p->size = 0;
    p->there = there;
    for (int32_t j = 0; j < novelty->size; j++)
        if (there >> j & 1)
            from[p->size++] = j;
    for (int32_t i = 0; i < p->size; i++) {
        p->mean[i] = novelty->mean[from[i]];
        for (int32_t j = 0; j < p->size; j++)
            p->covariance[i * p->size + j] = novelty->covariance[from[i] * novelty->size + from[j]];
    }
    return cst_novelty_invert(worker, p->size, p->covariance, p->inverse);
}

/* The distance among those there, which is no larger than that among all: a row that lacks members
 * does not look unlike for that. */
static cst_status distance_of(cst_context *worker, const cst_novelty *novelty, uint32_t there,
                              const float *logs, part *p, double *out) {
    if (there == UINT32_MAX >> (CST_NOVELTY_MEMBERS_MAX - novelty->size)) {
        *out = cst_novelty_distance(novelty->size, novelty->mean, novelty->factor, logs);
        return CST_OK;
    }
    *out = 0;
    if (there == 0)
        return CST_OK;
    cst_status status = part_of(worker, novelty, there, p);
    if (status != CST_OK)
        return status;
    int32_t at = 0;
    for (int32_t j = 0; j < novelty->size; j++)
        if (there >> j & 1)
            p->logs[at++] = logs[j];
    *out = cst_novelty_distance(p->size, p->mean, p->inverse, p->logs);
    return CST_OK;
}

typedef struct job {
    const cst_novelty *novelty;
    const cst_view *view;
    double *level;
} job;

static cst_status level_block(cst_context *worker, void *user, int64_t block) {
    const job *j = user;
    const cst_novelty *novelty = j->novelty;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(j->view->rows, block);
    cst_novelty_rows rows = {0};
    part p = {0};
    cst_status status = cst_novelty_rows_alloc(worker, count, novelty->size, &rows);
    CST_THEN(part_alloc(worker, novelty, &p));
    CST_THEN(
        cst_novelty_measure(worker, j->view, novelty->place, novelty->size, first, count, &rows));
    for (int64_t i = 0; status == CST_OK && i < count; i++) {
        double distance = 0;
        j->level[first + i] = 1;
        if (rows.class[i] < 0)
            continue;
        status = distance_of(worker, novelty, rows.there[i], rows.logs + i * novelty->size, &p,
                             &distance);
        j->level[first + i] = level_of(novelty, rows.spread[i], distance, rows.class[i]);
    }
    part_free(worker, &p);
    cst_novelty_rows_free(worker, &rows);
    return status;
}

cst_status cst_novelty_levels(cst_context *context, const cst_novelty *novelty,
                              const cst_view *kept, double *level) {
    if (kept->members != novelty->members || kept->classes != novelty->classes)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "the guard's reference is of %d members and %d classes, but the data have "
                        "%d and %d",
                        (int)novelty->members, (int)novelty->classes, (int)kept->members,
                        (int)kept->classes);
    job j = {.novelty = novelty, .view = kept, .level = level};
    const cst_share filled = cst_share_rows(level, kept->rows, sizeof *level);
    return cst_parallel_fill(context, cst_block_count(kept->rows), level_block, &j, &filled, 1);
}

double cst_novelty_row(const cst_novelty *novelty, const float *const *rows, float *work) {
    float spread = 0;
    float logs[CST_NOVELTY_MEMBERS_MAX] = {0};
    int32_t class = 0;
    uint32_t there = 0;
    cst_novelty_rows row = {.spread = &spread, .logs = logs, .class = &class, .there = &there};
    cst_view view = {
        .rows = 1, .classes = novelty->classes, .members = novelty->members, .data = rows};
    cst_novelty_measure_row(&view, novelty->place, novelty->size, work, &row);
    return level_of(novelty, spread,
                    cst_novelty_distance(novelty->size, novelty->mean, novelty->factor, logs),
                    class);
}
