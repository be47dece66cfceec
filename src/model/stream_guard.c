/* The guard on a stream: a window of the levels of its rows, also in ascending order, and of the
 * confidence of stack and average. Its size bounds memory and time. */
#include "model/guard.h"

#include "model/kernels.h"

#include <math.h>
#include <string.h>

struct cst_stream_guard {
    cst_scope scope;
    const cst_model *model;
    const cst_mixing *mixing; /* NULL: by levels alone */
    int64_t window;           /* most rows */
    int64_t rows;             /* in the window */
    int64_t next;             /* the place of the next row, and of the oldest if full */
    int64_t seen;             /* rows so far */
    int64_t above;            /* rows of the window with a level over 1/2 */
    double *level;            /* [window] */
    double *sorted;           /* [window] */
    int64_t *hull;            /* [window + 1] */
    cst_mixing_row *row[CST_MIXING_SIDES]; /* [window] */
    float *at[CST_MIXING_SIDES];           /* [window][CST_MIXING_POINTS] */
    double temperature[CST_MIXING_SIDES][CST_MIXING_POINTS];
    double *sum;    /* [classes] */
    float *average; /* [classes] */
    float *work;    /* [2][classes] */
    int32_t *count; /* [classes] */
    cst_guard_batch found;
};

cst_status cst_stream_guard_make(cst_context *context, const cst_model *model, int64_t window,
                                 cst_stream_guard **out) {
    cst_stream_guard *s = cst_alloc(context, 1, sizeof *s);
    *out = s;
    if (!s)
        return CST_ERROR_MEMORY;
    cst_scope *scope = &s->scope;
    s->model = model;
    s->mixing = cst_guard_mixing(model);
    s->window = window;
    s->found = cst_guard_batch_of(0, 0);
    s->found.pi = 1;
    CST_TAKE(context, scope, s->level, window);
    CST_TAKE(context, scope, s->sorted, window);
    CST_TAKE(context, scope, s->hull, window + 1);
    CST_TAKE(context, scope, s->sum, model->classes);
    CST_TAKE(context, scope, s->average, model->classes);
    CST_TAKE(context, scope, s->work, 2 * (int64_t)model->classes);
    CST_TAKE(context, scope, s->count, model->classes);
    for (int side = 0; side < CST_MIXING_SIDES; side++) {
        CST_TAKE(context, scope, s->row[side], window);
        CST_TAKE(context, scope, s->at[side], window * CST_MIXING_POINTS);
        if (s->mixing)
            cst_mixing_temperatures(s->mixing, side, s->temperature[side]);
    }
    return CST_OK;
}

void cst_stream_guard_free(cst_context *context, cst_stream_guard *stream) {
    if (!stream)
        return;
    cst_scope_free(&stream->scope);
    cst_free(context, stream);
}

/* ---- the window ---- */

/* The first place of the sorted levels whose level is not below. */
static int64_t place_of(const cst_stream_guard *s, double level) {
    int64_t low = 0;
    int64_t high = s->rows;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (s->sorted[middle] < level)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void drop_oldest(cst_stream_guard *s) {
    double level = s->level[s->next];
    int64_t at = place_of(s, level);
    s->rows--;
    s->above -= level > 0.5;
    memmove(s->sorted + at, s->sorted + at + 1, (size_t)(s->rows - at) * sizeof *s->sorted);
}

/* Takes a level in; returns its row's place in the window. */
static int64_t take(cst_stream_guard *s, double level) {
    if (s->rows == s->window)
        drop_oldest(s);
    int64_t at = place_of(s, level);
    memmove(s->sorted + at + 1, s->sorted + at, (size_t)(s->rows - at) * sizeof *s->sorted);
    s->sorted[at] = level;
    int64_t place = s->next;
    s->level[place] = level;
    s->rows++;
    s->above += level > 0.5;
    s->next = (place + 1) % s->window;
    s->seen++;
    return place;
}

/* ---- the average ---- */

static void add(cst_stream_guard *s, const float *row, int32_t *members) {
    cst_add_scaled_f32(row, s->model->classes, 1, s->sum);
    ++*members;
}

static void average_row(cst_stream_guard *s, const float *const *predictions,
                        const float *const *others, int64_t at) {
    int32_t classes = s->model->classes;
    int32_t members = 0;
    memset(s->sum, 0, (size_t)classes * sizeof *s->sum);
    for (int32_t k = 0; k < cst_model_members(s->model); k++)
        add(s, predictions[k], &members);
    for (int32_t k = 0; others && k < s->model->reference.novelty->others; k++)
        if (others[k] && !cst_guard_is_input(s->model, k))
            add(s, others[k] + at, &members);
    for (int32_t c = 0; c < classes; c++)
        s->average[c] = (float)(s->sum[c] / members);
}

static double temperature_of(const cst_stream_guard *s, int side, const cst_mixing_side *found) {
    double mean[CST_MIXING_POINTS] = {0};
    for (int64_t i = 0; i < s->rows; i++)
        for (int t = 0; t < CST_MIXING_POINTS; t++)
            mean[t] += (double)s->at[side][i * CST_MIXING_POINTS + t] / (double)s->rows;
    return cst_mixing_temperature(s->mixing, side, found, mean);
}

/* ---- a row ---- */

/* By what the fit knows of stack and average: the row's weight, at least CST_MIXING_LEAST. */
static void lean_row(cst_stream_guard *s, double lambda, float *out) {
    cst_mixing_side stack =
        cst_mixing_look(s->mixing, CST_MIXING_STACK, s->row[CST_MIXING_STACK], s->rows, s->count);
    s->found.z = stack.z;
    s->found.accuracy = stack.accuracy > 0 ? stack.accuracy : 0;
    s->found.fired = s->found.fired || stack.z < CST_MIXING_Z;
    if (!s->found.fired)
        return;
    cst_mixing_side average = cst_mixing_look(s->mixing, CST_MIXING_AVERAGE,
                                              s->row[CST_MIXING_AVERAGE], s->rows, s->count);
    s->found.lambda = s->found.lambda > CST_MIXING_LEAST ? s->found.lambda : CST_MIXING_LEAST;
    s->found.flatten = temperature_of(s, CST_MIXING_STACK, &stack);
    s->found.sharpen = temperature_of(s, CST_MIXING_AVERAGE, &average);
    cst_mixing_mix(out, s->average, s->model->classes, s->found.flatten, s->found.sharpen,
                   lambda > CST_MIXING_LEAST ? lambda : CST_MIXING_LEAST, s->work, out);
}

void cst_stream_guard_row(cst_stream_guard *s, const float *const *predictions,
                          const float *const *others, int64_t at, float *out) {
    int32_t classes = s->model->classes;
    cst_novelty_found found;
    double level = cst_novelty_row(s->model->reference.novelty, predictions, s->work);
    int64_t place = take(s, level);
    average_row(s, predictions, others, at);
    const float *sides[CST_MIXING_SIDES] = {
        [CST_MIXING_STACK] = out, [CST_MIXING_AVERAGE] = s->average};
    for (int side = 0; s->mixing && side < CST_MIXING_SIDES; side++)
        cst_mixing_measure(sides[side], 1, classes, s->temperature[side], CST_MIXING_POINTS,
                           s->work, &s->row[side][place], s->at[side] + place * CST_MIXING_POINTS);
    double lambda = cst_novelty_sorted(s->sorted, s->rows, s->above, level, s->hull, &found);
    s->found = cst_guard_batch_of(s->seen - s->rows, s->rows);
    s->found.tested = found.judged;
    s->found.fired = found.fired;
    s->found.pi = found.pi;
    s->found.unlike = found.unlike;
    s->found.lambda = found.lambda;
    if (!found.judged || s->model->adapted)
        return;
    if (s->mixing)
        lean_row(s, lambda, out);
    else
        for (int32_t c = 0; lambda > 0 && c < classes; c++)
            out[c] = (float)((1 - lambda) * (double)out[c] + lambda * (double)s->average[c]);
}

void cst_stream_guard_found(const cst_stream_guard *stream, cst_guard_batch *out) {
    *out = stream->found;
}
