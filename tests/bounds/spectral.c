/*
 * Figures of clusters, spectra, blends and stability: against NumPy; what follows from the
 * assumptions on random pools that meet them; and pools that meet the assumptions of the paper's
 * statements and break the statements.
 */
#include "fit/bounds/spectral.h"
#include "core/la.h"
#include "method/blend/blend.h"
#include "method/redundancy/redundancy.h"
#include "repetitions.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "data/spectral.h"

/* What follows from facts of clusters besides the claims: lemmas, which random pools may break, and
 * what is proved of correlations: with a pair at distance `closest`, largest / least >= (2 -
 * closest) / closest, and if members can be turned (x to -x) so that no similarity within a cluster
 * is negative, >= (1 + (s_max - 1) (1 - epsilon)) / closest; 1 without a pair. */
typedef struct proofs {
    double closest; /* 1 less the largest similarity within a cluster; 1: no cluster has a pair */
    bool aligned;
    double largest_above; /* lemma: largest eigenvalue >= s_max (1 - epsilon) */
    double least_below;   /* lemma: smallest eigenvalue <= 1 - (G - 1) mu */
    double proved;
} proofs;

static proofs prove(const double *similarity, const int32_t *cluster_of,
                    const cst_cluster_facts *facts) {
    int32_t members = facts->members;
    double within = 1 - facts->epsilon;
    proofs out = {.closest = 1,
                  .aligned = true,
                  .largest_above = facts->largest * within,
                  .least_below = 1 - (facts->clusters - 1) * facts->mu,
                  .proved = 1};
    for (int32_t a = 0; a < members; a++) {
        const double *head = NULL; /* the row of the first member of the cluster */
        for (int32_t b = 0; b < members; b++) {
            if (cluster_of[a] != cluster_of[b])
                continue;
            head = head ? head : similarity + b * members;
            if (a == b)
                continue;
            double value = similarity[a * members + b];
            out.closest = fmin(out.closest, fmax(1 - fabs(value), 0));
            out.aligned = out.aligned && value * head[a] * head[b] >= 0;
        }
    }
    double pair = 2 - out.closest; /* the larger eigenvalue of the closest two */
    double cluster = 1 + (facts->largest - 1) * within;
    if (facts->largest > 1)
        out.proved = (out.aligned ? fmax(pair, cluster) : pair) / out.closest;
    return out;
}

/* ---- against NumPy ---- */

static void spectra_agree_with_numpy(void **state) {
    cst_context *context = *state;
    cst_cluster_facts facts;
    cst_cluster_facts_of(SP_GRAM, SP_MEMBERS, SP_CLUSTER_OF, &facts);
    assert_true(facts.members == SP_MEMBERS && facts.clusters == SP_CLUSTERS && facts.largest == 3);
    assert_relative(facts.epsilon, SP_FACTS[0], 1e-9, 1e-3);
    assert_relative(prove(SP_GRAM, SP_CLUSTER_OF, &facts).closest, SP_FACTS[1], 1e-9, 1e-3);
    assert_relative(facts.mu, SP_FACTS[2], 1e-9, 1e-3);
    assert_int_equal(facts.incoherent, SP_FACTS[2] < 1.0 / 3);
    for (int after = 0; after < 2; after++) {
        double values[SP_MEMBERS];
        cst_spectral_facts spectrum;
        const double *wanted = SP_SPECTRUM + 8 * after;
        assert_int_equal(cst_spectral_facts_of(context, SP_GRAM, SP_MEMBERS, after ? SP_KEPT : NULL,
                                               after ? SP_CLUSTERS : 0, values, &spectrum),
                         CST_OK);
        assert_relative(spectrum.largest, wanted[0], 1e-9, 1e-3);
        assert_relative(spectrum.least, wanted[1], 1e-9, 1e-3);
        assert_relative(spectrum.kappa, wanted[2], 1e-9, 1e-3);
        assert_relative(spectrum.trace, wanted[3], 1e-9, 1e-3);
        assert_relative(spectrum.disc_low, wanted[4], 1e-9, 1e-3);
        assert_relative(spectrum.disc_high, wanted[5], 1e-9, 1e-3);
        assert_relative(cst_kappa_lambda(&spectrum, SP_PENALTY), wanted[6], 1e-9, 1e-3);
        assert_relative(cst_effective_dimension(values, spectrum.members, SP_PENALTY), wanted[7],
                        1e-9, 1e-3);
        assert_int_equal(spectrum.null, 0);
    }
}

static void variances_agree_with_numpy(void **state) {
    cst_context *context = *state;
    double optimum[SP_BLEND];
    cst_variance_facts facts;
    assert_int_equal(
        cst_variance_facts_of(context, SP_BLEND, SP_COVARIANCE, SP_WEIGHTS, optimum, &facts),
        CST_OK);
    bool inside = true;
    for (int m = 0; m < SP_BLEND; m++) {
        assert_relative(optimum[m], SP_OPTIMUM[m], 1e-9, 1e-3);
        inside = inside && SP_OPTIMUM[m] >= 0;
    }
    assert_int_equal(facts.inside, inside);
    assert_relative(facts.minimum, SP_VARIANCE[0], 1e-9, 1e-3);
    assert_relative(facts.value, SP_VARIANCE[1], 1e-9, 1e-3);
    assert_relative(facts.bound, SP_VARIANCE[2], 1e-9, 1e-3);
    assert_relative(facts.gap, SP_VARIANCE[1] - SP_VARIANCE[0], 1e-9, 1e-3);
    assert_true(facts.minimum <= facts.best);
}

static void stability_agrees_with_numpy(void **state) {
    cst_ridge_stability out;
    assert_int_equal(cst_ridge_stability_of(*state, SP_ROWS, SP_COLUMNS, SP_X, SP_Y, SP_MOVED_X,
                                            SP_MOVED_Y, SP_RIDGE, &out),
                     CST_OK);
    assert_relative(out.change, SP_STABILITY[0], 1e-9, 1e-3);
    assert_relative(out.paper, SP_STABILITY[1], 1e-9, 1e-3);
    assert_relative(out.sharp, SP_STABILITY[2], 1e-9, 1e-3);
    assert_int_equal(out.precondition, SP_PRECONDITION);
}

static void folds_agree_with_numpy(void **state) {
    int32_t fold[SP_ROWS];
    cst_fold_stability out;
    for (int i = 0; i < SP_ROWS; i++)
        fold[i] = i % 3;
    assert_int_equal(
        cst_fold_stability_of(*state, SP_ROWS, SP_COLUMNS, SP_X, SP_Y, fold, 3, SP_RIDGE, &out),
        CST_OK);
    assert_relative(out.change, SP_FOLDS[0], 1e-9, 1e-3);
    assert_relative(out.ratio, SP_FOLDS[1], 1e-9, 1e-3);
    assert_true(out.change / out.claimed <= out.ratio * (1 + 1e-12));
    assert_int_equal(
        cst_fold_stability_of(*state, SP_ROWS, SP_COLUMNS, SP_X, SP_Y, fold, 1, SP_RIDGE, &out),
        CST_ERROR_ARGUMENT);
}

/* The lemma on folds without its remainder: weights that are 0 without one fold. */
static void folds_may_move_farther_than_claimed(void **state) {
    const double x[] = {1, 1, 1, 1};
    const double y[] = {1, -1, 1, 1};
    const int32_t fold[] = {0, 0, 1, 1};
    cst_fold_stability out;
    assert_int_equal(cst_fold_stability_of(*state, 4, 1, x, y, fold, 2, 1, &out), CST_OK);
    assert_relative(out.change, 2 / 2.5, 1e-9, 1e-3);
    assert_true(isinf(out.ratio));
}

/* ---- what follows ---- */

enum { MAX = 24, HEADS = 6 };

typedef struct pool {
    int32_t members;
    int32_t clusters;
    int32_t cluster_of[MAX];
    int32_t kept[HEADS];
    double gram[MAX * MAX];
} pool;

/* Correlations of a pool with clusters: heads with random correlations below 1 / (G - 1), copies
 * that are sqrt(1 - noise) head + sqrt(noise) of their own. Exact, so no rows are needed. */
static void make_pool(cst_rng *rng, double noise, pool *p) {
    p->members = 0;
    p->clusters = 1 + (int32_t)cst_rng_below(rng, HEADS);
    for (int32_t g = 0; g < p->clusters; g++) {
        int64_t size = 1 + cst_rng_below(rng, MAX / HEADS);
        p->kept[g] = p->members;
        for (int64_t i = 0; i < size; i++)
            p->cluster_of[p->members++] = g;
    }
    double heads[HEADS][HEADS];
    for (int32_t g = 0; g < p->clusters; g++)
        for (int32_t h = 0; h <= g; h++) {
            double size = (2 * cst_rng_uniform(rng) - 1) * 0.999 / fmax(p->clusters - 1, 1);
            heads[g][h] = heads[h][g] = g == h ? 1 : size;
        }
    for (int32_t a = 0; a < p->members; a++)
        for (int32_t b = 0; b < p->members; b++) {
            bool copies = a != b && p->cluster_of[a] == p->cluster_of[b];
            double value = heads[p->cluster_of[a]][p->cluster_of[b]];
            p->gram[a * p->members + b] = a == b ? 1 : copies ? 1 - noise : value * (1 - noise);
        }
}

typedef struct figures {
    cst_cluster_facts facts;
    cst_spectral_facts before;
    cst_spectral_facts after;
    cst_spectral_claims claims;
    proofs proof;
    double values[MAX];
    double values_after[MAX];
} figures;

static void compute(cst_context *context, const pool *p, figures *f) {
    cst_cluster_facts_of(p->gram, p->members, p->cluster_of, &f->facts);
    assert_int_equal(
        cst_spectral_facts_of(context, p->gram, p->members, NULL, 0, f->values, &f->before),
        CST_OK);
    assert_int_equal(cst_spectral_facts_of(context, p->gram, p->members, p->kept, p->clusters,
                                           f->values_after, &f->after),
                     CST_OK);
    cst_spectral_claims_of(&f->facts, &f->before, &f->after, &f->claims);
    f->proof = prove(p->gram, p->cluster_of, &f->facts);
}

/* Gershgorin, interlacing, (ii), the lemma on the largest eigenvalue, kappa after the projection
 * and with a penalty, what is proved of kappa, traces; and (i), (iii) and the corollary on
 * kappa_lambda where duplicates are near but not exact. */
static void what_follows_holds_on_random_pools(void **state) {
    cst_context *context = *state;
    for (int r = 0; r < 600; r++) {
        cst_rng rng;
        pool p;
        figures f;
        cst_rng_init(&rng, 51, CST_STREAM_TEST, (uint32_t)r);
        double noise = pow(10, -1.5 - 4 * cst_rng_uniform(&rng));
        make_pool(&rng, noise, &p);
        compute(context, &p, &f);
        assert_true(f.before.disc_low <= f.before.least + 1e-9);
        assert_true(f.before.largest <= f.before.disc_high + 1e-9);
        assert_true(f.facts.incoherent && f.claims.applies && f.claims.holds[1]);
        assert_true(f.before.largest >= f.proof.largest_above - 1e-9);
        assert_true(f.before.largest >= f.after.largest - 1e-9);
        assert_true(f.before.least <= f.after.least + 1e-9);
        assert_true(f.before.largest / f.before.least >= f.proof.proved * (1 - 1e-6));
        assert_true(f.before.trace - f.after.trace >= f.facts.largest - 1 - 1e-9);
        double across = f.facts.mu * (f.facts.clusters - 1);
        for (double lambda = 1e-4; lambda < 100; lambda *= 10) {
            double before = cst_kappa_lambda(&f.before, lambda);
            double after = cst_kappa_lambda(&f.after, lambda);
            assert_true(before >= after * (1 - 1e-9));
            assert_true(before - after >=
                        cst_kappa_reduction(&f.facts, &f.before, &f.after, lambda) * (1 - 1e-6));
            assert_true(cst_effective_dimension(f.values_after, p.clusters, lambda) <=
                        cst_effective_dimension(f.values, p.members, lambda) + 1e-9);
        }
        if (f.facts.largest > 1 && 4 * noise < 1 - across) {
            assert_true(f.claims.holds[0] && f.claims.holds[2]);
            assert_true(f.before.least <= f.proof.least_below);
        }
    }
}

static void random_matrix(cst_rng *rng, double scale, int64_t count, double *out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = scale * cst_rng_normal(rng);
}

/* Correlations of eight random vectors that have one direction in common, either way round, the
 * more so the smaller `own` is. */
static void make_directions(cst_rng *rng, double own, pool *p) {
    enum { M = 8, D = 10 };
    double x[M * D];
    double norm[M];
    p->members = M;
    p->clusters = 1 + (int32_t)cst_rng_below(rng, 3);
    random_matrix(rng, own, (int64_t)M * D, x);
    for (int32_t a = 0; a < M; a++) {
        p->cluster_of[a] = a % p->clusters;
        p->kept[p->cluster_of[a]] = a;
        x[a * D] += cst_rng_below(rng, 2) ? 1 : -1;
        norm[a] = 0;
        for (int i = 0; i < D; i++)
            norm[a] += x[a * D + i] * x[a * D + i];
    }
    for (int32_t a = 0; a < M; a++)
        for (int32_t b = 0; b < M; b++) {
            double sum = 0;
            for (int i = 0; i < D; i++)
                sum += x[a * D + i] * x[b * D + i];
            p->gram[a * M + b] = a == b ? 1 : sum / sqrt(norm[a] * norm[b]);
        }
}

/* What is proved, for correlations of both signs and however far apart they are. */
static void what_is_proved_holds_for_both_signs(void **state) {
    int aligned = 0;
    int crossed = 0;
    for (int r = 0; r < 2000; r++) {
        cst_rng rng;
        pool p;
        figures f;
        cst_rng_init(&rng, 55, CST_STREAM_TEST, (uint32_t)r);
        make_directions(&rng, pow(10, 2 * cst_rng_uniform(&rng) - 1.5), &p);
        compute(*state, &p, &f);
        double kappa = f.before.largest / f.before.least;
        double sum = 1 + (f.facts.largest - 1) * (1 - f.facts.epsilon);
        assert_true(kappa >= f.proof.proved * (1 - 1e-9));
        assert_true(f.proof.proved >= (2 - f.proof.closest) / f.proof.closest);
        assert_true(f.proof.aligned || f.facts.epsilon >= 0.5);
        assert_true(!f.proof.aligned || f.proof.proved >= sum / f.proof.closest);
        aligned += f.proof.aligned;
        crossed += !f.proof.aligned;
    }
    assert_true(aligned > 400 && crossed > 400);
}

/* The minimum is one, the gap is the quadratic form, and its bound holds. */
static void blends_on_random_covariances(void **state) {
    cst_context *context = *state;
    enum { M = 5 };
    for (int r = 0; r < 300; r++) {
        cst_rng rng;
        double root[M * M];
        double covariance[M * M] = {0};
        double weights[M];
        double optimum[M];
        double sum = 0;
        cst_variance_facts facts;
        cst_rng_init(&rng, 52, CST_STREAM_TEST, (uint32_t)r);
        random_matrix(&rng, 1, M * M, root);
        for (int i = 0; i < M; i++) {
            for (int j = 0; j < M; j++)
                for (int k = 0; k < M; k++)
                    covariance[i * M + j] += root[i * M + k] * root[j * M + k] / M;
            covariance[i * M + i] += 0.05;
            weights[i] = 1 / sqrt(covariance[i * M + i]);
            sum += weights[i];
        }
        for (int i = 0; i < M; i++)
            weights[i] /= sum;
        assert_int_equal(cst_variance_facts_of(context, M, covariance, weights, optimum, &facts),
                         CST_OK);
        assert_true(facts.minimum <= facts.best * (1 + 1e-9) && facts.gap >= -1e-12);
        assert_true(facts.gap <= facts.bound * (1 + 1e-9) + 1e-12);
    }
}

/* Perturbations of every size: our bound always holds, the paper's where |X| >= sqrt(lambda) / 4.
 */
static void stability_on_random_regressions(void **state) {
    cst_context *context = *state;
    enum { N = 12, D = 3 };
    int within = 0;
    for (int r = 0; r < 2000; r++) {
        cst_rng rng;
        double x[N * D];
        double y[N];
        double moved_x[N * D];
        double moved_y[N];
        cst_rng_init(&rng, 53, CST_STREAM_TEST, (uint32_t)r);
        double size = pow(10, 2 * cst_rng_uniform(&rng) - 1);
        double lambda = pow(10, 4 * cst_rng_uniform(&rng) - 3);
        double shift = pow(10, -4 * cst_rng_uniform(&rng));
        double noise = r % 3 ? pow(10, -4 * cst_rng_uniform(&rng)) : 0;
        double norm = 0;
        random_matrix(&rng, size, N * D, x);
        random_matrix(&rng, 1, N, y);
        random_matrix(&rng, shift, N * D, moved_x);
        random_matrix(&rng, noise, N, moved_y);
        for (int i = 0; i < N * D; i++) {
            moved_x[i] += x[i];
            norm += x[i] * x[i];
        }
        for (int i = 0; i < N; i++)
            moved_y[i] += y[i];
        cst_ridge_stability out;
        assert_int_equal(
            cst_ridge_stability_of(context, N, D, x, y, moved_x, moved_y, lambda, &out), CST_OK);
        assert_true(out.change <= out.sharp * (1 + 1e-9));
        if (sqrt(norm / D) >= sqrt(lambda) / 4) /* a lower bound of |X| */
            assert_true(out.sharp <= out.paper * (1 + 1e-9));
        within += out.precondition;
    }
    assert_true(within > 100);
}

/* ---- what does not follow ---- */

/* A pool by the correlations of its heads and the sizes of its clusters, without noise. */
static void make_exact(const double *heads, int32_t clusters, const int32_t *sizes, pool *p) {
    p->members = 0;
    p->clusters = clusters;
    for (int32_t g = 0; g < clusters; g++) {
        p->kept[g] = p->members;
        for (int32_t i = 0; i < sizes[g]; i++)
            p->cluster_of[p->members++] = g;
    }
    for (int32_t a = 0; a < p->members; a++)
        for (int32_t b = 0; b < p->members; b++)
            p->gram[a * p->members + b] = heads[p->cluster_of[a] * clusters + p->cluster_of[b]];
}

/* Proposition (i) and (iii): the proofs take Gershgorin's lower bound of the smallest eigenvalue
 * for an upper one. With exact duplicates (epsilon = 0), which kappa leaves out as null, or with
 * none at all, kappa is far below. */
static void kappa_may_be_smaller_than_claimed(void **state) {
    pool p;
    figures f;
    const double one[] = {1};
    const double three[] = {1, 0.4, 0, 0.4, 1, 0, 0, 0, 1};
    make_exact(one, 1, (const int32_t[]){5}, &p);
    compute(*state, &p, &f);
    assert_true(f.facts.epsilon <= 1e-12 && f.before.null == 4);
    assert_relative(f.before.kappa, 1, 1e-9, 1e-3);
    assert_relative(f.claims.kappa_above, 5, 1e-9, 1e-3);
    assert_false(f.claims.holds[0] || f.claims.holds[2]);
    make_exact(three, 3, (const int32_t[]){2, 1, 1}, &p);
    compute(*state, &p, &f);
    assert_true(f.facts.incoherent && f.facts.mu == 0.4);
    assert_relative(f.claims.kappa_above, 10, 1e-9, 1e-3);
    assert_relative(f.before.kappa, (3 + sqrt(2.28)) / (3 - sqrt(2.28)), 1e-9, 1e-3);
    assert_false(f.claims.holds[0] || f.claims.holds[2]);
    make_exact(three, 3, (const int32_t[]){1, 1, 1}, &p); /* no duplicates: (i) fails alone */
    compute(*state, &p, &f);
    assert_relative(f.before.kappa, 1.4 / 0.6, 1e-9, 1e-3);
    assert_relative(f.claims.kappa_above, 5, 1e-9, 1e-3);
    assert_false(f.claims.holds[0]);
    assert_true(f.before.least > f.proof.least_below + 0.3); /* the lemma behind it */
}

/* The lemma on the largest eigenvalue, s_max (1 - epsilon) and what is proved with it: correlations
 * c and -c of six members whose signs are those of a conference matrix, with eigenvalues
 * 1 + c sqrt(5) and 1 - c sqrt(5). */
static void crossed_correlations_have_a_small_kappa(void **state) {
    pool p = {.members = 6, .clusters = 1};
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 6; b++) {
            int step = abs(a - b);
            p.gram[a * 6 + b] = a == b ? 1 : !a || !b || step == 1 || step == 4 ? 1 : -1;
        }
    for (double c = 0.05; c < 0.44; c += 0.05) {
        figures f;
        for (int i = 0; i < 36; i++)
            p.gram[i] = i % 7 ? copysign(c, p.gram[i]) : 1;
        compute(*state, &p, &f);
        assert_relative(f.before.kappa, (1 + c * sqrt(5)) / (1 - c * sqrt(5)), 1e-9, 1e-3);
        assert_relative(f.facts.epsilon, 1 - c, 1e-9, 1e-3);
        assert_false(f.proof.aligned);
        assert_relative(f.proof.proved, (1 + c) / (1 - c), 1e-9, 1e-3);
        if (c < 0.18)
            assert_true((1 + 5 * c) / (1 - c) > f.before.kappa * 1.02);
        if (c > 0.28)
            assert_true(f.proof.largest_above > f.before.largest + 0.1);
    }
}

/* The lemma on blocks, with it (ii) for the mu of CKA: normal predictions with correlation 1/2 have
 * a CKA of less; and x and -x have CKA 1, where the lemma has C near 1. */
static void cka_does_not_bound_correlation(void **state) {
    cst_context *context = *state;
    enum { N = 1500 };
    static float columns[3][N];
    cst_rng rng;
    cst_rng_init(&rng, 54, CST_STREAM_TEST, 0);
    for (int i = 0; i < N; i++) {
        double x = cst_rng_normal(&rng);
        columns[0][i] = (float)x;
        columns[1][i] = (float)(0.5 * x + sqrt(0.75) * cst_rng_normal(&rng));
        columns[2][i] = -columns[0][i];
    }
    const float *data[] = {columns[0], columns[1], columns[2]};
    cst_view view = {.rows = N, .classes = 1, .members = 3, .data = data, .weight_scale = 1};
    cst_cka_options options = {.estimator = CST_CKA_EXACT};
    cst_cka_result cka;
    double pearson[9];
    assert_int_equal(cst_cka(context, &view, &options, &cka), CST_OK);
    assert_int_equal(cst_pearson(context, &view, pearson), CST_OK);
    assert_true(fabs(cka.cka[2] - 1) < 1e-6 && fabs(pearson[2] + 1) < 1e-6);
    assert_true(pearson[1] > 0.45 && cka.cka[1] < 0.3);
    double both[4] = {1, cka.cka[1], cka.cka[1], 1};
    double gram[4] = {1, pearson[1], pearson[1], 1};
    const int32_t own[] = {0, 1};
    double values[2];
    cst_cluster_facts facts;
    cst_spectral_facts spectrum;
    cst_spectral_claims claims;
    cst_cluster_facts_of(both, 2, own, &facts);
    assert_int_equal(cst_spectral_facts_of(context, gram, 2, NULL, 0, values, &spectrum), CST_OK);
    cst_spectral_claims_of(&facts, &spectrum, &spectrum, &claims);
    assert_true(claims.applies && !claims.holds[1] && spectrum.kappa > 1.3 * claims.kappa_below);
    cst_cka_result_free(context, &cka);
}

/* The lemma on the largest eigenvalue with epsilon of CKA: one prediction and the same with its
 * three classes turned by one and two places have CKA 1, as only distances between rows count, and
 * correlations of -1/2. */
static void turned_classes_have_a_small_largest_eigenvalue(void **state) {
    cst_context *context = *state;
    enum { N = 300, M = 3 };
    static float columns[M][N * M];
    for (int k = 0; k < M; k++)
        for (int i = 0; i < N; i++)
            for (int c = 0; c < M; c++)
                columns[k][i * M + c] = (i + k) % M == c ? 0.75F : 0.125F;
    const float *data[] = {columns[0], columns[1], columns[2]};
    cst_view view = {.rows = N, .classes = M, .members = M, .data = data, .weight_scale = 1};
    cst_cka_options options = {.estimator = CST_CKA_EXACT};
    const int32_t one[] = {0, 0, 0};
    cst_cka_result cka;
    double pearson[M * M];
    double values[M];
    cst_cluster_facts facts;
    cst_spectral_facts spectrum;
    cst_spectral_claims claims;
    assert_int_equal(cst_cka(context, &view, &options, &cka), CST_OK);
    assert_int_equal(cst_pearson(context, &view, pearson), CST_OK);
    cst_cluster_facts_of(cka.cka, M, one, &facts);
    assert_true(facts.epsilon <= 1e-6);
    assert_int_equal(cst_spectral_facts_of(context, pearson, M, NULL, 0, values, &spectrum),
                     CST_OK);
    cst_spectral_claims_of(&facts, &spectrum, &spectrum, &claims);
    assert_true(fabs(pearson[1] + 0.5) < 1e-6 && fabs(spectrum.largest - 1.5) < 1e-6);
    assert_true(fabs(prove(cka.cka, one, &facts).largest_above - 3) < 1e-5);
    cst_cka_result_free(context, &cka);
}

/* "At least sqrt(K / G)": |X| shrinks by less where the duplicated member is correlated with none
 * of the others. And K / G is the mean size of a cluster, so never above s_max, as the theorem has
 * it. */
static void stability_may_gain_less_than_claimed(void **state) {
    enum { G = 5 };
    double heads[G * G];
    for (int g = 0; g < G; g++)
        for (int h = 0; h < G; h++)
            heads[g * G + h] = g == h ? 1 : g && h ? 0.249 : 0;
    pool p;
    figures f;
    make_exact(heads, G, (const int32_t[]){2, 1, 1, 1, 1}, &p);
    compute(*state, &p, &f);
    assert_true(f.facts.incoherent);
    double gain = sqrt(f.before.largest / f.after.largest);
    double claimed = sqrt((double)p.members / p.clusters);
    assert_relative(gain, sqrt(2 / 1.747), 1e-9, 1e-3);
    assert_true(gain < claimed - 0.02);
    assert_true((double)p.members / p.clusters < f.facts.largest);
}

/* One row, one column: x = 0.1, lambda = 1, y = 0, moved by as much as the precondition allows. */
static void ridge_may_move_farther_than_claimed(void **state) {
    const double x = 0.1;
    const double y = 0;
    const double moved_x = 2.6;
    const double moved_y = 1;
    cst_ridge_stability out;
    assert_int_equal(cst_ridge_stability_of(*state, 1, 1, &x, &y, &moved_x, &moved_y, 1, &out),
                     CST_OK);
    assert_true(out.precondition);
    assert_relative(out.change, 2.6 / 7.76, 1e-9, 1e-3);
    assert_relative(out.paper, 0.2, 1e-9, 1e-3);
    assert_relative(out.sharp, 0.5, 1e-9, 1e-3);
}

/* Equality of the least variance with that of the best learner needs no rank 1; the weights may be
 * negative, so that the value is no mixture's; and Laplace weights that concentrate on one of two
 * equal learners do not come near the minimum, however large the gap of the losses. */
static void blending_does_not_go_as_claimed(void **state) {
    cst_context *context = *state;
    const double equal[] = {1, 1, 1, 2};
    const double outside[] = {1, 1.5, 1.5, 4};
    const double identity[] = {1, 0, 0, 1};
    const double losses[] = {0, 1000};
    const double half[] = {0.5, 0.5};
    double weights[2];
    double optimum[2];
    cst_variance_facts facts;
    assert_int_equal(cst_variance_facts_of(context, 2, equal, half, optimum, &facts), CST_OK);
    assert_relative(facts.minimum, facts.best, 1e-9, 1e-3); /* with eigenvalues 2.618 and 0.382 */
    assert_int_equal(cst_variance_facts_of(context, 2, outside, half, optimum, &facts), CST_OK);
    assert_false(facts.inside);
    assert_true(facts.minimum < facts.best);
    assert_int_equal(cst_blend_laplace(context, 2, losses, NULL, 1, 1, weights), CST_OK);
    assert_int_equal(cst_variance_facts_of(context, 2, identity, weights, optimum, &facts), CST_OK);
    assert_relative(facts.gap, 0.5, 1e-9, 1e-3); /* exp(-2000) is claimed */
}

static void edges(void **state) {
    cst_context *context = *state;
    const double one = 1;
    const int32_t cluster = 0;
    double value = 0;
    cst_cluster_facts facts;
    cst_spectral_facts spectrum;
    cst_spectral_claims claims;
    cst_ridge_stability stability;
    cst_cluster_facts_of(&one, 1, &cluster, &facts);
    assert_true(facts.incoherent && facts.epsilon == 0 && facts.mu == 0 && facts.largest == 1);
    assert_int_equal(cst_spectral_facts_of(context, &one, 1, NULL, 0, &value, &spectrum), CST_OK);
    cst_spectral_claims_of(&facts, &spectrum, &spectrum, &claims);
    assert_true(claims.holds[0] && claims.holds[1] && claims.holds[2]);
    assert_true(prove(&one, &cluster, &facts).proved == 1);
    assert_int_equal(cst_spectral_facts_of(context, &one, 1, &cluster, 0, &value, &spectrum),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(cst_ridge_stability_of(context, 1, 1, &one, &one, &one, &one, 0, &stability),
                     CST_ERROR_ARGUMENT);
    assert_true(isnan(stability.sharp));
    /* Constant members have the covariance 0. */
    const double zero[] = {0, 0, 0, 0};
    double nulls[2];
    assert_int_equal(cst_spectral_facts_of(context, zero, 2, NULL, 0, nulls, &spectrum), CST_OK);
    assert_true(spectrum.kappa == 1 && spectrum.null == 2 && spectrum.largest == 0);
    assert_true(spectrum.smallest == 0 && spectrum.least == 0 && spectrum.disc_high == 0);
    assert_true(cst_kappa_lambda(&spectrum, 1e-9) == spectrum.kappa);
    /* Not incoherent: nothing is claimed of (i) and (ii). */
    const double close[] = {1, 0.9, 0.8, 0.9, 1, 0.7, 0.8, 0.7, 1};
    const int32_t own[] = {0, 1, 2};
    double values[3];
    cst_cluster_facts_of(close, 3, own, &facts);
    assert_int_equal(cst_spectral_facts_of(context, close, 3, NULL, 0, values, &spectrum), CST_OK);
    cst_spectral_claims_of(&facts, &spectrum, &spectrum, &claims);
    assert_true(!claims.applies && isnan(claims.kappa_above) && isnan(claims.kappa_below));
}

int suite_spectral(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spectra_agree_with_numpy),
        cmocka_unit_test(variances_agree_with_numpy),
        cmocka_unit_test(stability_agrees_with_numpy),
        cmocka_unit_test(folds_agree_with_numpy),
        cmocka_unit_test(folds_may_move_farther_than_claimed),
        cmocka_unit_test(what_follows_holds_on_random_pools),
        cmocka_unit_test(what_is_proved_holds_for_both_signs),
        cmocka_unit_test(crossed_correlations_have_a_small_kappa),
        cmocka_unit_test(blends_on_random_covariances),
        cmocka_unit_test(stability_on_random_regressions),
        cmocka_unit_test(kappa_may_be_smaller_than_claimed),
        cmocka_unit_test(cka_does_not_bound_correlation),
        cmocka_unit_test(turned_classes_have_a_small_largest_eigenvalue),
        cmocka_unit_test(stability_may_gain_less_than_claimed),
        cmocka_unit_test(ridge_may_move_farther_than_claimed),
        cmocka_unit_test(blending_does_not_go_as_claimed),
        cmocka_unit_test(edges),
    };
    return cmocka_run_group_tests(tests, la_setup, la_teardown);
}
