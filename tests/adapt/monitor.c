/*
 * The test of the monitor by simulation: how often it raises a false alarm, with references that
 * are drawn each time again, and how soon it finds a shift.
 */
#include "fit/adapt/monitor_evidence.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"

static cst_scope scope; /* of what a test makes */

enum { STREAMS = 250, ROWS = 1000, FIT_MOST = 2000, GROUPS = 4 };

static int descending(const void *a, const void *b) {
    float x = *(const float *)a;
    float y = *(const float *)b;
    return (x < y) - (x > y);
}

/* Thresholds of `rows` uniform values, by statistic. step: values are multiples of it, so that many
 * are equal; 0: they are not. */
static void draw_fit(cst_rng *rng, int64_t rows, double step, cst_watch *watch) {
    static float values[FIT_MOST];
    int64_t *shares = watch->share + GROUPS; /* of the stack, after one member */
    watch->table_rows[0] = rows;
    for (int g = 0; g < GROUPS; g++)
        shares[g] = 0;
    for (int64_t i = 0; i < rows; i++)
        shares[cst_rng_below(rng, GROUPS)]++;
    for (int s = 0; s < CST_WATCH_STATISTICS; s++) {
        for (int64_t i = 0; i < rows; i++) {
            double value = cst_rng_uniform(rng);
            values[i] = (float)(step > 0 ? floor(value / step) * step : value);
        }
        qsort(values, (size_t)rows, sizeof *values, descending);
        for (int b = 0; b < CST_WATCH_EDGES; b++) {
            int64_t rank = (int64_t)floor(cst_watch_level[b] * (double)(rows + 1) + 1e-9);
            watch->edge[s * CST_WATCH_EDGES + b] = rank < 1 ? HUGE_VALF : values[rank - 1];
        }
    }
}

/* Row at which the evidence reaches 100, or 0. The levels are those of the fit to this power: 1 for
 * rows like those of the fit. one: probability that a row is of the first group whatever it is. */
static int64_t found_at(cst_rng *rng, const cst_watch *watch, double power, double one, double step,
                        int64_t rows, cst_evidence *evidence) {
    cst_evidence_reset(watch, evidence);
    for (int64_t i = 0; i < rows; i++) {
        float value[CST_WATCH_STATISTICS];
        for (int s = 0; s < CST_WATCH_STATISTICS; s++) {
            double u = 1 - pow(1 - cst_rng_uniform(rng), power);
            value[s] = (float)(step > 0 ? floor(u / step) * step : u);
        }
        int32_t group = cst_rng_uniform(rng) < one ? 0 : (int32_t)cst_rng_below(rng, GROUPS);
        cst_evidence_add(watch, 0, group, value, evidence);
        if (evidence->peak >= 100)
            return i + 1;
    }
    return 0;
}

static void false_alarms(void **state) {
    cst_context *context = *state;
    static const struct {
        int64_t rows;
        double step;
    } fits[] = {{FIT_MOST, 0}, {100, 0}, {400, 0.1}};
    const cst_watch sizes = {.classes = 2, .members = 1, .tables = 1, .groups = GROUPS};
    cst_watch *watch = NULL;
    cst_evidence evidence = {0};
    cst_rng rng;
    assert_int_equal(cst_watch_alloc(context, &scope, &sizes, &watch), CST_OK);
    assert_int_equal(cst_evidence_take(context, &scope, watch, &evidence), CST_OK);
    for (size_t f = 0; f < sizeof fits / sizeof *fits; f++) {
        int alarms = 0;
        int found = 0;
        int classes = 0;
        cst_rng_init(&rng, f, CST_STREAM_TEST, 0);
        for (int i = 0; i < STREAMS; i++) {
            draw_fit(&rng, fits[f].rows, fits[f].step, watch);
            alarms += found_at(&rng, watch, 1, 0, fits[f].step, ROWS, &evidence) > 0;
        }
        for (int i = 0; i < 50; i++) {
            draw_fit(&rng, fits[f].rows, fits[f].step, watch);
            int64_t at = found_at(&rng, watch, 2.5, 0, fits[f].step, 200, &evidence);
            found += at > 0;
            classes += found_at(&rng, watch, 1, 0.6, fits[f].step, 200, &evidence) > 0;
        }
        /* At a rate of 1%, 7 of 250 are exceeded with probability 0.005. */
        assert_true(alarms <= 7);
        assert_true(found >= (fits[f].step > 0 ? 15 : 45)); /* equal values count as alike */
        assert_true(classes >= (fits[f].rows > 100 ? 45 : 0));
    }
    cst_scope_free(&scope);
}

/* However strong, the evidence stays finite, and it falls again. */
static void bounded(void **state) {
    cst_context *context = *state;
    const cst_watch sizes = {.classes = 2, .members = 1, .tables = 1, .groups = GROUPS};
    const float far[CST_WATCH_STATISTICS] = {2, 2, 2};
    const float near[CST_WATCH_STATISTICS] = {0, 0, 0};
    cst_watch *watch = NULL;
    cst_evidence evidence = {0};
    cst_rng rng;
    cst_rng_init(&rng, 9, CST_STREAM_TEST, 0);
    assert_int_equal(cst_watch_alloc(context, &scope, &sizes, &watch), CST_OK);
    assert_int_equal(cst_evidence_take(context, &scope, watch, &evidence), CST_OK);
    draw_fit(&rng, FIT_MOST, 0, watch);
    assert_true(cst_evidence_value(&evidence) == 1);
    for (int i = 0; i < 3000; i++)
        cst_evidence_add(watch, 0, i % GROUPS, far, &evidence);
    assert_true(evidence.peak == CST_EVIDENCE_MOST);
    for (int i = 0; i < 20000; i++)
        cst_evidence_add(watch, 0, i % GROUPS, near, &evidence);
    assert_true(cst_evidence_value(&evidence) >= 0 && cst_evidence_value(&evidence) < 1);
    assert_int_equal(evidence.rows, 23000);
    cst_scope_free(&scope);
}

int suite_monitor(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(false_alarms),
        cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
