/* How unlike the rows of a fit rows are: samples of keys by rank, the reference of a fit, and the
 * levels of other rows. */
#include "model/shift/novelty.h"

#include "model/shift/parts.h"

#include <math.h>
#include <string.h>

enum { FINE = 128, SCORE_KNOTS = 8192 };

static const double RIDGE = 1e-3; /* of the covariance of log(H + 1e-3) */

/* ---- samples of keys ---- */

/* J or M, at least 0, as a key: large values are small keys. */
static uint32_t key_of(float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return ~bits;
}

/* The rank after `rank`. */
static int64_t next_rank(int64_t rank, int64_t rows, int32_t fine) {
    int64_t step = rank / fine > 1 ? rank / fine : 1;
    return rank + step < rows || rank == rows ? rank + step : rows;
}

int32_t cst_novelty_knots(int64_t rows, int32_t fine) {
    int32_t knots = 0;
    for (int64_t rank = 1; rank <= rows; rank = next_rank(rank, rows, fine))
        knots++;
    return knots;
}

cst_status cst_novelty_table_alloc(cst_context *context, cst_scope *scope, int64_t rows,
                                   int32_t fine, cst_novelty_table *table) {
    *table =
        (cst_novelty_table){.rows = rows, .fine = fine, .knots = cst_novelty_knots(rows, fine)};
    CST_TAKE(context, scope, table->key, table->knots);
    CST_TAKE(context, scope, table->rank, table->knots);
    int64_t rank = 1;
    for (int32_t j = 0; j < table->knots; j++, rank = next_rank(rank, rows, fine))
        table->rank[j] = (int32_t)rank;
    return CST_OK;
}

static cst_status make_table(cst_context *context, cst_scope *scope, uint32_t *keys, int64_t rows,
                             int32_t fine, cst_novelty_table *table) {
    CST_TRY(cst_novelty_table_alloc(context, scope, rows, fine, table));
    CST_TRY(cst_sort(context, keys, (size_t)rows, sizeof *keys, cst_by_u32));
    for (int32_t j = 0; j < table->knots; j++)
        table->key[j] = keys[table->rank[j] - 1];
    return CST_OK;
}

/* How many keys of the sample are at most `key`: at knots and among fine ranks exactly, between
 * coarse ones the most it can be. */
static int64_t count_keys(const cst_novelty_table *table, uint32_t key) {
    const uint32_t *at = table->key; /* knots before `at` are at or below the key */
    for (int32_t left = table->knots; left > 0;) {
        int32_t half = (left + 1) / 2;
        at += at[half - 1] <= key ? half : 0;
        left -= half;
    }
    int64_t below = at - table->key;
    return below < table->knots ? table->rank[below] - 1 : table->rows;
}

/* S of a row. */
static uint32_t score_of(const cst_novelty *novelty, float spread, float distance) {
    int64_t j = count_keys(&novelty->spread, key_of(spread));
    int64_t m = count_keys(&novelty->distance, key_of(distance));
    return (uint32_t)((1 + j) * (1 + m)); /* at most (CST_NOVELTY_ROWS_MAX + 1)^2 < 2^31 */
}

static double level_of(const cst_novelty *novelty, float spread, double distance, int32_t class) {
    const cst_novelty_table *table = &novelty->score[novelty->table_of[class]];
    int64_t count = count_keys(table, score_of(novelty, spread, (float)distance));
    return (double)(1 + count) / (double)(table->rows + 1);
}

/* ---- distances ---- */

/* In place, in plain loops: a model is also loaded, and predicts, where there is no room for the
 * buffers of OpenBLAS. */
static bool factorise(size_t d, double *a) {
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = a[i * d + j];
            for (size_t m = 0; m < j; m++)
                sum -= a[i * d + m] * a[j * d + m];
            if (i == j && !(sum > 0))
                return false;
            a[i * d + j] = i == j ? sqrt(sum) : sum / a[j * d + j];
        }
    return true;
}

static cst_status invert(cst_context *context, int32_t size, double *covariance, double *inverse) {
    size_t d = (size_t)size;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, factor, (d * d));
    memcpy(factor, covariance, d * d * sizeof *factor);
    bool positive = factorise(d, factor);
    for (size_t j = 0; positive && j < d; j++) /* column j of the inverse, from its top */
        for (size_t i = 0; i < d; i++) {
            double sum = i == j ? 1 : 0;
            for (size_t m = j; m < i; m++)
                sum -= factor[i * d + m] * inverse[m * d + j];
            inverse[i * d + j] = i < j ? 0 : sum / factor[i * d + i];
        }
    return positive ? CST_OK
                    : cst_fail(context, CST_ERROR_NUMERIC,
                               "the covariance of the members' entropies is not positive definite");
}

cst_status cst_novelty_factor(cst_context *context, cst_novelty *novelty) {
    return invert(context, novelty->size, novelty->covariance, novelty->factor);
}

/* ---- the reference of a fit ---- */

/* Evenly spaced members of the distance. */
static cst_status choose_members(cst_context *context, cst_scope *scope, cst_novelty *novelty) {
    int32_t all = novelty->members;
    novelty->size = all < CST_NOVELTY_MEMBERS_MAX ? all : CST_NOVELTY_MEMBERS_MAX;
    size_t size = (size_t)novelty->size;
    CST_TAKE(context, scope, novelty->place, size);
    CST_TAKE(context, scope, novelty->mean, size);
    CST_TAKE(context, scope, novelty->covariance, size * size);
    CST_TAKE(context, scope, novelty->factor, size * size);
    for (int32_t j = 0; j < novelty->size; j++)
        novelty->place[j] = (int32_t)((int64_t)j * all / novelty->size);
    return CST_OK;
}

void cst_choose_rows(int64_t rows, int64_t count, uint32_t stream, int64_t *chosen) {
    cst_rng rng;
    cst_rng_init(&rng, 0, CST_STREAM_NOVELTY, stream);
    for (int64_t i = 0; i < count; i++) {
        int64_t from = rows / count * i + rows % count * i / count;
        int64_t to = rows / count * (i + 1) + rows % count * (i + 1) / count;
        chosen[i] = from + (to - from > 1 ? cst_rng_below(&rng, to - from) : 0);
    }
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
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, mean, size);
    CST_NEW(context, scope, double, covariance, (size * size));
    CST_NEW(context, scope, double, inverse, (size * size));
    for (int32_t fold = 0; fold < fold_count; fold++) {
        moments(novelty, logs, fold_of, rows, fold, mean, covariance);
        CST_TRY(invert(context, novelty->size, covariance, inverse));
        for (int64_t i = 0; i < rows; i++)
            if (fold_of[i] == fold)
                out[i] = (float)cst_novelty_distance(novelty->size, mean, inverse,
                                                     logs + (size_t)i * size);
    }
    return CST_OK;
}

/* Which classes have a table of their own; the others share the first, which is of their rows, or
 * of all where those are few. */
static cst_status plan_tables(cst_context *context, cst_scope *scope, cst_novelty *novelty,
                              const int32_t *class, int64_t *count) {
    CST_TAKE(context, scope, novelty->table_of, novelty->classes);
    for (int64_t i = 0; i < novelty->rows; i++)
        count[class[i]]++;
    novelty->tables = 1;
    for (int32_t c = 0; c < novelty->classes; c++)
        novelty->table_of[c] = count[c] >= CST_NOVELTY_CLASS_MIN ? novelty->tables++ : 0;
    CST_TAKE(context, scope, novelty->score, novelty->tables);
    return CST_OK;
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

/* The tables of scores, by the class that the average predicts. keys: [rows] of room. */
static cst_status score_tables(cst_context *context, cst_scope *made, cst_novelty *novelty,
                               const int32_t *class, const uint32_t *scores, uint32_t *keys) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, count, novelty->classes);
    CST_TRY(plan_tables(context, made, novelty, class, count));
    int64_t few = 0;
    for (int32_t c = 0; c < novelty->classes; c++)
        few += novelty->table_of[c] == 0 ? count[c] : 0;
    bool all = few < CST_NOVELTY_CLASS_MIN;
    int32_t fine = choose_fine(novelty, count, all ? novelty->rows : few);
    for (int32_t t = 0; t < novelty->tables; t++) {
        int64_t used = 0;
        for (int64_t i = 0; i < novelty->rows; i++)
            if (novelty->table_of[class[i]] == t || (t == 0 && all))
                keys[used++] = scores[i];
        CST_TRY(make_table(context, made, keys, used, fine, &novelty->score[t]));
    }
    return CST_OK;
}

/* The tables, from what was measured and the rows' folds. */
static cst_status make_tables(cst_context *context, cst_scope *made, cst_novelty *novelty,
                              const cst_novelty_rows *rows, const int32_t *fold_of,
                              int32_t fold_count) {
    int64_t count = novelty->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, distance, count);
    CST_NEW(context, scope, uint32_t, keys, count);
    CST_NEW(context, scope, uint32_t, scores, count);
    CST_TRY(cross_distances(context, novelty, rows->logs, fold_of, count, fold_count, distance));
    for (int64_t i = 0; i < count; i++)
        keys[i] = key_of(rows->spread[i]);
    CST_TRY(make_table(context, made, keys, count, FINE, &novelty->spread));
    for (int64_t i = 0; i < count; i++)
        keys[i] = key_of(distance[i]);
    CST_TRY(make_table(context, made, keys, count, FINE, &novelty->distance));
    for (int64_t i = 0; i < count; i++)
        scores[i] = score_of(novelty, rows->spread[i], distance[i]);
    return score_tables(context, made, novelty, rows->class, scores, keys);
}

cst_status cst_novelty_fit(cst_context *context, cst_scope *made, const cst_view *kept,
                           const int32_t *folds, int32_t fold_count, cst_novelty **out) {
    *out = NULL;
    if (kept->rows < CST_NOVELTY_ROWS_MIN || kept->classes < 2)
        return CST_OK;
    CST_SCOPE(scope);
    int64_t most = kept->rows < CST_NOVELTY_ROWS_MAX ? kept->rows : CST_NOVELTY_ROWS_MAX;
    CST_NEW(context, scope, int64_t, index, most);
    CST_NEW(context, scope, int32_t, fold_of, most);
    CST_NEW(context, made, cst_novelty, novelty, 1);
    *novelty = (cst_novelty){.classes = kept->classes, .members = kept->members, .rows = most};
    cst_view view = *kept;
    view.rows = most;
    view.index = index;
    view.presence = NULL; /* what was filled in is what the fit read */
    cst_choose_rows(kept->rows, most, 0, index);
    for (int64_t i = 0; i < most; i++) {
        fold_of[i] = folds[index[i]];
        index[i] = kept->index ? kept->index[index[i]] : index[i];
    }
    CST_TRY(choose_members(context, made, novelty));
    cst_novelty_rows rows;
    CST_TRY(cst_novelty_rows_take(context, scope, most, novelty->size, &rows));
    job j = {.view = &view, .novelty = novelty, .rows = &rows};
    const cst_share filled[] = {
        cst_share_rows(rows.spread, most, sizeof *rows.spread),
        cst_share_rows(rows.logs, most, (size_t)novelty->size * sizeof *rows.logs),
        cst_share_rows(rows.class, most, sizeof *rows.class),
        cst_share_rows(rows.there, most, sizeof *rows.there)};
    CST_TRY(cst_parallel_fill(context, cst_block_count(most), measure_block, &j, filled, 4));
    moments(novelty, rows.logs, fold_of, most, -1, novelty->mean, novelty->covariance);
    CST_TRY(cst_novelty_factor(context, novelty));
    CST_TRY(make_tables(context, made, novelty, &rows, fold_of, fold_count));
    *out = novelty;
    return CST_OK;
}

/* ---- levels ---- */

/* The members of the distance that are there, with the part of the covariance that is theirs. */
typedef struct part {
    uint32_t there;
    int32_t size;
    double *mean;       /* [size] */
    double *covariance; /* [size][size] */
    double *inverse;    /* [size][size] */
    float *logs;        /* [size] */
} part;

static cst_status part_take(cst_context *worker, cst_scope *scope, const cst_novelty *novelty,
                            part *p) {
    size_t size = (size_t)novelty->size;
    *p = (part){0};
    CST_TAKE(worker, scope, p->mean, size);
    CST_TAKE(worker, scope, p->covariance, size * size);
    CST_TAKE(worker, scope, p->inverse, size * size);
    CST_TAKE(worker, scope, p->logs, size);
    return CST_OK;
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
    return invert(worker, p->size, p->covariance, p->inverse);
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
    CST_TRY(part_of(worker, novelty, there, p));
    int32_t at = 0;
    for (int32_t j = 0; j < novelty->size; j++)
        if (there >> j & 1)
            p->logs[at++] = logs[j];
    *out = cst_novelty_distance(p->size, p->mean, p->inverse, p->logs);
    return CST_OK;
}

typedef struct level_job {
    const cst_novelty *novelty;
    const cst_view *view;
    double *level;
} level_job;

static cst_status level_block(cst_context *worker, void *user, int64_t block) {
    const level_job *j = user;
    const cst_novelty *novelty = j->novelty;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(j->view->rows, block);
    CST_SCOPE(scope);
    cst_novelty_rows rows;
    part p;
    CST_TRY(cst_novelty_rows_take(worker, scope, count, novelty->size, &rows));
    CST_TRY(part_take(worker, scope, novelty, &p));
    CST_TRY(
        cst_novelty_measure(worker, j->view, novelty->place, novelty->size, first, count, &rows));
    for (int64_t i = 0; i < count; i++) {
        double distance = 0;
        j->level[first + i] = 1;
        if (rows.class[i] < 0)
            continue;
        CST_TRY(distance_of(worker, novelty, rows.there[i], rows.logs + i * novelty->size, &p,
                            &distance));
        j->level[first + i] = level_of(novelty, rows.spread[i], distance, rows.class[i]);
    }
    return CST_OK;
}

cst_status cst_novelty_levels(cst_context *context, const cst_novelty *novelty,
                              const cst_view *kept, double *level) {
    if (kept->members != novelty->members || kept->classes != novelty->classes)
        return cst_fail(context, CST_ERROR_MISMATCH,
                        "the guard's reference is of %d members and %d classes, but the data have "
                        "%d and %d",
                        (int)novelty->members, (int)novelty->classes, (int)kept->members,
                        (int)kept->classes);
    level_job j = {.novelty = novelty, .view = kept, .level = level};
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

/* ---- the test of a batch ---- */

/* Of pi: what is allowed for a reference and a batch that differ by chance, and the quantile of the
 * normal distribution for a level of 5%. */
static const double ALLOWANCE = 1.25;
static const double QUANTILE = 1.645;

/* Least concave majorant of the distribution function of sorted levels: hull[0] = 0 is the origin,
 * hull[h] the number of levels at or below its vertex. Returns the number of vertices. */
static int64_t majorant(const double *sorted, int64_t rows, int64_t *hull) {
    int64_t count = 1;
    hull[0] = 0;
    for (int64_t i = 1; i <= rows; i++) {
        if (i < rows && sorted[i] == sorted[i - 1])
            continue; /* the highest of equal levels counts */
        double x = sorted[i - 1];
        while (count > 1) {
            double x1 = sorted[hull[count - 1] - 1];
            double x0 = count > 2 ? sorted[hull[count - 2] - 1] : 0;
            double rise = (double)(i - hull[count - 1]) * (x1 - x0);
            if (rise < (double)(hull[count - 1] - hull[count - 2]) * (x - x1))
                break;
            count--;
        }
        hull[count++] = i;
    }
    return count;
}

/* The slope left of a level that is one of the sorted ones. */
static double density(const double *sorted, int64_t rows, const int64_t *hull, int64_t count,
                      double level) {
    int64_t low = 1; /* the first vertex at or beyond the level */
    int64_t high = count - 1;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (sorted[hull[middle] - 1] < level)
            low = middle + 1;
        else
            high = middle;
    }
    double x0 = low > 1 ? sorted[hull[low - 1] - 1] : 0;
    double width = sorted[hull[low] - 1] - x0;
    return (double)(hull[low] - hull[low - 1]) / ((double)rows * width);
}

/* pi, from how many of `rows` levels are above 1/2; 1 at most. */
static double bound_of(int64_t rows, int64_t count) {
    double above = (double)count + 1;
    double pi = ALLOWANCE * (above + QUANTILE * sqrt(above)) / ((double)rows / 2);
    return rows < CST_NOVELTY_BATCH_MIN || pi > 1 ? 1 : pi;
}

double cst_novelty_sorted(const double *sorted, int64_t rows, int64_t above, double level,
                          int64_t *hull, cst_novelty_found *found) {
    *found = (cst_novelty_found){.rows = rows,
                                 .above = above,
                                 .judged = rows >= CST_NOVELTY_BATCH_MIN,
                                 .pi = bound_of(rows, above)};
    if (found->pi >= 1)
        return 0;
    found->unlike = 1 - found->pi;
    int64_t vertices = majorant(sorted, rows, hull);
    for (int64_t v = 1; v < vertices; v++) {
        int64_t count = hull[v] - hull[v - 1];
        double f = density(sorted, rows, hull, vertices, sorted[hull[v] - 1]);
        found->fired = found->fired || f > found->pi;
        found->lambda += f > found->pi ? (1 - found->pi / f) * (double)count / (double)rows : 0;
    }
    double f = density(sorted, rows, hull, vertices, level);
    return f > found->pi ? 1 - found->pi / f : 0;
}

cst_status cst_novelty_batch(cst_context *context, const double *level, int64_t rows, double *ratio,
                             double *lambda, cst_novelty_found *found) {
    *found = (cst_novelty_found){.rows = rows, .pi = 1};
    for (int64_t i = 0; i < rows; i++) {
        if (!(level[i] > 0 && level[i] <= 1))
            return cst_fail(context, CST_ERROR_ARGUMENT, "row %lld: level %g is not from 0 to 1",
                            (long long)i, level[i]);
        found->above += level[i] > 0.5;
        lambda[i] = 0;
        if (ratio)
            ratio[i] = 1;
    }
    found->judged = rows >= CST_NOVELTY_BATCH_MIN;
    found->pi = bound_of(rows, found->above);
    if (found->pi >= 1)
        return CST_OK;
    found->unlike = 1 - found->pi;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sorted, rows);
    CST_NEW(context, scope, int64_t, hull, rows + 1);
    memcpy(sorted, level, (size_t)rows * sizeof *sorted);
    CST_TRY(cst_sort(context, sorted, (size_t)rows, sizeof *sorted, cst_by_f64));
    int64_t vertices = majorant(sorted, rows, hull);
    double sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        double f = density(sorted, rows, hull, vertices, level[i]);
        if (ratio)
            ratio[i] = f;
        lambda[i] = f > found->pi ? 1 - found->pi / f : 0;
        found->fired = found->fired || lambda[i] > 0;
        sum += lambda[i];
    }
    found->lambda = sum / (double)(rows > 0 ? rows : 1);
    return CST_OK;
}
