/*
 * Loss-aware selection: paths against brute force, the rules against their arithmetic, caps, same
 * bytes. The pool is that of the log-linear oracle, plus a copy and a noise member.
 */
#include "method/select/select.h"
#include "core/la.h"
#include "loglinear_oracle.h"
#include "method/select/within.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "data/loglinear.h"

enum { MEMBERS = LL_MEMBERS + 2, COPY = LL_MEMBERS, NOISE = LL_MEMBERS + 1, FOLDS = 5 };

typedef struct fixture {
    cst_context *context;
    float copy[LL_ROWS * LL_CLASSES];
    float noise[LL_ROWS * LL_CLASSES];
    const float *data[MEMBERS];
    int32_t folds[LL_ROWS];
    double flops[MEMBERS];
    cst_view view;
    cst_logtable table;
} fixture;

static fixture shared;

static int setup(void **state) {
    fixture *f = &shared;
    memset(f, 0, sizeof *f);
    cst_la_enter();
    if (cst_context_create(&f->context) != CST_OK)
        return 1;
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 0);
    for (int i = 0; i < LL_ROWS; i++) {
        double sum = 0;
        for (int c = 0; c < LL_CLASSES; c++)
            sum += f->noise[i * LL_CLASSES + c] = (float)(0.05 + cst_rng_uniform(&rng));
        for (int c = 0; c < LL_CLASSES; c++)
            f->noise[i * LL_CLASSES + c] = (float)((double)f->noise[i * LL_CLASSES + c] / sum);
        f->folds[i] = i % FOLDS;
    }
    memcpy(f->copy, ll_pool + 2 * LL_ROWS * LL_CLASSES, sizeof f->copy);
    for (int32_t k = 0; k < LL_MEMBERS; k++)
        f->data[k] = ll_pool + (size_t)k * LL_ROWS * LL_CLASSES;
    f->data[COPY] = f->copy;
    f->data[NOISE] = f->noise;
    for (int32_t k = 0; k < MEMBERS; k++)
        f->flops[k] = 1 + k;
    f->view = (cst_view){.rows = LL_ROWS,
                         .classes = LL_CLASSES,
                         .members = MEMBERS,
                         .data = f->data,
                         .labels = ll_labels};
    double mix[MEMBERS];
    *state = f;
    return uniform_mix(f->context, &f->view, mix) != CST_OK ||
           build_table(f->context, &f->view, mix, &f->table) != CST_OK;
}

static int teardown(void **state) {
    fixture *f = *state;
    cst_logtable_free(f->context, &f->table);
    cst_context_free(f->context);
    cst_la_leave();
    return 0;
}

static cst_select_options plain_options(cst_select_direction direction) {
    return (cst_select_options){
        .direction = direction, .rule = CST_SELECT_BEST, .tolerance = 0.01, .prior = 10};
}

/* Penalised loss of the best fit on a set: what a brute-force search compares. */
static double fitted_loss(fixture *f, const int32_t *set, int32_t count) {
    cst_loglinear_options options = cst_loglinear_defaults();
    options.bias = false;
    options.evidence = false;
    options.prior_weights = 10;
    options.prior_scale = 30;
    cst_loglinear fit;
    assert_int_equal(cst_loglinear_fit(f->context, &f->table, set, count, &options, NULL, &fit),
                     CST_OK);
    double loss = fit.nll;
    cst_loglinear_free(f->context, &fit);
    return loss;
}

static bool member_of(const int32_t *set, int32_t count, int32_t member) {
    for (int32_t j = 0; j < count; j++)
        if (set[j] == member)
            return true;
    return false;
}

static void backward_removes_what_is_missed_least(void **state) {
    fixture *f = *state;
    cst_select_options options = plain_options(CST_SELECT_BACKWARD);
    cst_path path;
    assert_int_equal(cst_path_backward(f->context, &f->table, &options, NULL, &path), CST_OK);
    for (int32_t size = MEMBERS; size > 1; size--) {
        const int32_t *larger = path.set[size - 1];
        const int32_t *smaller = path.set[size - 2];
        for (int32_t j = 0; j < size - 1; j++)
            assert_true(member_of(larger, size, smaller[j]));
        double least = INFINITY;
        for (int32_t leave = 0; leave < size; leave++) {
            int32_t set[MEMBERS];
            int32_t count = 0;
            for (int32_t j = 0; j < size; j++)
                if (j != leave)
                    set[count++] = larger[j];
            least = fmin(least, fitted_loss(f, set, count));
        }
        double taken = fitted_loss(f, smaller, size - 1);
        assert_true(taken <= least * 1.01); /* the quadratic model may rank near-ties otherwise */
    }
    assert_false(member_of(path.set[MEMBERS - 3], MEMBERS - 2, NOISE) &&
                 member_of(path.set[MEMBERS - 3], MEMBERS - 2, COPY) &&
                 member_of(path.set[MEMBERS - 3], MEMBERS - 2, 2));
    cst_path_free(f->context, &path);
}

/* Also at sizes whose weights are those of a larger set's quadratic model. */
static void weights_of_every_size_are_near_the_optimum(void **state) {
    fixture *f = *state;
    cst_select_options options = plain_options(CST_SELECT_BACKWARD);
    cst_path path;
    assert_int_equal(cst_path_backward(f->context, &f->table, &options, NULL, &path), CST_OK);
    for (int32_t s = 0; s < MEMBERS; s++) {
        cst_loglinear_options fit_options = cst_loglinear_defaults();
        cst_loglinear fit;
        fit_options.bias = false;
        fit_options.evidence = false;
        fit_options.prior_weights = options.prior;
        fit_options.prior_scale = 3 * options.prior;
        assert_int_equal(cst_loglinear_fit(f->context, &f->table, path.set[s], s + 1, &fit_options,
                                           path.weights[s], &fit),
                         CST_OK);
        assert_true(fit.begun < fmax(1e-3, 1e-5 * fit.nll));
        cst_loglinear_free(f->context, &fit);
    }
    cst_path_free(f->context, &path);
}

static void forward_adds_what_helps_most(void **state) {
    fixture *f = *state;
    cst_select_options options = plain_options(CST_SELECT_FORWARD);
    cst_path path;
    assert_int_equal(cst_path_forward(f->context, &f->table, &options, &path), CST_OK);
    for (int32_t size = 2; size <= MEMBERS; size++) {
        const int32_t *smaller = path.set[size - 2];
        double least = INFINITY;
        for (int32_t join = 0; join < MEMBERS; join++) {
            int32_t set[MEMBERS];
            if (member_of(smaller, size - 1, join))
                continue;
            memcpy(set, smaller, (size_t)(size - 1) * sizeof *set);
            set[size - 1] = join;
            least = fmin(least, fitted_loss(f, set, size));
        }
        assert_true(fitted_loss(f, path.set[size - 1], size) <= least * 1.02);
        for (int32_t j = 1; j < size; j++)
            assert_true(path.set[size - 1][j] > path.set[size - 1][j - 1]);
    }
    cst_path_free(f->context, &path);
}

/* Held-out loss of one size, computed here fold by fold from the definition. */
static void held_out_losses_are_honest(void **state) {
    fixture *f = *state;
    cst_select_options options = plain_options(CST_SELECT_BACKWARD);
    cst_selection selection;
    assert_int_equal(cst_select(f->context, &f->view, f->folds, FOLDS, &options, &selection, NULL),
                     CST_OK);
    double sum[MEMBERS] = {0};
    int64_t index[LL_ROWS];
    for (int32_t fold = 0; fold < FOLDS; fold++) {
        cst_view in;
        cst_view out;
        double mix[MEMBERS];
        cst_logtable table;
        cst_logtable held;
        cst_path path;
        cst_view_split(&f->view, f->folds, fold, index, &in, &out);
        assert_int_equal(out.rows, LL_ROWS / FOLDS);
        assert_int_equal(uniform_mix(f->context, &in, mix), CST_OK);
        assert_int_equal(build_table(f->context, &in, mix, &table), CST_OK);
        assert_int_equal(build_table(f->context, &out, mix, &held), CST_OK);
        assert_int_equal(cst_path_backward(f->context, &table, &options, NULL, &path), CST_OK);
        for (int32_t s = 0; s < MEMBERS; s++) {
            for (int64_t i = 0; i < held.rows; i++) {
                int64_t row = out.index[i];
                double p[LL_CLASSES];
                float logs[LL_CLASSES * MEMBERS];
                for (int c = 0; c < LL_CLASSES; c++)
                    for (int k = 0; k < MEMBERS; k++)
                        logs[c * MEMBERS + k] =
                            cst_mixed_log(f->data[k][row * LL_CLASSES + c], mix[k], LL_CLASSES);
                cst_loglinear_row(logs, LL_CLASSES, MEMBERS, path.set[s], s + 1, path.weights[s],
                                  NULL, p);
                sum[s] -= log(p[ll_labels[row]]);
            }
        }
        cst_path_free(f->context, &path);
        cst_logtable_free(f->context, &table);
        cst_logtable_free(f->context, &held);
    }
    for (int32_t s = 0; s < MEMBERS; s++)
        assert_true(fabs(selection.path[s].loss - sum[s] / LL_ROWS) < 1e-7); /* float32 logs */
    assert_int_equal(selection.chosen, selection.best);
    cst_selection_free(f->context, &selection);
}

static int32_t chosen_size(fixture *f, cst_select_options options, const cst_selection *reference) {
    cst_selection selection;
    assert_int_equal(cst_select(f->context, &f->view, f->folds, FOLDS, &options, &selection, NULL),
                     CST_OK);
    for (int32_t s = 0; s < MEMBERS; s++)
        assert_true(selection.path[s].loss == reference->path[s].loss);
    int32_t size = selection.path[selection.chosen].size;
    cst_selection_free(f->context, &selection);
    return size;
}

static void rules_follow_their_arithmetic(void **state) {
    fixture *f = *state;
    cst_select_options options = plain_options(CST_SELECT_BACKWARD);
    cst_selection all;
    assert_int_equal(cst_select(f->context, &f->view, f->folds, FOLDS, &options, &all, NULL),
                     CST_OK);
    int32_t one_se = 0;
    int32_t tolerance = 0;
    int32_t proven = 0;
    for (int32_t s = MEMBERS - 1; s >= 0; s--) {
        const cst_select_step *step = &all.path[s];
        one_se = step->excess <= step->excess_se ? s + 1 : one_se;
        tolerance = step->excess <= 0.05 * all.path[all.best].loss ? s + 1 : tolerance;
        double bound = step->against_all + 3 * step->against_all_se;
        proven = bound <= 0.05 * all.path[MEMBERS - 1].loss ? s + 1 : proven;
    }
    options.tolerance = 0.05;
    options.rule = CST_SELECT_ONE_SE;
    assert_int_equal(chosen_size(f, options, &all), one_se);
    options.rule = CST_SELECT_TOLERANCE;
    assert_int_equal(chosen_size(f, options, &all), tolerance);
    options.rule = CST_SELECT_NON_INFERIOR;
    assert_int_equal(chosen_size(f, options, &all), proven);
    options.tolerance = 0; /* nothing below the cap can be shown to be as good: the cap it is */
    options.cap_count = 2;
    assert_int_equal(chosen_size(f, options, &all), 2);
    cst_selection_free(f->context, &all);
}

enum { SIZES = 4 };

/* The size that is chosen on losses [rows][SIZES] of which member sets 0..s are taken. */
static int32_t size_on(fixture *f, double (*losses)[SIZES], int64_t rows,
                       const cst_select_options *options) {
    double total[SIZES + SIZES * SIZES] = {0};
    int32_t *sets[SIZES];
    cst_selection selection = {.members = SIZES};
    for (int s = 0; s < SIZES; s++) {
        sets[s] = cst_alloc(f->context, (size_t)s + 1, sizeof **sets);
        assert_non_null(sets[s]);
        for (int32_t k = 0; k <= s; k++)
            sets[s][k] = k;
        for (int64_t i = 0; i < rows; i++) {
            total[s] += losses[i][s];
            for (int t = 0; t < SIZES; t++)
                total[SIZES + s * SIZES + t] += losses[i][s] * losses[i][t];
        }
    }
    assert_int_equal(cst_selection_finish(f->context, options, total, rows, sets, &selection),
                     CST_OK);
    int32_t size = selection.path[selection.chosen].size;
    cst_selection_free(f->context, &selection);
    for (int s = 0; s < SIZES; s++)
        cst_free(f->context, sets[s]);
    return size;
}

/* Losses around a mean for each size. They differ from those of all members by `noise` up on one
 * half of the rows and down on the other, which is the standard deviation of the difference. */
static void draw_losses(const double *means, const double *noise, int64_t rows,
                        double (*losses)[SIZES]) {
    for (int64_t i = 0; i < rows; i++)
        for (int s = 0; s < SIZES; s++)
            losses[i][s] = means[s] + (i % 2 ? noise[s] : -noise[s]);
}

/* A mean difference of 0.05 with a deviation of 0.5 between rows has a standard error of 0.05 on
 * 100 rows and of 0.0112 on 2000: there it is more than 3 of them. */
static void few_rows_keep_more_members(void **state) {
    static const double lower[SIZES] = {1.2, 0.95, 1.05, 1};
    static const double even[SIZES] = {1.2, 1.001, 1.001, 1};
    static const double wide[SIZES] = {0.5, 0.5, 0.5, 0};
    static const double narrow[SIZES] = {0.01, 0.01, 0.01, 0};
    static const double equal[SIZES] = {1.2, 0.9, 0.9, 0.9};
    static const double exact[SIZES] = {0};
    static double losses[2000][SIZES];
    cst_select_options options = plain_options(CST_SELECT_BACKWARD);
    options.rule = CST_SELECT_NON_INFERIOR;
    options.tolerance = 0.005;
    draw_losses(lower, wide, 2000, losses);
    assert_int_equal(size_on(*state, losses, 100, &options), SIZES);
    assert_int_equal(size_on(*state, losses, 2000, &options), 2);
    draw_losses(even, wide, 2000, losses); /* 0.1% above, and nothing proven */
    assert_int_equal(size_on(*state, losses, 2000, &options), SIZES);
    draw_losses(even, narrow, 2000, losses); /* 0.1% + 3 * 0.02% */
    assert_int_equal(size_on(*state, losses, 2000, &options), 2);
    options.tolerance = 0; /* preset best */
    assert_int_equal(size_on(*state, losses, 2000, &options), SIZES);
    draw_losses(equal, exact, 10, losses);
    assert_int_equal(size_on(*state, losses, 10, &options), 2);
}

/* Within a cap where nothing is proven: the largest allowed size, or a smaller one that has less
 * loss by 3 standard errors, of the differences between these two. */
static void caps_keep_no_size_that_a_smaller_one_beats(void **state) {
    static const double means[SIZES] = {1.3, 1.1, 1.15, 1};
    static const double same[SIZES] = {0.5, 0.5, 0.5, 0};
    static const double other[SIZES] = {0.5, 0.5, -0.5, 0};
    static double losses[400][SIZES];
    cst_select_options options = plain_options(CST_SELECT_BACKWARD);
    options.rule = CST_SELECT_NON_INFERIOR;
    options.tolerance = 0.005;
    options.cap_count = 3;
    draw_losses(means, same, 400, losses); /* 2 and 3 members differ by the same on every row */
    assert_int_equal(size_on(*state, losses, 400, &options), 2);
    draw_losses(means, other, 400, losses); /* by 0.05, with a standard error of 0.05 */
    assert_int_equal(size_on(*state, losses, 400, &options), 3);
    options.cap_count = 1;
    assert_int_equal(size_on(*state, losses, 400, &options), 1);
}

static void caps_hold(void **state) {
    fixture *f = *state;
    cst_select_options options = plain_options(CST_SELECT_BOTH);
    cst_selection selection;
    options.costs.of[CST_COST_FLOPS] = f->flops;
    options.limits.most[CST_COST_FLOPS] = 8;
    assert_int_equal(cst_select(f->context, &f->view, f->folds, FOLDS, &options, &selection, NULL),
                     CST_OK);
    const cst_select_step *step = &selection.path[selection.chosen];
    double flops = 0;
    for (int32_t j = 0; j < step->size; j++)
        flops += f->flops[step->members[j]];
    assert_true(flops == step->cost[CST_COST_FLOPS] && flops <= 8);
    cst_selection_free(f->context, &selection);
    options.limits.most[CST_COST_FLOPS] = 0.5;
    assert_int_equal(cst_select(f->context, &f->view, f->folds, FOLDS, &options, &selection, NULL),
                     CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(f->context), "cheapest has 1"));
    cst_selection_free(f->context, &selection);
}

static void same_path_for_any_threads(void **state) {
    fixture *f = *state;
    for (int direction = 0; direction < 3; direction++) {
        cst_select_options options = plain_options((cst_select_direction)direction);
        cst_selection first;
        assert_int_equal(cst_context_set_threads(f->context, 1), CST_OK);
        assert_int_equal(cst_select(f->context, &f->view, f->folds, FOLDS, &options, &first, NULL),
                         CST_OK);
        for (int threads = 2; threads <= 4; threads += 2) {
            cst_selection again;
            assert_int_equal(cst_context_set_threads(f->context, threads), CST_OK);
            assert_int_equal(
                cst_select(f->context, &f->view, f->folds, FOLDS, &options, &again, NULL), CST_OK);
            for (int32_t s = 0; s < MEMBERS; s++) {
                assert_true(first.path[s].loss == again.path[s].loss);
                assert_true(first.path[s].excess_se == again.path[s].excess_se);
                assert_memory_equal(first.path[s].members, again.path[s].members,
                                    (size_t)(s + 1) * sizeof(int32_t));
            }
            cst_selection_free(f->context, &again);
        }
        cst_selection_free(f->context, &first);
    }
}

int suite_select(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backward_removes_what_is_missed_least),
        cmocka_unit_test(weights_of_every_size_are_near_the_optimum),
        cmocka_unit_test(forward_adds_what_helps_most),
        cmocka_unit_test(held_out_losses_are_honest),
        cmocka_unit_test(rules_follow_their_arithmetic),
        cmocka_unit_test(few_rows_keep_more_members),
        cmocka_unit_test(caps_keep_no_size_that_a_smaller_one_beats),
        cmocka_unit_test(caps_hold),
        cmocka_unit_test(same_path_for_any_threads),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
