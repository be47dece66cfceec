/*
 * Prediction: the four stacks of tests/oracles/model.py against NumPy, a large random one against
 * the functions of the fit, and independence of threads, of blocks and of other callers.
 */
#include "model/predict.h"
#include "method/linear/linear.h"
#include "method/loglinear/loglinear.h"
#include "model/kernels.h"
#include "model_fixture.h"
#include "short_tests.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check.h"
#include "meta_rows.h"

static void input_of(int s, const float *members[MODEL_MEMBERS]) {
    bool values = STACK_DATA[s].task == CST_TASK_REGRESSION;
    size_t classes = values ? 1 : MODEL_CLASSES;
    for (size_t k = 0; k < MODEL_MEMBERS; k++)
        members[k] = (values ? model_values : model_input) + k * MODEL_ROWS * classes;
}

/* Float32 output of probabilities up to 1, and a gate whose layers are float32. */
static void assert_rows_close(const float *got, const double *expected, size_t count,
                              double tolerance) {
    double worst = 0;
    for (size_t i = 0; i < count; i++)
        worst = fmax(worst, fabs((double)got[i] - expected[i]));
    if (!(worst <= tolerance))
        fail_msg("differs by %g", worst);
}

static void stacks_agree_with_numpy(void **state) {
    cst_context *context = *state;
    for (int s = 0; s < STACKS; s++) {
        cst_model *model = build_stack(context, s);
        const float *members[MODEL_MEMBERS];
        input_of(s, members);
        size_t cells = (size_t)MODEL_ROWS * (size_t)model->classes;
        float out[MODEL_ROWS * MODEL_CLASSES];
        assert_int_equal(cst_model_predict(context, model, members, MODEL_ROWS, out), CST_OK);
        assert_rows_close(out, STACK_DATA[s].expected, cells, 5e-7);
        cst_view view = {.rows = MODEL_ROWS,
                         .classes = model->classes,
                         .members = MODEL_MEMBERS,
                         .data = members};
        for (int32_t l = 0; l < model->learners; l++) {
            assert_int_equal(cst_predict_with(context, model, l, &view, false, false, out), CST_OK);
            assert_rows_close(out, STACK_DATA[s].learner[l].expected, cells, 5e-7);
        }
        cst_model_free(context, model);
    }
}

static void the_loaded_model_predicts_the_same_bytes(void **state) {
    cst_context *context = *state;
    cst_model *built = build_stack(context, 0);
    cst_model *loaded = NULL;
    assert_int_equal(cst_model_load_memory(context, &loaded, model_file, sizeof model_file),
                     CST_OK);
    const float *members[MODEL_MEMBERS];
    input_of(0, members);
    float first[MODEL_ROWS * MODEL_CLASSES];
    float second[MODEL_ROWS * MODEL_CLASSES];
    assert_int_equal(cst_model_predict(context, built, members, MODEL_ROWS, first), CST_OK);
    assert_int_equal(cst_model_predict(context, loaded, members, MODEL_ROWS, second), CST_OK);
    assert_memory_equal(first, second, sizeof first);
    cst_model_free(context, built);
    cst_model_free(context, loaded);
}

/* ---- a larger stack ---- */

enum { MEMBERS = 6, HIDDEN = 16, ROWS = 1300 };

typedef struct large {
    cst_context *context;
    cst_model *model;
    int32_t classes;
    float *data; /* [MEMBERS][ROWS][classes] */
    const float *members[MEMBERS];
} large;

static void random_row(cst_rng *rng, int32_t classes, double sharpness, float *row) {
    double sum = 0;
    for (int32_t c = 0; c < classes; c++) {
        row[c] = (float)exp(sharpness * cst_rng_normal(rng));
        sum += (double)row[c];
    }
    for (int32_t c = 0; c < classes; c++)
        row[c] = (float)((double)row[c] / sum);
}

static double *random_doubles(cst_context *context, cst_scope *scope, cst_rng *rng, size_t count,
                              double scale) {
    double *values = cst_take(context, scope, count, sizeof *values);
    for (size_t i = 0; values && i < count; i++)
        values[i] = scale * cst_rng_normal(rng);
    return values;
}

static float *random_floats(cst_context *context, cst_scope *scope, cst_rng *rng, size_t count) {
    float *values = cst_take(context, scope, count, sizeof *values);
    for (size_t i = 0; values && i < count; i++)
        values[i] = (float)cst_rng_normal(rng);
    return values;
}

/* A ridge, a log-linear pool and a lasso on a learned gate. */
static large large_create(cst_context *context, int32_t classes) {
    large l = {.context = context, .classes = classes};
    cst_rng rng;
    cst_rng_init(&rng, 17, CST_STREAM_TEST, (uint32_t)classes);
    size_t width = (size_t)classes;
    l.data = malloc(MEMBERS * ROWS * width * sizeof *l.data);
    assert_non_null(l.data);
    for (size_t k = 0; k < MEMBERS; k++)
        for (size_t i = 0; i < ROWS; i++)
            random_row(&rng, classes, 0.5 + (double)k, l.data + (k * ROWS + i) * width);
    for (size_t k = 0; k < MEMBERS; k++)
        l.members[k] = l.data + k * ROWS * width;
    assert_int_equal(cst_stack_create(context, &l.model), CST_OK);
    cst_model *model = l.model;
    cst_scope *scope = &model->scope;
    model->classes = classes;
    model->members = MEMBERS;
    model->member_names = cst_take(context, scope, MEMBERS, sizeof *model->member_names);
    model->mix = cst_take(context, scope, MEMBERS, sizeof *model->mix);
    for (int k = 0; k < MEMBERS; k++) {
        model->member_names[k] = cst_take_format(context, scope, "net%d", k);
        model->mix[k] = pow(10, -1 - k);
    }
    model->gate = (cst_gate){
        .mode = CST_GATE_LEARNED, .inputs = MEMBERS, .hidden = HIDDEN, .best = MEMBERS - 1};
    model->gate.w1 = random_floats(context, scope, &rng, (size_t)HIDDEN * MEMBERS);
    model->gate.b1 = random_floats(context, scope, &rng, HIDDEN);
    model->gate.w2 = random_floats(context, scope, &rng, (size_t)CST_AGGREGATORS * HIDDEN);
    model->gate.b2 = random_floats(context, scope, &rng, CST_AGGREGATORS);
    const cst_learner_kind kinds[] = {CST_LEARNER_RIDGE, CST_LEARNER_LOGLINEAR, CST_LEARNER_LASSO};
    const double blend[] = {0.375, 0.5, 0.125};
    model->learners = 3;
    model->learner = cst_take(context, scope, 3, sizeof *model->learner);
    for (int m = 0; m < 3; m++) {
        bool linear = kinds[m] != CST_LEARNER_LOGLINEAR;
        int32_t coefficients = linear ? cst_design_columns(&model->gate) : MEMBERS;
        int32_t biases = linear ? 1 : classes;
        model->learner[m] = (cst_learner){
            .kind = kinds[m],
            .blend = blend[m],
            .coefficients = coefficients,
            .biases = biases,
            .weights = random_doubles(context, scope, &rng, (size_t)coefficients, 0.3),
            .bias = random_doubles(context, scope, &rng, (size_t)biases, linear ? 0.01 : 0.3)};
        for (int k = 0; k < MEMBERS; k++)
            model->learner[m].weights[k] = fabs(model->learner[m].weights[k]);
    }
    return l;
}

static void large_free(large *l) {
    cst_model_free(l->context, l->model);
    free(l->data);
}

static cst_view large_view(const large *l) {
    return (cst_view){.rows = ROWS, .classes = l->classes, .members = MEMBERS, .data = l->members};
}

/* One row by the functions that the fit uses. */
static void predict_slowly(const large *l, int64_t row, double *out) {
    const cst_model *model = l->model;
    size_t classes = (size_t)l->classes;
    const float *at[MEMBERS];
    int32_t active[MEMBERS];
    float *logs = malloc(classes * MEMBERS * sizeof *logs);
    double *scores = malloc(classes * sizeof *scores);
    assert_true(logs && scores);
    for (int32_t k = 0; k < MEMBERS; k++) {
        active[k] = k;
        at[k] = l->members[k] + (size_t)row * classes;
        for (size_t c = 0; c < classes; c++)
            logs[c * MEMBERS + (size_t)k] = cst_mixed_log(at[k][c], model->mix[k], l->classes);
    }
    memset(out, 0, classes * sizeof *out);
    for (int32_t m = 0; m < model->learners; m++) {
        const cst_learner *learner = &model->learner[m];
        if (learner->kind == CST_LEARNER_LOGLINEAR) {
            cst_loglinear_row(logs, l->classes, MEMBERS, active, MEMBERS, learner->weights,
                              learner->bias, scores);
        } else {
            cst_linear linear = {.columns = learner->coefficients,
                                 .coefficients = learner->weights,
                                 .intercept = learner->bias[0]};
            linear_scores(&model->gate, &linear, at, 1, l->classes, scores);
            cst_probability_rows(model->map, 1, l->classes, scores);
        }
        for (size_t c = 0; c < classes; c++)
            out[c] += learner->blend * scores[c];
    }
    free(logs);
    free(scores);
}

static void prediction_agrees_with_the_functions_of_the_fit(void **state) {
    const int32_t widths[] = {2, 10, 101, short_tests() ? 300 : 1000};
    for (int w = 0; w < 4; w++) {
        large l = large_create(*state, widths[w]);
        size_t classes = (size_t)l.classes;
        float *out = malloc(ROWS * classes * sizeof *out);
        double *expected = malloc(classes * sizeof *expected);
        assert_true(out && expected);
        cst_view view = large_view(&l);
        assert_int_equal(cst_stack_predict(l.context, l.model, &view, out), CST_OK);
        for (int64_t i = 0; i < ROWS; i += 61) {
            predict_slowly(&l, i, expected);
            assert_rows_close(out + (size_t)i * classes, expected, classes, 1e-7);
        }
        for (size_t i = 0; i < ROWS; i++) {
            double sum = 0;
            for (size_t c = 0; c < classes; c++) {
                assert_true(out[i * classes + c] > 0);
                sum += (double)out[i * classes + c];
            }
            assert_true(fabs(sum - 1) < 1e-6);
        }
        free(expected);
        free(out);
        large_free(&l);
    }
}

/* Threads, chunks, blocks, callers' checks and scattered rows change no byte. */
static void bytes_depend_on_the_row_alone(void **state) {
    cst_context *context = *state;
    large l = large_create(context, 37);
    size_t classes = (size_t)l.classes;
    size_t bytes = ROWS * classes * sizeof(float);
    float *first = malloc(bytes);
    float *again = malloc(bytes);
    int64_t *index = malloc(ROWS * sizeof *index);
    assert_true(first && again && index);
    cst_view view = large_view(&l);
    assert_int_equal(cst_context_set_threads(context, 1), CST_OK);
    assert_int_equal(cst_stack_predict(context, l.model, &view, first), CST_OK);
    for (int threads = 2; threads <= 8; threads++) {
        memset(again, 0, bytes);
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_model_predict(context, l.model, l.members, ROWS, again), CST_OK);
        assert_memory_equal(first, again, bytes);
    }
    for (int64_t i = 0; i < ROWS; i++)
        index[i] = (i * 7) % ROWS; /* 7 and ROWS have no common divisor: every row once */
    view.index = index;
    assert_int_equal(cst_stack_predict(context, l.model, &view, again), CST_OK);
    for (size_t i = 0; i < ROWS; i++)
        assert_memory_equal(again + i * classes, first + (size_t)index[i] * classes,
                            classes * sizeof *first);
    for (size_t i = 0; i < ROWS; i += 97) {
        const float *one[MEMBERS];
        for (int k = 0; k < MEMBERS; k++)
            one[k] = l.members[k] + i * classes;
        assert_int_equal(cst_model_predict(context, l.model, one, 1, again), CST_OK);
        assert_memory_equal(again, first + i * classes, classes * sizeof *first);
    }
    free(index);
    free(again);
    free(first);
    large_free(&l);
}

typedef struct caller {
    pthread_t thread;
    const large *l;
    int threads;
    float *out;
    cst_status status;
} caller;

static void *call(void *user) {
    caller *c = user;
    cst_context *context = NULL;
    c->status = cst_context_create(&context);
    if (c->status == CST_OK)
        c->status = cst_context_set_threads(context, c->threads);
    for (int round = 0; round < 3 && c->status == CST_OK; round++)
        c->status = cst_model_predict(context, c->l->model, c->l->members, ROWS, c->out);
    cst_context_free(context);
    return NULL;
}

static void threads_share_one_model(void **state) {
    enum { CALLERS = 6 };
    large l = large_create(*state, 19);
    size_t bytes = ROWS * 19 * sizeof(float);
    caller callers[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.l = &l, .threads = 1 + i % 2, .out = malloc(bytes)};
        assert_non_null(callers[i].out);
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        assert_int_equal(callers[i].status, CST_OK);
        assert_memory_equal(callers[i].out, callers[0].out, bytes);
    }
    for (int i = 0; i < CALLERS; i++)
        free(callers[i].out);
    large_free(&l);
}

static void a_learner_without_weight_changes_nothing(void **state) {
    large l = large_create(*state, 11);
    size_t bytes = ROWS * 11 * sizeof(float);
    float *first = malloc(bytes);
    float *again = malloc(bytes);
    assert_true(first && again);
    cst_view view = large_view(&l);
    l.model->learner[0].blend = 0;
    l.model->learner[1].blend = 1;
    l.model->learner[2].blend = 0;
    assert_int_equal(cst_stack_predict(l.context, l.model, &view, first), CST_OK);
    assert_int_equal(cst_predict_with(l.context, l.model, 1, &view, false, false, again), CST_OK);
    assert_memory_equal(first, again, bytes);
    for (int32_t j = 0; j < l.model->learner[0].coefficients; j++)
        l.model->learner[0].weights[j] = NAN; /* would show if it were multiplied by 0 */
    assert_int_equal(cst_stack_predict(l.context, l.model, &view, again), CST_OK);
    assert_memory_equal(first, again, bytes);
    free(first);
    free(again);
    large_free(&l);
}

/* ---- kernels ---- */

static void logarithms_are_those_of_the_log_table(void **state) {
    (void)state;
    enum { COUNT = 200000 };
    float *p = malloc(COUNT * sizeof *p);
    double *z = malloc(COUNT * sizeof *z);
    assert_true(p && z);
    cst_rng rng;
    cst_rng_init(&rng, 1, CST_STREAM_TEST, 1);
    static const double mixes[] = {1e-12, 1e-6, 1e-3, 0.1, 0.999};
    for (int m = 0; m < 5; m++) {
        for (int i = 0; i < COUNT; i++) {
            p[i] = (float)pow(10, -40 * cst_rng_uniform(&rng) * (i % 2));
            p[i] = i % 2 ? p[i] : (float)cst_rng_uniform(&rng);
            z[i] = 0;
        }
        p[0] = 0;
        p[1] = 1;
        p[2] = 0x1.6a09e4p-1F; /* the float below sqrt(1/2), and the one above */
        p[3] = 0x1.6a09e6p-1F;
        cst_add_mixed_logs(p, COUNT, mixes[m], 1000, 1, z);
        int different = 0;
        for (int i = 0; i < COUNT; i++) {
            float expected = cst_mixed_log(p[i], mixes[m], 1000);
            different += (float)z[i] != expected;
            /* One unit in the last place at most, where the exact value is near a half. */
            assert_true(fabs(z[i] - (double)expected) <= 1.2e-7 * fabs((double)expected));
        }
        assert_in_range(different, 0, 5);
    }
    free(p);
    free(z);
}

static void softmax_survives_extremes(void **state) {
    (void)state;
    for (int32_t classes = 1; classes <= 40; classes++) {
        double z[40];
        double expected[40];
        double total = 0;
        for (int32_t c = 0; c < classes; c++) {
            z[c] = 100 * sin((double)(c * c + classes)) - 1000;
            expected[c] = exp(z[c] + 1000 - 100);
            total += expected[c];
        }
        cst_softmax(classes, z);
        for (int32_t c = 0; c < classes; c++)
            assert_true(fabs(z[c] - expected[c] / total) <= 1e-13 * (expected[c] / total));
    }
    double far[] = {-1e31, 3e30, 1, -2e300, 0, 0, 0, 0, 7};
    cst_softmax(9, far);
    assert_true(far[1] == 1);
    for (int c = 0; c < 9; c++)
        assert_true(c == 1 || (far[c] >= 0 && far[c] < 1e-300));
}

/* ---- what callers may get wrong ---- */

static void assert_row_refused(cst_context *context, const cst_model *model,
                               const float *const *members, const char *fragment) {
    static float out[MODEL_ROWS * MODEL_CLASSES];
    for (int threads = 1; threads <= 3; threads++) {
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_model_predict(context, model, members, MODEL_ROWS, out),
                         CST_ERROR_INPUT);
        if (!strstr(cst_last_error(context), fragment))
            fail_msg("expected '%s' in: %s", fragment, cst_last_error(context));
    }
}

static void rows_that_are_not_probabilities_are_named(void **state) {
    cst_context *context = *state;
    cst_model *model = build_stack(context, 0);
    float changed[MODEL_ROWS * MODEL_CLASSES];
    const float *members[MODEL_MEMBERS];
    input_of(0, members);
    memcpy(changed, members[1], sizeof changed);
    members[1] = changed;
    float kept = changed[17 * MODEL_CLASSES + 2];
    changed[17 * MODEL_CLASSES + 2] = NAN;
    assert_row_refused(context, model, members, "member 'vit-b/16', row 17, class 2: ");
    changed[17 * MODEL_CLASSES + 2] = INFINITY;
    assert_row_refused(context, model, members, "row 17, class 2: the prediction is inf");
    changed[17 * MODEL_CLASSES + 2] = -3.5F;
    assert_row_refused(context, model, members, "-3.5 is not a probability; if these are logits");
    changed[17 * MODEL_CLASSES + 2] = kept + 0.0015F;
    assert_row_refused(context, model, members, "row 17: the probabilities sum to 1.0015");
    changed[17 * MODEL_CLASSES + 2] = kept;
    const float *missing[] = {members[0], NULL, members[2]};
    float out[MODEL_ROWS * MODEL_CLASSES];
    assert_int_equal(cst_model_predict(context, model, missing, MODEL_ROWS, out),
                     CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(context), "member 1, 'vit-b/16'"));
    assert_int_equal(cst_model_predict(context, model, members, -1, out), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_model_predict(context, NULL, members, 1, out), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_model_predict(context, model, members, INT64_MAX, out), CST_ERROR_LIMIT);
    assert_int_equal(cst_model_predict(context, model, members, 0, NULL), CST_OK);
    cst_view view = {.rows = 1, .classes = MODEL_CLASSES, .members = 2, .data = members};
    assert_int_equal(cst_stack_predict(context, model, &view, out), CST_ERROR_MISMATCH);
    cst_model_free(context, model);
    model = build_stack(context, 3);
    input_of(3, members);
    memcpy(changed, members[2], MODEL_ROWS * sizeof *changed);
    members[2] = changed;
    changed[4] = -INFINITY;
    assert_row_refused(context, model, members, "row 4, class 0: the prediction is -inf");
    cst_model_free(context, model);
}

/* Rows as float16 files give them, off by less than the tolerance, count as if divided by their
 * sums. */
static void nearly_normalised_rows_are_normalised(void **state) {
    cst_context *context = *state;
    large l = large_create(context, 23);
    size_t cells = ROWS * 23;
    float *off = malloc(cells * sizeof *off);
    float *exact = malloc(cells * sizeof *exact);
    float *first = malloc(cells * sizeof *first);
    float *again = malloc(cells * sizeof *again);
    assert_true(off && exact && first && again);
    for (size_t i = 0; i < cells; i++)
        off[i] = l.members[2][i] * (1 + 5e-4F * sinf((float)(i / 23)));
    size_t least = 23 * 5; /* the smallest of row 5, so that the sum hardly changes */
    for (size_t i = 23 * 5; i < 23 * 6; i++)
        least = off[i] < off[least] ? i : least;
    assert_true(off[least] < 1e-3F);
    off[least] = -5e-7F;
    for (size_t i = 0; i < ROWS; i++) {
        double sum = 0;
        for (size_t c = 0; c < 23; c++)
            sum += (double)fmaxf(off[i * 23 + c], 0);
        for (size_t c = 0; c < 23; c++)
            exact[i * 23 + c] = (float)((double)fmaxf(off[i * 23 + c], 0) / sum);
    }
    l.members[2] = off;
    assert_int_equal(cst_model_predict(context, l.model, l.members, ROWS, first), CST_OK);
    l.members[2] = exact;
    assert_int_equal(cst_model_predict(context, l.model, l.members, ROWS, again), CST_OK);
    for (size_t i = 0; i < cells; i++)
        assert_true(fabsf(first[i] - again[i]) <= 1e-6F);
    free(off);
    free(exact);
    free(first);
    free(again);
    large_free(&l);
}

/* ---- predictors ---- */

/* One sample, a few and all at once give the bytes of cst_model_predict, and no memory is asked
 * for. */
static void predictors_give_the_same_bytes_without_memory(void **state) {
    const int32_t widths[] = {2, 37, short_tests() ? 300 : 1000};
    (void)state;
    for (int w = 0; w < 3; w++) {
        flaky_heap heap = {.left = -1};
        cst_context *context = NULL;
        assert_int_equal(cst_context_create_with(&context, flaky_realloc, &heap), CST_OK);
        large l = large_create(context, widths[w]);
        size_t classes = (size_t)l.classes;
        float *expected = malloc(ROWS * classes * sizeof *expected);
        float *out = malloc(ROWS * classes * sizeof *out);
        cst_predictor *predictor = NULL;
        assert_true(expected && out);
        assert_int_equal(cst_model_predict(context, l.model, l.members, ROWS, expected), CST_OK);
        assert_int_equal(cst_predictor_create(context, &predictor, l.model), CST_OK);
        heap.left = 0; /* the next allocation fails */
        long live = heap.live;
        size_t least = short_tests() && widths[w] > 100 ? 65 : 1; /* rows a call */
        for (size_t step = least; step <= ROWS; step = step * 7 + 2) {
            memset(out, 0, ROWS * classes * sizeof *out);
            for (size_t i = 0; i < ROWS; i += step) {
                size_t count = ROWS - i < step ? ROWS - i : step;
                const float *at[MEMBERS];
                for (int k = 0; k < MEMBERS; k++)
                    at[k] = l.members[k] + i * classes;
                assert_int_equal(
                    cst_predictor_predict(predictor, at, (int64_t)count, out + i * classes),
                    CST_OK);
            }
            assert_memory_equal(out, expected, ROWS * classes * sizeof *out);
        }
        assert_string_equal(cst_predictor_error(predictor), "");
        assert_int_equal(cst_predictor_predict(predictor, l.members, ROWS, out), CST_OK);
        assert_memory_equal(out, expected, ROWS * classes * sizeof *out);
        assert_int_equal(heap.live, live);
        heap.left = -1;
        cst_predictor_free(context, predictor);
        cst_predictor_free(context, NULL);
        free(out);
        free(expected);
        large_free(&l);
        cst_context_free(context);
        assert_int_equal(heap.live, 0);
    }
}

typedef struct service {
    pthread_t thread;
    const large *l;
    cst_predictor *predictor;
    float *out;
    cst_status status;
} service;

/* Every thread walks over all samples, each from another one. */
static void *serve(void *user) {
    service *s = user;
    size_t classes = (size_t)s->l->classes;
    size_t start = (size_t)((uintptr_t)s->out / 64 % ROWS);
    for (size_t n = 0; n < ROWS && s->status == CST_OK; n++) {
        size_t i = (start + n) % ROWS;
        const float *at[MEMBERS];
        for (int k = 0; k < MEMBERS; k++)
            at[k] = s->l->members[k] + i * classes;
        s->status = cst_predictor_predict(s->predictor, at, 1, s->out + i * classes);
    }
    return NULL;
}

static void predictors_of_many_threads_share_one_model(void **state) {
    enum { SERVICES = 8, CLASSES = 53 };
    large l = large_create(*state, CLASSES);
    size_t bytes = ROWS * CLASSES * sizeof(float);
    float *expected = malloc(bytes);
    service services[SERVICES];
    assert_non_null(expected);
    assert_int_equal(cst_model_predict(l.context, l.model, l.members, ROWS, expected), CST_OK);
    for (int i = 0; i < SERVICES; i++) {
        services[i] = (service){.l = &l, .out = malloc(bytes)};
        assert_non_null(services[i].out);
        assert_int_equal(cst_predictor_create(l.context, &services[i].predictor, l.model), CST_OK);
    }
    for (int i = 0; i < SERVICES; i++)
        assert_int_equal(pthread_create(&services[i].thread, NULL, serve, &services[i]), 0);
    for (int i = 0; i < SERVICES; i++) {
        assert_int_equal(pthread_join(services[i].thread, NULL), 0);
        assert_int_equal(services[i].status, CST_OK);
        assert_memory_equal(services[i].out, expected, bytes);
        cst_predictor_free(l.context, services[i].predictor);
        free(services[i].out);
    }
    free(expected);
    large_free(&l);
}

static void predictors_refuse_what_models_refuse(void **state) {
    cst_context *context = *state;
    cst_model *model = build_stack(context, 0);
    cst_predictor *predictor = NULL;
    float changed[MODEL_ROWS * MODEL_CLASSES];
    float out[MODEL_ROWS * MODEL_CLASSES];
    float expected[MODEL_ROWS * MODEL_CLASSES];
    const float *members[MODEL_MEMBERS];
    input_of(0, members);
    memcpy(changed, members[1], sizeof changed);
    members[1] = changed;
    assert_int_equal(cst_predictor_create(context, &predictor, model), CST_OK);
    float kept = changed[17 * MODEL_CLASSES + 2];
    changed[17 * MODEL_CLASSES + 2] = -3.5F;
    assert_int_equal(cst_predictor_predict(predictor, members, MODEL_ROWS, out), CST_ERROR_INPUT);
    assert_non_null(
        strstr(cst_predictor_error(predictor), "member 'vit-b/16', row 17, class 2: -3.5"));
    changed[17 * MODEL_CLASSES + 2] = kept + 4e-4F; /* repaired, and the caller's rows left alone */
    assert_int_equal(cst_predictor_predict(predictor, members, MODEL_ROWS, out), CST_OK);
    assert_int_equal(cst_model_predict(context, model, members, MODEL_ROWS, expected), CST_OK);
    assert_memory_equal(out, expected, sizeof out);
    assert_true(changed[17 * MODEL_CLASSES + 2] == kept + 4e-4F);
    assert_int_equal(cst_predictor_predict(predictor, members, -1, out), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_predictor_predict(predictor, NULL, 1, out), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_predictor_predict(predictor, members, 1, NULL), CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_predictor_error(predictor), "cst_predictor_predict: "));
    assert_int_equal(cst_predictor_predict(predictor, members, INT64_MAX, out), CST_ERROR_LIMIT);
    assert_int_equal(cst_predictor_predict(predictor, NULL, 0, NULL), CST_OK);
    members[2] = NULL;
    assert_int_equal(cst_predictor_predict(predictor, members, 1, out), CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_predictor_error(predictor), "member 2, "));
    assert_int_equal(cst_predictor_predict(NULL, members, 1, out), CST_ERROR_ARGUMENT);
    assert_string_equal(cst_predictor_error(NULL), "");
    cst_predictor_free(context, predictor);
    assert_int_equal(cst_predictor_create(context, &predictor, NULL), CST_ERROR_ARGUMENT);
    assert_null(predictor);
    assert_int_equal(cst_predictor_create(context, NULL, model), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_predictor_create(NULL, &predictor, model), CST_ERROR_ARGUMENT);
    cst_model_free(context, model);
}

static void predictors_survive_failing_allocations(void **state) {
    (void)state;
    flaky_heap heap = {.left = -1};
    cst_context *context = NULL;
    assert_int_equal(cst_context_create_with(&context, flaky_realloc, &heap), CST_OK);
    large l = large_create(context, 3);
    long base = heap.live;
    int failures = 0;
    cst_predictor *predictor = NULL;
    for (long n = 0;; n++, failures++) {
        heap.left = n;
        cst_status status = cst_predictor_create(context, &predictor, l.model);
        heap.left = -1;
        if (status == CST_OK)
            break;
        assert_int_equal(status, CST_ERROR_MEMORY);
        assert_null(predictor);
        assert_int_equal(heap.live, base);
    }
    assert_in_range(failures, 5, 100);
    cst_predictor_free(context, predictor);
    large_free(&l);
    cst_context_free(context);
    assert_int_equal(heap.live, 0);
}

static int stop_at_once(void *user, const char *stage, int64_t done, int64_t total) {
    int *calls = user;
    (*calls)++;
    assert_string_equal(stage, "predict");
    assert_true(done <= total);
    return 1;
}

static void progress_may_stop_a_prediction(void **state) {
    cst_context *context = NULL;
    (void)state;
    assert_int_equal(cst_context_create(&context), CST_OK);
    int calls = 0;
    cst_context_set_progress(context, stop_at_once, &calls);
    large l = large_create(context, 2);
    float *out = malloc(ROWS * 2 * sizeof *out);
    assert_non_null(out);
    cst_view view = large_view(&l);
    assert_int_equal(cst_model_predict(context, l.model, l.members, ROWS, out),
                     CST_ERROR_CANCELLED);
    assert_int_equal(calls, 1);
    assert_int_equal(cst_stack_predict(context, l.model, &view, out), CST_OK); /* inside a fit */
    assert_int_equal(calls, 1);
    free(out);
    large_free(&l);
    cst_context_free(context);
}

static void failing_allocations_leave_nothing_behind(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        flaky_heap heap = {.left = -1};
        cst_context *context = NULL;
        assert_int_equal(cst_context_create_with(&context, flaky_realloc, &heap), CST_OK);
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        large l = large_create(context, 3);
        float *out = malloc(ROWS * 3 * sizeof *out);
        assert_non_null(out);
        /* The context keeps the threads that its first call starts. */
        assert_int_equal(cst_model_predict(context, l.model, l.members, ROWS, out), CST_OK);
        long base = heap.live;
        int failures = 0;
        for (long n = 0;; n++, failures++) {
            heap.left = n;
            cst_status status = cst_model_predict(context, l.model, l.members, ROWS, out);
            heap.left = -1;
            assert_int_equal(heap.live, base);
            if (status == CST_OK)
                break;
            assert_int_equal(status, CST_ERROR_MEMORY);
        }
        assert_in_range(failures, 4, 100);
        free(out);
        large_free(&l);
        cst_context_free(context);
        assert_int_equal(heap.live, 0);
    }
}

int suite_predict(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_agree_with_numpy),
        cmocka_unit_test(the_loaded_model_predicts_the_same_bytes),
        cmocka_unit_test(prediction_agrees_with_the_functions_of_the_fit),
        cmocka_unit_test(bytes_depend_on_the_row_alone),
        cmocka_unit_test(threads_share_one_model),
        cmocka_unit_test(a_learner_without_weight_changes_nothing),
        cmocka_unit_test(logarithms_are_those_of_the_log_table),
        cmocka_unit_test(softmax_survives_extremes),
        cmocka_unit_test(rows_that_are_not_probabilities_are_named),
        cmocka_unit_test(nearly_normalised_rows_are_normalised),
        cmocka_unit_test(predictors_give_the_same_bytes_without_memory),
        cmocka_unit_test(predictors_of_many_threads_share_one_model),
        cmocka_unit_test(predictors_refuse_what_models_refuse),
        cmocka_unit_test(predictors_survive_failing_allocations),
        cmocka_unit_test(progress_may_stop_a_prediction),
        cmocka_unit_test(failing_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
