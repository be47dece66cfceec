/*
 * Certificates of probabilities: prediction sets, the calibration error, binned confidences. Parts
 * of cst_bound. docs/bounds.md#the-bounds.
 */
#include "fit/bounds/bound.h"
#include "stats/calibration_bound.h"
#include "stats/conformal.h"
#include "stats/samples.h"

#include <corestack/metrics.h>
#include <string.h>

/* ---- prediction sets ---- */

/* Rows of one half of the split, copied. */
typedef struct part {
    int64_t rows;
    float *p;        /* [rows][classes] */
    int32_t *labels; /* [rows] */
} part;

static cst_status take(cst_context *context, const cst_bound_work *work, int64_t first, int64_t end,
                       part *out) {
    size_t classes = (size_t)work->classes;
    size_t rows = (size_t)(end - first);
    *out = (part){.rows = end - first,
                  .p = cst_alloc(context, rows * classes, sizeof *out->p),
                  .labels = cst_alloc(context, rows, sizeof *out->labels)};
    if (!out->p || !out->labels)
        return CST_ERROR_MEMORY;
    for (size_t i = 0; i < rows; i++) {
        size_t row = (size_t)work->order[(size_t)first + i];
        memcpy(out->p + i * classes, work->stack + row * classes, classes * sizeof *out->p);
        out->labels[i] = work->labels[row];
    }
    return CST_OK;
}

static void part_free(cst_context *context, part *p) {
    cst_free(context, p->p);
    cst_free(context, p->labels);
}

static const char *const METHODS[] = {"lac", "aps", "raps"};
enum { METHOD_COUNT = sizeof METHODS / sizeof METHODS[0] };

static void put_sets(cst_report *report, json_t *object, const cst_conformal *conformal,
                     const cst_conformal_result *result, int64_t samples, double delta) {
    CST_PUT(report, object, CST_S("method", METHODS[conformal->options.method]),
            CST_N("alpha", conformal->options.alpha), CST_N("coverage", result->coverage),
            CST_N("mean_size", result->mean_size), CST_N("threshold", conformal->threshold),
            CST_N("assured", cst_conformal_assured(conformal, delta)),
            CST_I("calibration_samples", conformal->samples), CST_I("samples", samples),
            CST_I("empty", result->empty), CST_I("single", result->single));
}

/* Calibrated on one half, measured on the other. */
cst_status cst_bound_sets(cst_context *context, const cst_bound_work *work, cst_report *report) {
    part first;
    part second = {0};
    cst_conformal conformal[METHOD_COUNT];
    cst_conformal_result result[METHOD_COUNT];
    cst_status status = take(context, work, 0, work->half, &first);
    CST_THEN(take(context, work, work->half, work->rows, &second));
    for (int m = 0; status == CST_OK && m < METHOD_COUNT; m++) {
        cst_conformal_options options = cst_conformal_defaults();
        options.method = (cst_conformal_method)m;
        options.alpha = work->alpha;
        options.seed = work->seed;
        status = cst_conformal_calibrate(context, &options, first.p, first.rows, work->classes,
                                         first.labels, &conformal[m]);
        CST_THEN(cst_conformal_evaluate(context, &conformal[m], second.p, second.rows,
                                        work->classes, second.labels, &result[m]));
    }
    if (status == CST_OK) {
        json_t *root = cst_report_root(report);
        cst_conformal_tell(context, first.rows, work->alpha);
        put_sets(report, cst_report_object(report, root, "conformal"), &conformal[0], &result[0],
                 second.rows, work->delta);
        json_t *list = cst_report_list(report, root, "conformal_methods");
        for (int m = 0; m < METHOD_COUNT; m++)
            put_sets(report, cst_report_add_object(report, list), &conformal[m], &result[m],
                     second.rows, work->delta);
    }
    part_free(context, &first);
    part_free(context, &second);
    return status;
}

/* ---- calibration ---- */

/* As many bins as leave some fifty rows in each. */
enum { BINS_MAX = 15, BIN_ROWS = 50 };

static void put_bins(cst_report *report, const cst_certified_bin *certified, int32_t bins,
                     double epsilon, double hoeffding, int64_t samples) {
    json_t *object = cst_report_object(report, cst_report_root(report), "calibration");
    CST_PUT(report, object, CST_N("epsilon", epsilon), CST_N("hoeffding", hoeffding),
            CST_I("samples", samples));
    json_t *list = cst_report_list(report, object, "bins");
    for (int32_t b = 0; b < bins; b++) {
        json_t *bin = cst_report_add_object(report, list);
        CST_PUT(report, bin, CST_N("from", certified[b].from), CST_N("to", certified[b].to),
                CST_I("count", certified[b].count), CST_N("value", certified[b].value),
                CST_N("lower", certified[b].lower), CST_N("upper", certified[b].upper));
    }
}

/* Bins by the confidences of one half, certified by the other. */
static cst_status certify(cst_context *context, const cst_bound_work *work, cst_report *report) {
    size_t rows = (size_t)work->rows;
    int64_t most = (work->rows - work->half) / BIN_ROWS;
    int32_t bins = most < 1 ? 1 : most < BINS_MAX ? (int32_t)most : BINS_MAX;
    int32_t used = 0;
    double edges[BINS_MAX + 1];
    cst_certified_bin certified[BINS_MAX];
    double epsilon = 0;
    double hoeffding = 0;
    cst_samples samples = {0};
    double *confidence = cst_alloc(context, rows, sizeof *confidence);
    unsigned char *correct = cst_alloc(context, rows, sizeof *correct);
    cst_status status = confidence && correct ? CST_OK : CST_ERROR_MEMORY;
    CST_THEN(
        cst_samples_make(context, work->stack, work->rows, work->classes, work->labels, &samples));
    for (size_t i = 0; status == CST_OK && i < rows; i++) {
        confidence[i] = samples.confidence[work->order[i]];
        correct[i] = samples.correct[work->order[i]];
    }
    CST_THEN(cst_mass_edges(context, confidence, work->half, bins, edges, &used));
    const cst_judged_rows rest = {confidence + work->half, correct + work->half,
                                  work->rows - work->half};
    CST_THEN(
        cst_certify_bins(context, edges, used, rest, work->delta, certified, &epsilon, &hoeffding));
    if (status == CST_OK)
        put_bins(report, certified, used, epsilon, hoeffding, work->rows - work->half);
    cst_samples_free(context, &samples);
    cst_free(context, confidence);
    cst_free(context, correct);
    return status;
}

cst_status cst_bound_calibration(cst_context *context, const cst_bound_work *work,
                                 cst_report *report) {
    cst_ece_bound bound;
    cst_status status = cst_ece_bound_of(context, work->stack, work->rows, work->classes,
                                         work->labels, 0, work->delta, &bound);
    if (status != CST_OK)
        return status;
    json_t *ece = cst_report_object(report, cst_report_root(report), "ece");
    CST_PUT(report, ece, CST_N("value", bound.value), CST_N("lower", bound.lower),
            CST_N("upper", bound.upper), CST_I("bins", CST_METRIC_BINS));
    return certify(context, work, report);
}
