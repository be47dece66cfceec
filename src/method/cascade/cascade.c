/* Thresholds of a cascade. See the header. */
#include "method/cascade/cascade.h"

#include "core/scope.h"
#include "stats/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What all members cost is worth 10^-5 to 1 of loss, ten steps to a power of ten. */
enum { BOLDER = 51, TO_TEN = 10, LEAST_POWER = -5 };

static const double NEVER = 2;

typedef struct placed {
    double sure;
    int64_t row;
} placed;

CST_BY(by_sure, placed, CST_DOWN(sure), CST_UP(row), 0)

typedef struct search {
    const cst_cascade_rows *rows;
    int64_t count;     /* rows for the thresholds */
    placed *ranked;    /* [stages][count]: those, surest first */
    double *value;     /* [rows]: least loss plus cost from the next stage on */
    double *threshold; /* [BOLDER][stages] */
} search;

typedef struct outcome {
    int64_t failed;
    double loss;
    double cost;
} outcome;

int32_t cst_cascade_stop(const cst_cascade_rows *rows, const double *threshold, int64_t row) {
    int32_t s = 0;
    while (s < rows->stages && rows->sure[(int64_t)s * rows->rows + row] < threshold[s])
        s++;
    return s;
}

/* Of the rows for the test, or of those for the thresholds. */
static outcome look(const cst_cascade_rows *rows, const double *threshold, uint8_t tested) {
    outcome sum = {0, 0, 0};
    for (int64_t i = 0; i < rows->rows; i++) {
        if (rows->tested[i] != tested)
            continue;
        int32_t s = cst_cascade_stop(rows, threshold, i);
        sum.cost += rows->cost[s];
        sum.loss += s < rows->stages ? rows->loss[(int64_t)s * rows->rows + i] : 0;
        sum.failed += s < rows->stages ? rows->failed[(int64_t)s * rows->rows + i] : 0;
    }
    return sum;
}

/* The threshold of a stage for which stopping above and going on below costs least. */
static double best_threshold(const placed *ranked, int64_t count, const double *gain) {
    double sum = 0;
    double least = 0;
    int64_t stop = 0; /* rows that stop */
    for (int64_t i = 0; i < count; i++) {
        sum += gain[ranked[i].row];
        if (sum < least && (i + 1 == count || ranked[i].sure > ranked[i + 1].sure)) {
            least = sum;
            stop = i + 1;
        }
    }
    if (stop == 0)
        return NEVER;
    return stop == count ? ranked[stop - 1].sure : (ranked[stop - 1].sure + ranked[stop].sure) / 2;
}

/* From the last stage to the first: V = loss where a row stops, else price x cost + V of the next.
 */
static void induce(const search *s, double price, double *gain, double *threshold) {
    const cst_cascade_rows *rows = s->rows;
    memset(s->value, 0, (size_t)rows->rows * sizeof *s->value);
    for (int32_t at = rows->stages - 1; at >= 0; at--) {
        const placed *ranked = s->ranked + (int64_t)at * s->count;
        int64_t first = (int64_t)at * rows->rows;
        double step = price * (rows->cost[at + 1] - rows->cost[at]);
        for (int64_t k = 0; k < s->count; k++) {
            int64_t i = ranked[k].row;
            gain[i] = rows->loss[first + i] + rows->failed[first + i] - (s->value[i] + step);
        }
        threshold[at] = best_threshold(ranked, s->count, gain);
        for (int64_t k = 0; k < s->count; k++) {
            int64_t i = ranked[k].row;
            s->value[i] += step + (ranked[k].sure >= threshold[at] ? gain[i] : 0);
        }
    }
}

/* Thresholds of rising prices up to a limit. Returns their number. */
static int walk(const search *s, const cst_cascade_limits *limits, double *gain,
                cst_cascade_found *out) {
    double count = (double)s->count;
    out->cheapest = 1;
    for (int l = 0; l < BOLDER; l++) {
        double *threshold = s->threshold + (int64_t)l * s->rows->stages;
        induce(s, pow(10, LEAST_POWER + l / (double)TO_TEN), gain, threshold);
        outcome now = look(s->rows, threshold, 0);
        if (now.loss > limits->loss * count || (double)now.failed > limits->alpha * count)
            return l;
        out->cheapest = now.cost / count;
    }
    return BOLDER;
}

static void test(const search *s, const cst_cascade_limits *limits, int most, double *threshold,
                 cst_cascade_found *out) {
    for (int32_t at = 0; at < s->rows->stages; at++)
        threshold[at] = NEVER;
    out->tested = s->rows->rows - s->count;
    out->bound = out->share = 1;
    for (int l = 0; l < most; l++) {
        const double *next = s->threshold + (int64_t)l * s->rows->stages;
        outcome now = look(s->rows, next, 1);
        double bound = cst_binomial_upper(now.failed, out->tested, 1 - limits->confidence);
        if (bound > limits->alpha)
            return;
        memcpy(threshold, next, (size_t)s->rows->stages * sizeof *threshold);
        out->failed = now.failed;
        out->bound = bound;
        out->share = now.cost / (double)out->tested;
    }
}

cst_status cst_cascade_choose(cst_context *context, const cst_cascade_rows *rows,
                              const cst_cascade_limits *limits, double *threshold,
                              cst_cascade_found *out) {
    search s = {.rows = rows};
    *out = (cst_cascade_found){0};
    for (int64_t i = 0; i < rows->rows; i++)
        s.count += !rows->tested[i];
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, gain, rows->rows);
    CST_TAKE(context, scope, s.value, rows->rows);
    CST_TAKE(context, scope, s.ranked, (size_t)rows->stages * (size_t)s.count);
    CST_TAKE(context, scope, s.threshold, (size_t)BOLDER * (size_t)rows->stages);
    for (int32_t at = 0; at < rows->stages; at++) {
        placed *to = s.ranked + (int64_t)at * s.count;
        for (int64_t i = 0; i < rows->rows; i++)
            if (!rows->tested[i])
                *to++ = (placed){rows->sure[(int64_t)at * rows->rows + i], i};
        if (s.count > 0)
            qsort(to - s.count, (size_t)s.count, sizeof *to, by_sure);
    }
    int most = s.count > 0 && rows->stages > 0 ? walk(&s, limits, gain, out) : 0;
    test(&s, limits, most, threshold, out);
    return CST_OK;
}
