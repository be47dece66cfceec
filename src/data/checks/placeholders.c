/* Rows without a prediction that hold a number all the same: zeros, -999, far outliers. */
#include "data/checks/parts.h"

#include <math.h>

/* Share of the rows from which one value is suspicious, and rows at least. */
static const double SHARE = 0.02;
static const double FEWEST = 5;
/* Ranges of the targets from which a value is far from all of them. */
static const double FAR = 20;

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

/* Whether the value is unlike the others although its rows' targets are like theirs and the member
 * tells those apart. apart: no other value is near. */
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
    double low = INFINITY;
    double high = -INFINITY;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sorted, n);
    *out = (cst_filled){.far_row = -1};
    for (int64_t i = 0; i < n; i++) {
        sorted[i] = values[i];
        low = fmin(low, targets[i]);
        high = fmax(high, targets[i]);
    }
    CST_TRY(cst_sort(context, sorted, (size_t)n, sizeof *sorted, cst_by_f64));
    bool found = one_value(sorted, n, &out->value, &out->rows) &&
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
    return CST_OK;
}

cst_status cst_check_tell_filled(cst_check *check) {
    for (int32_t k = 0; k < check->members; k++) {
        const cst_filled *filled = &check->facts[k].filled;
        const char *name = cst_check_name(check, k);
        cst_association *a = &check->facts[k].association;
        if (a->constant || (filled->rows == 0 && filled->far_row < 0))
            continue;
        a->explained = true;
        if (filled->rows > 0)
            CST_TRY(CST_SAY_OF(
                check, "absent", false, k,
                "'%.60s' gives %.6g to %lld of %lld rows, whose %s are like those of the others: "
                "were these rows not predicted? Then write NaN there, and use --missing allow",
                name, filled->value, (long long)filled->rows, (long long)check->rows,
                check->view->labels ? "labels" : "targets"));
        else
            CST_TRY(CST_SAY_OF(
                check, "scale", false, k,
                "'%.60s' gives %.6g to row %lld, more than %.0f times the range of the targets "
                "from all of them: correct the prediction, or write NaN there, and use --missing "
                "allow",
                name, filled->far_value,
                (long long)cst_check_row_number(check->source, check->position[filled->far_row]),
                FAR));
    }
    return CST_OK;
}

/* Outlying targets, at one end of the sorted ones. */
typedef struct outlying {
    int64_t rows;
    int64_t first; /* of the sample */
    double value;  /* of that row */
    bool same;     /* all have it */
    double off;    /* ranges of the others that members must be off by; 0: not asked */
    double low;    /* of the other targets */
    double high;
} outlying;

/* -1, 999, -99 and the like, which stand for a value that is not known. */
static bool is_mark(double value) {
    double size = fabs(value);
    for (double nines = 99; nines < 1e9; nines = 10 * nines + 9)
        if (fabs(size - nines) <= 0)
            return true;
    return fabs(value + 1) <= 0;
}

/* The most rows at one end whose targets are far from all others: the same in each, or few. */
static bool find_outlying(const double *sorted, int64_t n, bool top, outlying *out) {
    int64_t few = n / 20 < 5 ? n / 20 : 5;
    bool found = false;
    for (int64_t rows = 1; 2 * rows <= n; rows++) {
        double from = sorted[top ? n - 1 : 0];
        double last = sorted[top ? n - rows : rows - 1];
        double low = sorted[top ? 0 : rows];
        double high = sorted[top ? n - 1 - rows : n - 1];
        bool same = fabs(last - from) <= 0;
        if (!same && rows > few)
            break;
        double gap = high > low ? (top ? last - high : low - last) / (high - low) : 0;
        double off = gap > 3 ? (same && rows > 1 ? 0 : 3) : 0.5;
        if (gap > 3 || (gap > 0.1 && same && is_mark(from))) {
            *out = (outlying){rows, -1, last, same, off, low, high};
            found = true;
        }
    }
    return found;
}

/* Looks up the first of the rows; far: and members do not predict such targets. */
static cst_status look_up(const cst_check *s, outlying *o, bool *far) {
    *far = true;
    for (int64_t i = 0; *far && i < s->rows; i++) {
        double y = cst_view_target(s->view, s->position[i])[0];
        if (y >= o->low && y <= o->high)
            continue;
        if (o->first < 0) {
            o->first = i;
            o->value = y;
        }
        for (int32_t k = 0; k < s->members && o->off > 0; k++) {
            float value = 0;
            CST_TRY(cst_check_read(s->context, s, k, i, 1, &value));
            *far = *far && fabs((double)value - y) > o->off * (o->high - o->low);
        }
    }
    return CST_OK;
}

/* Targets that say that the target is not known (-999). */
cst_status cst_check_tell_targets(cst_check *check) {
    int64_t n = check->rows;
    outlying o = {0};
    bool found = false;
    bool good = cst_check_any_good(check);
    CST_SCOPE(scope);
    if (check->view->classes != 1)
        return CST_OK;
    CST_NEW(check->context, scope, double, sorted, n);
    for (int64_t i = 0; i < n; i++)
        sorted[i] = cst_view_target(check->view, check->position[i])[0];
    CST_TRY(cst_sort(check->context, sorted, (size_t)n, sizeof *sorted, cst_by_f64));
    for (int end = 0; end < 2 && !found; end++)
        if (find_outlying(sorted, n, end == 1, &o))
            CST_TRY(look_up(check, &o, &found));
    if (!found)
        return CST_OK;
    check->unknown = true;
    int64_t row = cst_check_row_number(check->source, check->position[o.first]);
    if (o.same && o.rows > 1)
        return CST_SAY(
            check, "labels", !good, 0,
            "split '%.60s': %lld of %lld targets are %.6g, far from all others (%.6g to %.6g; "
            "the first is row %lld): do they say that the target is not known? Then remove these "
            "rows from every file",
            check->source->split, (long long)o.rows, (long long)n, o.value, o.low, o.high,
            (long long)row);
    return CST_SAY(
        check, "labels", !good, 0,
        "split '%.60s': the target of row %lld is %.6g, far from the others (%.6g to %.6g) and "
        "from what the members predict%s: correct it, or remove the row from every file",
        check->source->split, (long long)row, o.value, o.low, o.high,
        o.rows > 1 ? ", and so are a few more targets" : "");
}
