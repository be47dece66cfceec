/* Adaptive conformal inference. See the header. */
#include "fit/adapt/online_conformal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool in_range(double alpha, double step) {
    return alpha > 0 && alpha < 1 && step > 0 && step <= 1;
}

cst_status cst_aci_start(cst_context *context, double alpha, double step, cst_aci *out) {
    *out = (cst_aci){.alpha = alpha, .step = step, .level = alpha};
    if (in_range(alpha, step))
        return CST_OK;
    return cst_fail(context, CST_ERROR_ARGUMENT,
                    "adaptive conformal sets: alpha must be between 0 and 1, the step above 0 and "
                    "at most 1");
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

bool cst_aci_restore(cst_aci *aci) {
    bool valid =
        in_range(aci->alpha, aci->step) && isfinite(aci->level) && aci->rows >= 0 &&
        aci->missed >= 0 && aci->missed <= aci->rows && aci->count >= 0 &&
        aci->count <= CST_ACI_WINDOW && aci->count <= aci->rows && aci->next >= 0 &&
        (aci->count < CST_ACI_WINDOW ? aci->next == aci->count : aci->next < CST_ACI_WINDOW);
    for (int32_t i = 0; valid && i < aci->count; i++)
        valid = isfinite(aci->scores[i]);
    /* After any rows the level is alpha plus steps of alpha for hits and alpha - 1 for misses. */
    valid = valid && aci->level >= aci->alpha - aci->step * (double)aci->rows - 1e-6 &&
            aci->level <= aci->alpha + aci->step * (double)aci->rows + 1e-6;
    if (!valid)
        return false;
    memcpy(aci->sorted, aci->scores, (size_t)aci->count * sizeof *aci->sorted);
    qsort(aci->sorted, (size_t)aci->count, sizeof *aci->sorted, by_value);
    return true;
}

double cst_aci_threshold(const cst_aci *aci) {
    double place = ceil(((double)aci->count + 1) * (1 - aci->level) * (1 - 1e-15));
    if (aci->level >= 1 || place < 1)
        return -INFINITY;
    return place > (double)aci->count ? INFINITY : aci->sorted[(int32_t)place - 1];
}

/* The first place of `sorted` whose value is not below `value`. */
static int32_t place_of(const cst_aci *aci, int32_t count, double value) {
    int32_t low = 0;
    int32_t high = count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (aci->sorted[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void keep(cst_aci *aci, double score) {
    if (aci->count == CST_ACI_WINDOW) {
        int32_t out = place_of(aci, aci->count, aci->scores[aci->next]);
        memmove(aci->sorted + out, aci->sorted + out + 1,
                (size_t)(aci->count - out - 1) * sizeof *aci->sorted);
        aci->count--;
    }
    int32_t in = place_of(aci, aci->count, score);
    memmove(aci->sorted + in + 1, aci->sorted + in,
            (size_t)(aci->count - in) * sizeof *aci->sorted);
    aci->sorted[in] = score;
    aci->scores[aci->next] = score;
    aci->count++;
    aci->next = aci->count < CST_ACI_WINDOW ? aci->count : (aci->next + 1) % CST_ACI_WINDOW;
}

void cst_aci_update(cst_aci *aci, bool covered, double score) {
    aci->rows++;
    aci->missed += !covered;
    aci->level += aci->step * (aci->alpha - (covered ? 0 : 1));
    if (isfinite(score))
        keep(aci, score);
}
