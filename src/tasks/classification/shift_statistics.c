/* How a statistic of several methods, with its draws, becomes keys of their rows. */
#include "tasks/classification/shift.h"

#include "stats/percentile.h"

#include <math.h>
#include <string.h>

enum { KEY_CHARS = 320 };

cst_status cst_statistics_make(cst_context *context, const cst_shift *shift, int32_t size,
                               const char *const *names, cst_statistics *out) {
    *out = (cst_statistics){.size = size, .names = names};
    size_t count = (size_t)shift->count * (size_t)size;
    out->value = cst_alloc(context, count, sizeof *out->value);
    if (shift->resamples > 0)
        out->drawn = cst_alloc(context, count * (size_t)shift->resamples, sizeof *out->drawn);
    return out->value && (out->drawn || shift->resamples <= 0) ? CST_OK : CST_ERROR_MEMORY;
}

void cst_statistics_free(cst_context *context, cst_statistics *statistics) {
    cst_free(context, statistics->value);
    cst_free(context, statistics->drawn);
    *statistics = (cst_statistics){0};
}

double *cst_statistics_value(const cst_statistics *statistics, int32_t m) {
    return statistics->value + (size_t)m * (size_t)statistics->size;
}

double *cst_statistics_drawn(const cst_shift *shift, const cst_statistics *statistics, int32_t m) {
    return statistics->drawn
               ? statistics->drawn + (size_t)m * (size_t)statistics->size * (size_t)shift->resamples
               : NULL;
}

/* The object that "a.b" belongs to, made where it is not there; *key becomes "b". */
static json_t *place(cst_report *report, json_t *object, const char **key) {
    char part[KEY_CHARS];
    const char *dot = strchr(*key, '.');
    if (!dot)
        return object;
    (void)cst_snprintf(part, sizeof part, "%.*s", (int)(dot - *key), *key);
    *key = dot + 1;
    json_t *found = json_object_get(object, part);
    return found ? found : cst_report_object(report, object, part);
}

/* A value, and its interval where every draw is a number. draws [resamples], put in another order.
 */
static void put(const cst_shift *shift, json_t *object, const char *name, double value,
                double *draws) {
    char key[KEY_CHARS];
    bool known = draws != NULL;
    json_t *at = place(shift->report, object, &name);
    cst_report_number(shift->report, at, name, value);
    for (int32_t r = 0; known && r < shift->resamples; r++)
        known = isfinite(draws[r]);
    if (!known)
        return;
    cst_interval interval = cst_interval_of(draws, shift->resamples, value);
    double ends[2] = {interval.low, interval.high};
    (void)cst_snprintf(key, sizeof key, "%s_ci", name);
    cst_report_numbers(shift->report, at, key, ends, 2);
}

cst_status cst_statistics_put(cst_context *context, const cst_shift *shift,
                              const cst_statistics *statistics) {
    size_t n = (size_t)shift->resamples;
    bool drawn = statistics->drawn != NULL;
    double *copy = cst_alloc(context, drawn ? n : 0, sizeof *copy);
    if (!copy)
        return CST_ERROR_MEMORY;
    for (int32_t m = 0; m < shift->count; m++) {
        json_t *row = shift->methods[m].row;
        const double *value = cst_statistics_value(statistics, m);
        const double *draws = cst_statistics_drawn(shift, statistics, m);
        for (int32_t s = 0; s < statistics->size; s++) {
            if (drawn)
                memcpy(copy, draws + (size_t)s * n, n * sizeof *copy);
            put(shift, row, statistics->names[s], value[s], drawn ? copy : NULL);
        }
        if (shift->reference < 0 || m == shift->reference || !drawn)
            continue;
        json_t *difference = json_object_get(row, "difference");
        if (!difference)
            difference = cst_report_object(shift->report, row, "difference");
        const double *other = cst_statistics_value(statistics, shift->reference);
        const double *others = cst_statistics_drawn(shift, statistics, shift->reference);
        for (int32_t s = 0; s < statistics->size; s++) {
            for (size_t r = 0; r < n; r++)
                copy[r] = draws[(size_t)s * n + r] - others[(size_t)s * n + r];
            put(shift, difference, statistics->names[s], value[s] - other[s], copy);
        }
    }
    cst_free(context, copy);
    return CST_OK;
}
