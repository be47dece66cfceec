/* HSIC by pairs of rows, tile by tile, without an N x N matrix. Paper: equation (1). */
#include "method/redundancy/hsic.h"

#include "core/la.h"
#include "core/ranks.h"

#include <math.h>
#include <string.h>

/* Sums over off-diagonal entries. Round d pairs strip i with strip i + d (cyclically), so that its
 * row sums have one writer at a time, in a fixed order. */
typedef struct tile_pass {
    const cst_kernels *kernels;
    cst_packed *packed; /* tiles in single precision; NULL: in double, from the view */
    cst_pairs *pairs;   /* what some rounds or rows tell of the rest; NULL: all pairs of rows */
    const cst_pair_blocks *blocks; /* of members */
    int32_t largest;               /* members of the largest group */
    size_t area;                   /* products of the largest block */
    int64_t rows;                  /* n, all of the view or those packed */
    int64_t tile;                  /* rows of a strip */
    int64_t strips;
    int64_t round;
    double *row_sums;    /* [K][n], from tiles whose rows a strip is */
    double *column_sums; /* [K][n], from tiles whose columns it is */
} tile_pass;

/* A tile: strips i and j. */
typedef struct place {
    int64_t i, j;
    int64_t na, nb; /* rows of each */
} place;

/* Adds a tile's sums of rows and columns. A diagonal tile is whole: its rows are enough. */
static void add_margins(place at, const double *values, double *row_sums, double *column_sums) {
    for (int64_t x = 0; x < at.na; x++) {
        double sum = 0;
        for (int64_t y = 0; y < at.nb; y++)
            sum += values[x * at.nb + y];
        row_sums[x] += cst_on_grid(sum);
    }
    for (int64_t y = 0; at.i != at.j && y < at.nb; y++) {
        double sum = 0;
        for (int64_t x = 0; x < at.na; x++)
            sum += values[x * at.nb + y];
        column_sums[y] += cst_on_grid(sum);
    }
}

/* Tiles in double precision of members first..first+count-1 into values [count][na * nb]. */
static cst_status double_tiles(cst_context *worker, const tile_pass *pass, place at, int32_t first,
                               int32_t count, double *values) {
    const int64_t start[2] = {at.i * pass->tile, at.j * pass->tile};
    const int64_t rows[2] = {at.na, at.nb};
    for (int32_t k = first; k < first + count; k++, values += at.na * at.nb) {
        if (pass->kernels->constant[k])
            continue;
        CST_TRY(cst_kernel_pair(worker, pass->kernels, k, NULL, start, rows, values));
        for (int64_t x = 0; at.i == at.j && x < at.na; x++)
            values[x * at.nb + x] = 0;
        add_margins(at, values, pass->row_sums + k * pass->rows + start[0],
                    pass->column_sums + k * pass->rows + start[1]);
    }
    return CST_OK;
}

/* As double_tiles in single precision. Entries are about centred: products do not cancel. */
static cst_status single_tiles(cst_context *worker, const tile_pass *pass, place at, int32_t first,
                               int32_t count, float *values) {
    for (int32_t k = first; k < first + count; k++, values += at.na * at.nb)
        if (!pass->kernels->constant[k])
            CST_TRY(cst_packed_tile(worker, pass->packed, k, at.i, at.j, values,
                                    pass->row_sums + k * pass->rows + at.i * pass->tile,
                                    pass->column_sums + k * pass->rows + at.j * pass->tile));
    return CST_OK;
}

/* Adds the sums of products of a group's tiles to those of its blocks. */
static cst_status add_group(cst_context *worker, const tile_pass *pass, const cst_pair_group *group,
                            place at, float *singles, double *doubles, float *products,
                            double *sum) {
    int64_t area = at.na * at.nb;
    int times = at.i == at.j ? 1 : 2;
    CST_TRY(pass->packed ? single_tiles(worker, pass, at, group->first, group->count, singles)
                         : double_tiles(worker, pass, at, group->first, group->count, doubles));
    for (int32_t n = 0; n < group->blocks; n++) {
        const cst_pair_block *b = &pass->blocks->block[group->first_block + n];
        int64_t left = (b->first_a - group->first) * area;
        int64_t right = (b->first_b - group->first) * area;
        double *to = sum + b->at;
        if (!pass->packed) {
            CST_TRY(cst_gemm_f64(worker, false, true, b->count_a, b->count_b, area, times,
                                 doubles + left, area, doubles + right, area, 0, to, b->count_b));
            continue;
        }
        CST_TRY(cst_gemm_f32(worker, false, true, b->count_a, b->count_b, area, (float)times,
                             singles + left, area, singles + right, area, 0, products, b->count_b));
        for (int64_t x = 0; x < (int64_t)b->count_a * b->count_b; x++)
            to[x] += (double)products[x];
    }
    return CST_OK;
}

static int64_t strip_rows(const tile_pass *pass, int64_t strip) {
    int64_t left = pass->rows - strip * pass->tile;
    return left < pass->tile ? left : pass->tile;
}

static cst_status add_tile(cst_context *worker, void *user, int64_t task, double *sum) {
    const tile_pass *pass = user;
    int64_t j = (task + pass->round) % pass->strips;
    place at = {task, j, strip_rows(pass, task), strip_rows(pass, j)};
    size_t area = (size_t)pass->tile * (size_t)pass->tile;
    size_t products = pass->blocks->products;
    CST_SCOPE(scope);
    CST_NEW(worker, scope, float, singles, (pass->packed ? (size_t)pass->largest : 0) * area);
    CST_NEW(worker, scope, double, doubles, (pass->packed ? 0 : (size_t)pass->largest) * area);
    CST_NEW(worker, scope, float, room, pass->area);
    for (int32_t g = 0; g < pass->blocks->groups; g++)
        CST_TRY(add_group(worker, pass, &pass->blocks->group[g], at, singles, doubles, room, sum));
    if (pass->pairs)
        memcpy(sum + products, sum, products * sizeof *sum);
    if (pass->pairs && at.i != at.j && at.na == pass->tile && at.nb == pass->tile)
        cst_pairs_tile(pass->pairs, at.i, at.j, sum);
    return CST_OK;
}

/* out of a block = alpha * products over the rows of numbers a [K][n] + beta * out. */
static cst_status multiply_rows(cst_context *context, const cst_pair_block *b, int64_t rows,
                                double alpha, const double *a, double beta, double *out) {
    const double *left = a + b->first_a * rows;
    if (b->first_a == b->first_b)
        return cst_gram_long(context, b->count_a, rows, alpha, left, beta, out);
    return cst_gemm_f64(context, false, true, b->count_a, b->count_b, rows, alpha, left, rows,
                        a + b->first_b * rows, rows, beta, out, b->count_b);
}

/* Row sums [K][n] without diagonals, brought from m partners to n - 1, and the correction of sum_i
 * r_i s_i, [K*K], for pairs of rows that meet themselves. */
static cst_status bring_to_all(cst_context *context, const tile_pass *pass, const double *totals,
                               double *hsic, double *sums, double *added) {
    int64_t members = pass->kernels->view->members;
    int64_t cells = members * members;
    double n = (double)pass->rows;
    double m = (double)pass->pairs->partners;
    double once = (n - 1) / m;
    double twice = m > 1 ? (n - 1) * (n - 2) / (m * (m - 1)) : once * once;
    for (int64_t x = 0; x < cells; x++)
        hsic[x] = once * totals[x];
    for (int64_t a = 0; a < members; a++, cst_trim(context))
        for (int64_t x = a * pass->rows; x < (a + 1) * pass->rows; x++)
            sums[x] *= once;
    if (pass->pairs->partners == pass->rows - 1)
        return CST_OK;
    CST_TRY(cst_gram_long(context, members, pass->rows, twice / (once * once) - 1, sums, 0, added));
    for (int64_t a = 0; a < members; a++)
        for (int64_t b = 0; b <= a; b++) {
            double shared = totals[cells + a * members + b];
            added[a * members + b] += (once - twice) * shared;
            added[b * members + a] = added[a * members + b];
        }
    return CST_OK;
}

/* The diagonal [K][n] of a sample and the rest are brought to N rows apart, as n of n^2 pairs are
 * diagonal instead of N of N^2. products: room of a block. */
static cst_status scale_up(cst_context *context, const tile_pass *pass, const double *totals,
                           const double *margins, double *diagonal, double *products,
                           double *hsic) {
    double n = (double)pass->rows;
    double grown = (double)pass->kernels->view->rows / n;
    for (int64_t a = 0; a < pass->kernels->view->members; a++, cst_trim(context))
        for (int64_t i = 0; i < pass->rows && !pass->kernels->constant[a]; i++)
            diagonal[a * pass->rows + i] +=
                totals[a] / (n * n) - 2 * margins[a * pass->rows + i] / n;
    for (int32_t block = 0; block < pass->blocks->blocks; block++) {
        const cst_pair_block *b = &pass->blocks->block[block];
        CST_TRY(multiply_rows(context, b, pass->rows, 1, diagonal, 0, products));
        for (int64_t x = 0; x < (int64_t)b->count_a * b->count_b; x++) {
            double *value = &hsic[b->at + (size_t)x];
            *value = grown * grown * (*value - products[x]) + grown * products[x];
        }
    }
    return CST_OK;
}

/* The kernels' diagonals less their levels, row sums with them if `biased`, and totals [K]. */
static void add_diagonals(cst_context *context, const tile_pass *pass, bool biased, double *margins,
                          double *diagonal, double *totals) {
    for (int32_t k = 0; k < pass->kernels->view->members; k++, cst_trim(context))
        for (int64_t i = 0; i < pass->rows; i++) {
            int64_t at = k * pass->rows + i;
            diagonal[at] = pass->kernels->constant[k] ? 0
                           : pass->packed             ? cst_packed_diagonal(pass->packed, k, i)
                                                      : 1;
            margins[at] += biased ? diagonal[at] : 0;
            totals[k] += margins[at];
        }
}

/* From sums without diagonals (with pass->pairs [CST_PAIRS_SUMS][K*K]); biased: with diagonals,
 * row sums r and totals t, sum K_ij L_ij - 2/n sum r_i s_i + t u / n^2. */
static cst_status combine(cst_context *context, const tile_pass *pass, cst_cka_statistic statistic,
                          const double *sums, double *hsic) {
    int64_t rows = pass->rows;
    double n = (double)rows;
    bool biased = statistic == CST_CKA_BIASED;
    size_t members = (size_t)pass->kernels->view->members;
    size_t numbers = members * (size_t)rows;
    const bool *constant = pass->kernels->constant;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, products, pass->area);
    CST_NEW(context, scope, double, totals, members);
    double *margins = pass->row_sums; /* which more rounds of tiles would need */
    double *diagonal = pass->column_sums;
    if (pass->pairs) {
        CST_TAKE(context, scope, margins, numbers);
        CST_TAKE(context, scope, diagonal, numbers);
    }
    for (size_t a = 0; a < members; a++, cst_trim(context))
        for (size_t x = a * (size_t)rows; x < (a + 1) * (size_t)rows; x++)
            margins[x] = pass->row_sums[x] + pass->column_sums[x];
    CST_TRY(cst_ranks_add(context, CST_OK, margins, numbers));
    if (pass->pairs)
        CST_TRY(bring_to_all(context, pass, sums, hsic, margins, products));
    else
        memcpy(hsic, sums, pass->blocks->products * sizeof *hsic);
    add_diagonals(context, pass, biased, margins, diagonal, totals);
    double share = biased ? 2 / n : 2 / (n - 2);
    double whole = biased ? n * n : (n - 1) * (n - 2);
    for (int32_t block = 0; block < pass->blocks->blocks; block++) {
        const cst_pair_block *b = &pass->blocks->block[block];
        double *to = hsic + b->at;
        if (biased)
            CST_TRY(multiply_rows(context, b, rows, 1, diagonal, 1, to));
        CST_TRY(multiply_rows(context, b, rows, 1, margins, pass->pairs ? 1 : 0, products));
        for (int32_t x = 0; x < b->count_a; x++)
            for (int32_t y = 0; y < b->count_b; y++, to++) {
                int32_t i = b->first_a + x;
                int32_t j = b->first_b + y;
                double product = products[(int64_t)x * b->count_b + y];
                *to = constant[i] || constant[j]
                          ? 0
                          : *to + totals[i] * totals[j] / whole - share * product;
            }
    }
    if (biased && rows < pass->kernels->view->rows)
        CST_TRY(scale_up(context, pass, totals, margins, diagonal, products, hsic));
    return CST_OK;
}

/* Rounds 1 and up, then the diagonal; with pass->pairs until the error is small enough. */
static cst_status all_rounds(cst_context *context, tile_pass *pass, cst_cka_statistic statistic,
                             double *sums, double *round, double *hsic) {
    cst_pairs *pairs = pass->pairs;
    int64_t rounds = pass->strips / 2 + 1;
    size_t width = pass->blocks->products * (pairs ? CST_PAIRS_SUMS : 1);
    int64_t check = pairs ? cst_pairs_first_check(pairs, rounds) : rounds;
    for (int64_t done = 0; done < rounds;) {
        pass->round = (done + 1) % rounds;
        /* Half-way round an even circle the pairs would come twice. */
        int64_t tasks =
            pass->round > 0 && 2 * pass->round == pass->strips ? pass->round : pass->strips;
        if (pass->packed)
            CST_TRY(cst_packed_reach(context, pass->packed, tasks, pass->round));
        CST_TRY(cst_reduce_blocks(context, tasks, width, add_tile, pass, round));
        for (size_t x = 0; x < width; x++)
            sums[x] += round[x];
        done++;
        if (pairs)
            cst_pairs_round(pairs, tasks, done == rounds);
        CST_TRY(cst_progress(context, "cka", done, check > done ? check : done));
        if (done < check)
            continue;
        CST_TRY(combine(context, pass, statistic, sums, hsic));
        if (!pairs)
            break;
        CST_TRY(cst_pairs_share(context, pairs));
        if (done < rounds)
            check = cst_pairs_next_check(pairs, sums, hsic, done, rounds);
        if (check == done)
            break;
    }
    if (pairs)
        pairs->error = cst_pairs_error(pairs, sums, hsic);
    return CST_OK;
}

static cst_status sum_tiles(cst_context *context, tile_pass *pass, cst_cka_statistic statistic,
                            double *hsic) {
    int32_t members = pass->kernels->view->members;
    size_t numbers = (size_t)members * (size_t)pass->rows;
    cst_pair_block block = {.count_a = members, .count_b = members};
    cst_pair_group group = {.count = members, .blocks = 1};
    const cst_pair_blocks all = {&block, 1, &group, 1, (size_t)members * (size_t)members};
    pass->blocks = pass->blocks ? pass->blocks : &all;
    for (int32_t g = 0; g < pass->blocks->groups; g++)
        if (pass->blocks->group[g].count > pass->largest)
            pass->largest = pass->blocks->group[g].count;
    for (int32_t b = 0; b < pass->blocks->blocks; b++) {
        const cst_pair_block *one = &pass->blocks->block[b];
        size_t area = (size_t)one->count_a * (size_t)one->count_b;
        pass->area = area > pass->area ? area : pass->area;
    }
    pass->strips = (pass->rows + pass->tile - 1) / pass->tile;
    size_t width = pass->blocks->products * (pass->pairs ? CST_PAIRS_SUMS : 1);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, round, width);
    CST_NEW(context, scope, double, sums, width);
    CST_TAKE(context, scope, pass->row_sums, numbers);
    CST_TAKE(context, scope, pass->column_sums, numbers);
    return all_rounds(context, pass, statistic, sums, round, hsic);
}

cst_status cst_hsic_exact(cst_context *context, const cst_kernels *kernels,
                          cst_cka_statistic statistic, double *hsic) {
    /* Fewer rows where the tiles of many members would not fit in the cache's reach. */
    tile_pass pass = {.kernels = kernels,
                      .rows = kernels->view->rows,
                      .tile = kernels->view->members <= 64 ? 128 : 64};
    return sum_tiles(context, &pass, statistic, hsic);
}

cst_status cst_hsic_packed(cst_context *context, cst_packed *packed, cst_pairs *pairs,
                           const cst_pair_blocks *blocks, cst_cka_statistic statistic,
                           double *hsic) {
    tile_pass pass = {.kernels = packed->kernels,
                      .packed = packed,
                      .pairs = pairs,
                      .blocks = blocks,
                      .rows = packed->rows,
                      .tile = CST_STRIP_ROWS};
    return sum_tiles(context, &pass, statistic, hsic);
}
