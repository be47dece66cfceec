/* The Gaussian kernel of each member: bandwidths, and blocks of its matrix. */
#include "method/redundancy/hsic.h"

#include "core/la.h"
#include "core/wide.h"

#include <math.h>
#include <string.h>

/* What stands where in a shuffle that has only begun: places not in the table hold their number. */
typedef struct moved {
    int64_t *place; /* [size], -1: free */
    int64_t *value; /* [size] */
    uint64_t mask;  /* size - 1, a power of 2 less 1 */
} moved;

/* Where `place` is in the table, or is to go. */
static uint64_t find_moved(const moved *table, int64_t place) {
    uint64_t at = ((uint64_t)place * UINT64_C(0x9e3779b97f4a7c15) >> 20) & table->mask;
    while (table->place[at] >= 0 && table->place[at] != place)
        at = (at + 1) & table->mask;
    return at;
}

/* The first steps of a shuffle of 0..rows-1; nothing of size `rows` is held. */
cst_status cst_sample_rows(cst_context *context, int64_t rows, int64_t count, uint64_t seed,
                           cst_stream stream, uint32_t substream, int64_t *sample) {
    for (int64_t i = 0; i < count; i++)
        sample[i] = i;
    if (count >= rows)
        return CST_OK;
    size_t size = 16;
    while (size < 4 * (size_t)count) /* two places a step, half of the table */
        size *= 2;
    moved table = {.mask = size - 1};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, table.place, size);
    CST_TAKE(context, scope, table.value, size);
    for (size_t i = 0; i < size; i++) {
        cst_trim_item(context, (int64_t)i);
        table.place[i] = -1;
    }
    cst_rng rng;
    cst_rng_init(&rng, seed, stream, substream);
    for (int64_t i = 0; i < count; i++) {
        int64_t j = i + cst_rng_below(&rng, rows - i);
        uint64_t at_i = find_moved(&table, i);
        int64_t here = table.place[at_i] == i ? table.value[at_i] : i;
        uint64_t at_j = find_moved(&table, j);
        sample[i] = table.place[at_j] == j ? table.value[at_j] : j;
        table.place[at_j] = j;
        table.value[at_j] = here;
    }
    return cst_sort(context, sample, (size_t)count, sizeof *sample, cst_by_i64);
}

cst_status cst_kernel_rows(cst_context *context, const cst_kernels *kernels, int32_t member,
                           const int64_t *index, int64_t first, int64_t count, float *scratch,
                           double *rows, double *norms) {
    const cst_view *view = kernels->view;
    size_t classes = (size_t)view->classes;
    const double *origin = kernels->origin + (size_t)member * classes;
    for (int64_t at = 0; at < count; at += CST_BLOCK_ROWS) {
        int64_t part = count - at < CST_BLOCK_ROWS ? count - at : CST_BLOCK_ROWS;
        const float *data = scratch;
        cst_trim(context);
        CST_TRY(index ? cst_view_gather(context, view, member, index + at, part, scratch)
                      : cst_view_rows(context, view, member, first + at, part, scratch, &data));
        for (int64_t i = 0; i < part; i++) {
            const float *p = data + (size_t)i * classes;
            double *row = rows + (size_t)(at + i) * classes;
            double norm = 0;
            for (size_t c = 0; c < classes; c++) {
                row[c] = (double)p[c] - origin[c];
                norm += row[c] * row[c];
            }
            norms[at + i] = norm;
        }
    }
    return CST_OK;
}

/* Rounding can leave a small distance negative: 0 then. */
cst_status cst_kernel_tile(cst_context *context, const cst_kernels *kernels, int32_t member,
                           cst_kernel_points a, cst_kernel_points b, double *out) {
    int64_t classes = kernels->view->classes;
    double sigma = kernels->sigma[member];
    double scale = -0.5 / (sigma * sigma);
    CST_TRY(cst_gemm_f64(context, false, true, a.count, b.count, classes, -2, a.rows, classes,
                         b.rows, classes, 0, out, b.count));
    for (int64_t i = 0; i < a.count; i++) {
        double *row = out + (size_t)i * (size_t)b.count;
        for (int64_t j = 0; j < b.count; j++) {
            double square = row[j] + (a.norms[i] + b.norms[j]);
            row[j] = (square > 0 ? square : 0) * scale;
        }
    }
    cst_exp_f64(a.count * b.count, out, out);
    return CST_OK;
}

cst_status cst_kernel_pair(cst_context *context, const cst_kernels *kernels, int32_t member,
                           const int64_t *index, const int64_t first[2], const int64_t count[2],
                           double *out) {
    size_t classes = (size_t)kernels->view->classes;
    cst_kernel_points points[2];
    CST_SCOPE(scope);
    for (int s = 0; s < 2; s++) {
        CST_NEW(context, scope, float, scratch, ((size_t)count[s] * classes));
        CST_NEW(context, scope, double, rows, ((size_t)count[s] * classes));
        CST_NEW(context, scope, double, norms, count[s]);
        CST_TRY(cst_kernel_rows(context, kernels, member, index ? index + first[s] : NULL, first[s],
                                count[s], scratch, rows, norms));
        points[s] = (cst_kernel_points){rows, norms, count[s]};
    }
    return cst_kernel_tile(context, kernels, member, points[0], points[1], out);
}

/* Classes from which products are taken in single precision. */
enum { SINGLE_CLASSES = 128 };

/* Squared distances far below the rows' norms have lost their digits to cancellation. */
static double careful_square(const double *a, const double *b, int64_t classes, double square,
                             double least) {
    if (square > least)
        return square;
    double sum = 0;
    for (int64_t c = 0; c < classes; c++)
        sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sum;
}

/* Puts values[low..end) below the pivot, or up to it, first; returns where the others begin.
 * Without branches, which a processor would guess wrong half of the time. */
static int64_t put_first(double *values, int64_t low, int64_t end, double pivot, bool equal) {
    for (int64_t i = low; i < end; i++) {
        double value = values[i];
        values[i] = values[low];
        values[low] = value;
        low += equal ? value <= pivot : value < pivot;
    }
    return low;
}

/* Puts the value of rank `rank` in its place, no larger ones before it. */
static void select_rank(double *values, int64_t count, int64_t rank) {
    int64_t low = 0;
    int64_t end = count;
    while (end - low > 1) {
        double pivot = values[low + (end - low) / 2];
        int64_t above = put_first(values, low, end, pivot, false);
        bool least = above == low;
        above = least ? put_first(values, low, end, pivot, true) : above;
        if (rank >= above)
            low = above;
        else if (least)
            return;
        else
            end = above;
    }
}

/* Median of the roots of the values, or their mean where the median is 0. Reorders them. */
static double median_or_mean(double *values, int64_t count) {
    int64_t middle = count / 2;
    select_rank(values, count, middle);
    double median = values[middle];
    if (count % 2 == 0) {
        double below = values[0];
        for (int64_t i = 1; i < middle; i++)
            below = values[i] > below ? values[i] : below;
        below = sqrt(below);
        median = 0.5 * (below + sqrt(median));
    } else {
        median = sqrt(median);
    }
    if (median > 0)
        return median;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += sqrt(values[i]);
    return sum / (double)count;
}

typedef struct bandwidth_job {
    cst_kernels *kernels;
    const int64_t *sample;
    int64_t count;
} bandwidth_job;

/* Root mean square distance of all pairs of rows, for members constant on the sample. */
static cst_status spread(cst_context *context, const cst_kernels *kernels, int32_t member,
                         double *sigma) {
    const cst_view *view = kernels->view;
    size_t classes = (size_t)view->classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, scratch, (CST_BLOCK_ROWS * classes));
    CST_NEW(context, scope, double, sum, classes);
    const double *origin = kernels->origin + (size_t)member * classes;
    double squares = 0;
    for (int64_t b = 0; b < cst_block_count(view->rows); b++) {
        int64_t rows = cst_block_size(view->rows, b);
        const float *p = NULL;
        CST_TRY(cst_view_rows(context, view, member, cst_block_first(b), rows, scratch, &p));
        for (size_t i = 0; i < (size_t)rows * classes; i++) {
            double x = (double)p[i] - origin[i % classes];
            sum[i % classes] += x;
            squares += x * x;
        }
    }
    double rows = (double)view->rows;
    for (size_t c = 0; c < classes; c++)
        squares -= sum[c] * sum[c] / rows;
    *sigma = squares > 0 ? sqrt(2 * squares / (rows - 1)) : 0;
    return CST_OK;
}

/* Rows whose products are taken at a time. */
typedef struct products {
    int64_t side;
    float *narrow[2]; /* [side][C], where products are taken in single precision; else NULL */
    float *single;    /* [side][side] */
    double *tile;     /* [side][side] */
} products;

static cst_status products_open(cst_context *worker, cst_scope *scope, int64_t n, int64_t classes,
                                products *p) {
    enum { LARGE = 1 << 22, SIDE = 256, LEAST = 64 };
    p->side = n * classes <= LARGE ? SIDE : LEAST;
    p->side = p->side < n ? p->side : n;
    bool single = classes >= SINGLE_CLASSES;
    size_t cells = (size_t)p->side * (size_t)p->side;
    for (int s = 0; s < 2 && single; s++)
        CST_TAKE(worker, scope, p->narrow[s], (size_t)p->side * (size_t)classes);
    CST_TAKE(worker, scope, p->single, single ? cells : 0);
    CST_TAKE(worker, scope, p->tile, cells);
    return CST_OK;
}

/* The tile [na][nb]: -2 times products of rows a with rows b. */
static cst_status take_products(cst_context *worker, int64_t classes, const double *a, int64_t na,
                                const double *b, int64_t nb, products *p) {
    if (classes < SINGLE_CLASSES)
        return cst_gemm_f64(worker, false, true, na, nb, classes, -2, a, classes, b, classes, 0,
                            p->tile, nb);
    for (int64_t x = 0; x < na * classes; x++)
        p->narrow[0][x] = (float)a[x];
    for (int64_t x = 0; x < nb * classes; x++)
        p->narrow[1][x] = (float)b[x];
    CST_TRY(cst_gemm_f32(worker, false, true, na, nb, classes, -2, p->narrow[0], classes,
                         p->narrow[1], classes, 0, p->single, nb));
    for (int64_t x = 0; x < na * nb; x++)
        p->tile[x] = (double)p->single[x];
    return CST_OK;
}

/* Squared distances of all pairs of rows, those of a row with later ones together. */
static cst_status pair_squares(cst_context *worker, const bandwidth_job *job, int32_t member,
                               double *values) {
    int64_t n = job->count;
    int64_t classes = job->kernels->view->classes;
    double least = classes >= SINGLE_CLASSES ? 1e-3 : 1e-6;
    const float *first = NULL;
    products p = {0};
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, scratch, (CST_BLOCK_ROWS * (size_t)classes));
    CST_NEW(worker, scope, double, rows, ((size_t)n * (size_t)classes));
    CST_NEW(worker, scope, double, norms, n);
    CST_TRY(products_open(worker, scope, n, classes, &p));
    CST_TRY(cst_view_rows(worker, job->kernels->view, member, job->sample[0], 1, scratch, &first));
    for (int64_t c = 0; c < classes; c++)
        job->kernels->origin[member * classes + c] = (double)first[c];
    CST_TRY(cst_kernel_rows(worker, job->kernels, member, job->sample, 0, n, scratch, rows, norms));
    for (int64_t a = 0; a < n; a += p.side)
        for (int64_t b = a; b < n; b += p.side) {
            int64_t na = n - a < p.side ? n - a : p.side;
            int64_t nb = n - b < p.side ? n - b : p.side;
            cst_trim(worker);
            CST_TRY(
                take_products(worker, classes, rows + a * classes, na, rows + b * classes, nb, &p));
            for (int64_t i = a; i < a + na; i++)
                for (int64_t j = b > i ? b : i + 1; j < b + nb; j++) {
                    double norm = norms[i] + norms[j];
                    values[i * n - i * (i + 1) / 2 + j - i - 1] =
                        careful_square(rows + i * classes, rows + j * classes, classes,
                                       p.tile[(i - a) * nb + j - b] + norm, least * norm);
                }
        }
    return CST_OK;
}

static cst_status find_bandwidth(cst_context *worker, void *user, int64_t task) {
    const bandwidth_job *job = user;
    int64_t pairs = job->count * (job->count - 1) / 2;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, values, pairs);
    double sigma = 0;
    CST_TRY(pair_squares(worker, job, (int32_t)task, values));
    for (int64_t i = 0; i < pairs; i++)
        if (!isfinite(values[i]))
            return cst_fail(worker, CST_ERROR_INPUT,
                            "the predictions of member %lld contain NaN or infinity; remove them",
                            (long long)task);
    sigma = median_or_mean(values, pairs);
    if (!(sigma > 0))
        CST_TRY(spread(worker, job->kernels, (int32_t)task, &sigma));
    job->kernels->sigma[task] = sigma;
    job->kernels->constant[task] = !(sigma > 0);
    return CST_OK;
}

cst_status cst_kernels_create(cst_context *context, cst_scope *scope, const cst_view *view,
                              uint64_t seed, cst_kernels *out) {
    int32_t members = view->members;
    int64_t count = view->rows < CST_BANDWIDTH_ROWS ? view->rows : CST_BANDWIDTH_ROWS;
    *out = (cst_kernels){.view = view};
    CST_TAKE(context, scope, out->sigma, members);
    CST_TAKE(context, scope, out->constant, members);
    CST_TAKE(context, scope, out->origin, ((int64_t)members * view->classes));
    CST_NEW(context, scope, int64_t, sample, count);
    bandwidth_job job = {.kernels = out, .sample = sample, .count = count};
    CST_TRY(cst_sample_rows(context, view->rows, count, seed, CST_STREAM_BANDWIDTH, 0, sample));
    const cst_share filled[] = {
        cst_share_tasks(out->sigma, members, sizeof *out->sigma),
        cst_share_tasks(out->constant, members, sizeof *out->constant),
        cst_share_tasks(out->origin, members, (size_t)view->classes * sizeof *out->origin)};
    return cst_parallel_fill(context, members, find_bandwidth, &job, filled, 3);
}
