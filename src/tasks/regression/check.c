/* What a regression cannot be computed on, and options that say nothing to it: units that float32
 * does not resolve, settings of classification. Before stage S1. docs/regression.md. */
#include "tasks/regression/regression.h"

#include "core/options.h"

#include <math.h>
#include <string.h>

/* ---- units ---- */

/* Predictions within NOTICE_BELOW of their magnitude have steps near a hundredth of the spread. */
static const double NOTICE_BELOW = 1e-5;
static const double REFUSE_BELOW = 1e-6;
/* Squares and variances stay within float32. */
static const double SPREAD_MIN = 1e-15;
static const double SPREAD_MAX = 1e15;

/* Mean and standard deviation of one output over the rows without a weight of 0 (weights NULL: all)
 * where there are two at least; false where every target is the same. */
static bool spread_of(const double *targets, const double *weights, int64_t rows, int32_t outputs,
                      int32_t output, double *mean, double *deviation) {
    const double *y = targets + output;
    int64_t from = 0;
    while (weights && from + 1 < rows && weights[from] <= 0)
        from++;
    double first = y[from * outputs];
    double largest = 0; /* distance from the first, which sums are taken in units of */
    double sum = 0;
    double square = 0;
    double n = 0;
    for (int64_t i = from; i < rows; i++) {
        if (weights && weights[i] <= 0)
            continue;
        largest = fmax(largest, fabs(y[i * outputs] / 2 - first / 2));
        n++;
    }
    if (largest <= 0 || n < 2)
        return false;
    for (int64_t i = from; i < rows; i++) {
        if (weights && weights[i] <= 0)
            continue;
        double off = (y[i * outputs] / 2 - first / 2) / largest;
        sum += off;
        square += off * off;
    }
    *mean = first + 2 * largest * (sum / n);
    *deviation = 2 * largest * sqrt(fmax(square / n - (sum / n) * (sum / n), 0));
    return true;
}

static cst_status check_output(cst_context *context, const char *where, double mean,
                               double deviation, bool refuse) {
    double ratio = deviation / fabs(mean);
    bool far = !(deviation >= SPREAD_MIN && deviation <= SPREAD_MAX);
    if (refuse && far)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: the standard deviation of the targets is %.3g, outside 1e-15 to 1e15: "
                        "use another unit for targets and predictions",
                        where, deviation);
    if (refuse && ratio < REFUSE_BELOW)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: the targets vary by %.3g around %.9g, too little for predictions in "
                        "float32: subtract a constant from targets and predictions",
                        where, deviation, mean);
    if (!far && ratio < NOTICE_BELOW)
        cst_notice(
            context,
            "%s: the targets vary by %.3g around %.9g, but predictions are stored as float32 with "
            "steps of %.2g there: subtract a constant from targets and predictions",
            where, deviation, mean, ldexp(1, ilogb(mean) - 23));
    return CST_OK;
}

cst_status cst_value_check_units(cst_context *context, const cst_pool *pool, const char *split,
                                 bool refuse) {
    const double *targets = cst_pool_targets(pool, split);
    const double *weights = cst_pool_weights(pool, split);
    int64_t rows = cst_pool_rows(pool, split);
    int32_t outputs = (int32_t)cst_pool_classes(pool);
    for (int32_t d = 0; targets && rows > 1 && d < outputs; d++) {
        char where[192];
        double mean = 0;
        double deviation = 0;
        const char *name = cst_pool_class_name(pool, d);
        if (!spread_of(targets, weights, rows, outputs, d, &mean, &deviation))
            continue;
        if (name)
            (void)cst_snprintf(where, sizeof where, "split '%.60s', output '%.60s'", split, name);
        else
            (void)cst_snprintf(where, sizeof where, "split '%.60s', output %d", split, (int)d);
        CST_TRY(check_output(context, where, mean, deviation, refuse));
    }
    return CST_OK;
}

/* ---- folds ---- */

cst_status cst_value_check(cst_context *context, const cst_pool *pool, const char *split,
                           const cst_training *source) {
    int64_t rows = source->view.rows;
    for (int32_t f = 0; source->fold_count == 2 && f < 2; f++) {
        int64_t inside = 0;
        for (int64_t i = 0; i < rows; i++)
            inside += source->folds[i] == f;
        if (rows - inside < 2)
            return cst_fail(
                context, CST_ERROR_INPUT,
                "split '%.60s': fold %d has %lld of the %lld rows, and those left (%lld) "
                "are too few to fit on: make folds of similar size",
                split, (int)f, (long long)inside, (long long)rows, (long long)(rows - inside));
    }
    return cst_value_check_units(context, pool, split, true);
}

/* ---- options ---- */

/* Whether a key changes nothing in a regression. */
static bool is_foreign(const cst_options *options, const char *key) {
    static const char *const keys[] = {
        "fit.balance",     "probability.map",      "loglinear.bias", "loglinear.nonnegative",
        "loglinear.prior", "loglinear.prior_bias", "loglinear.cut"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    if (strcmp(key, "loglinear.prior_weights") == 0) /* linear_pool.prior=fixed reads it */
        return strcmp(cst_options_get(options, "linear_pool.prior"), "fixed") != 0;
    return strncmp(key, "segment.", 8) == 0 || strncmp(key, "detect.", 7) == 0;
}

CST_OWNED(cst_options)

cst_status cst_check_foreign(cst_context *context, const cst_options *options, const char *task,
                             cst_foreign_fn *foreign, const char *own) {
    char list[256] = "";
    cst_options *preset = NULL;
    CST_SCOPE(scope);
    CST_TRY(cst_options_create(context, &preset));
    CST_OWN(context, scope, cst_options, preset);
    CST_TRY(cst_options_preset(context, preset, cst_options_preset_name(options)));
    for (int64_t i = 0; cst_option_at(i); i++) {
        const char *key = cst_option_at(i)->key;
        size_t used = strlen(list);
        if (foreign(options, key) &&
            strcmp(cst_options_get(options, key), cst_options_get(preset, key)) != 0)
            (void)cst_snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", key);
    }
    if (list[0])
        cst_notice(context, "%s does not use %s%s", task, list,
                   strstr(list, "loglinear.") ? own : "");
    return CST_OK;
}

cst_status cst_value_check_options(cst_context *context, const cst_options *options) {
    return cst_check_foreign(context, options, "regression", is_foreign,
                             "; its linear pool uses linear_pool.*");
}
