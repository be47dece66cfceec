/*
 * Removals in groups: the fit that is left is the one of those members from scratch; few rows and
 * many members take little longer than few members.
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

enum { ROWS = 60, CLASSES = 3, MEMBERS = 200, FOLDS = 5 };

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
        cmocka_unit_test(what_is_left_is_fitted_from_scratch),
        cmocka_unit_test(many_members_take_little_more),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
