/*
 * HSIC by every pair of rows, tile by tile: no N x N matrix is held. Stage S1, the reference of the
 * low-rank estimators. Paper: equation (1); method section 2.
 */
#include "redundancy/hsic.h"

#include "la/la.h"
#include "redundancy/touched.h"

#include <stdatomic.h>
#include <string.h>

/* Rows of a tile; fewer where the tiles of many members would not fit in the cache's reach. Must
 * not depend on the number of threads. */
static int64_t tile_rows(int32_t members) {
    return members <= 64 ? 128 : 64;
}

/* Scratch that tasks share, each place for one at a time: a tile's room is large, and left as it
 * was found. */
enum { PLACES = 64 };
typedef struct places {
    atomic_flag taken[PLACES];
    cst_touched_scratch scratch[PLACES];
} places;

/* Sums over off-diagonal entries of the uncentred kernels. Tiles go in rounds: round d pairs strip
 * i with strip i + d (cyclically), so that in a round a strip is the upper side of one tile and the
 * other side of one tile, and its row sums have one writer at a time, in an order of their own. */
typedef struct exact_job {
    const cst_kernels *kernels;
    const cst_packed *packed;   /* tiles in single precision; NULL: in double, from the view */
    const cst_touched *touched; /* tiles of sparse members; NULL: of any */
    places *places;             /* of `touched` */
    int64_t rows;               /* n, all of the view or those packed */
    int64_t tile;
    int64_t strips;
    int64_t round;
    double *row_sums;    /* [K][n], from tiles whose rows a strip is */
    double *column_sums; /* [K][n], from tiles whose columns it is */
} exact_job;

typedef struct tile_scratch {
    float *raw;
    double *a, *a_norms, *b, *b_norms;
    double *values; /* [K][na * nb] */
    float *singles; /* [K][na * nb], of packed members, */
    float *sums;    /* [K*K] and the sums of their products */
} tile_scratch;

static void free_scratch(cst_context *worker, tile_scratch *s) {
    cst_free(worker, s->raw);
    cst_free(worker, s->a);
    cst_free(worker, s->a_norms);
    cst_free(worker, s->b);
    cst_free(worker, s->b_norms);
    cst_free(worker, s->values);
    cst_free(worker, s->singles);
    cst_free(worker, s->sums);
}

static cst_status make_scratch(cst_context *worker, const exact_job *job, tile_scratch *s) {
    size_t tile = (size_t)job->tile;
    size_t entries = tile * (size_t)job->kernels->view->classes;
    size_t members = (size_t)job->kernels->view->members;
    if (job->packed) {
        s->singles = cst_alloc(worker, members, tile * tile * sizeof *s->singles);
        s->sums = cst_alloc(worker, members, members * sizeof *s->sums);
        return s->singles && s->sums ? CST_OK : CST_ERROR_MEMORY;
    }
    s->raw = cst_alloc(worker, entries, sizeof *s->raw);
    s->a = cst_alloc(worker, entries, sizeof *s->a);
    s->b = cst_alloc(worker, entries, sizeof *s->b);
    s->a_norms = cst_alloc(worker, tile, sizeof *s->a_norms);
    s->b_norms = cst_alloc(worker, tile, sizeof *s->b_norms);
    s->values = cst_alloc(worker, members, tile * tile * sizeof *s->values);
    return s->raw && s->a && s->b && s->a_norms && s->b_norms && s->values ? CST_OK
                                                                           : CST_ERROR_MEMORY;
}

/* Adds the sums of a tile's rows and columns where its strips keep them. A tile on the diagonal is
 * whole, so its rows are enough. */
static void add_margins(const exact_job *job, int32_t member, int64_t i, int64_t j, int64_t na,
                        int64_t nb, const double *values) {
    int64_t rows = job->rows;
    double *row_sums = job->row_sums + member * rows + i * job->tile;
    double *column_sums = job->column_sums + member * rows + j * job->tile;
    for (int64_t x = 0; x < na; x++) {
        double sum = 0;
        for (int64_t y = 0; y < nb; y++)
            sum += values[x * nb + y];
        row_sums[x] += sum;
    }
    for (int64_t x = 0; i != j && x < na; x++)
        for (int64_t y = 0; y < nb; y++)
            column_sums[y] += values[x * nb + y];
}

/* One tile of every member in double precision: the sums of their products into sum [K*K], their
 * margins in place. */
static cst_status add_doubles(cst_context *worker, const exact_job *job, int64_t i, int64_t j,
                              int64_t na, int64_t nb, tile_scratch *s, double *sum) {
    const cst_kernels *kernels = job->kernels;
    int32_t members = kernels->view->members;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < members; k++) {
        if (kernels->constant[k])
            continue;
        double *values = s->values + (size_t)k * (size_t)(na * nb);
        status =
            cst_kernel_rows(worker, kernels, k, NULL, i * job->tile, na, s->raw, s->a, s->a_norms);
        if (status == CST_OK)
            status = cst_kernel_rows(worker, kernels, k, NULL, j * job->tile, nb, s->raw, s->b,
                                     s->b_norms);
        if (status == CST_OK)
            status = cst_kernel_tile(worker, kernels, k, s->a, s->a_norms, na, s->b, s->b_norms, nb,
                                     values);
        for (int64_t x = 0; i == j && x < na; x++)
            values[x * nb + x] = 0;
        if (status == CST_OK)
            add_margins(job, k, i, j, na, nb, values);
    }
    if (status != CST_OK)
        return status;
    return cst_gemm_f64(worker, false, true, members, members, na * nb, i == j ? 1 : 2, s->values,
                        na * nb, s->values, na * nb, 0, sum, members);
}

/* The same in single precision. Entries are about centred, so that their products do not cancel. */
static cst_status add_singles(cst_context *worker, const exact_job *job, int64_t i, int64_t j,
                              int64_t na, int64_t nb, tile_scratch *s, double *sum) {
    const cst_kernels *kernels = job->kernels;
    int32_t members = kernels->view->members;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < members; k++) {
        if (kernels->constant[k])
            continue;
        status = cst_packed_tile(worker, job->packed, k, i, j, s->singles + k * (na * nb),
                                 job->row_sums + k * job->rows + i * job->tile,
                                 job->column_sums + k * job->rows + j * job->tile);
    }
    if (status == CST_OK)
        status = cst_gemm_f32(worker, false, true, members, members, na * nb, i == j ? 1 : 2,
                              s->singles, na * nb, s->singles, na * nb, 0, s->sums, members);
    for (int64_t x = 0; status == CST_OK && x < (int64_t)members * members; x++)
        sum[x] += (double)s->sums[x];
    return status;
}

static cst_status add_touched(cst_context *worker, const exact_job *job, int64_t i, int64_t j,
                              double *sum) {
    int place = 0;
    while (place < PLACES && atomic_flag_test_and_set(&job->places->taken[place]))
        place++;
    cst_touched_scratch own = {0};
    cst_touched_scratch *scratch = place < PLACES ? &job->places->scratch[place] : &own;
    cst_status status = CST_OK;
    if (!scratch->gram) /* the last that is made */
        status = cst_touched_scratch_create(worker, job->touched, scratch);
    if (status == CST_OK)
        cst_touched_tile(job->touched, i, j, scratch, sum, job->row_sums, job->column_sums);
    if (status != CST_OK || place == PLACES)
        cst_touched_scratch_free(worker, scratch);
    if (place < PLACES)
        atomic_flag_clear(&job->places->taken[place]);
    return status;
}

static cst_status add_tile(cst_context *worker, void *user, int64_t task, double *sum) {
    const exact_job *job = user;
    int64_t i = task;
    int64_t j = (task + job->round) % job->strips;
    int64_t na = job->rows - i * job->tile < job->tile ? job->rows - i * job->tile : job->tile;
    int64_t nb = job->rows - j * job->tile < job->tile ? job->rows - j * job->tile : job->tile;
    if (job->touched)
        return add_touched(worker, job, i, j, sum);
    tile_scratch s = {0};
    cst_status status = make_scratch(worker, job, &s);
    if (status == CST_OK)
        status = (job->packed ? add_singles : add_doubles)(worker, job, i, j, na, nb, &s, sum);
    free_scratch(worker, &s);
    return status;
}

/* What stands on the diagonal of a member's kernel, less its levels. */
static double diagonal_of(const exact_job *job, int32_t member, int64_t row) {
    if (job->touched)
        return cst_touched_diagonal(job->touched, member, row);
    return job->packed ? cst_packed_diagonal(job->packed, member, row) : 1;
}

/* A sample of n rows has n of its n^2 pairs on the diagonal, all rows N of N^2, which matters where
 * a row has few others like it: the diagonal of the centred kernels and the rest are brought to N
 * apart. column_sums holds the diagonals; row_sums and totals are with them. */
static cst_status scale_up(cst_context *context, const exact_job *job, const double *totals,
                           double *products, double *hsic) {
    int32_t members = job->kernels->view->members;
    double n = (double)job->rows;
    double grown = (double)job->kernels->view->rows / n;
    for (int64_t a = 0; a < members; a++)
        for (int64_t i = 0; i < job->rows && !job->kernels->constant[a]; i++)
            job->column_sums[a * job->rows + i] +=
                totals[a] / (n * n) - 2 * job->row_sums[a * job->rows + i] / n;
    cst_status status =
        cst_gemm_f64(context, false, true, members, members, job->rows, 1, job->column_sums,
                     job->rows, job->column_sums, job->rows, 0, products, members);
    for (int64_t x = 0; status == CST_OK && x < (int64_t)members * members; x++)
        hsic[x] = grown * grown * (hsic[x] - products[x]) + grown * products[x];
    return status;
}

/* From the sums without diagonals. Unbiased: as they are. Biased: with the diagonals, so that with
 * row sums r and totals t HSIC is sum K_ij L_ij - 2/n sum r_i s_i + t u / n^2. What was taken from
 * row and column alike of a kernel changes neither. */
static cst_status combine_all(cst_context *context, const exact_job *job,
                              cst_cka_statistic statistic, double *hsic) {
    int32_t members = job->kernels->view->members;
    int64_t rows = job->rows;
    double n = (double)rows;
    bool biased = statistic == CST_CKA_BIASED;
    size_t k = (size_t)members;
    double *margins = cst_alloc(context, k, k * sizeof *margins);
    double *totals = cst_alloc(context, k, sizeof *totals);
    cst_status status = margins && totals ? CST_OK : CST_ERROR_MEMORY;
    for (size_t a = 0; status == CST_OK && a < k; a++)
        for (int64_t i = 0; i < rows; i++) {
            double *row = &job->row_sums[(int64_t)a * rows + i];
            double *column = &job->column_sums[(int64_t)a * rows + i];
            bool constant = job->kernels->constant[a];
            *row += *column;
            *column = constant ? 0 : diagonal_of(job, (int32_t)a, i);
            *row += biased ? *column : 0;
            totals[a] += *row;
        }
    if (status == CST_OK && biased)
        status = cst_gemm_f64(context, false, true, members, members, rows, 1, job->column_sums,
                              rows, job->column_sums, rows, 1, hsic, members);
    if (status == CST_OK)
        status = cst_gemm_f64(context, false, true, members, members, rows, 1, job->row_sums, rows,
                              job->row_sums, rows, 0, margins, members);
    double share = biased ? 2 / n : 2 / (n - 2);
    double whole = biased ? n * n : (n - 1) * (n - 2);
    for (size_t a = 0; status == CST_OK && a < k; a++)
        for (size_t b = 0; b < k; b++) {
            bool constant = job->kernels->constant[a] || job->kernels->constant[b];
            double *value = &hsic[a * k + b];
            *value =
                constant ? 0 : *value + totals[a] * totals[b] / whole - share * margins[a * k + b];
        }
    if (status == CST_OK && biased && job->rows < job->kernels->view->rows)
        status = scale_up(context, job, totals, margins, hsic);
    cst_free(context, margins);
    cst_free(context, totals);
    return status;
}

static cst_status sum_over_pairs(cst_context *context, exact_job *job, cst_cka_statistic statistic,
                                 double *hsic) {
    size_t members = (size_t)job->kernels->view->members;
    size_t rows = (size_t)job->rows;
    job->strips = (job->rows + job->tile - 1) / job->tile;
    double *round = cst_alloc(context, members, members * sizeof *round);
    job->row_sums = cst_alloc(context, members, rows * sizeof *job->row_sums);
    job->column_sums = cst_alloc(context, members, rows * sizeof *job->column_sums);
    cst_status status = round && job->row_sums && job->column_sums ? CST_OK : CST_ERROR_MEMORY;
    int64_t rounds = job->strips / 2 + 1;
    memset(hsic, 0, members * members * sizeof *hsic);
    for (job->round = 0; status == CST_OK && job->round < rounds; job->round++) {
        /* Half-way round an even circle the pairs would come twice. */
        int64_t tasks = job->round > 0 && 2 * job->round == job->strips ? job->round : job->strips;
        status = cst_reduce_blocks(context, tasks, members * members, add_tile, job, round);
        for (size_t i = 0; status == CST_OK && i < members * members; i++)
            hsic[i] += round[i];
        if (status == CST_OK)
            status = cst_progress(context, "cka", job->round + 1, rounds);
    }
    if (status == CST_OK && job->touched)
        status = cst_touched_finish(context, job->touched, hsic, job->row_sums);
    if (status == CST_OK)
        status = combine_all(context, job, statistic, hsic);
    cst_free(context, round);
    cst_free(context, job->row_sums);
    cst_free(context, job->column_sums);
    return status;
}

cst_status cst_hsic_exact(cst_context *context, const cst_kernels *kernels,
                          cst_cka_statistic statistic, double *hsic) {
    exact_job job = {
        .kernels = kernels, .rows = kernels->view->rows, .tile = tile_rows(kernels->view->members)};
    return sum_over_pairs(context, &job, statistic, hsic);
}

cst_status cst_hsic_packed(cst_context *context, const cst_packed *packed,
                           cst_cka_statistic statistic, double *hsic) {
    exact_job job = {
        .kernels = packed->kernels, .packed = packed, .rows = packed->rows, .tile = CST_STRIP_ROWS};
    if (!cst_touched_suits(packed))
        return sum_over_pairs(context, &job, statistic, hsic);
    cst_touched touched = {0};
    cst_status status = cst_touched_create(context, packed, &touched);
    job.touched = &touched;
    job.places = cst_alloc(context, 1, sizeof *job.places);
    if (!job.places)
        status = CST_ERROR_MEMORY;
    for (int p = 0; status == CST_OK && p < PLACES; p++)
        atomic_flag_clear(&job.places->taken[p]);
    if (status == CST_OK)
        status = sum_over_pairs(context, &job, statistic, hsic);
    for (int p = 0; job.places && p < PLACES; p++)
        cst_touched_scratch_free(context, &job.places->scratch[p]);
    cst_free(context, job.places);
    cst_touched_free(context, &touched);
    return status;
}
