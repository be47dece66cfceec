/* Held-out predictions of cross-fitting, reduced to what the blend reads while they are made.
 * Between stages S3 and S4. Paper: "Laplace-Approximate Bayesian Blender". */
#include "fit/learners.h"

#include "method/blend/blend.h"
#include "method/gate/gate.h"
#include "method/linear/moments.h"
#include "model/kernels.h"

#include <math.h>
#include <string.h>

/* (sample, class) pairs worked on at a time (more where one sample has more classes). */
enum { CHUNK_PAIRS = 512 };

typedef struct pass {
    const cst_heldout *heldout;
    int64_t chunk;     /* samples */
    size_t scratch;    /* doubles that a design's tile may need */
    size_t squares_at; /* in the sums */
} pass;

typedef struct buffers {
    cst_slab slab;
    double *scores;     /* [learners][chunk * classes] */
    double *columns;    /* [12][CST_TILE] */
    double *samples;    /* [2][chunk] */
    double *scratch;    /* of a design's tile */
    double *work;       /* [chunk * classes], where members are scaled */
    float *scaled;      /* the same */
    float *predictions; /* [learners][chunk * classes] */
    const float **rows; /* [learners] */
} buffers;

static cst_status make_buffers(cst_context *context, cst_scope *scope, const pass *p, buffers *b) {
    const cst_heldout *h = p->heldout;
    size_t pairs = (size_t)p->chunk * (size_t)h->view->classes;
    size_t learners = (size_t)h->learners;
    size_t scaled = cst_model_scales(h->models[0]) ? pairs : 0;
    CST_TRY(cst_slab_open(context, scope, h->view, p->chunk, &b->slab));
    CST_TAKE(context, scope, b->scores, learners * pairs);
    CST_TAKE(context, scope, b->columns, (size_t)CST_AGGREGATORS * CST_TILE);
    CST_TAKE(context, scope, b->samples, 2 * p->chunk);
    CST_TAKE(context, scope, b->scratch, p->scratch);
    CST_TAKE(context, scope, b->work, scaled);
    CST_TAKE(context, scope, b->scaled, scaled);
    CST_TAKE(context, scope, b->predictions, learners * pairs);
    CST_TAKE(context, scope, b->rows, learners);
    return CST_OK;
}

static bool is_linear(const cst_learner *learner) {
    return learner->kind != CST_LEARNER_LOGLINEAR;
}

/* Whether some linear learner reads a gated column: else the gate need not run. */
static bool reads_gate(const cst_model *model) {
    for (int32_t m = 0; m < model->learners; m++)
        for (int32_t j = model->members; j < model->learner[m].coefficients; j++)
            if (is_linear(&model->learner[m]) && model->learner[m].weights[j] != 0)
                return true;
    return false;
}

/* Scores of all linear learners for the picked rows. */
static void linear_scores(const pass *p, const cst_model *model, buffers *b, int64_t count) {
    const float *const *members = b->slab.members;
    const cst_gate *gate = &model->gate;
    int64_t pairs = count * model->classes;
    int32_t gated = cst_design_columns(gate) - model->members;
    bool any = reads_gate(model);
    if (any && gate->mode == CST_GATE_LEARNED)
        cst_aggregate_samples(members, model->members, gate->best, count, model->classes,
                              b->samples, b->samples + count, b->scratch);
    for (int64_t first = 0; first < pairs; first += CST_TILE) {
        int64_t size = pairs - first < CST_TILE ? pairs - first : CST_TILE;
        if (any)
            cst_design_tile(gate, members, count, model->classes, first, size, b->samples,
                            b->columns, b->scratch);
        for (int32_t m = 0; m < model->learners; m++) {
            const cst_learner *learner = &model->learner[m];
            if (!is_linear(learner))
                continue;
            double *scores = b->scores + m * p->chunk * model->classes + first;
            for (int64_t e = 0; e < size; e++)
                scores[e] = learner->bias[0];
            for (int32_t k = 0; k < model->members; k++)
                if (learner->weights[k] != 0)
                    cst_add_scaled_f32(members[k] + first, size, learner->weights[k], scores);
            if (any)
                cst_add_columns(b->columns, CST_TILE, gated, size,
                                learner->weights + model->members, scores);
        }
    }
}

/* Probabilities of a log-linear learner for the picked rows. */
static void loglinear_rows(const cst_model *model, const cst_learner *learner, const buffers *b,
                           int64_t count, double *scores) {
    size_t classes = (size_t)model->classes;
    for (int64_t i = 0; i < count; i++) {
        double *row = scores + (size_t)i * classes;
        if (learner->biases > 0)
            memcpy(row, learner->bias, classes * sizeof *row);
        else
            memset(row, 0, classes * sizeof *row);
    }
    for (int32_t k = 0; k < model->members; k++)
        if (learner->weights[k] != 0)
            cst_learner_add(model, learner, k, b->slab.members[k], count, b->work, b->scaled,
                            scores);
    for (int64_t i = 0; i < count; i++)
        cst_softmax(model->classes, scores + (size_t)i * classes);
}

/* Adds the squared errors of scores of the picked rows, by the rows' weights. */
static void add_squares(const cst_view *view, const int64_t *rows, int64_t count,
                        const double *scores, double *sum) {
    for (int64_t i = 0; i < count; i++) {
        const double *row = scores + i * view->classes;
        double square = 0;
        for (int32_t c = 0; c < view->classes; c++) {
            double error = cst_design_target(view, rows[i], c) - row[c];
            square += error * error;
        }
        *sum += cst_view_weight(view, rows[i]) * square;
    }
}

/* Predicts the picked rows with the model of their fold, and keeps what is asked for. rows: their
 * positions in the view. */
static void add_chunk(const pass *p, const cst_model *model, buffers *b, const int64_t *rows,
                      int64_t count, double *sum) {
    const cst_heldout *h = p->heldout;
    int64_t classes = model->classes;
    int64_t stride = p->chunk * classes;
    linear_scores(p, model, b, count);
    for (int32_t m = 0; m < h->learners; m++) {
        double *scores = b->scores + m * stride;
        if (h->squares && is_linear(&model->learner[m]))
            add_squares(h->view, rows, count, scores, sum + p->squares_at + m);
        if (is_linear(&model->learner[m]))
            cst_probability_rows(cst_learner_map(model, &model->learner[m]), count, model->classes,
                                 scores);
        else
            loglinear_rows(model, &model->learner[m], b, count, scores);
        cst_learner_calibrate(&model->learner[m], count, scores);
        for (int64_t i = 0; i < count; i++)
            h->truth[m * h->view->rows + rows[i]] =
                (float)scores[i * classes + cst_view_label(h->view, rows[i])];
        float *predictions = b->predictions + m * stride;
        for (int64_t e = 0; h->moments && e < count * classes; e++)
            predictions[e] = (float)scores[e];
    }
    for (int64_t i = 0; h->moments && i < count; i++) {
        for (int32_t m = 0; m < h->learners; m++)
            b->rows[m] = b->predictions + m * stride + i * classes;
        cst_residual_products(b->rows, h->learners, model->classes,
                              cst_view_label(h->view, rows[i]), cst_view_weight(h->view, rows[i]),
                              sum);
    }
}

/* Rows of one fold in the slab, chunk by chunk. */
static void add_fold(const pass *p, int32_t fold, buffers *b, int64_t first, int64_t count,
                     double *sum) {
    const cst_heldout *h = p->heldout;
    int64_t picked[CST_BLOCK_ROWS];
    int64_t rows[CST_BLOCK_ROWS];
    int64_t held = 0;
    for (int64_t i = 0; i < count; i++) {
        if (h->folds[first + i] == fold) {
            picked[held] = i;
            rows[held++] = first + i;
        }
        if (held == p->chunk || (held > 0 && i + 1 == count)) {
            cst_slab_pick(&b->slab, picked, held);
            add_chunk(p, h->models[fold], b, rows, held, sum);
            held = 0;
        }
    }
}

static cst_status add_block(cst_context *worker, void *user, int64_t block, double *sum) {
    const pass *p = user;
    const cst_heldout *h = p->heldout;
    int64_t first = cst_block_first(block);
    int64_t end = first + cst_block_size(h->view->rows, block);
    buffers b;
    CST_SCOPE(scope);
    CST_TRY(make_buffers(worker, scope, p, &b));
    for (; first < end; first += b.slab.capacity) {
        int64_t count = end - first < b.slab.capacity ? end - first : b.slab.capacity;
        CST_TRY(cst_slab_read(worker, &b.slab, first, count));
        for (int32_t f = 0; f < h->fold_count; f++)
            add_fold(p, f, &b, first, count, sum);
    }
    return CST_OK;
}

cst_status cst_heldout_run(cst_context *context, const cst_heldout *heldout) {
    int32_t classes = heldout->view->classes;
    size_t learners = (size_t)heldout->learners;
    size_t square = heldout->moments ? learners * learners : 0;
    size_t width = square + (heldout->squares ? learners : 0);
    int64_t rows = heldout->view->rows;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, sum, width);
    CST_NEW(context, scope, cst_share, truth, learners);
    pass p = {.heldout = heldout,
              .chunk = classes < CHUNK_PAIRS ? CHUNK_PAIRS / classes : 1,
              .squares_at = square};
    for (int32_t f = 0; f < heldout->fold_count; f++) {
        size_t needed = cst_design_scratch(&heldout->models[f]->gate, p.chunk);
        p.scratch = needed > p.scratch ? needed : p.scratch;
    }
    for (size_t m = 0; m < learners; m++)
        truth[m] = cst_share_rows(heldout->truth + m * (size_t)rows, rows, sizeof(float));
    CST_TRY(cst_reduce_fill(context, cst_block_count(rows), width, add_block, &p, sum, truth,
                            (int32_t)learners));
    double pairs = cst_view_weight_sum(heldout->view) * (double)classes;
    for (size_t a = 0; a < learners && square > 0; a++)
        for (size_t b = a; b < learners; b++) {
            heldout->moments[a * learners + b] = sum[a * learners + b] / pairs;
            heldout->moments[b * learners + a] = heldout->moments[a * learners + b];
        }
    for (size_t m = 0; heldout->squares && m < learners; m++)
        heldout->squares[m] =
            is_linear(&heldout->models[0]->learner[m]) ? sum[square + m] / pairs : (double)NAN;
    return CST_OK;
}
