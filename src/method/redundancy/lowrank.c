/* HSIC of all pairs from centred Nystrom features Z: |Z_a' Z_b|^2 (Frobenius), or for s random
 * signs V and U = Z (Z' V) its estimate <U_a, U_b>/s. Unbiased: with the diagonal |z_i|^2 taken
 * out of H K H the row sums are -|z_i|^2. */
#include "method/redundancy/hsic.h"

#include "core/la.h"
#include "core/ranks.h"

#include <string.h>

/* Doubles of features, and of cross-Grams, held at a time (128 MiB each). Neither changes a bit of
 * the result: blocks are added in their order whatever the chunks. */
enum { CHUNK_DOUBLES = 1 << 24 };

/* Pairs of members whose cross-Grams are held at a time. */
enum { PAIRS_MAX = 1 << 22 };

/* Rows of U held at a time by one block of the probes. */
enum { PROBE_ROWS = 64 };

typedef struct lowrank_job {
    const cst_kernels *kernels;
    const cst_features *features;
    int32_t members;
    int64_t first_block; /* of the chunk */
    int64_t blocks;      /* in the chunk */
    double **chunk;      /* [K] -> [rows of the chunk][r]; in single precision [K] -> */
    float **singles;     /* [rows of the chunk][r] */
    bool single;         /* all features are to be had in single precision */
    double *diagonal;    /* [K][N], |z_i|^2; NULL for the biased statistic */
    int32_t *pair_a;     /* [pairs of the sweep] */
    int32_t *pair_b;
    size_t *gram_at; /* [pairs of the sweep], places in: */
    double *gram;    /* [r_a][r_b] of each, one behind the other */
    size_t gram_room;
    int64_t probes;
    uint64_t seed;
    double **sketch; /* [K] -> [r][s], Z' V */
} lowrank_job;

static void squares_of_rows(const double *z, int64_t rows, int64_t rank, double *out) {
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < rank; j++)
            sum += z[i * rank + j] * z[i * rank + j];
        out[i] = sum;
    }
}

/* ---- cross-Grams ---- */

static cst_status fill_chunk(cst_context *worker, void *user, int64_t task) {
    const lowrank_job *job = user;
    int32_t k = (int32_t)(task / job->blocks);
    int64_t in_chunk = task % job->blocks;
    int64_t first = cst_block_first(job->first_block + in_chunk);
    int64_t all = job->kernels->view->rows;
    int64_t rows = cst_block_size(all, job->first_block + in_chunk);
    const cst_features *f = &job->features[k];
    int64_t at = in_chunk * CST_BLOCK_ROWS * f->rank;
    double *diagonal = job->diagonal ? job->diagonal + k * all + first : NULL;
    if (!job->single) {
        double *z = job->chunk[k] + at;
        CST_TRY(cst_features_rows(worker, job->kernels, k, f, first, rows, z));
        if (diagonal)
            squares_of_rows(z, rows, f->rank, diagonal);
        return CST_OK;
    }
    if (f->rank == 0)
        return CST_OK;
    float *z = job->singles[k] + at;
    CST_TRY(cst_features_rows_f32(worker, job->kernels, k, f, first, rows, z));
    for (int64_t i = 0; diagonal && i < rows; i++) {
        diagonal[i] = 0;
        for (int64_t j = 0; j < f->rank; j++)
            diagonal[i] += (double)z[i * f->rank + j] * (double)z[i * f->rank + j];
    }
    return CST_OK;
}

static cst_status add_cross(cst_context *worker, void *user, int64_t task) {
    const lowrank_job *job = user;
    int32_t a = job->pair_a[task];
    int32_t b = job->pair_b[task];
    int64_t rank_a = job->features[a].rank;
    int64_t rank_b = job->features[b].rank;
    int64_t entries = rank_a * rank_b;
    double *gram = job->gram + job->gram_at[task];
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, part, (job->single ? entries : 0));
    for (int64_t i = 0; entries > 0 && i < job->blocks; i++) {
        int64_t rows = cst_block_size(job->kernels->view->rows, job->first_block + i);
        int64_t at_a = i * CST_BLOCK_ROWS * rank_a;
        int64_t at_b = i * CST_BLOCK_ROWS * rank_b;
        if (!job->single) {
            CST_TRY(cst_gemm_f64(worker, true, false, rank_a, rank_b, rows, 1, job->chunk[a] + at_a,
                                 rank_a, job->chunk[b] + at_b, rank_b, 1, gram, rank_b));
            continue;
        }
        CST_TRY(cst_gemm_f32(worker, true, false, rank_a, rank_b, rows, 1, job->singles[a] + at_a,
                             rank_a, job->singles[b] + at_b, rank_b, 0, part, rank_b));
        for (int64_t x = 0; x < entries; x++)
            gram[x] += (double)part[x];
    }
    return CST_OK;
}

/* Blocks whose features fit in a chunk, at least 1. */
static int64_t chunk_blocks(const lowrank_job *job) {
    int64_t columns = 0;
    for (int32_t k = 0; k < job->members; k++)
        columns += job->features[k].rank;
    int64_t blocks = columns > 0 ? CHUNK_DOUBLES / (columns * CST_BLOCK_ROWS) : 1;
    int64_t all = cst_block_count(job->kernels->view->rows);
    return blocks < 1 ? 1 : blocks < all ? blocks : all;
}

/* One pass over the rows for `pairs` pairs, their squared norms into hsic. Ranks take a part of the
 * pairs each. */
static cst_status sweep(cst_context *context, lowrank_job *job, int64_t pairs, double *hsic) {
    int64_t all = cst_block_count(job->kernels->view->rows);
    int64_t per_chunk = chunk_blocks(job);
    for (job->first_block = 0; job->first_block < all; job->first_block += per_chunk) {
        int64_t left = all - job->first_block;
        job->blocks = left < per_chunk ? left : per_chunk;
        CST_TRY(cst_parallel_for(context, job->blocks * job->members, fill_chunk, job));
        CST_TRY(cst_parallel_own(context, pairs, 1, add_cross, job));
        CST_TRY(cst_progress(context, "cka", job->first_block + job->blocks, all));
    }
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, norms, pairs);
    for (int64_t p = 0; p < pairs; p++) {
        int64_t entries = job->features[job->pair_a[p]].rank * job->features[job->pair_b[p]].rank;
        const double *gram = job->gram + job->gram_at[p];
        for (int64_t i = 0; i < entries; i++)
            norms[p] += gram[i] * gram[i];
    }
    const cst_share filled = cst_share_tasks(norms, pairs, sizeof *norms);
    CST_TRY(cst_ranks_fill(context, CST_OK, pairs, &filled, 1));
    for (int64_t p = 0; p < pairs; p++) {
        int64_t a = job->pair_a[p];
        int64_t b = job->pair_b[p];
        hsic[a * job->members + b] = hsic[b * job->members + a] = norms[p];
    }
    return CST_OK;
}

/* Pairs from (a, b) on whose cross-Grams, all zero, fit in memory together, at least 1; moves (a,
 * b) behind them. */
static cst_status next_pairs(cst_context *context, lowrank_job *job, int32_t *a, int32_t *b,
                             int64_t *pairs) {
    size_t used = 0;
    *pairs = 0;
    while (*a < job->members && *pairs < PAIRS_MAX) {
        size_t entries = (size_t)(job->features[*a].rank * job->features[*b].rank);
        if (entries > job->gram_room - used)
            break;
        memset(job->gram + used, 0, entries * sizeof *job->gram);
        job->gram_at[*pairs] = used;
        job->pair_a[*pairs] = *a;
        job->pair_b[*pairs] = *b;
        used += entries;
        CST_TRY(cst_poll_item(context, ++*pairs));
        if (++*b == job->members)
            *b = ++*a;
    }
    return CST_OK;
}

/* Room for the pairs of a sweep: all of them, or as many as may be held at a time. */
static cst_status make_pairs(cst_context *context, cst_scope *scope, lowrank_job *job) {
    size_t members = (size_t)job->members;
    size_t pairs = members * (members + 1) / 2;
    size_t sum = 0;
    size_t squares = 0;
    size_t largest = 1;
    for (size_t k = 0; k < members; k++) {
        size_t rank = (size_t)job->features[k].rank;
        sum += rank;
        squares += rank * rank;
        largest = rank * rank > largest ? rank * rank : largest;
    }
    size_t all = (sum * sum + squares) / 2;
    job->gram_room = all < CHUNK_DOUBLES ? all + 1 : CHUNK_DOUBLES;
    job->gram_room = job->gram_room < largest ? largest : job->gram_room;
    pairs = pairs < PAIRS_MAX ? pairs : PAIRS_MAX;
    CST_TAKE(context, scope, job->gram, job->gram_room);
    CST_TAKE(context, scope, job->gram_at, pairs);
    CST_TAKE(context, scope, job->pair_a, pairs);
    CST_TAKE(context, scope, job->pair_b, pairs);
    return CST_OK;
}

/* For the unbiased statistic turns traces of centred kernels into n (n - 3) times the U-statistic.
 */
static cst_status debias(cst_context *context, const lowrank_job *job, double *hsic) {
    int64_t rows = job->kernels->view->rows;
    double n = (double)rows;
    size_t k = (size_t)job->members;
    if (!job->diagonal)
        return CST_OK;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, products, (k * k));
    CST_NEW(context, scope, double, totals, k);
    CST_TRY(cst_gemm_f64(context, false, true, job->members, job->members, rows, 1, job->diagonal,
                         rows, job->diagonal, rows, 0, products, job->members));
    for (size_t a = 0; a < k; a++)
        for (int64_t i = 0; i < rows; i++)
            totals[a] += job->diagonal[(int64_t)a * rows + i];
    for (size_t a = 0; a < k; a++)
        for (size_t b = 0; b < k; b++)
            hsic[a * k + b] += totals[a] * totals[b] / ((n - 1) * (n - 2)) -
                               (1 + 2 / (n - 2)) * products[a * k + b];
    return CST_OK;
}

static cst_status start_job(cst_context *context, cst_scope *scope, const cst_kernels *kernels,
                            const cst_features *features, cst_cka_statistic statistic,
                            lowrank_job *job) {
    *job =
        (lowrank_job){.kernels = kernels, .features = features, .members = kernels->view->members};
    if (statistic == CST_CKA_UNBIASED)
        CST_TAKE(context, scope, job->diagonal, (job->members * kernels->view->rows));
    return CST_OK;
}

cst_status cst_hsic_features(cst_context *context, const cst_kernels *kernels,
                             const cst_features *features, cst_cka_statistic statistic,
                             double *hsic) {
    lowrank_job job;
    int32_t members = kernels->view->members;
    CST_SCOPE(scope);
    CST_TRY(start_job(context, scope, kernels, features, statistic, &job));
    CST_TAKE(context, scope, job.chunk, members);
    CST_TAKE(context, scope, job.singles, members);
    job.single = true;
    for (int32_t k = 0; k < members; k++)
        job.single = job.single && (features[k].single || features[k].rank == 0);
    CST_TRY(make_pairs(context, scope, &job));
    int64_t rows = chunk_blocks(&job) * CST_BLOCK_ROWS;
    for (int32_t k = 0; k < members; k++)
        if (job.single)
            CST_TAKE(context, scope, job.singles[k], (rows * features[k].rank));
        else
            CST_TAKE(context, scope, job.chunk[k], (rows * features[k].rank));
    for (int32_t a = 0, b = 0; a < members;) {
        int64_t pairs = 0;
        CST_TRY(next_pairs(context, &job, &a, &b, &pairs));
        CST_TRY(sweep(context, &job, pairs, hsic));
    }
    return debias(context, &job, hsic);
}

/* ---- probes ---- */

/* Signs of one block of rows, the same for every member, out [rows][s]. */
static void draw_signs(const lowrank_job *job, int64_t block, int64_t rows, double *out) {
    cst_rng rng;
    cst_rng_init(&rng, job->seed, CST_STREAM_PROBES, (uint32_t)block);
    uint32_t bits = 0;
    for (int64_t i = 0; i < rows * job->probes; i++) {
        if (i % 32 == 0)
            bits = cst_rng_u32(&rng);
        out[i] = bits & 1U ? 1 : -1;
        bits >>= 1;
    }
}

/* Z' V of one member. */
static cst_status make_sketch(cst_context *worker, void *user, int64_t task) {
    const lowrank_job *job = user;
    const cst_features *f = &job->features[task];
    int64_t all = job->kernels->view->rows;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, z, (CST_BLOCK_ROWS * f->rank));
    CST_NEW(worker, scope, double, signs, (CST_BLOCK_ROWS * job->probes));
    for (int64_t b = 0; b < cst_block_count(all); b++) {
        int64_t first = cst_block_first(b);
        int64_t rows = cst_block_size(all, b);
        draw_signs(job, b, rows, signs);
        CST_TRY(cst_features_rows(worker, job->kernels, (int32_t)task, f, first, rows, z));
        if (f->rank > 0)
            CST_TRY(cst_gemm_f64(worker, true, false, f->rank, job->probes, rows, 1, z, f->rank,
                                 signs, job->probes, 1, job->sketch[task], job->probes));
        if (job->diagonal)
            squares_of_rows(z, rows, f->rank, job->diagonal + task * all + first);
    }
    return CST_OK;
}

/* <U_a, U_b> of one block of rows. */
static cst_status add_probed(cst_context *worker, void *user, int64_t block, double *sum) {
    const lowrank_job *job = user;
    int64_t rows = cst_block_size(job->kernels->view->rows, block);
    int64_t widest = 0;
    for (int32_t k = 0; k < job->members; k++)
        widest = job->features[k].rank > widest ? job->features[k].rank : widest;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, double, z, (PROBE_ROWS * widest));
    CST_NEW(worker, scope, double, u, (job->members * PROBE_ROWS * job->probes));
    for (int64_t at = 0; at < rows; at += PROBE_ROWS) {
        int64_t count = rows - at < PROBE_ROWS ? rows - at : PROBE_ROWS;
        int64_t length = count * job->probes;
        int64_t first = cst_block_first(block) + at;
        for (int32_t k = 0; k < job->members; k++) {
            const cst_features *f = &job->features[k];
            memset(u + k * length, 0, (size_t)length * sizeof *u);
            CST_TRY(cst_features_rows(worker, job->kernels, k, f, first, count, z));
            if (f->rank > 0)
                CST_TRY(cst_gemm_f64(worker, false, false, count, job->probes, f->rank, 1, z,
                                     f->rank, job->sketch[k], job->probes, 0, u + k * length,
                                     job->probes));
        }
        CST_TRY(cst_gemm_f64(worker, false, true, job->members, job->members, length,
                             1 / (double)job->probes, u, length, u, length, 1, sum, job->members));
    }
    return CST_OK;
}

cst_status cst_hsic_probes(cst_context *context, const cst_kernels *kernels,
                           const cst_features *features, int64_t probes, uint64_t seed,
                           cst_cka_statistic statistic, double *hsic) {
    lowrank_job job;
    size_t members = (size_t)kernels->view->members;
    CST_SCOPE(scope);
    CST_TRY(start_job(context, scope, kernels, features, statistic, &job));
    job.probes = probes;
    job.seed = seed;
    CST_TAKE(context, scope, job.sketch, members);
    for (size_t k = 0; k < members; k++)
        CST_TAKE(context, scope, job.sketch[k], (features[k].rank * probes));
    CST_TRY(cst_parallel_for(context, job.members, make_sketch, &job));
    CST_TRY(cst_reduce_blocks(context, cst_block_count(kernels->view->rows), members * members,
                              add_probed, &job, hsic));
    return debias(context, &job, hsic);
}
