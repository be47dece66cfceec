/*
 * Multilabel against scikit-learn and SciPy: every score, with and without gaps and weights; the
 * optimum of the pool; iterative stratification.
 */
#include <corestack/more.h>

#include "data/multilabel.h"
#include "data/pool/pool.h"
#include "tasks/multilabel/multilabel.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_near(double a, double b, double tolerance) {
    if (isnan(a) && isnan(b))
        return;
    if (!(fabs(a - b) <= tolerance * fabs(b)))
        print_error("%.17g is not %.17g\n", a, b);
    assert_true(fabs(a - b) <= tolerance * fabs(b));
}

static void check_scores(const cst_label_cells *rows, const double *scores, const double *auc,
                         const double *ap, const double *f1, const double *loss) {
    cst_context *context = NULL;
    double out[CST_LABEL_SCORES];
    cst_label_score each[8];
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(cst_label_scores_of(context, rows, out, each), CST_OK);
    for (int s = 0; s < CST_LABEL_SCORES; s++)
        assert_near(out[s], scores[s], 1e-12);
    for (int l = 0; l < rows->labels; l++) {
        assert_near(each[l].auc, auc[l], 1e-12);
        assert_near(each[l].ap, ap[l], 1e-12);
        assert_near(each[l].f1, f1[l], 1e-12);
        assert_near(each[l].log_loss, loss[l], 1e-12);
    }
    cst_context_free(context);
}

static void scores_are_those_of_scikit_learn(void **state) {
    const cst_label_cells plain = {plain_p, plain_y, NULL, PLAIN_ROWS, PLAIN_LABELS};
    const cst_label_cells gaps = {gaps_p, gaps_y, gaps_w, GAPS_ROWS, GAPS_LABELS};
    (void)state;
    check_scores(&plain, plain_scores, plain_auc, plain_ap, plain_f1, plain_loss);
    check_scores(&gaps, gaps_scores, gaps_auc, gaps_ap, gaps_f1, gaps_loss);
}

/* The bootstrap's own value is the score, and its interval is around it. */
static void intervals_are_of_the_scores(void **state) {
    enum { METHODS = 2, CELLS = GAPS_ROWS * GAPS_LABELS };
    const cst_label_cells rows = {gaps_p, gaps_y, gaps_w, GAPS_ROWS, GAPS_LABELS};
    static float half[CELLS];
    const float *methods[METHODS] = {gaps_p, half};
    cst_interval interval[METHODS * CST_LABEL_SCORES];
    cst_interval difference[METHODS * CST_LABEL_SCORES];
    double p[METHODS * CST_LABEL_SCORES];
    cst_context *context = NULL;
    (void)state;
    for (int i = 0; i < CELLS; i++)
        half[i] = 0.5F;
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(
        cst_label_bootstrap(context, &rows, methods, METHODS, 1, 500, 7, interval, difference, p),
        CST_OK);
    for (int s = CST_LABEL_LOG_LOSS; s <= CST_LABEL_MACRO_AUC; s++) {
        assert_near(interval[s].value, gaps_scores[s], 1e-12);
        assert_true(interval[s].low < gaps_scores[s] && gaps_scores[s] < interval[s].high);
    }
    assert_near(interval[CST_LABEL_SCORES].value, log(2), 1e-12);
    assert_near(interval[CST_LABEL_SCORES + 1].value, 0.5, 1e-12);
    assert_near(difference[1].value, gaps_scores[CST_LABEL_MACRO_AUC] - 0.5, 1e-12);
    assert_true(p[1] < 0.05);
    cst_context_free(context);
}

typedef struct fixture {
    cst_context *context;
    cst_scope scope;
    cst_view view;
    const float *data[POOL_MEMBERS];
    cst_label_table table;
} fixture;

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    for (int k = 0; k < POOL_MEMBERS; k++)
        f->data[k] = pool_member + k * POOL_ROWS * POOL_LABELS;
    f->view = (cst_view){.rows = POOL_ROWS,
                         .classes = POOL_LABELS,
                         .members = POOL_MEMBERS,
                         .data = f->data,
                         .binary = true,
                         .weights = pool_weight,
                         .weight_scale = 1,
                         .targets = pool_y};
    return cst_context_create(&f->context) != CST_OK ||
           cst_label_table_make(f->context, &f->scope, &f->view, pool_folds, POOL_FOLDS,
                                &f->table) != CST_OK;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_scope_free(&f->scope);
    cst_context_free(f->context);
    free(f);
    return 0;
}

static void check_pool(fixture *f, const double *optimum, const double *theta, double held,
                       bool alone) {
    cst_label_pool pool = {
        .count = POOL_MEMBERS, .alone = alone, .prior = 10, .lambda = optimum[0]};
    double losses[POOL_ROWS] = {0};
    double objective = 0;
    double sum = 0;
    assert_int_equal(cst_label_pool_take(f->context, &f->scope, &f->table, &pool), CST_OK);
    assert_int_equal(cst_label_pool_fit(f->context, &f->table, -1, &pool, NULL), CST_OK);
    assert_int_equal(cst_label_pool_objective(f->context, &f->table, &pool, &objective), CST_OK);
    assert_true(objective <= optimum[1] + 1e-6);
    assert_near(objective, optimum[1], 1e-9);
    for (int i = 0; i < POOL_LABELS * (POOL_MEMBERS + 1); i++)
        assert_true(fabs(pool.theta[i] - theta[i]) < 1e-4);
    assert_int_equal(cst_label_pool_fit(f->context, &f->table, 1, &pool, NULL), CST_OK);
    assert_int_equal(cst_label_pool_losses(f->context, &f->table, 1, &pool, losses), CST_OK);
    for (int i = 0; i < POOL_ROWS; i++)
        sum += losses[i];
    assert_near(sum, held, 1e-5);
}

static void pool_is_at_the_optimum(void **state) {
    fixture *f = *state;
    for (int k = 0; k < POOL_MEMBERS; k++) {
        assert_near(f->table.mix[k], pool_mix[k], 1e-12);
        assert_near(f->table.risk[k], pool_risk[k], 1e-12);
    }
    check_pool(f, pool_shared, pool_shared_theta, pool_shared_held[0], false);
    check_pool(f, pool_tight, pool_tight_theta, pool_tight_held[0], false);
    check_pool(f, pool_alone, pool_alone_theta, pool_alone_held[0], true);
}

/* Columns of the table may be some of the members, in any order. */
static void some_members_are_a_table_of_these(void **state) {
    fixture *f = *state;
    const int32_t chosen[] = {2, 0};
    const float *data[] = {f->data[2], f->data[0]};
    cst_view part = f->view;
    cst_label_table table;
    double objective[2];
    part.data = data;
    part.members = 2;
    assert_int_equal(
        cst_label_table_make(f->context, &f->scope, &part, pool_folds, POOL_FOLDS, &table), CST_OK);
    cst_label_pool pool[2] = {{.members = chosen, .count = 2, .prior = 10, .lambda = 3},
                              {.count = 2, .prior = 10, .lambda = 3}};
    for (int i = 0; i < 2; i++) {
        const cst_label_table *t = i ? &table : &f->table;
        assert_int_equal(cst_label_pool_take(f->context, &f->scope, t, &pool[i]), CST_OK);
        assert_int_equal(cst_label_pool_fit(f->context, t, -1, &pool[i], NULL), CST_OK);
        assert_int_equal(cst_label_pool_objective(f->context, t, &pool[i], &objective[i]), CST_OK);
    }
    assert_near(objective[0], objective[1], 1e-12);
}

/* Every label with as many positive rows as folds is in each, within one of its share; sizes are
 * within two; a group is never divided; the seed decides. */
static void folds_have_their_share_of_every_label(void **state) {
    enum { ROWS = 203, LABELS = 7, FOLDS = 5 };
    static double y[ROWS * LABELS];
    static int64_t groups[ROWS];
    int32_t folds[ROWS];
    int32_t again[ROWS];
    cst_context *context = NULL;
    (void)state;
    assert_int_equal(cst_context_create(&context), CST_OK);
    for (int i = 0; i < ROWS; i++) {
        groups[i] = i / 3;
        for (int l = 0; l < LABELS; l++)
            y[i * LABELS + l] = (i * (2 * l + 3) + l * l) % (3 * l + 4) == 0;
    }
    y[0] = NAN;
    assert_int_equal(cst_folds_labels(context, y, LABELS, NULL, ROWS, FOLDS, 1, folds), CST_OK);
    for (int l = -1; l < LABELS; l++) {
        int count[FOLDS] = {0};
        int total = 0;
        for (int i = 0; i < ROWS; i++)
            if (l < 0 || y[i * LABELS + l] > 0) {
                count[folds[i]]++;
                total++;
            }
        for (int f = 0; f < FOLDS; f++)
            assert_true(fabs(count[f] - total / (double)FOLDS) < (l < 0 ? 2 : 1.5));
    }
    assert_int_equal(cst_folds_labels(context, y, LABELS, NULL, ROWS, FOLDS, 1, again), CST_OK);
    assert_memory_equal(folds, again, sizeof folds);
    assert_int_equal(cst_folds_labels(context, y, LABELS, NULL, ROWS, FOLDS, 2, again), CST_OK);
    assert_memory_not_equal(folds, again, sizeof folds);
    assert_int_equal(cst_folds_labels(context, y, LABELS, groups, ROWS, FOLDS, 1, folds), CST_OK);
    for (int i = 1; i < ROWS; i++)
        assert_true(groups[i] != groups[i - 1] || folds[i] == folds[i - 1]);
    assert_int_equal(cst_folds_labels(context, y, LABELS, groups, 9, FOLDS, 1, folds),
                     CST_ERROR_INPUT);
    cst_context_free(context);
}

int suite_multilabel(void);
int suite_multilabel(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_scikit_learn),
        cmocka_unit_test(intervals_are_of_the_scores),
        cmocka_unit_test_setup_teardown(pool_is_at_the_optimum, setup, teardown),
        cmocka_unit_test_setup_teardown(some_members_are_a_table_of_these, setup, teardown),
        cmocka_unit_test(folds_have_their_share_of_every_label)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
