/* Fills in rows that a member did not predict: a regression of its centred log-probabilities (or
 * values) on the other members', without labels, from pairwise moments, solved for each set of
 * members that are there. docs/pool.md#missing-predictions. */
#include "core/la.h"
#include "data/pool/state.h"

#include <math.h>
#include <string.h>

/* Cells (sample, class) of a member that the moments look at, evenly spread over the rows. */
static const int64_t MOMENT_CELLS = (int64_t)1 << 24;
/* Probabilities below count as this in logarithms. */
static const double LOG_FLOOR = 1e-6;
/* Rows of two members together that their mean correlation with the others counts as; pull of the
 * coefficients to the mean of the members, in variances. Chosen on the pools in examples/. */
static const double CORRELATION_ROWS = 10;
static const double SHRINKAGE = 0.01;

typedef struct fill_job {
    cst_view view;           /* of the loaded members */
    const uint8_t **present; /* [view.members]: NULL: every row */
    bool clip;               /* values are probabilities */
    bool values; /* a regression, whose outputs are apart; else all classes are one group */
    int32_t groups;
    int64_t stride; /* of the rows that moments look at */
    double *mean;   /* [groups][K][K]: of member i where j is there too; values only */
    double *rows;   /* [K][K]: rows that both predicted */
    double *moment; /* [groups][K][K]: of both */
    double *square; /* [groups][K][K]: of i where j is there */
    double *gram;   /* [groups][K][K]: covariances */
} fill_job;

static bool is_there(const fill_job *job, int32_t k, int64_t row) {
    return !job->present[k] || job->present[k][row];
}

/* What is regressed: logarithms centred over the classes, or values. */
static void transform(const fill_job *job, const float *row, double *out) {
    size_t classes = (size_t)job->view.classes;
    double mean = 0;
    for (size_t c = 0; c < classes; c++) {
        out[c] = job->values ? (double)row[c] : log(fmax((double)row[c], LOG_FLOOR));
        mean += out[c] / (double)classes;
    }
    for (size_t c = 0; !job->values && c < classes; c++)
        out[c] -= mean;
}

/* ---- moments ---- */

/* Every stride-th row of a block, of those there: z [K][count][classes]. */
static cst_status read_rows(cst_context *context, cst_scope *scope, const fill_job *job,
                            int64_t block, int64_t stride, cst_rows *rows, double **z) {
    size_t classes = (size_t)job->view.classes;
    CST_TRY(cst_rows_open(context, scope, &job->view, block, rows));
    CST_TAKE(context, scope, *z, (size_t)(rows->count * job->view.members) * classes);
    for (int32_t k = 0; k < job->view.members; k++) {
        CST_TRY(cst_rows_read(context, rows, k));
        for (int64_t i = 0; i < rows->count; i++)
            if ((rows->first + i) % stride == 0 && is_there(job, k, rows->first + i))
                transform(job, cst_rows_at(rows, i), *z + (size_t)(k * rows->count + i) * classes);
    }
    return CST_OK;
}

/* Adds one row that members i and j both predicted. sum: [groups][K][K] means, or [2][groups][K][K]
 * moments and squares. */
static void add_pair(const fill_job *job, const double *a, const double *b, size_t i, size_t j,
                     bool means, double *sum) {
    size_t k = (size_t)job->view.members;
    size_t square = (size_t)job->groups * k * k;
    for (size_t c = 0; c < (size_t)job->view.classes; c++) {
        size_t group = job->values ? c * k * k : 0;
        size_t ij = group + i * k + j;
        size_t ji = group + j * k + i;
        if (means) {
            sum[ij] += a[c];
            sum[ji] += i == j ? 0 : b[c];
            continue;
        }
        double x = a[c] - (job->values ? job->mean[ij] : 0);
        double y = b[c] - (job->values ? job->mean[ji] : 0);
        sum[ij] += x * y;
        sum[square + ij] += x * x;
        if (i != j)
            sum[square + ji] += y * y;
    }
}

typedef struct moments_job {
    const fill_job *fill;
    bool means; /* else the second moments, around them */
} moments_job;

/* sum: rows [K][K], then what add_pair adds to. */
static cst_status moments_block(cst_context *context, void *user, int64_t block, double *sum) {
    const moments_job *m = user;
    const fill_job *job = m->fill;
    size_t k = (size_t)job->view.members;
    size_t classes = (size_t)job->view.classes;
    cst_rows r;
    double *z;
    CST_SCOPE(scope);
    CST_TRY(read_rows(context, scope, job, block, job->stride, &r, &z));
    for (int64_t row = 0; row < r.count; row++) {
        if ((r.first + row) % job->stride != 0)
            continue;
        for (size_t i = 0; i < k; i++) {
            if (!is_there(job, (int32_t)i, r.first + row))
                continue;
            const double *a = z + (i * (size_t)r.count + (size_t)row) * classes;
            for (size_t j = 0; j <= i; j++) {
                if (!is_there(job, (int32_t)j, r.first + row))
                    continue;
                sum[i * k + j]++;
                add_pair(job, a, z + (j * (size_t)r.count + (size_t)row) * classes, i, j, m->means,
                         sum + k * k);
            }
        }
    }
    return CST_OK;
}

static cst_status sum_moments(cst_context *context, const fill_job *job, bool means, double *sum) {
    size_t k = (size_t)job->view.members;
    size_t square = (size_t)job->groups * k * k;
    moments_job m = {job, means};
    return cst_reduce_blocks(context, cst_block_count(job->view.rows),
                             k * k + (means ? 1 : 2) * square, moments_block, &m, sum);
}

/* Covariances from correlations on the rows that two members share, few of which say little. */
static void make_gram(fill_job *job) {
    size_t k = (size_t)job->view.members;
    for (int32_t g = 0; g < job->groups; g++) {
        size_t at = (size_t)g * k * k;
        const double *square = job->square + at;
        double mean = 0;
        double total = 0;
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < i; j++) {
                double scale = sqrt(square[i * k + j] * square[j * k + i]);
                double rows = scale > 0 ? job->rows[i * k + j] : 0;
                mean += rows > 0 ? rows * (job->moment[at + i * k + j] / scale) : 0;
                total += rows;
            }
        mean = total > 0 ? mean / total : 0;
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j <= i; j++) {
                double scale = sqrt(square[i * k + j] * square[j * k + i]);
                double rows = scale > 0 ? job->rows[i * k + j] : 0;
                double own = rows > 0 ? job->moment[at + i * k + j] / scale : 0;
                double r =
                    i == j ? 1 : (rows * own + CORRELATION_ROWS * mean) / (rows + CORRELATION_ROWS);
                double size = sqrt(square[i * k + i] / fmax(job->rows[i * k + i], 1) *
                                   (square[j * k + j] / fmax(job->rows[j * k + j], 1)));
                job->gram[at + i * k + j] = job->gram[at + j * k + i] = r * size;
            }
    }
}

static cst_status find_moments(cst_context *context, fill_job *job) {
    size_t k = (size_t)job->view.members;
    size_t square = (size_t)job->groups * k * k;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, (k * k + 2 * square));
    if (job->values)
        CST_TRY(sum_moments(context, job, true, sum));
    for (size_t i = 0; job->values && i < square; i++) {
        size_t a = i % (k * k) / k;
        size_t b = i % k;
        job->mean[i] = sum[k * k + i] / fmax(sum[a > b ? a * k + b : b * k + a], 1);
    }
    CST_TRY(sum_moments(context, job, false, sum));
    memcpy(job->rows, sum, k * k * sizeof *sum);
    memcpy(job->moment, sum + k * k, square * sizeof *sum);
    memcpy(job->square, sum + k * k + square, square * sizeof *sum);
    make_gram(job);
    return CST_OK;
}

/* ---- filling ---- */

/* Coefficients of the members there for those that are not, kept while the pattern stays. */
typedef struct pattern {
    uint8_t *there; /* [K] */
    bool known;
    int32_t count;   /* of those there */
    int32_t *place;  /* [K] */
    double *factor;  /* [K][K] */
    double *weights; /* [groups][K absent][K there] */
} pattern;

static cst_status pattern_take(cst_context *context, cst_scope *scope, const fill_job *job,
                               pattern *p) {
    size_t k = (size_t)job->view.members;
    *p = (pattern){0};
    CST_TAKE(context, scope, p->there, k);
    CST_TAKE(context, scope, p->place, k);
    CST_TAKE(context, scope, p->factor, k * k);
    CST_TAKE(context, scope, p->weights, (size_t)job->groups * k * k);
    return CST_OK;
}

/* Factor of the covariances of those there, their diagonal raised until it is definite. *ridge: by
 * how much. */
static cst_status factor(cst_context *context, const pattern *p, const double *gram, size_t k,
                         double *ridge) {
    size_t n = (size_t)p->count;
    double trace = 0;
    cst_status status = CST_ERROR_NUMERIC;
    for (size_t i = 0; i < n; i++)
        trace += gram[(size_t)p->place[i] * (k + 1)] / (double)n;
    *ridge = SHRINKAGE * trace + 1e-300;
    for (int attempt = 0; status == CST_ERROR_NUMERIC && attempt < 8; attempt++) {
        *ridge *= attempt > 0 ? 4 : 1;
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                p->factor[i * n + j] =
                    gram[(size_t)p->place[i] * k + (size_t)p->place[j]] + (i == j ? *ridge : 0);
        status = cst_cholesky(context, p->count, p->factor);
    }
    return status;
}

/* Weights near 1/n of those there for every absent member; 1/n where they cannot be solved. */
static cst_status solve(cst_context *context, const fill_job *job, pattern *p) {
    size_t k = (size_t)job->view.members;
    size_t n = (size_t)p->count;
    for (int32_t g = 0; g < job->groups; g++) {
        const double *gram = job->gram + (size_t)g * k * k;
        double ridge = 0;
        cst_status status = factor(context, p, gram, k, &ridge);
        if (status != CST_OK && status != CST_ERROR_NUMERIC)
            return status;
        for (size_t a = 0; a < k; a++) {
            double *w = p->weights + ((size_t)g * k + a) * k;
            if (p->there[a])
                continue;
            for (size_t i = 0; i < n; i++)
                w[i] = status == CST_OK ? gram[a * k + (size_t)p->place[i]] + ridge / (double)n
                                        : 1 / (double)n;
            if (status == CST_OK)
                cst_cholesky_solve(p->count, p->factor, w);
        }
    }
    return CST_OK;
}

/* The pattern of a row; 0 members there, or all: nothing to do. */
static cst_status meet(cst_context *context, const fill_job *job, int64_t row, pattern *p) {
    int32_t count = 0;
    bool same = p->known;
    for (int32_t k = 0; k < job->view.members; k++) {
        uint8_t there = is_there(job, k, row);
        same = same && there == p->there[k];
        p->there[k] = there;
        if (there)
            p->place[count++] = k;
    }
    p->count = count;
    p->known = true;
    return same || count == 0 || count == job->view.members ? CST_OK : solve(context, job, p);
}

/* Scores of an absent member to what the pool would hold. */
static void finish(const fill_job *job, const double *z, float *out) {
    size_t classes = (size_t)job->view.classes;
    double top = -INFINITY;
    double sum = 0;
    for (size_t c = 0; job->values && c < classes; c++)
        out[c] = (float)fmin(fmax(z[c], job->clip ? 0 : -3e38), job->clip ? 1 : 3e38);
    for (size_t c = 0; !job->values && c < classes; c++)
        top = fmax(top, z[c]);
    for (size_t c = 0; !job->values && c < classes; c++)
        sum += exp(z[c] - top);
    for (size_t c = 0; !job->values && c < classes; c++)
        out[c] = (float)(exp(z[c] - top) / sum);
}

static cst_status put_row(cst_context *context, const cst_view *view, int32_t member, int64_t row,
                          const float *values) {
    size_t classes = (size_t)view->classes;
    const float *data = view->data[member];
    int32_t place = cst_store_find(view->store, data);
    if (place >= 0) {
        cst_store_put(view->store, place, row, values);
        return cst_store_write(context, &view->store->entries[place], row, 1, values);
    }
    memcpy((float *)(uintptr_t)data + (size_t)row * classes, values, classes * sizeof *values);
    return CST_OK;
}

/* Row i of a block of all members' rows, all [K][count][classes], of an absent member. z and out:
 * [classes] scratch. */
static cst_status fill_row(cst_context *context, const fill_job *job, const pattern *p,
                           const cst_rows *r, const double *all, int32_t member, int64_t i,
                           double *z, float *out) {
    size_t k = (size_t)job->view.members;
    size_t classes = (size_t)job->view.classes;
    for (size_t c = 0; c < classes; c++) {
        size_t g = job->values ? c : 0;
        const double *w = p->weights + (g * k + (size_t)member) * k;
        const double *mean = job->mean + g * k * k;
        z[c] = job->values ? mean[(size_t)member * (k + 1)] : 0;
        for (size_t s = 0; s < (size_t)p->count; s++) {
            size_t at = (size_t)p->place[s];
            double off = all[(at * (size_t)r->count + (size_t)i) * classes + c];
            z[c] += w[s] * (off - (job->values ? mean[at * (k + 1)] : 0));
        }
    }
    finish(job, z, out);
    return put_row(context, &job->view, member, r->first + i, out);
}

static bool any_absent(const fill_job *job, int64_t first, int64_t count) {
    for (int32_t k = 0; k < job->view.members; k++)
        if (job->present[k] && memchr(job->present[k] + first, 0, (size_t)count))
            return true;
    return false;
}

static cst_status fill_block(cst_context *context, void *user, int64_t block) {
    const fill_job *job = user;
    size_t classes = (size_t)job->view.classes;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(job->view.rows, block);
    if (!any_absent(job, first, count))
        return CST_OK;
    cst_rows r;
    pattern p;
    double *all;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, z, classes);
    CST_NEW(context, scope, float, out, classes);
    CST_TRY(pattern_take(context, scope, job, &p));
    CST_TRY(read_rows(context, scope, job, block, 1, &r, &all));
    for (int64_t i = 0; i < count; i++) {
        CST_TRY(meet(context, job, first + i, &p));
        for (size_t c = 0; c < classes; c++) /* where nobody is there */
            out[c] = job->values ? 0 : (float)(1.0 / (double)classes);
        for (int32_t k = 0; k < job->view.members; k++)
            if (!p.there[k])
                CST_TRY(p.count > 0 ? fill_row(context, job, &p, &r, all, k, i, z, out)
                                    : put_row(context, &job->view, k, first + i, out));
    }
    return CST_OK;
}

/* ---- all of it ---- */

/* The loaded members, and room for their moments. */
static cst_status job_make(cst_context *context, cst_scope *scope, const cst_pool *pool,
                           int32_t index, fill_job *job) {
    cst_pool_split *split = &pool->splits[index];
    int32_t all = pool->manifest->member_count;
    CST_NEW(context, scope, const float *, data, all);
    *job = (fill_job){.values = cst_task_has_outputs(pool->task),
                      .clip = pool->task == CST_TASK_MULTILABEL};
    CST_TAKE(context, scope, job->present, all);
    job->view = (cst_view){.rows = cst_pool_all_rows(pool, index),
                           .classes = pool->classes,
                           .data = data,
                           .store = split->store};
    for (int32_t k = 0; k < all; k++)
        if (split->data[k]) {
            data[job->view.members] = split->data[k];
            job->present[job->view.members++] = split->present[k];
        }
    job->groups = job->values ? pool->classes : 1;
    job->stride = job->view.rows / (MOMENT_CELLS / pool->classes + 1) + 1;
    size_t k = (size_t)job->view.members;
    size_t square = (size_t)job->groups * k * k;
    CST_TAKE(context, scope, job->mean, square);
    CST_TAKE(context, scope, job->rows, k * k);
    CST_TAKE(context, scope, job->moment, square);
    CST_TAKE(context, scope, job->square, square);
    CST_TAKE(context, scope, job->gram, square);
    return CST_OK;
}

static void leave_la(cst_context *context, void *object) {
    (void)context;
    (void)object;
    cst_la_leave();
}

cst_status cst_pool_fill(cst_context *context, cst_pool *pool, int32_t index) {
    const cst_pool_split *split = &pool->splits[index];
    bool absent = false;
    for (int32_t k = 0; k < pool->manifest->member_count; k++)
        absent = absent || split->present[k];
    if (!absent)
        return CST_OK;
    fill_job job;
    CST_SCOPE(scope);
    cst_la_enter();
    CST_TRY(cst_scope_own(context, scope, leave_la, NULL));
    CST_TRY(job_make(context, scope, pool, index, &job));
    CST_TRY(find_moments(context, &job));
    return cst_parallel_for(context, cst_block_count(job.view.rows), fill_block, &job);
}

/* ---- classes that a member's model of a fold did not know ---- */

typedef struct teach_job {
    cst_view view; /* of all members, NULL where not loaded */
    const uint8_t *const *present;
    const int32_t *folds;
    int32_t fold_count;
    const uint8_t *lacks; /* [members][folds][classes] */
} teach_job;

/* Of a member in a fold: [classes]. */
static const uint8_t *lacks_of(const teach_job *job, int32_t member, int32_t fold) {
    return job->lacks +
           ((size_t)member * (size_t)job->fold_count + (size_t)fold) * (size_t)job->view.classes;
}

static bool lacks_any(const teach_job *job, int32_t member, int32_t fold) {
    return fold >= 0 && memchr(lacks_of(job, member, fold), 1, (size_t)job->view.classes);
}

/* Row i of a block of all members' rows [members][count][classes]: what the others say of classes
 * that the member does not know, and the rest in its own proportions. */
static void teach_row(const teach_job *job, const float *rows, int64_t first, int64_t count,
                      int64_t i, int32_t member, float *out) {
    size_t classes = (size_t)job->view.classes;
    int32_t fold = job->folds[first + i];
    const uint8_t *lacks = lacks_of(job, member, fold);
    const float *own = rows + ((size_t)member * (size_t)count + (size_t)i) * classes;
    double told = 0;
    double rest = 0;
    for (size_t c = 0; c < classes; c++) {
        double sum = 0;
        int32_t known = 0;
        for (int32_t k = 0; lacks[c] && k < job->view.members; k++)
            if (job->view.data[k] && !lacks_of(job, k, fold)[c] &&
                (!job->present[k] || job->present[k][first + i])) {
                sum += (double)rows[((size_t)k * (size_t)count + (size_t)i) * classes + c];
                known++;
            }
        out[c] = known > 0 ? (float)(sum / known) : own[c];
        told += lacks[c] ? (double)out[c] : 0;
        rest += lacks[c] ? 0 : (double)own[c];
    }
    double scale = rest > 0 ? fmax(1 - told, 0) / rest : 0;
    double all = told + scale * rest;
    for (size_t c = 0; c < classes; c++)
        out[c] = (float)((double)out[c] * (lacks[c] ? 1 : scale) / all);
}

static cst_status teach_block(cst_context *context, void *user, int64_t block) {
    const teach_job *job = user;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(job->view.rows, block);
    size_t classes = (size_t)job->view.classes;
    size_t cells = (size_t)count * classes;
    bool any = false;
    for (int64_t i = 0; i < count; i++)
        for (int32_t k = 0; k < job->view.members; k++)
            any = any || lacks_any(job, k, job->folds[first + i]);
    if (!any)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, rows, ((size_t)job->view.members * cells));
    CST_NEW(context, scope, float, out, classes);
    for (int32_t k = 0; k < job->view.members; k++) {
        const float *found = NULL;
        float *to = rows + (size_t)k * cells;
        if (!job->view.data[k])
            continue;
        CST_TRY(cst_view_rows(context, &job->view, k, first, count, to, &found));
        if (found != to)
            memcpy(to, found, cells * sizeof *to);
    }
    for (int64_t i = 0; i < count; i++)
        for (int32_t k = 0; k < job->view.members; k++)
            if (lacks_any(job, k, job->folds[first + i]) &&
                (!job->present[k] || job->present[k][first + i])) {
                teach_row(job, rows, first, count, i, k, out);
                CST_TRY(put_row(context, &job->view, k, first + i, out));
            }
    return CST_OK;
}

cst_status cst_pool_teach(cst_context *context, cst_pool *pool, const char *name,
                          const int32_t *folds, int32_t fold_count, const uint8_t *lacks) {
    int32_t index = cst_manifest_find_split(pool->manifest, name);
    cst_pool_split *split = &pool->splits[index];
    size_t cells = (size_t)fold_count * (size_t)pool->classes;
    teach_job job = {.view = {.rows = split->rows,
                              .classes = pool->classes,
                              .members = pool->manifest->member_count,
                              .data = split->data,
                              .store = split->store},
                     .present = (const uint8_t *const *)split->present,
                     .folds = folds,
                     .fold_count = fold_count,
                     .lacks = lacks};
    for (int32_t k = 0; k < job.view.members; k++)
        if (cst_store_find(split->store, split->data[k]) >= 0 &&
            memchr(lacks + (size_t)k * cells, 1, cells))
            CST_TRY(cst_store_copy(context, &split->own[k], split->store, k,
                                   pool->manifest->members[k].name, split->rows));
    CST_TRY(cst_parallel_for(context, cst_block_count(split->rows), teach_block, &job));
    return cst_pool_fill(context, pool, index);
}
