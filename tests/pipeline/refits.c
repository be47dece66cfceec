/*
 * What a model keeps to do without members: solved again, linear learners are those that are fitted
 * to the other members at the same penalty; every way to predict gives the same bytes, a predictor
 * without memory.
 */
#include "fit/refits.h"

#include "model_fixture.h"

#include <corestack/more.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "data/pool/pool.h"
#include "meta_rows.h"
#include "predict_present.h"

enum { ROWS = 240, CLASSES = 3, MEMBERS = 5, PRESENT = 3 };

static const uint8_t THERE[MEMBERS] = {1, 0, 1, 1, 0};

/* ---- linear learners ---- */

/* Correlated columns and a target. */
static void draw(double *x, double *y) {
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 1);
    for (int i = 0; i < ROWS; i++) {
        double common = cst_rng_normal(&rng);
        y[i] = common + 0.3 * cst_rng_normal(&rng);
        for (int k = 0; k < MEMBERS; k++)
            x[i * MEMBERS + k] = 2 * k + (1 + k) * (common + 0.7 * cst_rng_normal(&rng));
    }
}

/* Of the columns that are there, fitted for themselves. */
static void fit_part(cst_context *context, const double *x, const double *y, cst_linear_kind kind,
                     double lambda, cst_linear *out) {
    double part[ROWS * PRESENT];
    cst_moments moments;
    cst_standardised s;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0, to = 0; k < MEMBERS; k++)
            if (THERE[k])
                part[i * PRESENT + to++] = x[i * MEMBERS + k];
    moments = moments_of_rows(context, ROWS, PRESENT, part, y, NULL, 1);
    assert_int_equal(cst_standardise(context, &moments, -1, &s), CST_OK);
    assert_int_equal(cst_linear_fit(context, &s, kind, lambda, 0.5, out), CST_OK);
    cst_standardised_free(context, &s);
    cst_moments_free(context, &moments);
}

/* A classification whose one learner is `linear`, with its refit. */
static cst_model *model_of(cst_context *context, const cst_standardised *s,
                           const cst_linear *linear) {
    cst_model *model = NULL;
    assert_int_equal(cst_stack_create(context, &model), CST_OK);
    model->classes = 2;
    model->members = MEMBERS;
    model->gate.inputs = MEMBERS;
    model->mix = cst_take(context, &model->scope, MEMBERS, sizeof *model->mix);
    model->member_names = cst_take(context, &model->scope, MEMBERS, sizeof *model->member_names);
    model->learner = cst_take(context, &model->scope, 1, sizeof *model->learner);
    model->learners = 1;
    model->learner[0] =
        (cst_learner){.kind = CST_LEARNER_RIDGE,
                      .blend = 1,
                      .coefficients = MEMBERS,
                      .biases = 1,
                      .weights = cst_take(context, &model->scope, MEMBERS, sizeof(double)),
                      .bias = cst_take(context, &model->scope, 1, sizeof(double))};
    for (int k = 0; k < MEMBERS; k++) /* with everybody there, the stack itself is read */
        model->learner[0].weights[k] = linear->coefficients[k];
    model->learner[0].bias[0] = linear->intercept;
    assert_int_equal(cst_refits_take(context, &model->scope, 1, &model->refits), CST_OK);
    assert_int_equal(cst_refits_add_linear(context, model->refits, s, linear, MEMBERS, 0), CST_OK);
    return model;
}

static void linear_learners_are_those_of_the_other_members(void **state) {
    cst_context *context = *state;
    static const cst_linear_kind kinds[] = {CST_LINEAR_RIDGE, CST_LINEAR_ELASTIC_NET,
                                            CST_LINEAR_LASSO};
    double x[ROWS * MEMBERS];
    double y[ROWS];
    cst_moments moments;
    cst_standardised s;
    draw(x, y);
    moments = moments_of_rows(context, ROWS, MEMBERS, x, y, NULL, 1);
    assert_int_equal(cst_standardise(context, &moments, -1, &s), CST_OK);
    for (int i = 0; i < 3; i++) {
        cst_linear whole;
        cst_linear part;
        cst_room room;
        assert_int_equal(cst_linear_fit(context, &s, kinds[i], 0.05, 0.5, &whole), CST_OK);
        fit_part(context, x, y, kinds[i], 0.05, &part);
        cst_model *model = model_of(context, &s, &whole);
        assert_int_equal(cst_room_make(context, model, &room), CST_OK);
        assert_int_equal(cst_room_fill(context, &room, THERE), CST_OK);
        assert_int_equal(room.model.members, PRESENT);
        assert_false(room.rescaled);
        for (int k = 0; k < PRESENT; k++)
            assert_true(fabs(room.model.learner[0].weights[k] - part.coefficients[k]) < 1e-9);
        assert_true(fabs(room.model.learner[0].bias[0] - part.intercept) < 1e-9);
        const uint8_t everybody[MEMBERS] = {1, 1, 1, 1, 1};
        assert_int_equal(cst_room_fill(context, &room, everybody), CST_OK);
        for (int k = 0; k < MEMBERS; k++)
            assert_true(fabs(room.model.learner[0].weights[k] - whole.coefficients[k]) < 1e-9);
        cst_room_free(&room);
        cst_model_free(context, model);
        cst_linear_free(context, &whole);
        cst_linear_free(context, &part);
    }
    cst_standardised_free(context, &s);
    cst_moments_free(context, &moments);
}

/* ---- every way to predict ---- */

typedef struct world {
    float data[MEMBERS][ROWS * CLASSES];
    const float *members[MEMBERS];
    int32_t labels[ROWS];
} world;

static void make_world(world *w) {
    cst_rng rng;
    cst_rng_init(&rng, 9, CST_STREAM_TEST, 2);
    for (int i = 0; i < ROWS; i++) {
        w->labels[i] = (int32_t)cst_rng_below(&rng, CLASSES);
        for (int k = 0; k < MEMBERS; k++) {
            float *row = w->data[k] + i * CLASSES;
            double sum = 0;
            for (int c = 0; c < CLASSES; c++) {
                double z = cst_rng_normal(&rng) + (c == w->labels[i] ? 1 + 0.2 * k : 0);
                row[c] = (float)exp(z);
                sum += (double)row[c];
            }
            for (int c = 0; c < CLASSES; c++)
                row[c] = (float)((double)row[c] / sum);
        }
    }
    for (int k = 0; k < MEMBERS; k++)
        w->members[k] = w->data[k];
}

static cst_model *fit(cst_context *context, const world *w, const char *learners) {
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    cst_pool *pool = NULL;
    cst_options *options = NULL;
    cst_model *model = NULL;
    assert_int_equal(cst_pool_from_memory(context, &pool, "oof", w->members, names, MEMBERS, ROWS,
                                          CLASSES, w->labels, CST_OUTPUT_PROBABILITY),
                     CST_OK);
    assert_int_equal(cst_options_create(context, &options), CST_OK);
    assert_int_equal(cst_options_set(context, options, "select.direction", "none"), CST_OK);
    assert_int_equal(cst_options_set(context, options, "redundancy.measure", "none"), CST_OK);
    assert_int_equal(cst_options_set(context, options, "keep.fraction", "1"), CST_OK);
    assert_int_equal(cst_options_set(context, options, "meta.learners", learners), CST_OK);
    assert_int_equal(cst_fit(context, pool, "oof", options, &model, NULL), CST_OK);
    cst_options_free(context, options);
    cst_pool_free(context, pool);
    return model;
}

static void every_way_gives_the_same_bytes(void **state) {
    static world w;
    flaky_heap heap = {.left = -1};
    cst_context *context = NULL;
    (void)state;
    assert_int_equal(cst_context_create_with(&context, flaky_realloc, &heap), CST_OK);
    make_world(&w);
    cst_model *model = fit(context, &w, "ridge,lasso,log-linear");
    assert_int_equal(cst_model_members(model), MEMBERS);
    float expected[ROWS * CLASSES];
    float out[ROWS * CLASSES];
    const float *gaps[MEMBERS];
    for (int k = 0; k < MEMBERS; k++)
        gaps[k] = THERE[k] ? w.members[k] : NULL;
    assert_int_equal(predict_present(context, model, gaps, THERE, ROWS, expected), CST_OK);
    void *bytes = NULL;
    size_t size = 0;
    cst_model *loaded = NULL;
    assert_int_equal(cst_model_save_memory(context, model, &bytes, &size), CST_OK);
    assert_int_equal(cst_model_load_memory(context, &loaded, bytes, size), CST_OK);
    assert_int_equal(predict_present(context, loaded, gaps, THERE, ROWS, out), CST_OK);
    assert_memory_equal(out, expected, sizeof out);
    cst_predictor *predictor = NULL;
    assert_int_equal(cst_predictor_create(context, &predictor, model), CST_OK);
    static double wide[MEMBERS][CLASSES][ROWS]; /* columns, one after another */
    cst_array arrays[MEMBERS];
    for (int k = 0; k < MEMBERS; k++) {
        for (int i = 0; i < ROWS * CLASSES; i++)
            wide[k][i % CLASSES][i / CLASSES] = (double)w.members[k][i];
        arrays[k] = (cst_array){wide[k], CST_NUMBER_FLOAT64, sizeof(double), sizeof wide[k][0]};
    }
    float whole[ROWS * CLASSES];
    float converted[ROWS * CLASSES];
    assert_int_equal(cst_predictor_predict_arrays(predictor, arrays, ROWS, converted), CST_OK);
    heap.left = 0; /* the next allocation fails */
    assert_int_equal(cst_predictor_predict(predictor, w.members, ROWS, whole), CST_OK);
    assert_memory_equal(converted, whole, sizeof whole);
    static const uint16_t half[CLASSES] = {0x3c00}; /* 1, 0, 0, ... */
    static const float certain[CLASSES] = {1};
    const float *same[MEMBERS];
    for (int k = 0; k < MEMBERS; k++) {
        same[k] = certain;
        arrays[k] = (cst_array){half, CST_NUMBER_FLOAT16, 0, sizeof half[0]};
    }
    assert_int_equal(cst_predictor_predict_arrays(predictor, arrays, ROWS, converted), CST_OK);
    assert_int_equal(cst_predictor_predict(predictor, same, 1, out), CST_OK);
    assert_memory_equal(converted + (ROWS - 1) * CLASSES, out, CLASSES * sizeof *out);
    arrays[1].type = (cst_number)7;
    assert_int_equal(cst_predictor_predict_arrays(predictor, arrays, ROWS, converted),
                     CST_ERROR_ARGUMENT);
    for (int i = 0; i < ROWS; i += 2) {
        const float *at[MEMBERS];
        for (int k = 0; k < MEMBERS; k++)
            at[k] = THERE[k] ? w.members[k] + i * CLASSES : NULL;
        assert_int_equal(cst_predictor_predict_present(predictor, at, THERE, 2, out + i * CLASSES),
                         CST_OK);
    }
    assert_memory_equal(out, expected, sizeof out);
    assert_int_equal(cst_predictor_predict_present(predictor, w.members, NULL, ROWS, out), CST_OK);
    assert_memory_equal(out, whole, sizeof out);
    assert_true(memcmp(out, expected, sizeof out) != 0);
    const uint8_t nobody[MEMBERS] = {0};
    assert_int_equal(cst_predictor_predict_present(predictor, gaps, nobody, ROWS, out),
                     CST_ERROR_INPUT);
    assert_non_null(strstr(cst_predictor_error(predictor), "every member of the model is absent"));
    assert_int_equal(cst_predictor_predict_present(predictor, gaps, NULL, ROWS, out),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(cst_predictor_predict_present(predictor, gaps, THERE, ROWS, out), CST_OK);
    assert_memory_equal(out, expected, sizeof out);
    heap.left = -1;
    cst_predictor_free(context, predictor);
    cst_model_free(context, loaded);
    cst_model_free(context, model);
    cst_free(context, bytes);
    cst_context_free(context);
    assert_int_equal(heap.live, 0);
}

int suite_refits(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(linear_learners_are_those_of_the_other_members,
                                        context_setup, context_teardown),
        cmocka_unit_test(every_way_gives_the_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
