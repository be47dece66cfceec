/*
 * HSIC by pairs of rows, tile by tile, all of them or some rounds: no N x N matrix is held. Stage
 * S1, the reference of the low-rank estimators. Paper: equation (1); method section 2,
 * docs/redundancy.md.
 */
#include "method/redundancy/hsic.h"

#include "core/la.h"
#include "core/ranks.h"
#include "method/redundancy/pairs.h"
#include "method/redundancy/touched.h"

#include <math.h>

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
    cst_packed *packed;         /* tiles in single precision; NULL: in double, from the view */
    const cst_touched *touched; /* tiles of sparse members; NULL: of any */
    places *places;             /* of `touched` */
    cst_pairs *pairs;           /* what some rounds or rows tell of the rest; NULL: all pairs */
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
        row_sums[x] += cst_on_grid(sum);
    }
    for (int64_t y = 0; i != j && y < nb; y++) {
        double sum = 0;
        for (int64_t x = 0; x < na; x++)
            sum += values[x * nb + y];
        column_sums[y] += cst_on_grid(sum);
    }
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
        CST_THEN(
            cst_kernel_rows(worker, kernels, k, NULL, j * job->tile, nb, s->raw, s->b, s->b_norms));
        CST_THEN(cst_kernel_tile(worker, kernels, k, (cst_kernel_points){s->a, s->a_norms, na},
                                 (cst_kernel_points){s->b, s->b_norms, nb}, values));
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
    CST_THEN(cst_gemm_f32(worker, false, true, members, members, na * nb, i == j ? 1 : 2,
                          s->singles, na * nb, s->singles, na * nb, 0, s->sums, members));
    for (int64_t x = 0; status == CST_OK && x < (int64_t)members * members; x++)
        sum[x] += (double)s->sums[x];
    return status;
}

static cst_status add_touched(cst_context *worker, const exact_job *job, int64_t i, int64_t j,
                              double *sum, double *shared) {
    int place = 0;
    while (place < PLACES && atomic_flag_test_and_set(&job->places->taken[place]))
        place++;
    cst_touched_scratch own = {0};
    cst_touched_scratch *scratch = place < PLACES ? &job->places->scratch[place] : &own;
    cst_status status = CST_OK;
    if (!scratch->gram) /* the last that is made */
        status = cst_touched_scratch_create(worker, job->touched, scratch);
    if (status == CST_OK)
        cst_touched_tile(job->touched, i, j, scratch, sum, shared, job->row_sums, job->column_sums);
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
    int64_t cells = (int64_t)job->kernels->view->members * job->kernels->view->members;
    double *shared = job->pairs ? sum + cells : NULL;
    tile_scratch s = {0};
    cst_status status = CST_OK;
    if (job->touched) {
        status = add_touched(worker, job, i, j, sum, shared);
    } else {
        status = make_scratch(worker, job, &s);
        CST_THEN((job->packed ? add_singles : add_doubles)(worker, job, i, j, na, nb, &s, sum));
        if (status == CST_OK && shared)
            memcpy(shared, sum, (size_t)cells * sizeof *shared);
    }
    if (status == CST_OK && job->pairs && i != j && na == job->tile && nb == job->tile)
        cst_pairs_tile(job->pairs, i, j, sum);
    free_scratch(worker, &s);
    return status;
}

/* What stands on the diagonal of a member's kernel, less its levels. */
static double diagonal_of(const exact_job *job, int32_t member, int64_t row) {
    if (job->kernels->constant[member])
        return 0;
    if (job->touched)
        return cst_touched_diagonal(job->touched, member, row);
    return job->packed ? cst_packed_diagonal(job->packed, member, row) : 1;
}

/* A sample of n rows has n of its n^2 pairs on the diagonal, all rows N of N^2, which matters where
 * a row has few others like it: the diagonal of the centred kernels and the rest are brought to N
 * apart. diagonal and margins are [K][n]; products [K*K] is overwritten. */
static cst_status scale_up(cst_context *context, const exact_job *job, const double *totals,
                           const double *margins, double *diagonal, double *products,
                           double *hsic) {
    int32_t members = job->kernels->view->members;
    double n = (double)job->rows;
    double grown = (double)job->kernels->view->rows / n;
    for (int64_t a = 0; a < members; a++, cst_trim(context))
        for (int64_t i = 0; i < job->rows && !job->kernels->constant[a]; i++)
            diagonal[a * job->rows + i] += totals[a] / (n * n) - 2 * margins[a * job->rows + i] / n;
    cst_status status = cst_gram_long(context, members, job->rows, 1, diagonal, 0, products);
    for (int64_t x = 0; status == CST_OK && x < (int64_t)members * members; x++)
        hsic[x] = grown * grown * (hsic[x] - products[x]) + grown * products[x];
    return status;
}

/* Row sums r of the kernels without their diagonals, brought from the m partners of a row to n - 1,
 * and of sum_i r_i s_i what has to be added to it, [K*K]: in an estimated product of sums a pair of
 * rows meets itself too often. */
static cst_status bring_to_all(cst_context *context, const exact_job *job, const double *totals,
                               double *hsic, double *sums, double *added) {
    int64_t members = job->kernels->view->members;
    int64_t cells = members * members;
    double n = (double)job->rows;
    double m = job->pairs ? (double)job->pairs->partners : n - 1;
    double once = (n - 1) / m;
    double twice = m > 1 ? (n - 1) * (n - 2) / (m * (m - 1)) : once * once;
    for (int64_t x = 0; x < cells; x++)
        hsic[x] = once * totals[x];
    for (int64_t a = 0; a < members; a++, cst_trim(context))
        for (int64_t x = a * job->rows; x < (a + 1) * job->rows; x++)
            sums[x] = once * (job->row_sums[x] + job->column_sums[x]);
    if (!job->pairs || job->pairs->partners == job->rows - 1)
        return CST_OK;
    cst_status status =
        cst_gram_long(context, members, job->rows, twice / (once * once) - 1, sums, 0, added);
    for (int64_t a = 0; a < members; a++)
        for (int64_t b = 0; b <= a; b++) {
            double shared = totals[cells + a * members + b];
            added[a * members + b] += (once - twice) * shared;
            added[b * members + a] = added[a * members + b];
        }
    return status;
}

/* From the sums without diagonals, totals [K*K] (with job->pairs [CST_PAIRS_SUMS][K*K]). Unbiased:
 * as they are. Biased: with the diagonals, so that with row sums r and totals t HSIC is sum K_ij
 * L_ij - 2/n sum r_i s_i + t u / n^2. What was taken from row and column alike of a kernel changes
 * neither. */
static cst_status combine_all(cst_context *context, const exact_job *job,
                              cst_cka_statistic statistic, const double *sums, double *hsic) {
    int32_t members = job->kernels->view->members;
    int64_t rows = job->rows;
    double n = (double)rows;
    bool biased = statistic == CST_CKA_BIASED;
    size_t k = (size_t)members;
    double *products = cst_alloc(context, k, k * sizeof *products);
    double *totals = cst_alloc(context, k, sizeof *totals);
    double *margins = cst_alloc(context, k, (size_t)rows * sizeof *margins);
    double *diagonal = cst_alloc(context, k, (size_t)rows * sizeof *diagonal);
    cst_status status = products && totals && margins && diagonal ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(bring_to_all(context, job, sums, hsic, margins, products));
    if (status == CST_OK && job->touched)
        status = cst_touched_finish(context, job->touched, hsic, margins);
    for (size_t a = 0; status == CST_OK && a < k; a++, cst_trim(context))
        for (int64_t i = 0; i < rows; i++) {
            int64_t at = (int64_t)a * rows + i;
            diagonal[at] = diagonal_of(job, (int32_t)a, i);
            margins[at] += biased ? diagonal[at] : 0;
            totals[a] += margins[at];
        }
    if (status == CST_OK && biased)
        status = cst_gram_long(context, members, rows, 1, diagonal, 1, hsic);
    CST_THEN(cst_gram_long(context, members, rows, 1, margins, 1, products));
    double share = biased ? 2 / n : 2 / (n - 2);
    double whole = biased ? n * n : (n - 1) * (n - 2);
    for (size_t a = 0; status == CST_OK && a < k; a++)
        for (size_t b = 0; b < k; b++) {
            bool constant = job->kernels->constant[a] || job->kernels->constant[b];
            double *value = &hsic[a * k + b];
            *value =
                constant ? 0 : *value + totals[a] * totals[b] / whole - share * products[a * k + b];
        }
    if (status == CST_OK && biased && job->rows < job->kernels->view->rows)
        status = scale_up(context, job, totals, margins, diagonal, products, hsic);
    cst_free(context, products);
    cst_free(context, totals);
    cst_free(context, margins);
    cst_free(context, diagonal);
    return status;
}

/* The sums of all ranks, of what each has of its tiles. */
static cst_status combine_ranks(cst_context *context, exact_job *job, cst_cka_statistic statistic,
                                const double *sums, double *hsic) {
    if (!cst_ranks_share(context))
        return combine_all(context, job, statistic, sums, hsic);
    exact_job all = *job;
    size_t numbers = (size_t)job->kernels->view->members * (size_t)job->rows;
    double *margins = cst_alloc(context, 2 * numbers, sizeof *margins);
    cst_status status = margins ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        all.row_sums = margins;
        all.column_sums = margins + numbers;
        memcpy(all.row_sums, job->row_sums, numbers * sizeof *margins);
        memcpy(all.column_sums, job->column_sums, numbers * sizeof *margins);
    }
    status = cst_ranks_add(context, status, margins, 2 * numbers);
    CST_THEN(combine_all(context, &all, statistic, sums, hsic));
    cst_free(context, margins);
    return status;
}

/* Rounds 1 and up, then 0, the tiles on the diagonal, which some rounds leave out. With job->pairs
 * they go on until the standard error is as small as is asked. */
static cst_status all_rounds(cst_context *context, exact_job *job, cst_cka_statistic statistic,
                             double *sums, double *round, double *hsic) {
    cst_pairs *pairs = job->pairs;
    int64_t members = job->kernels->view->members;
    int64_t rounds = job->strips / 2 + 1;
    int64_t width = members * members * (pairs ? CST_PAIRS_SUMS : 1);
    int64_t check = pairs ? cst_pairs_first_check(pairs, rounds) : rounds;
    cst_status status = CST_OK;
    for (int64_t done = 0; status == CST_OK && done < rounds;) {
        job->round = (done + 1) % rounds;
        /* Half-way round an even circle the pairs would come twice. */
        int64_t tasks = job->round > 0 && 2 * job->round == job->strips ? job->round : job->strips;
        if (job->packed)
            status = cst_packed_reach(context, job->packed, tasks, job->round);
        CST_THEN(cst_reduce_blocks(context, tasks, (size_t)width, add_tile, job, round));
        for (int64_t x = 0; status == CST_OK && x < width; x++)
            sums[x] += round[x];
        if (pairs)
            cst_pairs_round(pairs, tasks, ++done == rounds);
        else
            done++;
        CST_THEN(cst_progress(context, "cka", done, check > done ? check : done));
        if (status != CST_OK || done < check)
            continue;
        status = combine_ranks(context, job, statistic, sums, hsic);
        CST_THEN(pairs ? cst_pairs_share(context, pairs) : CST_OK);
        if (status != CST_OK || !pairs || done == rounds)
            break;
        check = cst_pairs_next_check(pairs, sums, hsic, done, rounds);
        if (check == done)
            break;
    }
    if (status == CST_OK && pairs)
        pairs->error = cst_pairs_error(pairs, sums, hsic);
    return status;
}

static cst_status sum_over_pairs(cst_context *context, exact_job *job, cst_cka_statistic statistic,
                                 double *hsic) {
    size_t members = (size_t)job->kernels->view->members;
    size_t rows = (size_t)job->rows;
    size_t width = members * (job->pairs ? CST_PAIRS_SUMS : 1);
    job->strips = (job->rows + job->tile - 1) / job->tile;
    double *round = cst_alloc(context, width, members * sizeof *round);
    double *sums = cst_alloc(context, width, members * sizeof *sums);
    job->row_sums = cst_alloc(context, members, rows * sizeof *job->row_sums);
    job->column_sums = cst_alloc(context, members, rows * sizeof *job->column_sums);
    cst_status status =
        round && sums && job->row_sums && job->column_sums ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(all_rounds(context, job, statistic, sums, round, hsic));
    cst_free(context, round);
    cst_free(context, sums);
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

cst_status cst_hsic_packed(cst_context *context, cst_packed *packed, cst_pairs *pairs,
                           cst_cka_statistic statistic, double *hsic) {
    exact_job job = {.kernels = packed->kernels,
                     .packed = packed,
                     .pairs = pairs,
                     .rows = packed->rows,
                     .tile = CST_STRIP_ROWS};
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
    CST_THEN(sum_over_pairs(context, &job, statistic, hsic));
    for (int p = 0; job.places && p < PLACES; p++)
        cst_touched_scratch_free(context, &job.places->scratch[p]);
    cst_free(context, job.places);
    cst_touched_free(context, &touched);
    return status;
}
