/*
 * Signs of leaks: rows and groups that are planted on both sides, error rates and shared rows
 * against exact figures, how often either raises a false alarm and finds what is planted, and fits
 * of permuted labels, where scores of rows that the fit has seen are a leak.
 */
#include "fit/bounds/leakage.h"
#include "data/checks/checks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check.h"
#include "data/leakage.h"
#include "repetitions.h"

enum { ROWS = 90, CLASSES = 2, MEMBERS = 24 };

static int setup(void **state) {
    cst_context *context = NULL;
    if (cst_context_create(&context) != CST_OK)
        return -1;
    *state = context;
    return 0;
}

typedef struct world {
    float p[MEMBERS][ROWS * CLASSES];
    const float *data[MEMBERS];
    char text[MEMBERS][8];
    const char *names[MEMBERS];
    int32_t labels[ROWS];
    cst_view view;
} world;

/* Members that know nothing, or something of the labels. */
static void make(world *w, double skill, uint32_t substream) {
    cst_rng rng;
    cst_rng_init(&rng, 31, CST_STREAM_TEST, substream);
    for (int i = 0; i < ROWS; i++)
        w->labels[i] = i % 2;
    for (int k = 0; k < MEMBERS; k++) {
        for (int i = 0; i < ROWS; i++) {
            double z = cst_rng_normal(&rng) + skill * (w->labels[i] ? 1 : -1);
            w->p[k][2 * i + 1] = (float)(1 / (1 + exp(-z)));
            w->p[k][2 * i] = 1 - w->p[k][2 * i + 1];
        }
        w->data[k] = w->p[k];
        w->text[k][0] = 'm';
        w->text[k][1] = (char)('a' + k);
        w->text[k][2] = 0;
        w->names[k] = w->text[k];
    }
    w->view = (cst_view){
        .rows = ROWS, .classes = CLASSES, .members = MEMBERS, .data = w->data, .labels = w->labels};
}

static void shared_rows_are_counted(void **state) {
    static world a;
    static world b;
    cst_shared_rows out;
    make(&a, 1, 1);
    make(&b, 1, 2);
    assert_int_equal(cst_shared_rows_of(*state, &a.view, &b.view, 0, &out), CST_OK);
    assert_int_equal(out.shared, 0);
    assert_int_equal(out.repeated, 0);
    for (int k = 0; k < MEMBERS; k++) /* rows 3 to 6 become rows 11 to 14 of the other split */
        for (int i = 0; i < 4 * CLASSES; i++)
            b.p[k][11 * CLASSES + i] = a.p[k][3 * CLASSES + i];
    assert_int_equal(cst_shared_rows_of(*state, &a.view, &b.view, 0, &out), CST_OK);
    assert_int_equal(out.shared, 4);
    b.labels[12] = 1 - b.labels[12];
    assert_int_equal(cst_shared_rows_of(*state, &a.view, &b.view, 0, &out), CST_OK);
    assert_int_equal(out.shared, 3);
    for (int k = 0; k < MEMBERS; k++) /* row 0 once more, and again */
        for (int c = 0; c < CLASSES; c++)
            a.p[k][20 * CLASSES + c] = a.p[k][40 * CLASSES + c] = a.p[k][c];
    assert_int_equal(cst_shared_rows_of(*state, &a.view, &b.view, 0, &out), CST_OK);
    assert_int_equal(out.repeated, 3);
}

static void groups_in_several_folds_are_counted(void **state) {
    int64_t groups[] = {5, -2, 5, 9, 9, 9, -2, 4};
    int32_t folds[] = {0, 1, 0, 2, 2, 2, 1, 3};
    cst_split_groups found;
    assert_int_equal(cst_split_groups_of(*state, groups, NULL, folds, 8, &found), CST_OK);
    assert_int_equal(found.split, 0);
    folds[4] = 0;
    folds[6] = 3;
    assert_int_equal(cst_split_groups_of(*state, groups, NULL, folds, 8, &found), CST_OK);
    assert_int_equal(found.split, 2);
}

/* ---- error rates ---- */

#define LEVEL 0.001 /* of an alarm, as in src/fit/bounds/bound_leakage.c */

static void error_rates_agree_with_exact_tails(void **state) {
    (void)state;
    for (int i = 0; i < LK_ERRORS; i++) {
        const int64_t errors[] = {LK_COUNTS[4 * i], LK_COUNTS[4 * i + 2]};
        const int64_t rows[] = {LK_COUNTS[4 * i + 1], LK_COUNTS[4 * i + 3]};
        double p = cst_lower_error_p(errors, rows);
        assert_true(fabs(p - LK_ERROR_P[i]) <= 1e-11 * LK_ERROR_P[i]);
    }
    const int64_t far[] = {0, 1000000}; /* the largest term is far from what was seen */
    const int64_t large[] = {100000000, 1000000};
    assert_true(cst_lower_error_p(far, large) <= 0);
    const int64_t many[] = {1000000, 10000};
    double p = cst_lower_error_p(many, large);
    assert_true(p > 0.5 && p < 0.51);
}

static int64_t errors_among(cst_rng *rng, int64_t rows, double rate) {
    int64_t errors = 0;
    for (int64_t i = 0; i < rows; i++)
        errors += cst_rng_uniform(rng) < rate;
    return errors;
}

/* Whether one of `members` independent members is said to know rows of the first split. */
static bool members_alarm(cst_rng *rng, const int64_t *rows, const double *rate, int members) {
    double least = 1;
    for (int k = 0; k < members; k++) {
        const int64_t errors[] = {errors_among(rng, rows[0], rate[0]),
                                  errors_among(rng, rows[1], rate[1])};
        least = fmin(least, cst_lower_error_p(errors, rows) * members);
    }
    return least <= LEVEL;
}

/* Few errors and splits of unlike size, where a normal approximation is far from its level. */
static void equal_error_rates_seldom_raise_an_alarm(void **state) {
    (void)state;
    static const struct {
        int64_t rows[2];
        double rate;
        int members;
    } worlds[] = {{{2000, 20}, 0.002, 1}, {{1000, 60}, 0.03, 1}, {{2000, 60}, 0.02, 10}};
    for (uint32_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
        cst_rng rng;
        const double rates[] = {worlds[w].rate, worlds[w].rate};
        int64_t trials = repetitions(worlds[w].members > 1 ? 400 : 2000);
        int64_t alarms = 0;
        cst_rng_init(&rng, 41, CST_STREAM_TEST, w);
        for (int64_t t = 0; t < trials; t++)
            alarms += members_alarm(&rng, worlds[w].rows, rates, worlds[w].members);
        assert_true(plausible(alarms, trials, LEVEL));
    }
}

static void members_with_known_rows_are_found(void **state) {
    (void)state;
    const int64_t rows[] = {500, 200};
    const double rates[] = {0.02, 0.2};
    cst_rng rng;
    int found = 0;
    cst_rng_init(&rng, 43, CST_STREAM_TEST, 0);
    for (int t = 0; t < 200; t++)
        found += members_alarm(&rng, rows, rates, 5);
    assert_true(found >= 199);
}

/* ---- shared rows ---- */

enum { MAX_ROWS = 1000 };

/* Rows of three members with two classes, made of numbers. */
typedef struct split_rows {
    float p[3][2 * MAX_ROWS];
    const float *data[3];
    int32_t labels[MAX_ROWS];
    cst_view view;
} split_rows;

static void open_rows(split_rows *s, int64_t rows) {
    for (int k = 0; k < 3; k++)
        s->data[k] = s->p[k];
    s->view =
        (cst_view){.rows = rows, .classes = 2, .members = 3, .data = s->data, .labels = s->labels};
}

static void put_row(split_rows *s, int64_t i, int32_t label, const double *p) {
    s->labels[i] = label;
    for (int k = 0; k < 3; k++) {
        s->p[k][2 * i] = (float)(1 - p[k]);
        s->p[k][2 * i + 1] = (float)p[k];
    }
}

static void copy_row(split_rows *to, int64_t i, const split_rows *from, int64_t j) {
    to->labels[i] = from->labels[j];
    for (int k = 0; k < 3; k++)
        for (int c = 0; c < 2; c++)
            to->p[k][2 * i + c] = from->p[k][2 * j + c];
}

/* Independent rows, as in the review of few distinct predictions; steps: 0 for none. */
static void draw_rows(cst_rng *rng, split_rows *s, int64_t rows, double steps) {
    open_rows(s, rows);
    for (int64_t i = 0; i < rows; i++) {
        int32_t label = (int32_t)cst_rng_below(rng, 2);
        double p[3];
        for (int k = 0; k < 3; k++) {
            p[k] = 1 / (1 + exp(-cst_rng_normal(rng) - (label ? 1 : -1)));
            p[k] = steps > 0 ? round(p[k] * steps) / steps : p[k];
        }
        put_row(s, i, label, p);
    }
}

/* Counted worlds: the mean over seeds of p, which is 1 / 20 too large at most by ending early. */
static void shared_rows_agree_with_all_ways(void **state) {
    static split_rows a;
    static split_rows b;
    const int32_t *entry = LK_CONTENTS;
    for (int w = 0; w < LK_WORLDS; w++) {
        int64_t n = 0;
        int64_t m = 0;
        int content = 0;
        for (int e = 0; e < LK_ENTRIES[w]; e++, entry += 3)
            for (int32_t r = 0; r < entry[2]; r++) {
                const double p[] = {++content / 1024.0, 0.5, 0.25};
                for (int32_t i = 0; i < entry[0]; i++)
                    put_row(&a, n++, 0, p);
                for (int32_t i = 0; i < entry[1]; i++)
                    put_row(&b, m++, 0, p);
            }
        open_rows(&a, n);
        open_rows(&b, m);
        double sum = 0;
        for (uint64_t seed = 0; seed < 300; seed++) {
            cst_shared_rows out;
            assert_int_equal(cst_shared_rows_of(*state, &a.view, &b.view, seed, &out), CST_OK);
            sum += out.p / 300;
        }
        assert_true(sum > 0.97 * LK_SHARED_P[w] && sum < 1.09 * LK_SHARED_P[w]);
    }
}

typedef struct dealt {
    int64_t rows[2];
    double steps;  /* of predictions */
    int64_t known; /* rows of the second split that are rows of the first */
} dealt;

static int64_t rows_alarms(cst_context *context, const dealt *how, uint32_t stream,
                           int64_t trials) {
    static split_rows a;
    static split_rows b;
    int64_t alarms = 0;
    cst_rng rng;
    cst_rng_init(&rng, 47, CST_STREAM_TEST, stream);
    for (int64_t t = 0; t < trials; t++) {
        cst_shared_rows out;
        draw_rows(&rng, &a, how->rows[0], how->steps);
        draw_rows(&rng, &b, how->rows[1], how->steps);
        for (int64_t i = 0; i < how->known; i++)
            copy_row(&b, i, &a, 3 * i);
        assert_int_equal(cst_shared_rows_of(context, &a.view, &b.view, (uint64_t)t, &out), CST_OK);
        alarms += out.p <= LEVEL;
    }
    return alarms;
}

/* Predictions in steps of 0.2, 0.05 and 0.01: nine tenths, a tenth and a thousandth repeat. */
static void independent_splits_seldom_raise_an_alarm(void **state) {
    static const dealt worlds[] = {
        {{1000, 100}, 5, 0}, {{300, 300}, 5, 0}, {{400, 200}, 20, 0}, {{400, 200}, 100, 0}};
    for (uint32_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
        int64_t trials = short_tests() ? 100 : repetitions(400);
        int64_t alarms = rows_alarms(*state, &worlds[w], w, trials);
        assert_true(plausible(alarms, trials, LEVEL));
    }
}

/* Distinct predictions: a few rows are enough, fewer of a small split. Predictions that repeat in
 * part: a third of the rows. */
static void shared_rows_are_found(void **state) {
    static const dealt worlds[] = {{{300, 300}, 0, 14}, {{1000, 100}, 0, 5}, {{400, 200}, 50, 66}};
    for (uint32_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++)
        assert_true(rows_alarms(*state, &worlds[w], 10 + w, 40) >= 39);
}

/* ---- permuted labels ---- */

static const char *const SETTINGS[] = {"corestack=0", "meta.learners=ridge", "split=oof",
                                       "select.direction=none", "lambda.rule=star"};

/* Nested scores of permuted labels are chance, whatever members know of the true ones; the fit's
 * own rows, which are a leak, are far above it. */
static void permuted_labels_give_chance(void **state) {
    static world w;
    for (uint32_t skill = 0; skill < 2; skill++) {
        cst_permuted out;
        make(&w, skill, 3 + skill);
        assert_int_equal(cst_permuted_fit(*state, &w.view, w.names, SETTINGS, 4, 1000, 0, &out),
                         CST_OK);
        assert_int_equal(out.samples, ROWS);
        assert_true(fabs(out.chance - 0.5) <= 1e-12);
        assert_true(out.p > 0.01);
        assert_true(out.seen_p < 0.001);
        assert_true(out.seen_top1 > out.top1);
    }
}

static void fewer_rows_may_take_part(void **state) {
    static world w;
    cst_permuted out;
    make(&w, 1, 5);
    assert_int_equal(cst_permuted_fit(*state, &w.view, w.names, NULL, 0, 60, 1, &out), CST_OK);
    assert_int_equal(out.samples, 60);
    const char *const bad[] = {"cka.threshold=much"};
    assert_int_equal(cst_permuted_fit(*state, &w.view, w.names, bad, 1, 60, 1, &out),
                     CST_ERROR_ARGUMENT);
    assert_non_null(cst_last_error(*state));
}

/* Models of earlier versions hold whole numbers as they were given then. */
static void settings_of_earlier_models_are_read(void **state) {
    static const char *const now[] = {"meta.learners=ridge", "seed=5", "keep.max=10"};
    static const char *const then[] = {"meta.learners=ridge", "seed=5.0", "keep.max=1e1"};
    static world w;
    cst_permuted a;
    cst_permuted b;
    make(&w, 1, 6);
    assert_int_equal(cst_permuted_fit(*state, &w.view, w.names, now, 3, 60, 1, &a), CST_OK);
    assert_int_equal(cst_permuted_fit(*state, &w.view, w.names, then, 3, 60, 1, &b), CST_OK);
    assert_memory_equal(&a.top1, &b.top1, sizeof a.top1);
    assert_memory_equal(&a.seen_top1, &b.seen_top1, sizeof a.seen_top1);
}

int suite_leakage(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shared_rows_are_counted, setup, context_teardown),
        cmocka_unit_test_setup_teardown(groups_in_several_folds_are_counted, setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(error_rates_agree_with_exact_tails, setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(equal_error_rates_seldom_raise_an_alarm, setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(members_with_known_rows_are_found, setup, context_teardown),
        cmocka_unit_test_setup_teardown(shared_rows_agree_with_all_ways, setup, context_teardown),
        cmocka_unit_test_setup_teardown(independent_splits_seldom_raise_an_alarm, setup,
                                        context_teardown),
        cmocka_unit_test_setup_teardown(shared_rows_are_found, setup, context_teardown),
        cmocka_unit_test_setup_teardown(permuted_labels_give_chance, setup, context_teardown),
        cmocka_unit_test_setup_teardown(fewer_rows_may_take_part, setup, context_teardown),
        cmocka_unit_test_setup_teardown(settings_of_earlier_models_are_read, setup,
                                        context_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
