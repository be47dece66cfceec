/*
 * The guard on arrays, on large batches and on a stream: what it leaves alone, when it acts, and
 * that a window is treated as a batch of the same rows.
 */
#include <corestack/more.h>

#include "check.h"
#include "data/pool/pool.h"
#include "model/guard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { K = 4, C = 3, FIT = 800, LARGE = 9000, WINDOW = 80 };

typedef struct drawn {
    float *member[K];
    int32_t *label;
} drawn;

static uint64_t seed = 1;

static double uniform(void) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void) {
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* Members see one signal, each with noise of its own. */
static drawn draw(int rows, double noise) {
    drawn d = {.label = malloc((size_t)rows * sizeof *d.label)};
    for (int k = 0; k < K; k++)
        d.member[k] = malloc((size_t)rows * C * sizeof(float));
    for (int i = 0; i < rows; i++) {
        double signal[C];
        d.label[i] = (int32_t)(uniform() * C);
        for (int c = 0; c < C; c++)
            signal[c] = (c == d.label[i] ? 3 : 0) + normal();
        for (int k = 0; k < K; k++) {
            double z[C];
            double sum = 0;
            for (int c = 0; c < C; c++)
                sum += z[c] = exp(signal[c] + (0.3 + 0.2 * k + noise) * normal());
            for (int c = 0; c < C; c++)
                d.member[k][i * C + c] = (float)(z[c] / sum);
        }
    }
    return d;
}

static void discard(drawn *d) {
    for (int k = 0; k < K; k++)
        free(d->member[k]);
    free(d->label);
}

static const char *const NAMES[K] = {"a", "b", "c", "d"};

/* A stack of two of the members; the others may come back. */
static cst_model *fitted(cst_context *context) {
    drawn d = draw(FIT, 0);
    cst_pool *pool = NULL;
    cst_options *options = NULL;
    cst_model *model = NULL;
    assert_int_equal(cst_pool_from_memory(context, &pool, "oof", (const float *const *)d.member,
                                          NAMES, K, FIT, C, d.label, CST_OUTPUT_PROBABILITY),
                     CST_OK);
    assert_int_equal(cst_options_create(context, &options), CST_OK);
    assert_int_equal(cst_options_set(context, options, "keep.max", "2"), CST_OK);
    assert_int_equal(cst_fit(context, pool, "oof", options, &model, NULL), CST_OK);
    assert_int_equal(cst_model_members(model), 2);
    assert_int_equal(cst_model_others(model), 2);
    assert_true(cst_model_has_guard(model));
    assert_null(cst_model_other_name(model, 2));
    cst_options_free(context, options);
    cst_pool_free(context, pool);
    discard(&d);
    return model;
}

/* The rows of the members that a model names, from row `first` on. */
static void pick(const cst_model *model, const drawn *d, int first, const float **kept,
                 const float **others) {
    for (int k = 0; k < K; k++) {
        for (int32_t m = 0; m < cst_model_members(model); m++)
            if (strcmp(cst_model_member_name(model, m), NAMES[k]) == 0)
                kept[m] = d->member[k] + first * C;
        for (int32_t m = 0; m < cst_model_others(model); m++)
            if (strcmp(cst_model_other_name(model, m), NAMES[k]) == 0)
                others[m] = d->member[k] + first * C;
    }
}

/* The guarded prediction of rows as a split of a pool of all members; *out is to be freed. */
static cst_guard_report *guard_rows(cst_context *context, const cst_model *model, const drawn *d,
                                    int first, int rows, const cst_guard *guard, float **out) {
    const float *members[K];
    cst_pool *pool = NULL;
    cst_guard_report *report = NULL;
    int64_t count = 0;
    for (int k = 0; k < K; k++)
        members[k] = d->member[k] + first * C;
    assert_int_equal(cst_pool_from_memory(context, &pool, "new", members, NAMES, K, rows, C, NULL,
                                          CST_OUTPUT_PROBABILITY),
                     CST_OK);
    assert_int_equal(
        cst_model_predict_guarded(context, model, pool, "new", guard, out, &count, &report),
        CST_OK);
    assert_int_equal(count, rows);
    cst_pool_free(context, pool);
    return report;
}

static void only_levels_of_what_is_unlike_are_all_measured(void **state) {
    cst_model *model = fitted(*state);
    const cst_guard guard = {.mode = CST_GUARD_AUTO};
    const cst_guard off = {.mode = CST_GUARD_OFF};
    size_t bytes = (size_t)LARGE * C * sizeof(float);
    for (int shifted = 0; shifted <= 1; shifted++) {
        drawn d = draw(LARGE, shifted ? 3 : 0);
        float *plain = NULL;
        float *out = NULL;
        assert_null(guard_rows(*state, model, &d, 0, LARGE, &off, &plain));
        cst_guard_report *report = guard_rows(*state, model, &d, 0, LARGE, &guard, &out);
        assert_int_equal(report->count, 1);
        assert_int_equal(report->fired, shifted);
        assert_int_equal(memcmp(plain, out, bytes) == 0, !shifted);
        assert_int_equal(report->members, shifted ? K : 0);
        for (int i = 0; i < LARGE; i++)
            assert_int_equal(isnan(report->level[i]) != 0, !shifted);
        cst_guard_report_free(*state, report);
        cst_free(*state, out);
        report = guard_rows(*state, model, &d, 0, LARGE, NULL, &out); /* which only warns */
        assert_int_equal(report->fired, shifted);
        assert_memory_equal(plain, out, bytes);
        cst_guard_report_free(*state, report);
        cst_free(*state, out);
        cst_free(*state, plain);
        discard(&d);
    }
    cst_model_free(*state, model);
}

static void a_window_is_a_batch_of_its_rows(void **state) {
    enum { CLEAN = 200, SHIFTED = 100, ROWS = CLEAN + SHIFTED };
    cst_model *model = fitted(*state);
    cst_predictor *predictor = NULL;
    drawn parts[2] = {draw(CLEAN, 0), draw(SHIFTED, 3)};
    drawn d = draw(ROWS, 0);
    float plain[ROWS * C];
    float out[ROWS * C];
    const float *kept[K];
    const float *others[K];
    cst_guard_batch found;
    for (int k = 0; k < K; k++) {
        memcpy(d.member[k], parts[0].member[k], CLEAN * C * sizeof(float));
        memcpy(d.member[k] + CLEAN * C, parts[1].member[k], SHIFTED * C * sizeof(float));
    }
    pick(model, &d, 0, kept, others);
    assert_int_equal(cst_predictor_create(*state, &predictor, model), CST_OK);
    assert_int_equal(cst_predictor_predict_guarded(predictor, kept, others, 1, out, NULL),
                     CST_ERROR_ARGUMENT); /* no window yet */
    assert_int_equal(cst_predictor_set_guard(predictor, 49), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_predictor_set_guard(predictor, WINDOW), CST_OK);
    assert_int_equal(cst_predictor_predict(predictor, kept, ROWS, plain), CST_OK);
    assert_int_equal(cst_predictor_predict_guarded(predictor, kept, others, CLEAN, out, &found),
                     CST_OK);
    assert_false(found.fired);
    assert_int_equal(found.rows, WINDOW);
    assert_int_equal(found.first, CLEAN - WINDOW);
    assert_memory_equal(plain, out, CLEAN * C * sizeof(float));
    for (int i = CLEAN; i < ROWS; i++) {
        pick(model, &d, i, kept, others);
        assert_int_equal(
            cst_predictor_predict_guarded(predictor, kept, others, 1, out + i * C, &found), CST_OK);
    }
    assert_true(found.fired);
    const cst_guard guard = {.mode = CST_GUARD_AUTO};
    float *last = NULL;
    cst_guard_report *report = guard_rows(*state, model, &d, ROWS - WINDOW, WINDOW, &guard, &last);
    const cst_guard_batch *batch = &report->batch[0];
    assert_true(batch->pi == found.pi);
    assert_close(batch->z, found.z, 1e-9);
    assert_close(batch->flatten, found.flatten, 1e-6);
    assert_close(batch->sharpen, found.sharpen, 1e-6);
    for (int c = 0; c < C; c++)
        assert_close((double)last[(WINDOW - 1) * C + c], (double)out[(ROWS - 1) * C + c], 1e-6);
    cst_guard_report_free(*state, report);
    cst_free(*state, last);

    static const int64_t none[] = {-1, INT64_MIN, INT64_MAX, (int64_t)1 << 53, (int64_t)1 << 59};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        cst_status refused =
            cst_predictor_predict_guarded(predictor, kept, others, none[i], out, &found);
        assert_true(refused == CST_ERROR_ARGUMENT || refused == CST_ERROR_LIMIT);
        assert_int_equal(cst_predictor_set_guard(predictor, none[i]), CST_ERROR_ARGUMENT);
    }
    float wrong[C] = {0.5F, 0.6F, 0.7F};
    others[0] = wrong;
    assert_int_equal(cst_predictor_predict_guarded(predictor, kept, others, 1, out, NULL),
                     CST_ERROR_INPUT);
    assert_int_equal(cst_predictor_predict_guarded(predictor, kept, NULL, 1, out, &found), CST_OK);
    assert_int_equal(cst_predictor_set_guard(predictor, 0), CST_OK);
    cst_predictor_free(*state, predictor);
    discard(&d);
    discard(&parts[0]);
    discard(&parts[1]);
    cst_model_free(*state, model);
}

/* Rows in flight: the order of members, sizes, what is refused, an answer at any time. */
static void rows_in_flight_stop_one_by_one(void **state) {
    static const int64_t none[] = {0, -1, INT64_MIN, INT64_MAX, (int64_t)1 << 32};
    static const char *const set[][2] = {
        {"cascade", "true"}, {"cascade.alpha", "0.1"}, {"cascade.loss", "1000"}};
    drawn d = draw(FIT, 0);
    cst_pool *pool = NULL;
    cst_options *options = NULL;
    cst_model *model = NULL;
    cst_predictor *predictor = NULL;
    cst_cascade *cascade = NULL;
    int64_t waiting[2];
    int32_t early = 0;
    float out[C];
    assert_int_equal(cst_pool_from_memory(*state, &pool, "oof", (const float *const *)d.member,
                                          NAMES, K, FIT, C, d.label, CST_OUTPUT_PROBABILITY),
                     CST_OK);
    assert_int_equal(cst_options_create(*state, &options), CST_OK);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        assert_int_equal(cst_options_set(*state, options, set[i][0], set[i][1]), CST_OK);
    assert_int_equal(cst_fit(*state, pool, "oof", options, &model, NULL), CST_OK);
    assert_int_equal(cst_model_has_cascade(model), 1);
    int32_t members = (int32_t)cst_model_members(model);
    assert_int_equal(cst_predictor_create(*state, &predictor, model), CST_OK);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(cst_cascade_create(*state, &cascade, predictor, none[i]),
                         CST_ERROR_ARGUMENT);
    assert_int_equal(cst_cascade_create(*state, &cascade, predictor, 2), CST_OK);
    assert_int_equal(cst_cascade_start(cascade, 2, 0), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_cascade_give(cascade, 0, out), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_cascade_next(cascade, 0), -1);
    for (int i = 0; i < FIT; i++) {
        int32_t ran = 0;
        assert_int_equal(cst_cascade_start(cascade, 1, 0), CST_OK);
        assert_int_equal(cst_cascade_answer(cascade, 1, out), 0);
        for (int32_t k = 0; (k = cst_cascade_next(cascade, 1)) >= 0; ran++) {
            const char *name = cst_model_member_name(model, k);
            assert_int_equal(cst_cascade_waiting(cascade, k, waiting), 1);
            assert_int_equal(waiting[0], 1);
            assert_int_equal(cst_cascade_give(cascade, 1, d.member[name[0] - 'a'] + i * C), CST_OK);
        }
        assert_int_equal(cst_cascade_answer(cascade, 1, out), ran);
        assert_close((double)out[0] + (double)out[1] + (double)out[2], 1, 1e-5);
        early += ran < members;
    }
    assert_true(early > FIT / 10);
    cst_cascade_free(*state, cascade);
    cst_predictor_free(*state, predictor);
    cst_model_free(*state, model);
    cst_options_free(*state, options);
    cst_pool_free(*state, pool);
    discard(&d);
}

int suite_guard(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_levels_of_what_is_unlike_are_all_measured),
        cmocka_unit_test(a_window_is_a_batch_of_its_rows),
        cmocka_unit_test(rows_in_flight_stop_one_by_one),
    };
    return cmocka_run_group_tests(tests, la_setup, la_teardown);
}
