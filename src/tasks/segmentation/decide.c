/* Label maps of probabilities, and offsets of classes for them. See the header. */
#include "tasks/segmentation/segmentation.h"

#include <math.h>
#include <string.h>

static const char KEY[] = "segment.offsets";

/* Offsets that are tried for a class, around the present one, nats. */
static const double STEPS[] = {-1, -0.5, -0.25, -0.1, 0.1, 0.25, 0.5, 1};

enum { ROUNDS_MAX = 20, STEP_COUNT = sizeof STEPS / sizeof STEPS[0] };
enum { NUMBER_CHARS = 32 };

void cst_decide_rows(const float *probabilities, int64_t count, int32_t classes,
                     const double *offsets, int32_t *out) {
    if (!offsets) {
        cst_label_rows(probabilities, count, classes, out);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const float *row = probabilities + (size_t)i * (size_t)classes;
        double best = -INFINITY;
        out[i] = 0;
        for (int32_t c = 0; c < classes; c++) {
            double score = row[c] > 0 ? log((double)row[c]) + offsets[c] : -INFINITY;
            out[i] = score > best ? c : out[i];
            best = score > best ? score : best;
        }
    }
}

typedef struct search {
    const float *logs; /* [rows][classes] log-probabilities */
    const int32_t *labels;
    const double *weight; /* [classes] of a pixel with that label */
    int64_t rows;
    int32_t classes;
    const double *offsets; /* [classes] at present */
    int32_t turn;          /* the class whose offset is tried */
} search;

/* Weighted confusion in the form that mIoU needs: true positives, labels, predictions. */
static double miou_of(const double *counts, int32_t classes) {
    double sum = 0;
    int32_t present = 0;
    for (int32_t c = 0; c < classes; c++) {
        double hit = counts[c];
        double either = counts[classes + c] + counts[2 * classes + c] - hit;
        present += either > 0;
        sum += either > 0 ? hit / either : 0;
    }
    return present > 0 ? sum / present : 0;
}

/* Adds a block for every step of the class whose turn it is: [STEP_COUNT + 1][3][classes]. A pixel
 * is that class's from the step on at which it overtakes the others. */
static cst_status add_block(cst_context *worker, void *user, int64_t block, double *sum) {
    (void)worker;
    const search *s = user;
    size_t classes = (size_t)s->classes;
    int64_t first = cst_block_first(block);
    int64_t count = cst_block_size(s->rows, block);
    for (int64_t i = first; i < first + count; i++) {
        const float *row = s->logs + (size_t)i * classes;
        int32_t other = -1;
        double best = -INFINITY;
        for (int32_t c = 0; c < s->classes; c++) {
            double score = (double)row[c] + s->offsets[c];
            if (c != s->turn && (other < 0 || score > best)) {
                best = score;
                other = c;
            }
        }
        double own = (double)row[s->turn] + s->offsets[s->turn];
        double weight = s->weight[s->labels[i]];
        for (int32_t k = 0; k <= STEP_COUNT; k++) {
            double score = own + (k < STEP_COUNT ? STEPS[k] : 0);
            bool taken = score > best || (score >= best && s->turn < other);
            int32_t predicted = taken ? s->turn : other;
            double *counts = sum + (size_t)k * 3 * classes;
            counts[s->labels[i]] += predicted == s->labels[i] ? weight : 0;
            counts[classes + (size_t)s->labels[i]] += weight;
            counts[2 * classes + (size_t)predicted] += weight;
        }
    }
    return CST_OK;
}

static cst_status try_class(cst_context *context, search *s, double *offsets, double *sum,
                            bool *moved) {
    size_t width = (size_t)(STEP_COUNT + 1) * 3 * (size_t)s->classes;
    CST_TRY(cst_reduce_blocks(context, cst_block_count(s->rows), width, add_block, s, sum));
    int32_t best = STEP_COUNT;
    double most = miou_of(sum + (size_t)STEP_COUNT * 3 * (size_t)s->classes, s->classes) + 1e-9;
    for (int32_t k = 0; k < STEP_COUNT; k++) {
        double value = miou_of(sum + (size_t)k * 3 * (size_t)s->classes, s->classes);
        if (value > most) {
            most = value;
            best = k;
        }
    }
    if (best < STEP_COUNT) {
        offsets[s->turn] += STEPS[best];
        *moved = true;
    }
    return CST_OK;
}

cst_status cst_offsets_choose(cst_context *context, const float *probabilities,
                              const int32_t *labels, int64_t rows, int32_t classes,
                              const double *prior, const double *share, double *out) {
    size_t cells = (size_t)rows * (size_t)classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, logs, cells);
    CST_NEW(context, scope, double, weight, classes);
    CST_NEW(context, scope, double, sum, (STEP_COUNT + 1) * 3 * (size_t)classes);
    int32_t largest = 0;
    for (size_t i = 0; i < cells; i++)
        logs[i] = (float)log(fmax((double)probabilities[i], 1e-15));
    for (int32_t c = 0; c < classes; c++) {
        weight[c] = share[c] > 0 ? prior[c] / share[c] : 0;
        largest = prior[c] > prior[largest] ? c : largest;
        out[c] = 0;
    }
    search s = {.logs = logs,
                .labels = labels,
                .weight = weight,
                .rows = rows,
                .classes = classes,
                .offsets = out};
    bool moved = true;
    for (int round = 0; moved && round < ROUNDS_MAX; round++) {
        moved = false;
        for (s.turn = 0; s.turn < classes; s.turn++)
            if (s.turn != largest)
                CST_TRY(try_class(context, &s, out, sum, &moved));
    }
    return CST_OK;
}

cst_status cst_offsets_store(cst_context *context, const double *offsets, cst_model *model) {
    size_t room = sizeof KEY + 1 + (size_t)model->classes * NUMBER_CHARS;
    CST_NEW(context, &model->scope, char, text, room);
    CST_NEW(context, &model->scope, char *, grown, model->settings + 1);
    memcpy(grown, model->setting, model->settings * sizeof *grown);
    int used = cst_snprintf(text, room, "%s=", KEY);
    for (int32_t c = 0; c < model->classes; c++)
        used += cst_snprintf(text + used, room - (size_t)used, "%s%.17g", c ? "," : "", offsets[c]);
    model->setting = grown;
    model->setting[model->settings++] = text;
    return CST_OK;
}

cst_status cst_offsets_load(cst_context *context, cst_scope *scope, const cst_model *model,
                            double **out) {
    const char *text = cst_model_value(model, KEY);
    *out = NULL;
    if (!text)
        return CST_OK;
    CST_NEW(context, scope, double, offsets, model->classes);
    for (int32_t c = 0; c < model->classes; c++) {
        char *end = NULL;
        offsets[c] = cst_strtod(text, &end);
        char after = c + 1 < model->classes ? ',' : '\0';
        if (end == text || *end != after || !isfinite(offsets[c]))
            return cst_fail(
                context, CST_ERROR_FORMAT,
                "the model's %s are not one number per class (%d classes); fit it again", KEY,
                model->classes);
        text = end + 1;
    }
    *out = offsets;
    return CST_OK;
}
