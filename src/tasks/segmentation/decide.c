/* Label maps of probabilities, and offsets of classes for them. See the header. */
#include "tasks/segmentation/segmentation.h"

#include <math.h>
#include <string.h>

static const char KEY[] = "segment.offsets";

/* Offsets that are tried for a class, around the present one, nats. */
static const double STEPS[] = {-1, -0.5, -0.25, -0.1, 0.1, 0.25, 0.5, 1};

enum { ROUNDS_MAX = 20, STEP_COUNT = sizeof STEPS / sizeof STEPS[0] };
static const double LONGEST_STEP = 1 + 1e-6;
enum { NUMBER_CHARS = 32 };

enum { ROWS_TOGETHER = 64 };

void cst_decide_rows(const float *probabilities, int64_t count, int32_t classes,
                     const double *offsets, int32_t *out) {
    if (!offsets) {
        cst_label_rows(probabilities, count, classes, out);
        return;
    }
    for (int64_t first = 0; first < count; first += ROWS_TOGETHER) {
        double best[ROWS_TOGETHER];
        int64_t rows = count - first < ROWS_TOGETHER ? count - first : ROWS_TOGETHER;
        for (int32_t c = 0; c < classes; c++) {
            const float *p = probabilities + first * classes + c;
            double factor = exp(offsets[c]);
            for (int64_t i = 0; i < rows; i++) {
                double score = factor * (double)p[i * classes];
                bool better = c == 0 || score > best[i];
                best[i] = better ? score : best[i];
                out[first + i] = better ? c : out[first + i];
            }
        }
    }
}

typedef struct search {
    const float *logs; /* [rows][classes] log-probabilities */
    const int32_t *labels;
    const double *weight; /* [classes] of a pixel with that label */
    int64_t rows;
    int32_t classes;
    double *offsets; /* [classes] at present */
    int32_t *first;  /* [rows]: the class of the largest sum of logarithm and offset */
    int32_t *second; /* [rows]: the same of the other classes */
    double *counts;  /* [3][classes] at present: true positives, labels, predictions, weighted */
    double *tried;   /* [STEP_COUNT][3][classes]: the same after each step of a class */
} search;

double cst_counts_miou(const double *counts, int32_t classes) {
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

static double score_of(const search *s, int64_t row, int32_t c) {
    return (double)s->logs[row * s->classes + c] + s->offsets[c];
}

/* Whether class a of a row is before class b: of equal sums the lower. */
static bool before(const search *s, int64_t row, int32_t a, int32_t b) {
    double x = score_of(s, row, a);
    double y = score_of(s, row, b);
    return x > y || (x >= y && a < b);
}

static void rank_row(const search *s, int64_t row) {
    int32_t first = 0;
    int32_t second = -1;
    for (int32_t c = 1; c < s->classes; c++) {
        if (before(s, row, c, first)) {
            second = first;
            first = c;
        } else if (second < 0 || before(s, row, c, second)) {
            second = c;
        }
    }
    s->first[row] = first;
    s->second[row] = second;
}

/* Moves a pixel from class `from` to class `to`. */
static void move_pixel(const search *s, int32_t label, int32_t from, int32_t to, double *counts) {
    double weight = s->weight[label];
    counts[label] += (to == label ? weight : 0) - (from == label ? weight : 0);
    counts[2 * s->classes + from] -= weight;
    counts[2 * s->classes + to] += weight;
}

/* The counts after every step of a class: only pixels near its border change hands. */
static void try_steps(const search *s, int32_t turn) {
    size_t width = 3 * (size_t)s->classes;
    for (size_t k = 0; k < STEP_COUNT; k++)
        memcpy(s->tried + k * width, s->counts, width * sizeof *s->counts);
    for (int64_t i = 0; i < s->rows; i++) {
        bool owned = s->first[i] == turn;
        int32_t other = owned ? s->second[i] : s->first[i];
        double own = score_of(s, i, turn);
        double best = score_of(s, i, other);
        if (fabs(own - best) > LONGEST_STEP)
            continue;
        for (size_t k = 0; k < STEP_COUNT; k++) {
            double score = own + STEPS[k];
            bool taken = score > best || (score >= best && turn < other);
            if (taken != owned)
                move_pixel(s, s->labels[i], owned ? turn : other, owned ? other : turn,
                           s->tried + k * width);
        }
    }
}

/* Takes the best step of a class, if any raises the mIoU. */
static bool move_class(const search *s, int32_t turn) {
    size_t width = 3 * (size_t)s->classes;
    size_t best = STEP_COUNT;
    double most = cst_counts_miou(s->counts, s->classes) + 1e-9;
    try_steps(s, turn);
    for (size_t k = 0; k < STEP_COUNT; k++) {
        double value = cst_counts_miou(s->tried + k * width, s->classes);
        best = value > most ? k : best;
        most = value > most ? value : most;
    }
    if (best == STEP_COUNT)
        return false;
    s->offsets[turn] += STEPS[best];
    memcpy(s->counts, s->tried + best * width, width * sizeof *s->counts);
    for (int64_t i = 0; i < s->rows; i++)
        if (s->first[i] == turn || !before(s, i, s->second[i], turn))
            rank_row(s, i);
    return true;
}

cst_status cst_offsets_choose(cst_context *context, const float *probabilities,
                              const int32_t *labels, int64_t rows, int32_t classes,
                              const double *prior, const double *share, double *out) {
    size_t cells = (size_t)rows * (size_t)classes;
    CST_SCOPE(scope);
    CST_NEW(context, scope, float, logs, cells);
    CST_NEW(context, scope, double, weight, classes);
    CST_NEW(context, scope, double, counts, (STEP_COUNT + 1) * 3 * (size_t)classes);
    CST_NEW(context, scope, int32_t, ranks, 2 * (size_t)rows);
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
                .offsets = out,
                .first = ranks,
                .second = ranks + rows,
                .counts = counts,
                .tried = counts + 3 * (size_t)classes};
    for (int64_t i = 0; i < rows; i++) {
        rank_row(&s, i);
        counts[labels[i]] += s.first[i] == labels[i] ? weight[labels[i]] : 0;
        counts[classes + labels[i]] += weight[labels[i]];
        counts[2 * classes + s.first[i]] += weight[labels[i]];
    }
    bool moved = true;
    for (int round = 0; moved && round < ROUNDS_MAX; round++) {
        moved = false;
        for (int32_t c = 0; c < classes; c++) {
            CST_TRY(cst_poll(context));
            moved |= c != largest && move_class(&s, c);
        }
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
