/*
 * A pool in memory that a test can rearrange, and what every computation on a pool must leave
 * behind: finite numbers in reports and models, rows that are distributions, one line of error.
 * Shared by the tests of numbers (tests/api).
 */
#ifndef CST_TEST_POOL_CASE_H
#define CST_TEST_POOL_CASE_H

#include "core/base.h"
#include "model/stack.h"

#include <corestack/more.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything is owned; values are doubles, stored as `type` when the pool is made. */
typedef struct pool_case {
    cst_task task;
    cst_output output;
    cst_number type;
    bool fortran; /* columns of the arrays contiguous instead of rows */
    int32_t members;
    int64_t rows;
    int32_t classes;
    double *values;  /* [members][rows][classes] */
    int32_t *labels; /* [rows] */
    double *targets; /* [rows][classes] of a regression, else NULL */
    int64_t *folds;  /* [rows], or NULL */
    double *weights; /* [rows], or NULL */
    /* made by make_pool */
    unsigned char *bytes;
    char (*names)[16]; /* [members] */
} pool_case;

static inline void *allocate(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

static inline size_t case_cells(const pool_case *c) {
    return (size_t)c->rows * (size_t)c->classes;
}

/* Classification with every value 0, label 0 and members m0, m1, ... */
static inline pool_case new_case(int32_t members, int64_t rows, int32_t classes) {
    pool_case c = {.members = members, .rows = rows, .classes = classes};
    c.values = allocate((size_t)members * case_cells(&c), sizeof *c.values);
    c.labels = allocate((size_t)rows, sizeof *c.labels);
    c.names = allocate((size_t)members, sizeof *c.names);
    for (int32_t k = 0; k < members; k++)
        (void)snprintf(c.names[k], sizeof c.names[k], "m%d", (int)k);
    return c;
}

static inline void free_case(pool_case *c) {
    free(c->values);
    free(c->labels);
    free(c->targets);
    free(c->folds);
    free(c->weights);
    free(c->bytes);
    free(c->names);
    *c = (pool_case){0};
}

static inline double *case_row(const pool_case *c, int32_t member, int64_t row) {
    return c->values + ((size_t)member * (size_t)c->rows + (size_t)row) * (size_t)c->classes;
}

/* float16 of a number in [0, 65504], rounded towards 0. */
static inline uint16_t half_bits(double x) {
    int exponent = 0;
    double mantissa = frexp(fabs(x), &exponent); /* [0.5, 1) 2^exponent */
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (mantissa == 0 || exponent < -24)
        return sign;
    if (exponent < -13)
        return (uint16_t)(sign | (uint16_t)ldexp(mantissa, exponent + 24));
    return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) |
                      ((uint16_t)(mantissa * 2048) & 0x3ff));
}

static inline void store_value(const pool_case *c, size_t at, double value) {
    float narrow = (float)value;
    uint16_t half = half_bits(value);
    if (c->type == CST_NUMBER_FLOAT64)
        memcpy(c->bytes + at * 8, &value, 8);
    else if (c->type == CST_NUMBER_FLOAT16)
        memcpy(c->bytes + at * 2, &half, 2);
    else
        memcpy(c->bytes + at * 4, &narrow, 4);
}

/* The pool of the case; its arrays live as long as the case. */
static inline cst_status make_pool(cst_context *context, pool_case *c, cst_pool **pool) {
    size_t item = c->type == CST_NUMBER_FLOAT64 ? 8 : c->type == CST_NUMBER_FLOAT16 ? 2 : 4;
    size_t cells = case_cells(c);
    cst_array *arrays = allocate((size_t)c->members, sizeof *arrays);
    const char **names = allocate((size_t)c->members, sizeof *names);
    free(c->bytes);
    c->bytes = allocate((size_t)c->members * cells, item);
    for (int32_t k = 0; k < c->members; k++) {
        names[k] = c->names[k];
        arrays[k] = (cst_array){.data = c->bytes + (size_t)k * cells * item,
                                .type = c->type,
                                .row_step = (int64_t)item * (c->fortran ? 1 : c->classes),
                                .column_step = (int64_t)item * (c->fortran ? c->rows : 1)};
        for (int64_t i = 0; i < c->rows; i++)
            for (int32_t j = 0; j < c->classes; j++)
                store_value(c,
                            (size_t)k * cells + (c->fortran ? (size_t)(j * c->rows + i)
                                                            : (size_t)(i * c->classes + j)),
                            case_row(c, k, i)[j]);
    }
    cst_pool_arrays all = {.task = c->task,
                           .output = c->output,
                           .members = c->members,
                           .rows = c->rows,
                           .classes = c->classes,
                           .predictions = arrays,
                           .names = names,
                           .labels = c->task == CST_TASK_REGRESSION ? NULL : c->labels,
                           .targets = c->targets,
                           .folds = c->folds,
                           .weights = c->weights};
    cst_status status = cst_pool_from_arrays(context, pool, &all);
    free(arrays);
    free(names);
    return status;
}

/* ---- what must hold of any result ---- */

/* Why something is wrong, for the message of the test; "" while all is well. */
typedef struct verdict {
    char text[512];
} verdict;

CST_PRINTF(2, 3) static inline bool wrong(verdict *v, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (!v->text[0])
        (void)vsnprintf(v->text, sizeof v->text, format, args);
    va_end(args);
    return false;
}

/* One line that is not empty. */
static inline bool refused_well(const cst_context *context, cst_status status, verdict *v) {
    const char *message = cst_last_error(context);
    if (status != CST_ERROR_INPUT && status != CST_ERROR_ARGUMENT && status != CST_ERROR_MISMATCH &&
        status != CST_ERROR_LIMIT)
        return wrong(v, "%s: %s", cst_status_name(status), message);
    if (!message[0] || strchr(message, '\n'))
        return wrong(v, "no line of error: '%s'", message);
    return true;
}

static inline bool all_finite(const double *values, size_t count) {
    for (size_t i = 0; values && i < count; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

static inline bool all_finite_f32(const float *values, size_t count) {
    for (size_t i = 0; values && i < count; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

/* Every number that a model file holds. */
static inline bool model_is_finite(const cst_model *m, verdict *v) {
    size_t k = (size_t)m->members;
    size_t h = (size_t)m->gate.hidden;
    if (!all_finite(m->mix, k))
        return wrong(v, "model: mixing shares");
    if (!all_finite_f32(m->gate.w1, h * k) || !all_finite_f32(m->gate.b1, h) ||
        !all_finite_f32(m->gate.w2, 12 * h) || !all_finite_f32(m->gate.b2, m->gate.w2 ? 12 : 0))
        return wrong(v, "model: gate");
    for (int32_t l = 0; l < m->learners; l++)
        if (!isfinite(m->learner[l].blend) ||
            !all_finite(m->learner[l].weights, (size_t)m->learner[l].coefficients) ||
            !all_finite(m->learner[l].bias, (size_t)m->learner[l].biases))
            return wrong(v, "model: %s", cst_learner_name(m->learner[l].kind));
    if (m->values) {
        const cst_values *x = m->values;
        size_t c = (size_t)m->classes;
        size_t d = (size_t)x->columns;
        if (!all_finite(x->noise, c) || !all_finite(x->share, c) ||
            !all_finite(x->mean_spread, c) || !all_finite(x->offset, c) ||
            !all_finite(x->center, c * d) || !all_finite(x->covariance, c * d * d) ||
            !all_finite(x->scaling.location, c) || !all_finite(x->scaling.scale, c))
            return wrong(v, "model: values");
    }
    return true;
}

/* Rows of a classification: in [0, 1] and summing to 1 within 1e-6; of a regression: finite. */
static inline bool rows_are_sound(const pool_case *c, const float *out, verdict *v) {
    for (int64_t i = 0; i < c->rows; i++) {
        double sum = 0;
        for (int32_t j = 0; j < c->classes; j++) {
            double p = (double)out[i * c->classes + j];
            if (!isfinite(p))
                return wrong(v, "prediction: row %lld, column %d is %g", (long long)i, (int)j, p);
            if (c->task != CST_TASK_REGRESSION && !(p >= 0 && p <= 1))
                return wrong(v, "prediction: row %lld, column %d is %.9g", (long long)i, (int)j, p);
            sum += p;
        }
        if (c->task != CST_TASK_REGRESSION && fabs(sum - 1) > 1e-6)
            return wrong(v, "prediction: row %lld sums to %.9g", (long long)i, sum);
    }
    return true;
}

/* No bare word but true, false and null in a JSON document; with `scored`, no null for a score. */
static inline bool json_is_sound(const char *text, bool scored, verdict *v) {
    static const char *const scores[] = {"\"top1\": null", "\"nll\": null",  "\"brier\": null",
                                         "\"ece\": null",  "\"rmse\": null", "\"mae\": null"};
    for (size_t i = 0; scored && i < sizeof scores / sizeof scores[0]; i++)
        if (strstr(text, scores[i]))
            return wrong(v, "JSON has %s", scores[i]);
    bool string = false;
    for (const char *p = text; *p; p++) {
        if (string && *p == '\\' && p[1])
            p++;
        else if (*p == '"')
            string = !string;
        else if (!string && ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z'))) {
            size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
            bool exponent = n == 1 && (*p == 'e' || *p == 'E');
            if (!exponent && strncmp(p, "true", n) != 0 && strncmp(p, "false", n) != 0 &&
                strncmp(p, "null", n) != 0)
                return wrong(v, "JSON has %.20s", p);
            p += n - 1;
        }
    }
    return true;
}

/* No "nan" and no "inf" as a word. */
static inline bool text_is_sound(const char *text, verdict *v) {
    for (const char *p = text; *p; p++) {
        size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");
        if (n == 3 && (strncmp(p, "nan", 3) == 0 || strncmp(p, "inf", 3) == 0))
            return wrong(v, "text has ...%.60s", p - text > 20 ? p - 20 : text);
        if (n)
            p += n - 1;
    }
    return true;
}

static inline bool report_is_sound(cst_context *context, const cst_report *report, bool scored,
                                   verdict *v) {
    char *json = NULL;
    char *text = NULL;
    cst_status status = cst_report_json(context, report, &json);
    if (status == CST_OK)
        status = cst_report_text_full(context, report, 0, &text);
    bool ok = status == CST_OK ? json_is_sound(json, scored, v) && text_is_sound(text, v)
                               : wrong(v, "report: %s", cst_last_error(context));
    cst_free(context, json);
    cst_free(context, text);
    return ok;
}

/* ---- every computation on a pool ---- */

/* The model in memory and the same model written and read again: same bytes, same predictions. */
static inline bool model_survives(cst_context *context, const pool_case *c, cst_pool *pool,
                                  const cst_model *model, verdict *v) {
    void *bytes = NULL;
    void *again = NULL;
    size_t size = 0;
    size_t size_again = 0;
    cst_model *loaded = NULL;
    float *a = NULL;
    float *b = NULL;
    int64_t rows = 0;
    bool ok = model_is_finite(model, v);
    if (ok && (cst_model_save_memory(context, model, &bytes, &size) != CST_OK ||
               cst_model_load_memory(context, &loaded, bytes, size) != CST_OK ||
               cst_model_save_memory(context, loaded, &again, &size_again) != CST_OK ||
               cst_model_predict_pool(context, model, pool, "oof", &a, &rows) != CST_OK ||
               cst_model_predict_pool(context, loaded, pool, "oof", &b, &rows) != CST_OK))
        ok = wrong(v, "model: %s", cst_last_error(context));
    if (ok && (size != size_again || memcmp(bytes, again, size) != 0))
        ok = wrong(v, "model: other bytes after loading");
    ok = ok && rows_are_sound(c, a, v);
    if (ok && memcmp(a, b, case_cells(c) * sizeof *a) != 0)
        ok = wrong(v, "model: other predictions after loading");
    cst_free(context, bytes);
    cst_free(context, again);
    cst_free(context, a);
    cst_free(context, b);
    cst_model_free(context, loaded);
    return ok;
}

/* One call that gives a report: refused in one line, or a sound report. */
static inline bool call_is_sound(cst_context *context, cst_status status, const cst_report *report,
                                 bool scored, verdict *v) {
    if (status != CST_OK)
        return refused_well(context, status, v);
    return report_is_sound(context, report, scored, v);
}

/* Inspect, fit, prediction, evaluation. *status: of the fit. The gate's training is cut short. */
static inline bool fit_is_sound(cst_context *context, const pool_case *c, cst_pool *pool,
                                const char *preset, const char *nested, cst_status *status,
                                verdict *v) {
    cst_options *options = NULL;
    cst_report *report = NULL;
    cst_model *model = NULL;
    if (cst_options_create(context, &options) != CST_OK ||
        cst_options_preset(context, options, preset) != CST_OK ||
        cst_options_set(context, options, "gate.epochs", "3") != CST_OK ||
        cst_options_set(context, options, "evaluate.nested", nested) != CST_OK)
        abort();
    *status = cst_inspect(context, pool, "oof", options, &report);
    bool ok = call_is_sound(context, *status, report, false, v);
    cst_report_free(context, report);
    report = NULL;
    *status = cst_fit(context, pool, "oof", options, &model, &report);
    ok = ok && call_is_sound(context, *status, report, false, v);
    cst_report_free(context, report);
    report = NULL;
    if (ok && *status == CST_OK) {
        ok = model_survives(context, c, pool, model, v);
        const cst_evaluate_options asked = {.split = "oof", .baselines = 1, .resamples = 20};
        if (ok && cst_evaluate_stack(context, model, pool, &asked, &report) != CST_OK)
            ok = wrong(v, "evaluate: %s", cst_last_error(context));
        ok = ok && report_is_sound(context, report, true, v);
    }
    cst_report_free(context, report);
    cst_model_free(context, model);
    cst_options_free(context, options);
    return ok;
}

/* Methods side by side; methods NULL: all. */
static inline bool compare_is_sound(cst_context *context, cst_pool *pool,
                                    const char *const *methods, int32_t count, cst_status *status,
                                    verdict *v) {
    cst_report *report = NULL;
    static const char *const settings[] = {"gate.epochs=3"};
    cst_compare_options options = {.methods = methods,
                                   .method_count = count,
                                   .settings = settings,
                                   .setting_count = 1,
                                   .resamples = 20};
    *status = cst_compare(context, pool, &options, &report);
    bool ok = call_is_sound(context, *status, report, true, v);
    cst_report_free(context, report);
    return ok;
}

#endif
