/*
 * Models of any method: predictions are those of the same method in a comparison, files survive a
 * round trip, and damaged ones are refused.
 */
#include "fit/method.h"
#include "model/codec.h"
#include "model/stack.h"

#include <corestack/fit.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"
#include "data/pool/pool.h"
#include "predict_present.h"

enum { ROWS = 90, CLASSES = 3, MEMBERS = 4, LARGEST = 64 * 1024 };

static float predictions[MEMBERS][ROWS * CLASSES];
static int32_t labels[ROWS];

static const char *const METHODS[] = {"best-single",
                                      "average",
                                      "performance-weighted",
                                      "ridge",
                                      "lasso",
                                      "elastic-net",
                                      "greedy",
                                      "minimum-variance",
                                      "log-linear",
                                      "mlp",
                                      "hill-climbing",
                                      "autogluon",
                                      "average+vector",
                                      "average+isotonic",
                                      "greedy+platt",
                                      "ridge+temperature",
                                      "default+temperature"};
enum { METHOD_COUNT = sizeof METHODS / sizeof METHODS[0] };

static cst_pool *make_pool(cst_context *context) {
    static const char *const names[MEMBERS] = {"a", "b", "c", "d"};
    const float *data[MEMBERS];
    cst_pool *pool = NULL;
    cst_rng rng;
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 0);
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % CLASSES;
        for (int k = 0; k < MEMBERS; k++) {
            float *row = predictions[k] + (ptrdiff_t)i * CLASSES;
            double sum = 0;
            for (int c = 0; c < CLASSES; c++)
                sum += row[c] =
                    (float)exp(cst_rng_normal(&rng) + (c == labels[i] ? 0.5 + 0.3 * k : 0));
            for (int c = 0; c < CLASSES; c++)
                row[c] = (float)((double)row[c] / sum);
        }
    }
    for (int k = 0; k < MEMBERS; k++)
        data[k] = predictions[k];
    assert_int_equal(cst_pool_from_memory(context, &pool, "oof", data, names, MEMBERS, ROWS,
                                          CLASSES, labels, CST_OUTPUT_PROBABILITY),
                     CST_OK);
    return pool;
}

/* Every kind of meta-learner of a blend, all of them with a weight. */
static cst_status fit_blend(cst_context *context, cst_pool *pool, cst_model **model) {
    static const char *const set[][2] = {
        {"meta.learners", "log-linear,temperature+log-linear,vector+log-linear,logistic,"
                          "best-single+temperature,average+vector,ridge+temperature"},
        {"blend.rule", "uniform"},
        {"select.direction", "none"},
        {"evaluate.nested", "false"}};
    cst_options *options = NULL;
    cst_status status = cst_options_create(context, &options);
    for (size_t i = 0; i < sizeof set / sizeof set[0] && status == CST_OK; i++)
        status = cst_options_set(context, options, set[i][0], set[i][1]);
    if (status == CST_OK)
        status = cst_fit(context, pool, "oof", options, model, NULL);
    cst_options_free(context, options);
    return status;
}

static cst_model *fit(cst_context *context, cst_pool *pool, const char *method) {
    cst_model *model = NULL;
    cst_status status = strcmp(method, "blend") == 0
                            ? fit_blend(context, pool, &model)
                            : cst_fit_method(context, pool, "oof", method, NULL, &model, NULL);
    if (status != CST_OK)
        fail_msg("%s: %s", method, cst_last_error(context));
    return model;
}

/* What a comparison has the method predict of these rows. */
static void compare(cst_context *context, cst_pool *pool, const char *name, float *out) {
    cst_training source;
    cst_method method;
    cst_method_fit fitted;
    assert_int_equal(
        cst_training_open(context, pool, "oof", &(cst_fold_plan){.count = 5}, 0, &source), CST_OK);
    assert_int_equal(cst_method_parse(context, name, 0, NULL, 0, &method), CST_OK);
    assert_int_equal(cst_method_fit_run(context, &method, &source, 0, &fitted), CST_OK);
    assert_int_equal(cst_method_fit_predict(context, &fitted, &source.view, out), CST_OK);
    cst_method_fit_free(context, &fitted);
    cst_training_close(context, &source);
}

static void rows_of(const cst_model *model, const float *inputs[MEMBERS]) {
    for (int32_t k = 0; k < cst_model_members(model); k++)
        inputs[k] = predictions[cst_model_member_name(model, k)[0] - 'a'];
}

static void predictions_are_those_of_the_comparison(void **state) {
    cst_context *context = *state;
    cst_pool *pool = make_pool(context);
    static float out[2][ROWS * CLASSES];
    static float told[ROWS * CLASSES];
    for (int m = 0; m < METHOD_COUNT; m++) {
        const float *inputs[MEMBERS];
        cst_model *model = fit(context, pool, METHODS[m]);
        cst_predictor *predictor = NULL;
        compare(context, pool, METHODS[m], told);
        rows_of(model, inputs);
        assert_int_equal(cst_model_predict(context, model, inputs, ROWS, out[0]), CST_OK);
        for (int i = 0; i < ROWS * CLASSES; i++)
            if (!(fabsf(out[0][i] - told[i]) <= 1e-6F))
                fail_msg("%s: %g instead of %g", METHODS[m], (double)out[0][i], (double)told[i]);
        assert_int_equal(cst_predictor_create(context, &predictor, model), CST_OK);
        assert_int_equal(cst_predictor_predict(predictor, inputs, ROWS, out[1]), CST_OK);
        assert_memory_equal(out[0], out[1], sizeof out[0]);
        cst_predictor_free(context, predictor);
        cst_model_free(context, model);
    }
    cst_pool_free(context, pool);
}

/* Softmax of scores, in place. */
static void softmax(double row[CLASSES]) {
    double sum = 0;
    for (int c = 0; c < CLASSES; c++)
        sum += row[c] = exp(row[c]);
    for (int c = 0; c < CLASSES; c++)
        row[c] /= sum;
}

/* A map of kind temperature or vector. */
static void map_row(const cst_calibrator *map, double row[CLASSES]) {
    for (int c = 0; c < CLASSES; c++) {
        row[c] = log(fmax(row[c], 1e-15));
        row[c] = map->kind == CST_CALIBRATOR_VECTOR ? map->slopes[c] * row[c] + map->intercepts[c]
                                                    : row[c] / map->temperature;
    }
    softmax(row);
}

/* What one meta-learner of a blend says of a sample. */
static void say(const cst_model *model, const cst_learner *learner, const float *const *inputs,
                int sample, double out[CLASSES]) {
    const cst_learner_own *own = learner->own;
    for (int c = 0; c < CLASSES; c++)
        out[c] = learner->bias[learner->kind == CST_LEARNER_LOGLINEAR ? c : 0];
    for (int k = 0; k < model->members; k++) {
        double row[CLASSES];
        for (int c = 0; c < CLASSES; c++)
            row[c] = (double)inputs[k][sample * CLASSES + c];
        if (own && own->scaling)
            map_row(&own->scaling[k], row);
        double mix = own && own->mix ? own->mix[k] : model->mix[k];
        for (int c = 0; c < CLASSES; c++) {
            double column = learner->kind != CST_LEARNER_LOGLINEAR ? row[c]
                            : own && own->linear > 0               ? own->linear * row[c]
                                                     : log((1 - mix) * row[c] + mix / CLASSES);
            out[c] += learner->weights[k] * column;
        }
    }
    double sum = 0;
    if (learner->kind == CST_LEARNER_LOGLINEAR) {
        softmax(out);
    } else {
        for (int c = 0; c < CLASSES; c++)
            sum += out[c] = fmin(fmax(out[c], 0), 1);
        for (int c = 0; c < CLASSES; c++)
            out[c] /= sum;
    }
    if (own && own->calibrator.kind != CST_CALIBRATOR_NONE)
        map_row(&own->calibrator, out);
}

static void blends_are_mixtures_of_their_learners(void **state) {
    cst_context *context = *state;
    cst_pool *pool = make_pool(context);
    static float out[2][ROWS * CLASSES];
    const float *inputs[MEMBERS];
    cst_predictor *predictor = NULL;
    cst_model *model = fit(context, pool, "blend");
    assert_int_equal(model->learners, 7);
    assert_int_equal(model->members, MEMBERS);
    rows_of(model, inputs);
    assert_int_equal(cst_model_predict(context, model, inputs, ROWS, out[0]), CST_OK);
    for (int i = 0; i < ROWS; i++) {
        double mixture[CLASSES] = {0};
        for (int l = 0; l < model->learners; l++) {
            double row[CLASSES];
            say(model, &model->learner[l], inputs, i, row);
            for (int c = 0; c < CLASSES; c++)
                mixture[c] += model->learner[l].blend * row[c];
        }
        for (int c = 0; c < CLASSES; c++)
            assert_true(fabs((double)out[0][i * CLASSES + c] - mixture[c]) < 1e-6);
    }
    assert_int_equal(cst_predictor_create(context, &predictor, model), CST_OK);
    for (int i = 0; i < ROWS; i++) { /* one by one, as a service does */
        const float *row[MEMBERS];
        for (int k = 0; k < MEMBERS; k++)
            row[k] = inputs[k] + (ptrdiff_t)i * CLASSES;
        assert_int_equal(cst_predictor_predict(predictor, row, 1, out[1] + (ptrdiff_t)i * CLASSES),
                         CST_OK);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    cst_predictor_free(context, predictor);
    cst_model_free(context, model);
    cst_pool_free(context, pool);
}

static void files_survive_a_round_trip(void **state) {
    cst_context *context = *state;
    cst_pool *pool = make_pool(context);
    static float out[2][ROWS * CLASSES];
    for (int m = 0; m <= METHOD_COUNT; m++) {
        const float *inputs[MEMBERS];
        cst_model *model = fit(context, pool, m < METHOD_COUNT ? METHODS[m] : "blend");
        cst_model *again = NULL;
        void *bytes[2] = {NULL, NULL};
        size_t size[2] = {0, 0};
        assert_int_equal(cst_model_save_memory(context, model, &bytes[0], &size[0]), CST_OK);
        assert_int_equal(cst_model_load_memory(context, &again, bytes[0], size[0]), CST_OK);
        assert_int_equal(cst_model_save_memory(context, again, &bytes[1], &size[1]), CST_OK);
        assert_int_equal(size[0], size[1]);
        assert_memory_equal(bytes[0], bytes[1], size[0]);
        rows_of(model, inputs);
        assert_int_equal(cst_model_predict(context, model, inputs, ROWS, out[0]), CST_OK);
        assert_int_equal(cst_model_predict(context, again, inputs, ROWS, out[1]), CST_OK);
        assert_memory_equal(out[0], out[1], sizeof out[0]);
        cst_free(context, bytes[0]);
        cst_free(context, bytes[1]);
        cst_model_free(context, again);
        cst_model_free(context, model);
    }
    cst_pool_free(context, pool);
}

/* A mixture without a member is that of the others, and goes through the same map. */
static void members_may_be_absent(void **state) {
    cst_context *context = *state;
    cst_pool *pool = make_pool(context);
    static float out[ROWS * CLASSES];
    static const uint8_t present[MEMBERS] = {1, 0, 1, 1};
    const float *inputs[MEMBERS];
    cst_model *model = fit(context, pool, "average+temperature");
    rows_of(model, inputs);
    assert_int_equal(predict_present(context, model, inputs, present, ROWS, out), CST_OK);
    double t = model->calibrator.temperature;
    for (int i = 0; i < ROWS; i++) {
        double row[CLASSES];
        double sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            double mean = 0;
            for (int k = 0; k < MEMBERS; k++)
                mean += present[k] ? (double)inputs[k][i * CLASSES + c] / 3 : 0;
            sum += row[c] = pow(mean, 1 / t);
        }
        for (int c = 0; c < CLASSES; c++)
            assert_true(fabs((double)out[i * CLASSES + c] - row[c] / sum) < 1e-6);
    }
    cst_model_free(context, model);
    model = fit(context, pool, "mlp");
    assert_int_equal(predict_present(context, model, inputs, present, ROWS, out),
                     CST_ERROR_UNSUPPORTED);
    assert_non_null(strstr(cst_last_error(context), "neural network of all members"));
    cst_model_free(context, model);
    cst_pool_free(context, pool);
}

/* ---- damage ---- */

static void store(uint8_t *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t bits_of(double value) {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void sign(uint8_t *file, size_t size) {
    store(file + 16, size, 8);
    store(file + size - 4, cst_crc32c(file, size - 4), 4);
}

static size_t file_of(cst_context *context, cst_pool *pool, const char *method, uint8_t *file) {
    cst_model *model = fit(context, pool, method);
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(cst_stack_encode(context, model, &bytes, &size), CST_OK);
    assert_true(size <= LARGEST);
    memcpy(file, bytes, size);
    cst_free(context, bytes);
    cst_model_free(context, model);
    return size;
}

static size_t section_at(const uint8_t *file, size_t size, const char *tag) {
    size_t at = CST_MODEL_HEADER_BYTES;
    while (memcmp(file + at, tag, 4) != 0) {
        uint64_t length = 0;
        memcpy(&length, file + at + 8, 8);
        at += CST_MODEL_SECTION_BYTES + (size_t)length;
        assert_true(at < size - 4);
    }
    return at;
}

typedef struct patch {
    const char *method;
    const char *tag;
    size_t at; /* in the payload */
    int bytes;
    uint64_t value;
    const char *fragment;
} patch;

/* Payload of OWNS: the parts of meta-learner 1, temperature+log-linear, after those of learner 0,
 * which has none. */
enum {
    OWN_1 = 4 + 4 + 4,
    OWN_MAP = OWN_1 + 4 + sizeof "temperature+log-linear" - 1,
    OWN_LINEAR = OWN_MAP + 8 + 8 * MEMBERS
};

static void impossible_contents_are_refused(void **state) {
    cst_context *context = *state;
    cst_pool *pool = make_pool(context);
    static uint8_t file[LARGEST];
    const patch patches[] = {
        {"autogluon", "CALI", 0, 4, 5, "the kind of calibration map is 5"},
        {"autogluon", "CALI", 4, 8, bits_of(0), "the temperature is 0"},
        {"autogluon", "CALI", 4, 8, bits_of(NAN), "the temperature is nan"},
        {"autogluon", "CALI", 0, 4, 2, "3 classes of a map are declared, but 8 bytes are left"},
        {"autogluon", "CALI", 0, 4, 0, "8 bytes are left over in section CALI"},
        {"average+vector", "CALI", 4, 8, bits_of(INFINITY), "a slope of a calibration map is inf"},
        {"average+vector", "CALI", 28, 8, bits_of(1e13), "an intercept of a calibration map"},
        {"average+isotonic", "CALI", 4, 4, 0, "isotonic map 0 has no knots"},
        {"average+isotonic", "CALI", 4, 4, UINT32_MAX, "numbers are declared, but"},
        {"average+isotonic", "CALI", 8, 8, bits_of(2), "not in ascending order"},
        {"average", "LEAR", 0, 4, 4, "the map from scores to probabilities is 4"},
        {"average", "LEAR", 28, 8, bits_of(-1), "meta-learner 0 is no mixture"},
        {"average", "LEAR", 28, 8, bits_of(0.5), "meta-learner 0 is no mixture"},
        {"average", "LEAR", 28 + 8 * MEMBERS, 8, bits_of(0.1), "meta-learner 0 is no mixture"},
        {"average", "LEAR", 8, 4, 5, "meta-learner 0 is a network, but section NETW is missing"},
        {"blend", "OWNS", 0, 4, 0, "the number of meta-learners is 0"},
        {"blend", "OWNS", 0, 4, 6, "left over in section OWNS"},
        {"blend", "OWNS", 0, 4, 8, "4 bytes are declared, but 0 are left"},
        {"blend", "OWNS", 0, 4, INT32_MAX, "meta-learners are declared"},
        {"blend", "OWNS", 4, 4, 2, "whether a meta-learner has parts of its own is 2"},
        {"blend", "OWNS", OWN_1, 4, UINT32_MAX, "are declared, but"},
        {"blend", "OWNS", OWN_1, 4, 0, "name of a meta-learner"},
        {"blend", "OWNS", OWN_1 + 4, 1, 0xff, "UTF-8"},
        {"blend", "OWNS", OWN_MAP, 4, 9, "the map from scores to probabilities is 9"},
        {"blend", "OWNS", OWN_MAP + 4, 4, 2, "whether a meta-learner has a mixing is 2"},
        {"blend", "OWNS", OWN_MAP + 8, 8, bits_of(0), "a share of the uniform distribution is 0"},
        {"blend", "OWNS", OWN_MAP + 8, 8, bits_of(1), "a share of the uniform distribution is 1"},
        {"blend", "OWNS", OWN_MAP + 8, 8, bits_of(NAN), "a share of the uniform distribution is"},
        {"blend", "OWNS", OWN_LINEAR, 8, bits_of(-1), "the factor of probabilities is -1"},
        {"blend", "OWNS", OWN_LINEAR, 8, bits_of(INFINITY), "the factor of probabilities is inf"},
        {"blend", "OWNS", OWN_LINEAR + 8, 4, 2, "whether members are scaled is 2"},
        {"blend", "OWNS", OWN_LINEAR + 12, 4, 0, "neither a temperature nor vector scaling"},
        {"blend", "OWNS", OWN_LINEAR + 12, 4, 5, "the kind of calibration map is 5"},
        {"blend", "OWNS", OWN_LINEAR + 16, 8, bits_of(0), "the temperature is 0"},
        {"blend", "OWNS", OWN_LINEAR + 16, 8, bits_of(NAN), "the temperature is nan"},
        {"blend", "LEAR", 4, 4, 6, "there are 6 meta-learners, but 7 in section OWNS"},
        {"mlp", "NETW", 0, 4, 0, "the number of hidden units is 0"},
        {"mlp", "NETW", 0, 4, 1 << 16, "numbers of a network are declared"},
        {"mlp", "NETW", 0, 4, 63, "left over in section NETW"},
        {"mlp", "NETW", 4, 8, bits_of(NAN), "the mean of an input is nan"},
        {"mlp", "NETW", 4 + 8 * MEMBERS * CLASSES, 8, bits_of(0), "the scale of an input is 0"},
        {"mlp", "LEAR", 8, 4, 0, "meta-learner 0 has 0 coefficients instead of 4"},
        {"mlp", "LEAR", 12, 4, 1, "meta-learner 0 has 1 coefficients instead of 0"},
    };
    for (size_t i = 0; i < sizeof patches / sizeof patches[0]; i++) {
        const patch *p = &patches[i];
        size_t size = file_of(context, pool, p->method, file);
        size_t at = section_at(file, size, p->tag) + CST_MODEL_SECTION_BYTES + p->at;
        cst_model *model = NULL;
        store(file + at, p->value, p->bytes);
        sign(file, size);
        assert_int_equal(cst_stack_decode(context, "m", file, size, &model), CST_ERROR_FORMAT);
        if (!strstr(cst_last_error(context), p->fragment))
            fail_msg("'%s' is not in: %s", p->fragment, cst_last_error(context));
    }
    cst_pool_free(context, pool);
}

/* An earlier version stops at the first section that it does not know. */
static void earlier_versions_refuse_what_they_do_not_know(void **state) {
    cst_context *context = *state;
    cst_pool *pool = make_pool(context);
    static uint8_t file[LARGEST];
    static const char *const with[][2] = {{"average", "CALI"},
                                          {"autogluon", "CALI"},
                                          {"hill-climbing", "CALI"},
                                          {"mlp", "NETW"},
                                          {"blend", "OWNS"}};
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++) {
        size_t size = file_of(context, pool, with[i][0], file);
        size_t at = section_at(file, size, with[i][1]);
        assert_true(at < section_at(file, size, "LEAR"));
        assert_int_equal(file[at + 4], CST_MODEL_REQUIRED);
        cst_model *model = NULL;
        memcpy(file + at, "WXYZ", 4);
        sign(file, size);
        assert_int_equal(cst_stack_decode(context, "m", file, size, &model), CST_ERROR_UNSUPPORTED);
        assert_non_null(strstr(cst_last_error(context), "upgrade corestack"));
    }
    cst_pool_free(context, pool);
}

/* What loads after any change predicts probabilities. */
static void signed_noise_is_survived(void **state) {
    cst_context *context = *state;
    cst_pool *pool = make_pool(context);
    static uint8_t whole[LARGEST];
    static uint8_t file[LARGEST];
    static float out[ROWS * CLASSES];
    static const char *const methods[] = {"average+isotonic", "greedy+platt",   "autogluon", "mlp",
                                          "hill-climbing",    "average+vector", "blend"};
    cst_rng rng;
    cst_rng_init(&rng, 9, CST_STREAM_TEST, 0);
    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++) {
        size_t size = file_of(context, pool, methods[m], whole);
        /* Settings, which most of a small file is, are noise elsewhere. */
        size_t end = section_at(whole, size, "SETT");
        for (int trial = 0; trial < 1500; trial++) {
            cst_model *model = NULL;
            memcpy(file, whole, size);
            for (int64_t i = 1 + cst_rng_below(&rng, 3); i > 0; i--)
                file[24 + cst_rng_below(&rng, (int64_t)end - 24)] = (uint8_t)cst_rng_u32(&rng);
            sign(file, size);
            if (cst_stack_decode(context, "m", file, size, &model) != CST_OK ||
                model->classes != CLASSES) {
                cst_model_free(context, model);
                continue;
            }
            const float *inputs[MEMBERS];
            for (int32_t k = 0; k < model->members; k++)
                inputs[k] = predictions[k];
            assert_int_equal(cst_model_predict(context, model, inputs, 5, out), CST_OK);
            for (int i = 0; i < 5; i++) {
                double sum = 0;
                for (int c = 0; c < CLASSES; c++) {
                    assert_true(out[i * CLASSES + c] >= 0 && out[i * CLASSES + c] <= 1);
                    sum += (double)out[i * CLASSES + c];
                }
                assert_true(fabs(sum - 1) < 1e-5);
            }
            cst_model_free(context, model);
        }
    }
    cst_pool_free(context, pool);
}

/* ---- arguments ---- */

static void wrong_arguments_are_named(void **state) {
    cst_context *context = *state;
    cst_pool *pool = make_pool(context);
    cst_options *options = NULL;
    cst_model *model = NULL;
    static const char *const wrong[][2] = {
        {"hill-climb", "unknown method 'hill-climb'"},
        {"all", "unknown method 'all'"},
        {"swag", "needs members with its tag"},
        {"autogluon+vector", "already has a calibration map"},
        {"average+nothing", "unknown method 'average+nothing'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_not_equal(cst_fit_method(context, pool, "oof", wrong[i][0], NULL, &model, NULL),
                             CST_OK);
        assert_null(model);
        if (!strstr(cst_last_error(context), wrong[i][1]))
            fail_msg("'%s' is not in: %s", wrong[i][1], cst_last_error(context));
    }
    assert_int_equal(cst_options_create(context, &options), CST_OK);
    assert_int_equal(cst_options_set(context, options, "keep.max", "2"), CST_OK);
    assert_int_equal(cst_fit_method(context, pool, "oof", "ridge", options, &model, NULL),
                     CST_ERROR_ARGUMENT);
    assert_non_null(strstr(cst_last_error(context), "keep.max has no effect on method 'ridge'"));
    assert_int_equal(cst_options_preset(context, options, "paper"), CST_OK);
    assert_int_equal(cst_fit_method(context, pool, "oof", "ridge", options, &model, NULL),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(cst_fit_method(context, pool, "oof", "default", options, &model, NULL),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(cst_fit_method(context, pool, "oof", "paper", options, &model, NULL), CST_OK);
    cst_model_free(context, model);
    cst_options_free(context, options);
    cst_pool_free(context, pool);
}

int suite_methods(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_are_those_of_the_comparison),
        cmocka_unit_test(blends_are_mixtures_of_their_learners),
        cmocka_unit_test(files_survive_a_round_trip),
        cmocka_unit_test(members_may_be_absent),
        cmocka_unit_test(impossible_contents_are_refused),
        cmocka_unit_test(earlier_versions_refuse_what_they_do_not_know),
        cmocka_unit_test(signed_noise_is_survived),
        cmocka_unit_test(wrong_arguments_are_named),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
