/* Rounds of tiles that give every row as many partners, and the standard error of CKA that is
 * left: strips are random samples, and tile t moves a CKA by y_t = mean + a_i + a_j + e_t, in
 * which the effects a of strips cancel. docs/method.md#s1-redundancy. */
#include "method/redundancy/hsic.h"

#include "core/ranks.h"

#include <math.h>
#include <string.h>

/* Doubles of sums by strip. */
#define STRIP_DOUBLES 8e6

/* Where effects of strips are not known: variance of a CKA is this over the number of rows. */
#define ROW_VARIANCE 0.25

/* The share of a tile's variance that is never taken for effects of its strips. */
#define MIN_LEFT 0.25

/* Rounds end when tiles leave this share of the largest variance. */
#define TILES_SHARE 0.1

/* Tiles from which a variance is told, at least. */
enum { CHECK_TILES = 64 };

cst_status cst_pairs_create(cst_context *context, cst_scope *scope, const cst_kernels *kernels,
                            int64_t rows, double tolerance, int64_t rounds_most, cst_pairs *out) {
    int32_t members = kernels->view->members;
    double cells = (double)members * (members + 1);
    *out = (cst_pairs){.members = members,
                       .constant = kernels->constant,
                       .rows = rows,
                       .all = kernels->view->rows,
                       .rounds_most = rounds_most,
                       .tolerance = tolerance,
                       .strips = (rows + CST_STRIP_ROWS - 1) / CST_STRIP_ROWS};
    if ((double)out->strips * cells > STRIP_DOUBLES)
        return CST_OK;
    CST_TAKE(context, scope, out->strip_sums, (out->strips * (int64_t)cells));
    out->strips_of_all = out->strip_sums;
    if (cst_ranks_share(context))
        CST_TAKE(context, scope, out->strips_of_all, (out->strips * (int64_t)cells));
    return CST_OK;
}

cst_status cst_pairs_share(cst_context *context, cst_pairs *pairs) {
    size_t numbers = (size_t)pairs->strips * (size_t)pairs->members * ((size_t)pairs->members + 1);
    if (!pairs->strip_sums || pairs->strips_of_all == pairs->strip_sums)
        return CST_OK;
    memcpy(pairs->strips_of_all, pairs->strip_sums, numbers * sizeof(double));
    return cst_ranks_add(context, CST_OK, pairs->strips_of_all, numbers);
}

void cst_pairs_tile(cst_pairs *pairs, int64_t i, int64_t j, double *sum) {
    int64_t members = pairs->members;
    int64_t cells = members * members;
    int64_t half = members * (members + 1) / 2;
    double *squares = sum + 2 * cells;
    double *with_own = sum + 3 * cells;
    double *of_own = sum + 4 * cells;
    double *upper = pairs->strip_sums ? pairs->strip_sums + 2 * i * half : NULL;
    double *lower = pairs->strip_sums ? pairs->strip_sums + (2 * j + 1) * half : NULL;
    for (int64_t a = 0, at = 0; a < members; a++)
        for (int64_t b = 0; b <= a; b++, at++) {
            double h = sum[a * members + b];
            double own_a = sum[a * members + a];
            double own_b = sum[b * members + b];
            squares[a * members + b] += h * h;
            of_own[a * members + b] += own_a * own_b;
            with_own[a * members + b] += h * own_a;
            with_own[b * members + a] += a == b ? 0 : h * own_b;
            if (upper)
                upper[at] += cst_on_grid(h);
            if (lower)
                lower[at] += cst_on_grid(h);
        }
}

void cst_pairs_round(cst_pairs *pairs, int64_t tasks, bool last) {
    pairs->tiles += last ? 0 : tasks;
    pairs->partners =
        last ? pairs->rows - 1 : pairs->partners + 2 * tasks * CST_STRIP_ROWS / pairs->strips;
}

/* A tile's y as its h_ab, h_aa and h_bb times these. */
typedef struct weights {
    double ab, aa, bb;
} weights;

static weights weights_of(const cst_pairs *pairs, const double *hsic, int64_t a, int64_t b) {
    int64_t k = pairs->members;
    double own_a = hsic[a * k + a];
    double own_b = hsic[b * k + b];
    double cka = hsic[a * k + b] / sqrt(own_a * own_b);
    double grown = (double)pairs->all / (double)pairs->rows;
    double scale = grown * grown * (double)(pairs->rows - 1) / (double)pairs->partners;
    return (weights){.ab = scale / sqrt(own_a * own_b),
                     .aa = -0.5 * cka * scale / own_a,
                     .bb = -0.5 * cka * scale / own_b};
}

/* Sum over strips of the squares of what their tiles' y add up to, less `mean` for a strip. */
static double strip_squares(const cst_pairs *pairs, weights w, int64_t a, int64_t b, double mean) {
    int64_t half = (int64_t)pairs->members * (pairs->members + 1) / 2;
    int64_t at[3] = {a * (a + 1) / 2 + b, a * (a + 1) / 2 + a, b * (b + 1) / 2 + b};
    double squares = 0;
    for (int64_t s = 0; s < pairs->strips; s++) {
        const double *x = pairs->strips_of_all + 2 * s * half;
        double y = w.ab * (x[at[0]] + x[half + at[0]]) + w.aa * (x[at[1]] + x[half + at[1]]) +
                   w.bb * (x[at[2]] + x[half + at[2]]) - mean;
        squares += y * y;
    }
    return squares;
}

typedef struct variances {
    double all;
    double tiles; /* the part that the pairs of strips leave which were not taken */
} variances;

/* Variance of the CKA of members a > b. */
static variances variance_of(const cst_pairs *pairs, const double *sums, const double *hsic,
                             int64_t a, int64_t b) {
    int64_t k = pairs->members;
    const double *squares = sums + 2 * k * k;
    const double *with_own = sums + 3 * k * k;
    const double *of_own = sums + 4 * k * k;
    weights w = weights_of(pairs, hsic, a, b);
    double tiles = (double)pairs->tiles;
    double strips = (double)pairs->strips;
    double each = 2 * tiles / strips; /* tiles of a strip */
    double mean =
        (w.ab * sums[a * k + b] + w.aa * sums[a * k + a] + w.bb * sums[b * k + b]) / tiles;
    double square = w.ab * w.ab * squares[a * k + b] + w.aa * w.aa * squares[a * k + a] +
                    w.bb * w.bb * squares[b * k + b] +
                    2 * w.ab * (w.aa * with_own[a * k + b] + w.bb * with_own[b * k + a]) +
                    2 * w.aa * w.bb * of_own[a * k + b];
    double variance = fmax(square - tiles * mean * mean, 0) / (tiles - 1);
    double row = ROW_VARIANCE / (4 * CST_STRIP_ROWS * tiles * tiles);
    if (pairs->strip_sums && each > 1) {
        double shared = strip_squares(pairs, w, a, b, each * mean) - 2 * (tiles - 1) * variance;
        row = fmax(shared / (strips * each * (each - 1)), 0);
        variance = fmax(variance - 2 * row, MIN_LEFT * variance);
    }
    double n = (double)pairs->rows;
    double all = (double)pairs->all;
    double unseen = fmax(1 - (double)pairs->partners / (all - 1) * (n / all), 0);
    double left = tiles * variance * unseen;
    double rows = 4 * tiles * tiles * CST_STRIP_ROWS * row * (1 / n - 1 / all);
    return (variances){.all = left + rows, .tiles = left};
}

/* The largest of all pairs of members, each. */
static variances worst_variances(const cst_pairs *pairs, const double *sums, const double *hsic) {
    int64_t k = pairs->members;
    variances worst = {0};
    if (pairs->rows == pairs->all && pairs->partners == pairs->rows - 1)
        return worst;
    if (pairs->tiles < 2)
        return (variances){.all = NAN, .tiles = NAN};
    for (int64_t a = 0; a < k; a++)
        for (int64_t b = 0; b < a; b++)
            if (hsic[a * k + a] > 0 && hsic[b * k + b] > 0) {
                variances v = variance_of(pairs, sums, hsic, a, b);
                worst.all = fmax(worst.all, v.all);
                worst.tiles = fmax(worst.tiles, v.tiles);
            }
    return worst;
}

double cst_pairs_error(const cst_pairs *pairs, const double *sums, const double *hsic) {
    return sqrt(worst_variances(pairs, sums, hsic).all);
}

int64_t cst_pairs_first_check(const cst_pairs *pairs, int64_t rounds) {
    if (!(pairs->tolerance > 0) || pairs->rows % CST_STRIP_ROWS != 0)
        return rounds;
    int64_t check = 1 + CHECK_TILES / pairs->strips;
    if (pairs->rounds_most > 0 && check > pairs->rounds_most)
        check = pairs->rounds_most;
    return check < rounds ? check : rounds;
}

int64_t cst_pairs_next_check(const cst_pairs *pairs, const double *sums, const double *hsic,
                             int64_t done, int64_t rounds) {
    variances worst = worst_variances(pairs, sums, hsic);
    double ratio = sqrt(worst.all) / pairs->tolerance;
    if (ratio <= 1 || done == pairs->rounds_most || worst.tiles <= TILES_SHARE * worst.all)
        return done;
    /* The variance goes with 1/done - 1/rounds. */
    double left = 1 / (double)done - 1 / (double)rounds;
    double wanted = 1.05 / (1 / (double)rounds + left / (ratio * ratio));
    double next = fmin(ceil(wanted), 4 * (double)done);
    int64_t check = next < (double)rounds ? (int64_t)next : rounds;
    check = check > done ? check : done + 1;
    return pairs->rounds_most > 0 && check > pairs->rounds_most ? pairs->rounds_most : check;
}
