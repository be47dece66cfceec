/*
 * Removals in groups: those that the fit relies on least go first, in a bounded number of tries;
 * the fit that is left is the one of those members from scratch; few rows and many members take
 * little longer than few members.
 */
#include "fit/stages.h"

#include "core/la.h"
#include "fit/family.h"
#include "short_tests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const cst_costs NO_COSTS;

enum { ROWS = 60, CLASSES = 3, MEMBERS = 200, FOLDS = 5, MANY = 1000 };

/* ---- the search alone ---- */

/* Kept members whose worth is a permutation of their places; a group is missed when its worth sums
 * to more than `bound`. */
typedef struct game {
    int32_t kept[MANY];
    int32_t count;
    double worth[MANY];
    double bound;
    int32_t tries;
    int32_t largest; /* group */
} game;

static void rely_on_worth(const void *user, double *reliance) {
    const game *g = user;
    for (int32_t j = 0; j < g->count; j++)
        reliance[j] = g->worth[g->kept[j]];
}

static cst_status attempt_by_worth(cst_context *context, void *user, const int32_t *members,
                                   int32_t count, bool *gone) {
    game *g = user;
    double sum = 0;
    (void)context;
    g->tries++;
    g->largest = count > g->largest ? count : g->largest;
    bool leaves[MANY] = {false};
    for (int32_t i = 0; i < count; i++) {
        sum += g->worth[members[i]];
        leaves[members[i]] = true;
    }
    *gone = sum <= g->bound;
    int32_t left = 0;
    for (int32_t j = 0; j < g->count; j++)
        if (!*gone || !leaves[g->kept[j]])
            g->kept[left++] = g->kept[j];
    g->count = left;
    return CST_OK;
}

static game play(cst_context *context, int32_t members, double bound) {
    game g = {.count = members, .bound = bound};
    for (int32_t k = 0; k < members; k++) {
        g.kept[k] = k;
        g.worth[k] = (double)((k * 7919L) % members); /* 7919 is a prime */
    }
    cst_removal removal = {.user = &g,
                           .kept = g.kept,
                           .kept_count = &g.count,
                           .rely = rely_on_worth,
                           .attempt = attempt_by_worth};
    assert_int_equal(cst_remove_groups(context, &removal), CST_OK);
    return g;
}

static void few_are_not_tried_in_groups(void **state) {
    assert_int_equal(play(*state, CST_DROP_SINGLY, INFINITY).tries, 0);
    assert_int_equal(play(*state, 1, INFINITY).tries, 0);
    assert_true(play(*state, CST_DROP_SINGLY + 1, INFINITY).tries > 0);
}

static void tries_are_bounded(void **state) {
    for (int32_t members = CST_DROP_SINGLY + 1; members < MANY; members += 10)
        for (double bound = -1; bound < 1e6; bound = bound < 1 ? bound + 1 : 2 * bound)
            assert_true(play(*state, members, bound).tries <= 5 + 32);
    for (double bound = -1; bound < 1e6; bound = bound < 1 ? bound + 1 : 1.3 * bound) {
        game g = play(*state, MANY, bound);
        assert_true(g.tries <= 5 + 32);
        assert_int_equal(g.largest, MANY / 2);
    }
    assert_int_equal(play(*state, MANY, -1).count, MANY);
    game all = play(*state, MANY, INFINITY);
    assert_true(all.count <= CST_DROP_SINGLY && all.count > CST_DROP_SINGLY / 4);
}

static void the_least_relied_on_go(void **state) {
    game g = play(*state, MANY, 20000);
    double least = INFINITY;
    assert_true(g.count < MANY && g.count > CST_DROP_SINGLY);
    for (int32_t j = 0; j < g.count; j++)
        least = fmin(least, g.worth[g.kept[j]]);
    assert_true(least == (double)(MANY - g.count)); /* worths are 0 .. MANY - 1 */
}

/* ---- in a fit ---- */

typedef struct pool {
    float predictions[MEMBERS][ROWS * CLASSES];
    const float *data[MEMBERS];
    int32_t labels[ROWS];
    int32_t folds[ROWS];
    double unknown[MEMBERS];
    cst_view view;
    cst_settings settings;
} pool;

static pool shared;

static void make_pool(cst_context *context) {
    pool *p = &shared;
    cst_options *options = NULL;
    cst_rng rng;
    cst_rng_init(&rng, 7, CST_STREAM_TEST, 1);
    for (int i = 0; i < ROWS; i++) {
        p->labels[i] = (int32_t)cst_rng_below(&rng, CLASSES);
        p->folds[i] = i % FOLDS;
    }
    for (int k = 0; k < MEMBERS; k++) {
        double signal = 0.3 + 1.2 * cst_rng_uniform(&rng);
        p->unknown[k] = NAN;
        p->data[k] = p->predictions[k];
        for (int i = 0; i < ROWS; i++) {
            double value[CLASSES];
            double sum = 0;
            for (int c = 0; c < CLASSES; c++)
                sum += value[c] = exp(cst_rng_normal(&rng) + signal * (p->labels[i] == c));
            for (int c = 0; c < CLASSES; c++)
                p->predictions[k][i * CLASSES + c] = (float)(value[c] / sum);
        }
    }
    p->view = (cst_view){
        .rows = ROWS, .classes = CLASSES, .members = MEMBERS, .data = p->data, .labels = p->labels};
    assert_int_equal(cst_options_create(context, &options), CST_OK);
    assert_int_equal(cst_options_preset(context, options, "paper"), CST_OK);
    assert_int_equal(cst_options_set(context, options, "refit.drop", "true"), CST_OK);
    assert_int_equal(cst_options_set(context, options, "blend.evidence", "nll"), CST_OK);
    assert_int_equal(cst_options_set(context, options, "spectrum.of", "meta"), CST_OK);
    cst_settings_read(options, &p->settings);
    cst_options_free(context, options);
}

static cst_stages run(cst_context *context, int32_t members) {
    cst_stages stages;
    cst_view view = shared.view;
    view.members = members;
    const cst_run one = cst_run_of(&cst_classification_family, &view, shared.folds, FOLDS,
                                   &shared.settings, &NO_COSTS);
    cst_status status = cst_stages_run(context, &one, &stages);
    if (status != CST_OK)
        fail_msg("%s", cst_last_error(context));
    return stages;
}

static void deviations_are_those_of_the_columns(void **state) {
    static double deviation[MEMBERS][CLASSES];
    assert_int_equal(cst_member_deviations(*state, &shared.view, deviation[0]), CST_OK);
    for (int k = 0; k < MEMBERS; k++)
        for (int c = 0; c < CLASSES; c++) {
            double mean = 0;
            double square = 0;
            for (int i = 0; i < ROWS; i++)
                mean += (double)shared.predictions[k][i * CLASSES + c] / ROWS;
            for (int i = 0; i < ROWS; i++) {
                double off = (double)shared.predictions[k][i * CLASSES + c] - mean;
                square += off * off / ROWS;
            }
            assert_true(fabs(deviation[k][c] - sqrt(square)) < 1e-12);
        }
}

/* Members that went are marked, a notice says how, any number of threads gives the same, and what
 * is left is the fit of those members alone. */
static void what_is_left_is_fitted_from_scratch(void **state) {
    cst_context *context = *state;
    int32_t members = short_tests() ? 80 : MEMBERS;
    cst_notices_clear(context);
    assert_int_equal(cst_context_set_threads(context, 2), CST_OK);
    cst_stages two = run(context, members);
    assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
    cst_stages one = run(context, members);
    bool told = false;
    for (size_t i = 0; i < cst_notice_count(context); i++)
        told = told || strstr(cst_notice_at(context, i), "members in groups");
    assert_true(told);
    assert_true(one.kept_count < members);
    assert_int_equal(one.kept_count, two.kept_count);
    assert_memory_equal(one.kept, two.kept, (size_t)one.kept_count * sizeof *one.kept);
    assert_memory_equal(one.fit.row_loss, two.fit.row_loss, ROWS * sizeof(double));
    int32_t most = 0; /* that went at once */
    for (int32_t k = 0; k < members; k++) {
        assert_true((one.reason[k] == CST_REASON_REFIT) == !isnan(one.refit_change[k]));
        assert_true((one.reason[k] == CST_REASON_REFIT) == (one.refit_together[k] > 0));
        most = one.refit_together[k] > most ? one.refit_together[k] : most;
    }
    assert_true(most >= members / 32);
    const float *pointers[MEMBERS];
    cst_view kept = cst_view_members(&shared.view, one.kept, one.kept_count, pointers);
    cst_meta_fit alone;
    assert_int_equal(
        cst_meta_fit_run(context, &kept, shared.folds, FOLDS, &shared.settings, true, &alone),
        CST_OK);
    assert_true(one.fit.lambda == alone.lambda);
    assert_memory_equal(one.fit.row_loss, alone.row_loss, ROWS * sizeof(double));
    cst_meta_fit_free(context, &alone);
    cst_stages_free(context, &one);
    cst_stages_free(context, &two);
}

static double seconds_of(cst_context *context, int32_t members) {
    clock_t start = clock();
    cst_stages stages = run(context, members);
    cst_stages_free(context, &stages);
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* Each alone, 200 members took 15 times the processor time of 50. */
static void many_members_take_little_more(void **state) {
    if (short_tests())
        skip();
    assert_int_equal(cst_context_set_threads(*state, 1), CST_OK);
    assert_true(seconds_of(*state, MEMBERS) < 4 * seconds_of(*state, MEMBERS / 4));
}

static int setup(void **state) {
    cst_context *context = NULL;
    cst_la_enter();
    if (cst_context_create(&context) != CST_OK)
        return 1;
    make_pool(context);
    *state = context;
    return 0;
}

static int teardown(void **state) {
    cst_context_free(*state);
    cst_la_leave();
    return 0;
}

int suite_removal(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_are_not_tried_in_groups),
        cmocka_unit_test(tries_are_bounded),
        cmocka_unit_test(the_least_relied_on_go),
        cmocka_unit_test(deviations_are_those_of_the_columns),
        cmocka_unit_test(what_is_left_is_fitted_from_scratch),
        cmocka_unit_test(many_members_take_little_more),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
