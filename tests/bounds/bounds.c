/*
 * Exact binomial bounds, the binary KL and PAC-Bayes bounds: against SciPy and decimals of fifty
 * digits, exact coverage, and coverage by simulation in worlds whose true errors are known.
 */
#include "core/la.h"
#include "fit/bounds/posterior.h"
#include "repetitions.h"
#include "stats/pac_bayes.h"
#include "stats/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "data/bounds.h"

/* Bounds of the error of a vote, each with probability 1 - delta by itself. */
typedef struct vote_bound {
    double first_order;
    double tandem;
} vote_bound;

static vote_bound bounds_of_vote(const cst_vote_losses *losses, double kl, double n, double delta) {
    return (vote_bound){
        .first_order = 2 * cst_pac_bayes_kl(losses->gibbs, kl, n, delta),
        .tandem = 4 * cst_pac_bayes_kl(losses->tandem, 2 * kl, n, delta),
    };
}

static void assert_relative_at(double got, double wanted, double tolerance, const double *at) {
    if (got != wanted && !(fabs(got - wanted) <= tolerance * fabs(wanted)))
        fail_msg("at (%.17g, %.17g, %.17g): %.17g instead of %.17g", at[0], at[1], at[2], got,
                 wanted);
}

/* ---- against other computations ---- */

static void tails_and_intervals_agree_with_scipy(void **state) {
    (void)state;
    for (const double *r = TAIL; r < TAIL + 5 * TAIL_ROWS; r += 5) {
        assert_relative_at(cst_binomial_at_most((int64_t)r[0], (int64_t)r[1], r[2]), r[3], 1e-9, r);
        assert_relative_at(cst_binomial_at_least((int64_t)r[0], (int64_t)r[1], r[2]), r[4], 1e-9,
                           r);
    }
    for (const double *r = INTERVAL; r < INTERVAL + 5 * INTERVAL_ROWS; r += 5) {
        int64_t k = (int64_t)r[0];
        int64_t n = (int64_t)r[1];
        assert_relative_at(cst_binomial_lower(k, n, r[2]), r[3], 1e-11, r);
        assert_relative_at(cst_binomial_upper(k, n, r[2]), r[4], 1e-11, r);
        assert_true(fabs(1 - cst_binomial_lower(n - k, n, r[2]) - r[4]) <= 1e-14);
    }
}

static void binary_kl_agrees_with_decimals(void **state) {
    (void)state;
    for (const double *r = KL; r < KL + 3 * KL_ROWS; r += 3)
        assert_relative_at(cst_binary_kl(r[0], r[1]), r[2], 1e-12, r);
    for (const double *r = INVERSE; r < INVERSE + 4 * INVERSE_ROWS; r += 4) {
        assert_relative_at(cst_binary_kl_upper(r[0], r[1]), r[3], 1e-12, r);
        assert_true(fabs(1 - cst_binary_kl_upper(1 - r[0], r[1]) - r[2]) <= 1e-8 * r[2] + 1e-15);
    }
}

/* Rounded outwards, and Pinsker's inequality. */
static void the_inverse_holds(void **state) {
    (void)state;
    for (double p = 0; p <= 1; p += 1.0 / 64)
        for (double bound = 1e-14; bound < 30; bound *= 9.7) {
            double upper = cst_binary_kl_upper(p, bound);
            assert_true(p <= upper && upper <= 1);
            assert_true(upper == 1 || p == 0 || cst_binary_kl(p, upper) >= bound);
            assert_true(upper <= p + sqrt(bound / 2) * (1 + 1e-9));
        }
}

static void pac_bayes_agrees_with_root_finding(void **state) {
    (void)state;
    for (const double *r = PAC_BAYES; r < PAC_BAYES + 6 * PAC_BAYES_ROWS; r += 6) {
        double seeger = cst_pac_bayes_kl(r[0], r[1], r[2], r[3]);
        double mcallester = cst_pac_bayes_mcallester(r[0], r[1], r[2], r[3]);
        assert_relative_at(seeger, r[4], 1e-9, r);
        assert_relative_at(mcallester, r[5], 1e-12, r);
        assert_true(seeger <= mcallester);
    }
}

static void divergences_and_votes_agree_with_numpy(void **state) {
    cst_context *context = *state;
    enum { D = GAUSSIAN_D };
    double hessian[D * D];
    double at[3] = {0};
    memcpy(hessian, GAUSSIAN_HESSIAN, sizeof hessian);
    assert_int_equal(cst_cholesky(context, D, hessian), CST_OK);
    for (int i = 0; i < 2; i++) {
        const double *prior = i ? GAUSSIAN_PRIOR : NULL;
        double by_hessian = NAN;
        assert_int_equal(cst_kl_gaussian_hessian(context, D, GAUSSIAN_MEAN, hessian, prior,
                                                 GAUSSIAN_PRECISION, &by_hessian),
                         CST_OK);
        assert_relative_at(by_hessian, GAUSSIAN_KL[i], 1e-10, at);
    }
    assert_relative_at(cst_kl_discrete(VOTE_MEMBERS, VOTE_WEIGHTS, NULL), VOTE_KL[0], 1e-12, at);
    assert_relative_at(cst_kl_discrete(VOTE_MEMBERS, VOTE_WEIGHTS, VOTE_PRIOR), VOTE_KL[1], 1e-12,
                       at);
    cst_vote_losses losses;
    assert_int_equal(
        cst_vote_losses_of(context, VOTE_WRONG, VOTE_ROWS, VOTE_MEMBERS, VOTE_WEIGHTS, &losses),
        CST_OK);
    assert_relative_at(losses.gibbs, VOTE_LOSSES[0], 1e-12, at);
    assert_relative_at(losses.tandem, VOTE_LOSSES[1], 1e-12, at);
    assert_relative_at(losses.majority, VOTE_LOSSES[2], 1e-12, at);
}

/* The alternating minimisations against SciPy's minimum of the very bound: what they minimise has a
 * t in it, so that they may be above by little. */
static void posteriors_are_near_the_best(void **state) {
    cst_context *context = *state;
    enum { M = POSTERIOR_MEMBERS };
    double tandem[M * M];
    double losses[M];
    double weights[M];
    cst_vote_posterior posterior;
    cst_vote_losses seen;
    assert_int_equal(cst_tandem_matrix(context, POSTERIOR_WRONG, POSTERIOR_ROWS, M, tandem),
                     CST_OK);
    for (int i = 0; i < M * M; i++)
        assert_true(fabs(tandem[i] - POSTERIOR_TANDEM[i]) < 1e-12);
    for (int m = 0; m < M; m++)
        losses[m] = tandem[m * M + m];
    for (int second = 0; second < 2; second++) {
        if (second)
            assert_int_equal(cst_tandem_posterior(context, tandem, POSTERIOR_PRIOR, M,
                                                  POSTERIOR_ROWS, POSTERIOR_DELTA, weights,
                                                  &posterior),
                             CST_OK);
        else
            cst_gibbs_posterior(losses, POSTERIOR_PRIOR, M, POSTERIOR_ROWS, POSTERIOR_DELTA,
                                weights, &posterior);
        assert_true(posterior.bound >= POSTERIOR_BEST[second] * (1 - 1e-7));
        assert_true(posterior.bound <= POSTERIOR_BEST[second] * 1.002);
        double kl = cst_kl_discrete(M, weights, POSTERIOR_PRIOR);
        assert_int_equal(
            cst_vote_losses_of(context, POSTERIOR_WRONG, POSTERIOR_ROWS, M, weights, &seen),
            CST_OK);
        double at[3] = {second, 0, 0};
        assert_relative_at(posterior.kl, kl, 1e-9, at);
        assert_relative_at(posterior.empirical, second ? seen.tandem : seen.gibbs, 1e-9, at);
        vote_bound vote = bounds_of_vote(&seen, kl, POSTERIOR_ROWS, POSTERIOR_DELTA);
        assert_relative_at(posterior.bound, second ? vote.tandem : vote.first_order / 2, 1e-9, at);
    }
}

static void a_vote_needs_rows_and_members(void **state) {
    const unsigned char wrong = 1;
    const double weight = 1;
    cst_vote_losses losses;
    for (int i = 0; i < 4; i++) {
        int64_t rows = i == 0 ? 0 : i == 1 ? -1 : 1;
        int32_t members = i == 2 ? 0 : 1;
        cst_status status = cst_vote_losses_of(*state, &wrong, rows, members, &weight, &losses);
        assert_int_equal(status, i == 3 ? CST_OK : CST_ERROR_ARGUMENT);
        assert_true(i == 3 ? losses.gibbs == 1 && losses.tandem == 1 && losses.majority == 1
                           : isnan(losses.gibbs) && isnan(losses.tandem) && isnan(losses.majority));
    }
}

static void edges(void **state) {
    (void)state;
    const double one[] = {1, 0};
    const double other[] = {0, 1};
    assert_true(isinf(cst_kl_discrete(2, one, other)) && cst_kl_discrete(2, one, one) == 0);
    assert_true(cst_binomial_upper(5, 5, 0.1) == 1 && cst_binomial_lower(0, 5, 0.1) == 0);
    assert_true(isnan(cst_binomial_upper(6, 5, 0.1)) && isnan(cst_binomial_lower(-1, 5, 0.1)));
    assert_true(isnan(cst_binomial_upper(1, 5, 0)) && isnan(cst_binomial_lower(1, 5, 1)));
    assert_true(isnan(cst_binomial_at_most(1, 5, 1.1)) && isnan(cst_binomial_at_least(1, -5, 0)));
    assert_true(cst_binomial_at_most(-1, 5, 0.5) == 0 && cst_binomial_at_least(6, 5, 0.5) == 0);
    assert_true(cst_binomial_at_most(4, 5, 0) == 1 && cst_binomial_at_least(1, 5, 1) == 1);
    assert_true(isnan(cst_binary_kl(-0.1, 0.5)) && isnan(cst_binary_kl_upper(0.5, -1)));
    assert_true(isnan(cst_pac_bayes_kl(0.5, -1, 10, 0.1)));
    assert_true(cst_binary_kl_upper(0.3, INFINITY) == 1);
    assert_true(cst_pac_bayes_kl(0.2, INFINITY, 100, 0.1) == 1);
    assert_true(isnan(cst_pac_bayes_mcallester(2, 0, 100, 0.1)));
}

/* The bound of the paper with its defaults on 3,500 samples: far above any error rate. */
static void the_bound_of_the_paper_is_vacuous(void **state) {
    (void)state;
    cst_paper_bound bound = cst_pac_bayes_paper(0.1, 40, 3500, 0.05, 1, 7 + 12 + 15000, 7, 0.1);
    double at[3] = {0};
    assert_relative_at(bound.term, sqrt((40 + log(2 * sqrt(3500) / 0.05)) / (2 * 3499.0)), 1e-12,
                       at);
    assert_relative_at(bound.phi, 4 / sqrt(3500) * sqrt(15019) * sqrt(1.6), 1e-12, at);
    assert_true(bound.total == 0.1 + bound.term + bound.phi && bound.total > 10);
}

/* Outside of what the formula is for there is no number. */
static void the_bound_of_the_paper_has_a_domain(void **state) {
    (void)state;
    /* empirical, kl, n, delta, radius, dimensions, mu, clusters */
    const double good[8] = {0.1, 4, 2, 0.05, 1, 7, 0.1, 3};
    const double bad[][2] = {{0, -0.1}, {0, NAN}, {1, -1}, {1, NAN}, {2, 1},  {2, NAN},
                             {3, 0},    {3, 1},   {3, -1}, {3, NAN}, {4, -1}, {4, NAN},
                             {5, -1},   {5, NAN}, {6, -1}, {6, NAN}, {7, 0}};
    const int cases = sizeof bad / sizeof bad[0];
    for (int i = -1; i < cases; i++) {
        double v[8];
        memcpy(v, good, sizeof v);
        if (i >= 0)
            v[(int)bad[i][0]] = bad[i][1];
        cst_paper_bound bound =
            cst_pac_bayes_paper(v[0], v[1], v[2], v[3], v[4], v[5], (int32_t)v[7], v[6]);
        if (i < 0)
            assert_true(isfinite(bound.total));
        else if (!isnan(bound.term) || !isnan(bound.phi) || !isnan(bound.total))
            fail_msg("argument %g, %g gives %g", bad[i][0], bad[i][1], bound.total);
    }
}

/* ---- coverage ---- */

/* What Maurer shows for n >= 8, sum_k C(n, k) (k/n)^k (1 - k/n)^(n - k) <= 2 sqrt(n), for all n up
 * to a thousand: the constant of the bounds. */
static void maurers_constant_holds_for_small_samples(void **state) {
    (void)state;
    for (int n = 1; n <= 1000; n++) {
        double sum = 0;
        for (int k = 0; k <= n; k++) {
            double choose = lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0);
            double share = (double)k / n;
            sum += exp(choose + (k ? k * log(share) : 0) + (k < n ? (n - k) * log1p(-share) : 0));
        }
        assert_true(sum <= 2 * sqrt(n) * (1 + 1e-9));
    }
}

/* The probability that the bounds miss p, by summing over all outcomes: at most delta, and not
 * delta by far either. */
static void exact_coverage_of_tail_inversion(void **state) {
    (void)state;
    double most = 0;
    for (int n = 1; n <= 120; n += 17)
        for (double delta = 0.2; delta > 0.001; delta /= 4) {
            double bounds[2][121];
            for (int k = 0; k <= n; k++) {
                bounds[0][k] = cst_binomial_lower(k, n, delta);
                bounds[1][k] = cst_binomial_upper(k, n, delta);
            }
            for (int step = 1; step < 200; step++) {
                double p = step / 200.0;
                double missed[2] = {0, 0};
                for (int k = 0; k <= n; k++) {
                    double mass = exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) +
                                      k * log(p) + (n - k) * log1p(-p));
                    missed[0] += p < bounds[0][k] ? mass : 0;
                    missed[1] += p > bounds[1][k] ? mass : 0;
                }
                assert_true(missed[0] <= delta * (1 + 1e-9) && missed[1] <= delta * (1 + 1e-9));
                most = fmax(most, missed[1] / delta);
            }
        }
    assert_true(most > 0.95);
}

/* A world of few kinds of samples, each with the members that err on it: its losses are sums. */
enum { KINDS = 48, MEMBERS = 6, SAMPLES = 150 };

typedef struct world {
    double mass[KINDS]; /* cumulative */
    unsigned char wrong[KINDS][MEMBERS];
} world;

static void make_world(cst_rng *rng, world *w) {
    double total = 0;
    for (int a = 0; a < KINDS; a++) {
        total += 0.05 + cst_rng_uniform(rng);
        w->mass[a] = total;
        double hardness = cst_rng_uniform(rng);
        for (int m = 0; m < MEMBERS; m++)
            w->wrong[a][m] = cst_rng_uniform(rng) < hardness * (0.2 + 0.1 * m);
    }
    for (int a = 0; a < KINDS; a++)
        w->mass[a] /= total;
}

/* wrong: [MEMBERS][SAMPLES] */
static void draw(cst_rng *rng, const world *w, unsigned char *wrong) {
    for (int i = 0; i < SAMPLES; i++) {
        double u = cst_rng_uniform(rng);
        int a = 0;
        while (a < KINDS - 1 && u >= w->mass[a])
            a++;
        for (int m = 0; m < MEMBERS; m++)
            wrong[m * SAMPLES + i] = w->wrong[a][m];
    }
}

static cst_vote_losses truth(const world *w, const double *weights) {
    cst_vote_losses out = {0};
    for (int a = 0; a < KINDS; a++) {
        double mass = w->mass[a] - (a ? w->mass[a - 1] : 0);
        double wrong = 0;
        for (int m = 0; m < MEMBERS; m++)
            wrong += w->wrong[a][m] ? weights[m] : 0;
        out.gibbs += mass * wrong;
        out.tandem += mass * wrong * wrong;
        out.majority += wrong >= 0.5 ? mass : 0;
    }
    return out;
}

/* Weights that go by the very samples which the bound is computed on: the member that looks best
 * gets most, the more so the colder. */
static void choose(const unsigned char *wrong, double cold, double *weights) {
    double total = 0;
    for (int m = 0; m < MEMBERS; m++) {
        int errors = 0;
        for (int i = 0; i < SAMPLES; i++)
            errors += wrong[m * SAMPLES + i];
        weights[m] = exp(-cold * errors);
        total += weights[m];
    }
    for (int m = 0; m < MEMBERS; m++)
        weights[m] /= total;
}

enum { BY_KL, BY_MCALLESTER, BY_TANDEM, FIRST_ORDER, HOLDOUT, BOUNDS };
static const char *const bound_names[BOUNDS] = {
    "PAC-Bayes-kl, random member", "PAC-Bayes by McAllester, random member", "tandem, vote",
    "twice PAC-Bayes-kl, vote", "binomial tail, vote fixed before"};

static void count_misses(const cst_vote_losses *true_losses, const cst_vote_losses *seen, double kl,
                         double delta, int64_t *missed) {
    double gibbs = true_losses->gibbs;
    vote_bound vote = bounds_of_vote(seen, kl, SAMPLES, delta);
    missed[BY_KL] += cst_pac_bayes_kl(seen->gibbs, kl, SAMPLES, delta) < gibbs;
    missed[BY_MCALLESTER] += cst_pac_bayes_mcallester(seen->gibbs, kl, SAMPLES, delta) < gibbs;
    missed[BY_TANDEM] += vote.tandem < fmax(true_losses->majority, 4 * true_losses->tandem);
    missed[FIRST_ORDER] += vote.first_order < fmax(true_losses->majority, 2 * gibbs);
}

static void coverage_by_simulation(void **state) {
    cst_context *context = *state;
    const double delta = 0.1;
    int64_t times = repetitions(4000);
    int64_t missed[BOUNDS] = {0};
    unsigned char wrong[MEMBERS * SAMPLES];
    const double fixed[MEMBERS] = {0.3, 0.2, 0.2, 0.1, 0.1, 0.1};
    for (int64_t r = 0; r < times; r++) {
        cst_rng rng;
        world w;
        cst_rng_init(&rng, 11, CST_STREAM_TEST, (uint32_t)r);
        make_world(&rng, &w);
        draw(&rng, &w, wrong);
        double weights[MEMBERS];
        cst_vote_losses seen;
        choose(wrong, cst_rng_uniform(&rng), weights);
        assert_int_equal(cst_vote_losses_of(context, wrong, SAMPLES, MEMBERS, weights, &seen),
                         CST_OK);
        cst_vote_losses true_losses = truth(&w, weights);
        count_misses(&true_losses, &seen, cst_kl_discrete(MEMBERS, weights, NULL), delta, missed);
        /* A vote that was fixed before: the exact bound of its errors. */
        assert_int_equal(cst_vote_losses_of(context, wrong, SAMPLES, MEMBERS, fixed, &seen),
                         CST_OK);
        int64_t errors = llround(seen.majority * SAMPLES);
        missed[HOLDOUT] += cst_binomial_upper(errors, SAMPLES, delta) < truth(&w, fixed).majority;
    }
    for (int b = 0; b < BOUNDS; b++)
        if (!plausible_said(bound_names[b], missed[b], times, delta))
            fail_msg("bound %d was missed in %lld of %lld", b, (long long)missed[b],
                     (long long)times);
    /* The exact bound is not loose: it is missed in a quarter of delta at least. */
    assert_true(missed[HOLDOUT] * 4 > (int64_t)(delta * (double)times));
}

/* Worlds of one sample and members that err by themselves, each with probability 1 - q: the member
 * that looks best is chosen, with all the weight. Just where q falls below exp(-complexity), the
 * bounds by kl are missed as soon as one member is right, so in half of delta and no more; beyond
 * they hold again, up to the q where a smaller complexity would be missed more often than delta.
 * With one member the price of the choice, KL, is 0; then the bound of tandem losses is tight too.
 * The bound by McAllester is nowhere near: it is only above the one by kl. */
static void count_tight_misses(cst_context *context, int32_t members, double q, double delta,
                               int64_t times, int64_t *missed) {
    const cst_vote_losses true_losses = {1 - q, 1 - q, 1 - q};
    for (int64_t r = 0; r < times; r++) {
        unsigned char wrong[MEMBERS];
        double weights[MEMBERS] = {0};
        int32_t best = 0;
        cst_rng rng;
        cst_vote_losses seen;
        cst_rng_init(&rng, 12, CST_STREAM_TEST, (uint32_t)r);
        for (int32_t m = 0; m < members; m++) {
            wrong[m] = cst_rng_uniform(&rng) >= q;
            best = wrong[m] < wrong[best] ? m : best;
        }
        weights[best] = 1;
        assert_int_equal(cst_vote_losses_of(context, wrong, 1, members, weights, &seen), CST_OK);
        double kl = cst_kl_discrete(members, weights, NULL);
        double by_kl = cst_pac_bayes_kl(seen.gibbs, kl, 1, delta);
        vote_bound vote = bounds_of_vote(&seen, kl, 1, delta);
        assert_true(cst_pac_bayes_mcallester(seen.gibbs, kl, 1, delta) >= by_kl);
        missed[BY_KL] += by_kl < true_losses.gibbs;
        missed[BY_TANDEM] += vote.tandem < 4 * true_losses.tandem;
        missed[FIRST_ORDER] += vote.first_order < 2 * true_losses.gibbs;
    }
}

static void coverage_where_bounds_are_tight(void **state) {
    const double delta = 0.02;
    const double factor[] = {0.95, 1.5, 2.5, 3.8, 6}; /* of the q where the bound is */
    const char *const names[] = {"PAC-Bayes-kl where it is tight",
                                 "PAC-Bayes-kl where it is tight, six members"};
    const int64_t times = repetitions(10000);
    for (int32_t members = 1; members <= MEMBERS; members += MEMBERS - 1)
        for (int i = 0; i < 5; i++) {
            int64_t missed[BOUNDS] = {0};
            count_tight_misses(*state, members, factor[i] * delta / (2 * members), delta, times,
                               missed);
            for (int b = 0; b < BOUNDS; b++)
                if (!plausible(missed[b], times, delta))
                    fail_msg("%d members, %g: bound %d was missed in %lld of %lld", members,
                             factor[i], b, (long long)missed[b], (long long)times);
            double least = i ? 0 : 0.25 * delta * (double)times;
            assert_true(i || plausible_said(names[members > 1], missed[BY_KL], times, delta));
            assert_true((double)missed[BY_KL] >= least && (double)missed[FIRST_ORDER] >= least);
            assert_true(members > 1 || (double)missed[BY_TANDEM] >= least);
        }
}

int suite_bounds(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tails_and_intervals_agree_with_scipy),
        cmocka_unit_test(binary_kl_agrees_with_decimals),
        cmocka_unit_test(the_inverse_holds),
        cmocka_unit_test(pac_bayes_agrees_with_root_finding),
        cmocka_unit_test(divergences_and_votes_agree_with_numpy),
        cmocka_unit_test(posteriors_are_near_the_best),
        cmocka_unit_test(edges),
        cmocka_unit_test(the_bound_of_the_paper_is_vacuous),
        cmocka_unit_test(the_bound_of_the_paper_has_a_domain),
        cmocka_unit_test(a_vote_needs_rows_and_members),
        cmocka_unit_test(coverage_where_bounds_are_tight),
        cmocka_unit_test(maurers_constant_holds_for_small_samples),
        cmocka_unit_test(exact_coverage_of_tail_inversion),
        cmocka_unit_test(coverage_by_simulation),
    };
    return cmocka_run_group_tests(tests, la_setup, la_teardown);
}
