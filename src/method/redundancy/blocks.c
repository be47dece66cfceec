/*
 * HSIC of some pairs of members only: blocks of the matrix of pairs. Stage S1, where hashing has
 * said which pairs matter. Paper: equation (1); docs/redundancy.md.
 */
#include "method/redundancy/blocks.h"

#include "core/la.h"
#include "core/ranks.h"

#include <string.h>

/* Tiles go in rounds as in exact.c: in a round a strip is the upper side of one tile and the other
 * side of one tile, so that its sums have one writer at a time, in an order of their own. */
typedef struct blocks_job {
    const cst_packed *packed;
    const cst_pair_blocks *blocks;
    int64_t rows; /* n */
    int64_t round;
    int32_t largest;     /* members of the largest group */
    size_t area;         /* products of the largest block */
    double *row_sums;    /* [K][n], from tiles whose rows a strip is, later of the kernel's rows */
    double *column_sums; /* [K][n], from tiles whose columns it is, later the kernel's diagonal */
    double *totals;      /* [K] */
} blocks_job;

static int64_t strip_rows(const blocks_job *job, int64_t strip) {
    int64_t left = job->rows - strip * CST_STRIP_ROWS;
    return left < CST_STRIP_ROWS ? left : CST_STRIP_ROWS;
}

/* One tile of the members of a group and the sums of their products. */
static cst_status add_group(cst_context *worker, const blocks_job *job, const cst_pair_group *group,
                            int64_t i, int64_t j, float *tiles, float *products, double *sum) {
    int64_t area = strip_rows(job, i) * strip_rows(job, j);
    cst_status status = CST_OK;
    for (int32_t m = 0; status == CST_OK && m < group->count; m++) {
        int64_t k = group->first + m;
        if (!job->packed->kernels->constant[k])
            status = cst_packed_tile(worker, job->packed, (int32_t)k, i, j, tiles + m * area,
                                     job->row_sums + k * job->rows + i * CST_STRIP_ROWS,
                                     job->column_sums + k * job->rows + j * CST_STRIP_ROWS);
    }
    for (int32_t b = 0; status == CST_OK && b < group->blocks; b++) {
        const cst_pair_block *block = &job->blocks->block[group->first_block + b];
        const float *left = tiles + (block->first_a - group->first) * area;
        const float *right = tiles + (block->first_b - group->first) * area;
        status = cst_gemm_f32(worker, false, true, block->count_a, block->count_b, area,
                              i == j ? 1 : 2, left, area, right, area, 0, products, block->count_b);
        for (int64_t x = 0; status == CST_OK && x < (int64_t)block->count_a * block->count_b; x++)
            sum[block->at + (size_t)x] += (double)products[x];
    }
    return status;
}

static cst_status add_tile(cst_context *worker, void *user, int64_t task, double *sum) {
    const blocks_job *job = user;
    int64_t i = task;
    int64_t j = (task + job->round) % job->packed->strips;
    size_t tile = (size_t)CST_STRIP_ROWS * CST_STRIP_ROWS;
    float *tiles = cst_alloc(worker, (size_t)job->largest, tile * sizeof *tiles);
    float *products = cst_alloc(worker, job->area, sizeof *products);
    cst_status status = tiles && products ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t g = 0; status == CST_OK && g < job->blocks->groups; g++)
        status = add_group(worker, job, &job->blocks->group[g], i, j, tiles, products, sum);
    cst_free(worker, tiles);
    cst_free(worker, products);
    return status;
}

/* Sums of the kernels' rows, their diagonals and totals, of one member. */
static void finish_margins(const blocks_job *job, cst_cka_statistic statistic, int32_t member) {
    int64_t rows = job->rows;
    double *row = job->row_sums + member * rows;
    double *column = job->column_sums + member * rows;
    job->totals[member] = 0;
    if (job->packed->kernels->constant[member])
        return;
    for (int64_t i = 0; i < rows; i++) {
        row[i] += column[i];
        column[i] = cst_packed_diagonal(job->packed, member, i);
        row[i] += statistic == CST_CKA_BIASED ? column[i] : 0;
        job->totals[member] += row[i];
    }
}

/* Centring, from sums without diagonals: exact.c has the formulas and scale_up their reason. */
static cst_status finish_block(cst_context *context, const blocks_job *job,
                               const cst_pair_block *block, cst_cka_statistic statistic,
                               double *margins, double *diagonals, double *hsic) {
    int64_t rows = job->rows;
    double n = (double)rows;
    bool biased = statistic == CST_CKA_BIASED;
    double share = biased ? 2 / n : 2 / (n - 2);
    double whole = biased ? n * n : (n - 1) * (n - 2);
    int64_t width = block->count_b;
    cst_status status = cst_gemm_f64(
        context, false, true, block->count_a, width, rows, 1, job->row_sums + block->first_a * rows,
        rows, job->row_sums + block->first_b * rows, rows, 0, margins, width);
    CST_THEN(cst_gemm_f64(context, false, true, block->count_a, width, rows, 1,
                          job->column_sums + block->first_a * rows, rows,
                          job->column_sums + block->first_b * rows, rows, 0, diagonals, width));
    for (int64_t a = 0; status == CST_OK && a < block->count_a; a++)
        for (int64_t b = 0; b < width; b++) {
            int64_t x = a * width + b;
            double *value = &hsic[block->at + (size_t)x];
            double t = job->totals[block->first_a + a] * job->totals[block->first_b + b];
            *value += t / whole - share * margins[x] + (biased ? diagonals[x] : 0);
        }
    return status;
}

/* A sample of rows: what stands on the diagonals of the centred kernels and the rest are brought to
 * all rows apart. */
static cst_status scale_block(cst_context *context, const blocks_job *job,
                              const cst_pair_block *block, double *diagonals, double *hsic) {
    int64_t rows = job->rows;
    int64_t width = block->count_b;
    double grown = (double)job->packed->kernels->view->rows / (double)rows;
    cst_status status =
        cst_gemm_f64(context, false, true, block->count_a, width, rows, 1,
                     job->column_sums + block->first_a * rows, rows,
                     job->column_sums + block->first_b * rows, rows, 0, diagonals, width);
    for (int64_t x = 0; status == CST_OK && x < block->count_a * width; x++) {
        double *value = &hsic[block->at + (size_t)x];
        *value = grown * grown * (*value - diagonals[x]) + grown * diagonals[x];
    }
    return status;
}

static cst_status finish(cst_context *context, const blocks_job *job, cst_cka_statistic statistic,
                         double *hsic) {
    double *margins = cst_alloc(context, job->area, sizeof *margins);
    double *diagonals = cst_alloc(context, job->area, sizeof *diagonals);
    cst_status status = margins && diagonals ? CST_OK : CST_ERROR_MEMORY;
    int32_t members = job->packed->kernels->view->members;
    int64_t rows = job->rows;
    double n = (double)rows;
    for (int32_t k = 0; status == CST_OK && k < members; k++)
        finish_margins(job, statistic, k);
    for (int32_t b = 0; status == CST_OK && b < job->blocks->blocks; b++)
        status =
            finish_block(context, job, &job->blocks->block[b], statistic, margins, diagonals, hsic);
    bool scaled = statistic == CST_CKA_BIASED && rows < job->packed->kernels->view->rows;
    for (int32_t k = 0; status == CST_OK && scaled && k < members; k++)
        for (int64_t i = 0; i < rows && !job->packed->kernels->constant[k]; i++)
            job->column_sums[k * rows + i] +=
                job->totals[k] / (n * n) - 2 * job->row_sums[k * rows + i] / n;
    for (int32_t b = 0; status == CST_OK && scaled && b < job->blocks->blocks; b++)
        status = scale_block(context, job, &job->blocks->block[b], diagonals, hsic);
    cst_free(context, margins);
    cst_free(context, diagonals);
    return status;
}

cst_status cst_hsic_blocks(cst_context *context, const cst_packed *packed,
                           const cst_pair_blocks *blocks, cst_cka_statistic statistic,
                           double *hsic) {
    size_t members = (size_t)packed->kernels->view->members;
    size_t rows = (size_t)packed->rows;
    blocks_job job = {.packed = packed, .blocks = blocks, .rows = packed->rows};
    for (int32_t g = 0; g < blocks->groups; g++)
        job.largest = blocks->group[g].count > job.largest ? blocks->group[g].count : job.largest;
    for (int32_t b = 0; b < blocks->blocks; b++) {
        size_t area = (size_t)blocks->block[b].count_a * (size_t)blocks->block[b].count_b;
        job.area = area > job.area ? area : job.area;
    }
    double *round = cst_alloc(context, blocks->products, sizeof *round);
    job.row_sums = cst_alloc(context, members, rows * sizeof *job.row_sums);
    job.column_sums = cst_alloc(context, members, rows * sizeof *job.column_sums);
    job.totals = cst_alloc(context, members, sizeof *job.totals);
    bool made = round && job.row_sums && job.column_sums && job.totals;
    cst_status status = made ? CST_OK : CST_ERROR_MEMORY;
    int64_t strips = packed->strips;
    int64_t rounds = strips / 2 + 1;
    memset(hsic, 0, blocks->products * sizeof *hsic);
    for (job.round = 0; status == CST_OK && job.round < rounds; job.round++) {
        /* Half-way round an even circle the pairs would come twice. */
        int64_t tasks = job.round > 0 && 2 * job.round == strips ? job.round : strips;
        status = cst_reduce_blocks(context, tasks, blocks->products, add_tile, &job, round);
        for (size_t i = 0; status == CST_OK && i < blocks->products; i++)
            hsic[i] += round[i];
        CST_THEN(cst_progress(context, "cka", job.round + 1, rounds));
    }
    status = cst_ranks_add(context, status, job.row_sums, made ? members * rows : 0);
    status = cst_ranks_add(context, status, job.column_sums, made ? members * rows : 0);
    CST_THEN(finish(context, &job, statistic, hsic));
    cst_free(context, round);
    cst_free(context, job.row_sums);
    cst_free(context, job.column_sums);
    cst_free(context, job.totals);
    return status;
}
