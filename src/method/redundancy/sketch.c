/* Sketches of members' kernels, folded with random signs so that the cosine of two is close to the
 * CKA of their members, and the bits of their hashes. docs/redundancy.md. */
#include "method/redundancy/lsh.h"

#include "core/la.h"

#include <math.h>
#include <string.h>

enum { SUBSTREAM_FOLDS = 1 << 30, SUBSTREAM_SIGNS, PROJECTED_MEMBERS = 64 };

typedef struct sketch_job {
    const cst_kernels *kernels;
    cst_cka_statistic statistic;
    const int64_t *sample; /* [n] */
    int64_t rows;          /* n */
    const uint16_t
        *folds;      /* [n (n + 1) / 2], place of a pair of rows in the sketch; top bit: sign */
    float *sketches; /* [K][CST_SKETCH_WIDTH] */
} sketch_job;

/* H K H, or for the unbiased statistic the U-centred kernel: what is left on the diagonal is 0. */
static void centre(double *kernel, int64_t n, cst_cka_statistic statistic, double *sums) {
    bool biased = statistic == CST_CKA_BIASED;
    double count = (double)n;
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        double *row = kernel + i * n;
        row[i] = biased ? row[i] : 0;
        sums[i] = 0;
        for (int64_t j = 0; j < n; j++)
            sums[i] += row[j];
        total += sums[i];
    }
    double margin = biased ? count : count - 2;
    double whole = total / (biased ? count * count : (count - 1) * (count - 2));
    for (int64_t i = 0; i < n; i++) {
        double *row = kernel + i * n;
        for (int64_t j = 0; j < n; j++)
            row[j] += whole - (sums[i] + sums[j]) / margin;
        row[i] = biased ? row[i] : 0;
    }
}

/* Inner products of sketches stand for those of all rows: there a smaller share of the pairs is on
 * the diagonal than in the sample, n / N of it. */
static void fold(const sketch_job *job, const double *kernel, double *places, float *sketch) {
    int64_t n = job->rows;
    double diagonal = sqrt(0.5 * (double)n / (double)job->kernels->view->rows);
    const uint16_t *at = job->folds;
    memset(places, 0, CST_SKETCH_WIDTH * sizeof *places);
    for (int64_t i = 0; i < n; i++) {
        const double *row = kernel + i * n;
        for (int64_t j = i; j < n; j++, at++) {
            double value = j == i ? diagonal * row[j] : row[j];
            places[*at & (CST_SKETCH_WIDTH - 1)] += *at >> 15 ? value : -value;
        }
    }
    double squares = 0;
    for (int64_t d = 0; d < CST_SKETCH_WIDTH; d++)
        squares += places[d] * places[d];
    double scale = squares > 0 ? 1 / sqrt(squares) : 0;
    for (int64_t d = 0; d < CST_SKETCH_WIDTH; d++)
        sketch[d] = (float)(scale * places[d]);
}

static cst_status sketch_member(cst_context *worker, void *user, int64_t task) {
    const sketch_job *job = user;
    const cst_kernels *kernels = job->kernels;
    if (kernels->constant[task])
        return CST_OK;
    size_t n = (size_t)job->rows;
    size_t classes = (size_t)kernels->view->classes;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, scratch, (n * classes));
    CST_NEW(worker, scope, double, rows, (n * classes));
    CST_NEW(worker, scope, double, norms, n);
    CST_NEW(worker, scope, double, kernel, (n * n));
    CST_NEW(worker, scope, double, places, CST_SKETCH_WIDTH);
    CST_TRY(cst_kernel_rows(worker, kernels, (int32_t)task, job->sample, 0, job->rows, scratch,
                            rows, norms));
    const cst_kernel_points all = {rows, norms, job->rows};
    CST_TRY(cst_kernel_tile(worker, kernels, (int32_t)task, all, all, kernel));
    centre(kernel, job->rows, job->statistic, norms);
    fold(job, kernel, places, job->sketches + task * CST_SKETCH_WIDTH);
    return CST_OK;
}

cst_status cst_sketches(cst_context *context, const cst_kernels *kernels,
                        cst_cka_statistic statistic, uint64_t seed, float *sketches) {
    const cst_view *view = kernels->view;
    int64_t n = view->rows < CST_SKETCH_ROWS ? view->rows : CST_SKETCH_ROWS;
    size_t pairs = (size_t)n * (size_t)(n + 1) / 2;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, sample, n);
    CST_NEW(context, scope, uint16_t, folds, pairs);
    CST_TRY(
        cst_sample_rows(context, view->rows, n, seed, CST_STREAM_PROBES, SUBSTREAM_FOLDS, sample));
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_PROBES, SUBSTREAM_FOLDS + 1);
    for (size_t i = 0; i < pairs; i++)
        folds[i] = (uint16_t)(cst_rng_u32(&rng) >> 16);
    sketch_job job = {.kernels = kernels,
                      .statistic = statistic,
                      .sample = sample,
                      .rows = n,
                      .folds = folds,
                      .sketches = sketches};
    return cst_parallel_for(context, view->members, sketch_member, &job);
}

/* ---- products of sketches ---- */

typedef struct product_job {
    const float *sketches;
    int32_t members;
    int32_t bits;
    int32_t tables;
    float *signs;   /* [CST_SKETCH_WIDTH][L b], 1 or -1 */
    uint32_t *keys; /* [L][K] */
    double *cosines;
} product_job;

static int32_t batch_size(const product_job *job, int64_t task) {
    int64_t left = job->members - task * PROJECTED_MEMBERS;
    return (int32_t)(left < PROJECTED_MEMBERS ? left : PROJECTED_MEMBERS);
}

static cst_status hash_batch(cst_context *worker, void *user, int64_t task) {
    const product_job *job = user;
    int64_t width = (int64_t)job->bits * job->tables;
    int32_t count = batch_size(job, task);
    int64_t first = task * PROJECTED_MEMBERS;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, sides, ((size_t)count * (size_t)width));
    CST_TRY(cst_gemm_f32(worker, false, false, count, width, CST_SKETCH_WIDTH, 1,
                         job->sketches + first * CST_SKETCH_WIDTH, CST_SKETCH_WIDTH, job->signs,
                         width, 0, sides, width));
    for (int32_t m = 0; m < count; m++)
        for (int32_t t = 0; t < job->tables; t++) {
            const float *side = sides + m * width + (int64_t)t * job->bits;
            uint32_t key = 0;
            for (int32_t b = 0; b < job->bits; b++)
                key |= (uint32_t)(side[b] > 0) << b;
            job->keys[(int64_t)t * job->members + first + m] = key;
        }
    return CST_OK;
}

cst_status cst_sketch_keys(cst_context *context, const float *sketches, int32_t members,
                           int32_t bits, int32_t tables, uint64_t seed, uint32_t *keys) {
    size_t width = (size_t)bits * (size_t)tables;
    product_job job = {
        .sketches = sketches, .members = members, .bits = bits, .tables = tables, .keys = keys};
    CST_SCOPE(scope);
    CST_TAKE(context, scope, job.signs, width * CST_SKETCH_WIDTH);
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_PROBES, SUBSTREAM_SIGNS + 1);
    for (size_t i = 0; i < width * CST_SKETCH_WIDTH; i += 32) {
        uint32_t word = cst_rng_u32(&rng);
        for (size_t b = 0; b < 32; b++)
            job.signs[i + b] = word >> b & 1 ? 1.0F : -1.0F;
    }
    return cst_parallel_for(context, (members + PROJECTED_MEMBERS - 1) / PROJECTED_MEMBERS,
                            hash_batch, &job);
}

/* Rows of the upper triangle, from the batch's first member on. */
static cst_status cosine_batch(cst_context *worker, void *user, int64_t task) {
    const product_job *job = user;
    int32_t count = batch_size(job, task);
    int64_t first = task * PROJECTED_MEMBERS;
    int64_t width = job->members - first;
    const float *from = job->sketches + first * CST_SKETCH_WIDTH;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, out, ((size_t)count * (size_t)width));
    CST_TRY(cst_gemm_f32(worker, false, true, count, width, CST_SKETCH_WIDTH, 1, from,
                         CST_SKETCH_WIDTH, from, CST_SKETCH_WIDTH, 0, out, width));
    for (int64_t a = 0; a < count; a++)
        for (int64_t b = a + 1; b < width; b++)
            job->cosines[(first + a) * job->members + first + b] = (double)out[a * width + b];
    return CST_OK;
}

cst_status cst_sketch_cosines(cst_context *context, const float *sketches, int32_t members,
                              double *cosines) {
    product_job job = {.sketches = sketches, .members = members, .cosines = cosines};
    int64_t tasks = (members + PROJECTED_MEMBERS - 1) / PROJECTED_MEMBERS;
    return cst_parallel_for(context, tasks, cosine_batch, &job);
}
