/* The table of calibration maps, fitting by kind, application block by block.
 * docs/calibration.md#definitions. */
#include "method/calibration/calibration.h"

#include <math.h>
#include <string.h>

/* Of vector scaling inside a blend: with a few hundred rows the map of each class is noise. */
static const double SHRINK = 10;
static const double SLOPE_PRIOR = 1;
static const double SHRUNK_TOLERANCE = 1e-3;
/* Of a temperature: Newton's next step would be about the square of this. */
static const double SHRUNK_STEP = 1e-4;

typedef struct calibrator_text {
    cst_calibrator_kind kind;
    const char *name;
    const char *definition;
} calibrator_text;

static const calibrator_text TEXTS[] = {
    {CST_CALIBRATOR_TEMPERATURE, "temperature",
     "softmax(log p / T) with the T that minimises "
     "the NLL"},
    {CST_CALIBRATOR_VECTOR, "vector",
     "softmax(a_c log p_c + b_c) with the a and b that minimise total NLL + |a - 1|^2/2 + "
     "|b|^2/2"},
    {CST_CALIBRATOR_ISOTONIC, "isotonic",
     "isotonic regression of [y = c] on p_c for each class, interpolated linearly between "
     "knots, at least 1e-6, rows normalised"},
    {CST_CALIBRATOR_PLATT, "platt",
     "sigmoid(a_c log(p_c / (1 - p_c)) + b_c) for each class, minimising the cross-entropy "
     "with Platt's smoothed targets, rows normalised"},
};

enum { TEXT_COUNT = sizeof TEXTS / sizeof TEXTS[0] };

const char *cst_calibrator_name(cst_calibrator_kind kind) {
    for (int i = 0; i < TEXT_COUNT; i++)
        if (TEXTS[i].kind == kind)
            return TEXTS[i].name;
    return NULL;
}

const char *cst_calibrator_definition(cst_calibrator_kind kind) {
    for (int i = 0; i < TEXT_COUNT; i++)
        if (TEXTS[i].kind == kind)
            return TEXTS[i].definition;
    return NULL;
}

cst_calibrator_kind cst_calibrator_find(const char *name) {
    for (int i = 0; i < TEXT_COUNT; i++)
        if (strcmp(TEXTS[i].name, name) == 0)
            return TEXTS[i].kind;
    return CST_CALIBRATOR_NONE;
}

/* ---- fit ---- */

/* "NAME L to H": the least and the largest of [count] values. */
static void range_text(const char *name, const double *values, int32_t count, char *out,
                       size_t size) {
    double low = values[0];
    double high = values[0];
    for (int32_t c = 1; c < count; c++) {
        low = fmin(low, values[c]);
        high = fmax(high, values[c]);
    }
    (void)cst_snprintf(out, size, "%s %.3g to %.3g", name, low, high);
}

void cst_calibrator_describe(cst_calibrator *fit) {
    char slopes[30] = "";
    char intercepts[30] = "";
    long long knots = 0;
    switch (fit->kind) {
    case CST_CALIBRATOR_NONE:
        break;
    case CST_CALIBRATOR_TEMPERATURE:
        (void)cst_snprintf(fit->detail, sizeof fit->detail, "T = %.4g", fit->temperature);
        break;
    case CST_CALIBRATOR_VECTOR:
    case CST_CALIBRATOR_PLATT:
        range_text("a", fit->slopes, fit->classes, slopes, sizeof slopes);
        range_text("b", fit->intercepts, fit->classes, intercepts, sizeof intercepts);
        (void)cst_snprintf(fit->detail, sizeof fit->detail, "%s, %s", slopes, intercepts);
        break;
    case CST_CALIBRATOR_ISOTONIC:
        for (int32_t c = 0; c < fit->classes; c++)
            knots += fit->steps[c].count;
        (void)cst_snprintf(fit->detail, sizeof fit->detail, "%lld knots", knots);
        break;
    }
}

/* The arrays that a map of this kind and number of classes has, zeroed; of an isotonic one without
 * its knots. Free with cst_calibrator_free, also after a failure. */
static cst_status calibrator_alloc(cst_context *context, cst_calibrator_kind kind, int32_t count,
                                   cst_calibrator *out) {
    size_t classes = (size_t)count;
    bool ready = true;
    *out = (cst_calibrator){.kind = kind, .classes = count, .temperature = 1};
    if (out->kind == CST_CALIBRATOR_VECTOR || out->kind == CST_CALIBRATOR_PLATT) {
        out->slopes = cst_alloc(context, classes, sizeof *out->slopes);
        out->intercepts = cst_alloc(context, classes, sizeof *out->intercepts);
        ready = out->slopes && out->intercepts;
    } else if (out->kind == CST_CALIBRATOR_ISOTONIC) {
        out->steps = cst_alloc(context, classes, sizeof *out->steps);
        ready = out->steps != NULL;
    }
    return ready ? CST_OK : CST_ERROR_MEMORY;
}

cst_status cst_calibrator_fit_weighted(cst_context *context, cst_calibrator_kind kind,
                                       const float *probabilities, int64_t rows, int32_t classes,
                                       const int32_t *labels, const double *weights,
                                       cst_calibrator *out) {
    *out = (cst_calibrator){.kind = kind, .classes = classes, .temperature = 1};
    if (kind == CST_CALIBRATOR_NONE)
        return CST_OK;
    if (rows < 1 || classes < 1 || !labels)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s calibration needs labelled rows: there are %lld",
                        cst_calibrator_name(kind), labels ? (long long)rows : 0);
    if (weights && kind != CST_CALIBRATOR_TEMPERATURE)
        return cst_fail(
            context, CST_ERROR_INPUT,
            "%s calibration does not support row weights; use temperature, or remove the weights",
            cst_calibrator_name(kind));
    cst_status status = calibrator_alloc(context, kind, classes, out);
    if (status == CST_OK && kind == CST_CALIBRATOR_TEMPERATURE)
        status = cst_temperature_fit_from(context, probabilities, rows, classes, labels, weights,
                                          NULL, &out->temperature, NULL);
    if (status == CST_OK && kind == CST_CALIBRATOR_VECTOR)
        status = cst_vector_fit(context, probabilities, rows, classes, labels, NULL, out->slopes,
                                out->intercepts);
    if (status == CST_OK && kind == CST_CALIBRATOR_ISOTONIC)
        status = cst_isotonic_fit(context, probabilities, rows, classes, labels, out->steps);
    if (status == CST_OK && kind == CST_CALIBRATOR_PLATT)
        status = cst_platt_fit(context, probabilities, rows, classes, labels, out->slopes,
                               out->intercepts);
    if (status == CST_OK)
        cst_calibrator_describe(out);
    else
        cst_calibrator_free(context, out);
    return status;
}

/* Labels and, of a view that has some, weights of the rows. */
static cst_status gather(cst_context *context, const cst_view *view, int32_t **labels,
                         double **weights) {
    *labels = cst_alloc(context, (size_t)view->rows, sizeof **labels);
    *weights = cst_alloc(context, view->weights ? (size_t)view->rows : 0, sizeof **weights);
    if (!*labels || !*weights)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < view->rows; i++) {
        (*labels)[i] = cst_view_label(view, i);
        if (view->weights)
            (*weights)[i] = cst_view_weight(view, i);
    }
    return CST_OK;
}

cst_status cst_calibrator_fit_shrunk(cst_context *context, cst_calibrator_kind kind,
                                     const cst_view *view, const float *probabilities,
                                     const cst_calibrator *start, cst_calibrator *out) {
    int32_t *labels = NULL;
    double *weights = NULL;
    cst_vector_options options = {.shrink = SHRINK, .tolerance = SHRUNK_TOLERANCE, .start = start};
    const cst_temperature_options shrunk = {
        .prior = SLOPE_PRIOR, .start = start ? start->temperature : 1, .tolerance = SHRUNK_STEP};
    cst_status status = gather(context, view, &labels, &weights);
    CST_THEN(calibrator_alloc(context, kind, view->classes, out));
    options.weights = view->weights ? weights : NULL;
    if (status == CST_OK && kind == CST_CALIBRATOR_TEMPERATURE)
        status = cst_temperature_fit_from(context, probabilities, view->rows, view->classes, labels,
                                          options.weights, &shrunk, &out->temperature, NULL);
    else if (status == CST_OK)
        status = cst_vector_fit(context, probabilities, view->rows, view->classes, labels, &options,
                                out->slopes, out->intercepts);
    if (status == CST_OK)
        cst_calibrator_describe(out);
    else
        cst_calibrator_free(context, out);
    cst_free(context, weights);
    cst_free(context, labels);
    return status;
}

cst_status cst_calibrator_fit_view(cst_context *context, cst_calibrator_kind kind,
                                   const cst_view *view, const float *probabilities,
                                   cst_calibrator *out) {
    *out = (cst_calibrator){0};
    int32_t *labels = NULL;
    double *weights = NULL;
    cst_status status = gather(context, view, &labels, &weights);
    CST_THEN(cst_calibrator_fit_weighted(context, kind, probabilities, view->rows, view->classes,
                                         labels, view->weights ? weights : NULL, out));
    cst_free(context, weights);
    cst_free(context, labels);
    return status;
}

/* ---- application ---- */

void cst_calibrator_rows(const cst_calibrator *map, int64_t count, double *values) {
    int32_t classes = map->classes;
    switch (map->kind) {
    case CST_CALIBRATOR_NONE:
        break;
    case CST_CALIBRATOR_TEMPERATURE:
        cst_temperature_rows(map->temperature, count, classes, values);
        break;
    case CST_CALIBRATOR_VECTOR:
        cst_vector_rows(map->slopes, map->intercepts, count, classes, values);
        break;
    case CST_CALIBRATOR_ISOTONIC:
        cst_isotonic_rows(map->steps, count, classes, values);
        break;
    case CST_CALIBRATOR_PLATT:
        cst_platt_rows(map->slopes, map->intercepts, count, classes, values);
        break;
    }
}

typedef struct apply_job {
    const cst_calibrator *calibrator;
    float *probabilities;
    int64_t rows;
} apply_job;

static cst_status apply_block(cst_context *context, void *user, int64_t block) {
    const apply_job *job = user;
    int32_t classes = job->calibrator->classes;
    int64_t count = cst_block_size(job->rows, block);
    size_t cells = (size_t)count * (size_t)classes;
    float *rows = job->probabilities + (size_t)cst_block_first(block) * (size_t)classes;
    double *wide = cst_alloc(context, cells, sizeof *wide);
    if (!wide)
        return CST_ERROR_MEMORY;
    for (size_t j = 0; j < cells; j++)
        wide[j] = (double)rows[j];
    cst_calibrator_rows(job->calibrator, count, wide);
    for (size_t j = 0; j < cells; j++)
        rows[j] = (float)wide[j];
    cst_free(context, wide);
    return CST_OK;
}

cst_status cst_calibrator_apply(cst_context *context, const cst_calibrator *calibrator,
                                float *probabilities, int64_t rows) {
    if (calibrator->kind == CST_CALIBRATOR_NONE)
        return CST_OK;
    apply_job job = {calibrator, probabilities, rows};
    const cst_share filled =
        cst_share_rows(probabilities, rows, (size_t)calibrator->classes * sizeof *probabilities);
    return cst_parallel_fill(context, cst_block_count(rows), apply_block, &job, &filled, 1);
}

void cst_calibrator_pack(const cst_calibrator *map, double *numbers) {
    size_t classes = (size_t)map->classes;
    numbers[0] = map->temperature;
    if (map->slopes)
        memcpy(numbers + 1, map->slopes, classes * sizeof *numbers);
    if (map->intercepts)
        memcpy(numbers + 1 + classes, map->intercepts, classes * sizeof *numbers);
}

cst_status cst_calibrator_unpack(cst_context *context, cst_calibrator_kind kind, int32_t classes,
                                 const double *numbers, cst_calibrator *out) {
    cst_status status = calibrator_alloc(context, kind, classes, out);
    if (status != CST_OK) {
        cst_calibrator_free(context, out);
        return status;
    }
    out->temperature = numbers[0];
    if (out->slopes)
        memcpy(out->slopes, numbers + 1, (size_t)classes * sizeof *numbers);
    if (out->intercepts)
        memcpy(out->intercepts, numbers + 1 + classes, (size_t)classes * sizeof *numbers);
    cst_calibrator_describe(out);
    return CST_OK;
}

void cst_calibrator_free(cst_context *context, cst_calibrator *calibrator) {
    if (!calibrator)
        return;
    for (int32_t c = 0; calibrator->steps && c < calibrator->classes; c++) {
        cst_free(context, calibrator->steps[c].x);
        cst_free(context, calibrator->steps[c].y);
    }
    cst_free(context, calibrator->steps);
    cst_free(context, calibrator->slopes);
    cst_free(context, calibrator->intercepts);
    *calibrator = (cst_calibrator){0};
}
