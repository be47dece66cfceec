/*
 * Rows that a member did not predict and that hold a number all the same: zeros of an array that
 * was never filled, -999, and single numbers far from every target.
 */
#include "checks/parts.h"

#include <math.h>

/* Share of the rows from which one value is suspicious, and rows at least. */
static const double SHARE = 0.02;
static const double FEWEST = 5;
/* Ranges of the targets from which a value is far from all of them. */
static const double FAR = 20;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value that most rows have, among others that hardly repeat: false where there is none. */
static bool one_value(const double *sorted, int64_t n, double *value, int64_t *rows) {
    int64_t different = 0;
    *rows = 0;
    for (int64_t i = 0; i < n; different++) {
        int64_t end = i + 1;
        while (end < n && !(sorted[end] > sorted[i]))
            end++;
        if (end - i > *rows) {
            *rows = end - i;
            *value = sorted[i];
        }
        i = end;
    }
    double count = (double)*rows;
    double rest = (double)(n - *rows);
    return count >= fmax(FEWEST, SHARE * (double)n) && rest >= 3 * FEWEST &&
           count <= 0.9 * (double)n && 2 * (double)(different - 1) >= rest;
}

/* Whether the targets of the rows with the value are like those of the others, although the member
 * tells those apart, and the value is unlike its others. apart: and no other value is near, as
 * where predictions are cut off. */
static bool is_filled(const double *values, const double *targets, int64_t n, double value,
                      bool apart) {
    double rest = 0;
    double same = 0;
    double mean[3] = {0}; /* of values and targets of the rest, and of targets of the others */
    double square[2] = {0};
    double product = 0;
    double gap = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        bool is_rest = values[i] > value || values[i] < value;
        rest += is_rest;
        gap = is_rest ? fmin(gap, fabs(values[i] - value)) : gap;
        same += !is_rest;
        mean[0] += is_rest ? values[i] : 0;
        mean[1] += is_rest ? targets[i] : 0;
        mean[2] += is_rest ? 0 : targets[i];
    }
    mean[0] /= rest;
    mean[1] /= rest;
    mean[2] /= same;
    for (int64_t i = 0; i < n; i++) {
        if (!(values[i] > value || values[i] < value))
            continue;
        double v = values[i] - mean[0];
        double t = targets[i] - mean[1];
        square[0] += v * v / rest;
        square[1] += t * t / rest;
        product += v * t / rest;
    }
    if (!(square[0] > 0) || !(square[1] > 0) || (apart && gap < 0.25 * sqrt(square[0])))
        return false;
    double r = product / sqrt(square[0] * square[1]);
    double off = (value - mean[0]) / sqrt(square[0]);
    double expected = r * off;
    double found = (mean[2] - mean[1]) / sqrt(square[1]);
    double missing = fabs(expected) - (expected < 0 ? -found : found);
    return r * sqrt(rest) >= 3 && fabs(off) >= 1 && missing >= 0.5 * fabs(expected) &&
           missing * sqrt(same) > 5;
}

cst_status cst_check_filled(cst_context *context, const double *values, const double *targets,
                            int64_t n, bool range, cst_filled *out) {
    double *sorted = cst_alloc(context, (size_t)n, sizeof *sorted);
    double low = INFINITY;
    double high = -INFINITY;
    *out = (cst_filled){.far_row = -1};
    if (!sorted)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        sorted[i] = values[i];
        low = fmin(low, targets[i]);
        high = fmax(high, targets[i]);
    }
    cst_status status = cst_sort(context, sorted, (size_t)n, sizeof *sorted, by_value);
    bool found = status == CST_OK && one_value(sorted, n, &out->value, &out->rows) &&
                 is_filled(values, targets, n, out->value, range);
    out->rows = found ? out->rows : 0;
    int64_t far = 0;
    for (int64_t i = 0; range && high > low && i < n; i++)
        if (fabs(values[i] - low) > FAR * (high - low)) {
            out->far_row = far == 0 ? i : out->far_row;
            far++;
        }
    if (far > 1 + n / 100)
        out->far_row = -1;
    else if (far > 0)
        out->far_value = values[out->far_row];
    cst_free(context, sorted);
    return status;
}

cst_status cst_check_tell_filled(cst_context *context, const cst_check_sample *sample,
                                 cst_member_facts *facts, cst_findings *findings) {
    const cst_check_source *source = sample->source;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < sample->view->members; k++) {
        const cst_filled *filled = &facts[k].filled;
        const char *name = cst_check_name(source, k);
        if (facts[k].association.constant || (filled->rows == 0 && filled->far_row < 0))
            continue;
        facts[k].association.explained = true;
        if (filled->rows > 0) {
            status = cst_findings_add(
                context, findings, "absent", false, &k, 1,
                "'%.60s' gives %.6g to %lld of %lld rows, whose %s are like those of the others: "
                "were these rows not predicted? Then write NaN there, and use --missing allow",
                name, filled->value, (long long)filled->rows, (long long)sample->rows,
                sample->view->labels ? "labels" : "targets");
        } else {
            int64_t row = sample->position[filled->far_row];
            status = cst_findings_add(
                context, findings, "scale", false, &k, 1,
                "'%.60s' gives %.6g to row %lld, more than %.0f times the range of the targets "
                "from all of them: correct the prediction, or write NaN there, and use --missing "
                "allow",
                name, filled->far_value, (long long)(source->rows ? source->rows[row] : row), FAR);
        }
    }
    return status;
}

cst_status cst_check_tell_targets(cst_context *context, const cst_check_sample *sample, bool good,
                                  bool *found, cst_findings *findings) {
    int64_t n = sample->rows;
    double *sorted = cst_alloc(context, (size_t)n, sizeof *sorted);
    *found = false;
    if (!sorted)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < n; i++)
        sorted[i] = cst_view_target(sample->view, sample->position[i])[0];
    cst_status status = cst_sort(context, sorted, (size_t)n, sizeof *sorted, by_value);
    for (int end = 0; status == CST_OK && end < 2 && !*found; end++) {
        double value = end == 0 ? sorted[0] : sorted[n - 1];
        int64_t rows = 0;
        while (rows < n && fabs((end == 0 ? sorted[rows] : sorted[n - 1 - rows]) - value) <= 0)
            rows++;
        if (rows < 2 || 2 * rows > n)
            continue;
        double low = end == 0 ? sorted[rows] : sorted[0];
        double high = end == 0 ? sorted[n - 1] : sorted[n - 1 - rows];
        double gap = end == 0 ? low - value : value - high;
        if (!(gap > 3 * (high - low)) || !(high > low))
            continue;
        *found = true;
        status = cst_findings_add(
            context, findings, "labels", !good, NULL, 0,
            "split '%.60s': %lld of %lld targets are %.6g, far from all others (%.6g to %.6g): do "
            "they say that the target is not known? Then remove these rows from every file",
            sample->source->split, (long long)rows, (long long)n, value, low, high);
    }
    cst_free(context, sorted);
    return status;
}
