/* Scores of a whole split, case by case. After a fit. docs/segmentation.md, "Scores". */
#include "tasks/segmentation/score.h"

#include "tasks/segmentation/boundary.h"
#include "tasks/segmentation/decide.h"

#include <string.h>

enum { PIECE_VALUES = 1 << 17 };

/* Rows that are predicted at a time, by each thread. */
static int64_t piece_rows(int32_t classes) {
    int64_t rows = PIECE_VALUES / classes / CST_BLOCK_ROWS * CST_BLOCK_ROWS;
    return rows > CST_BLOCK_ROWS ? rows : CST_BLOCK_ROWS;
}

cst_view cst_view_range(const cst_view *view, int64_t first, int64_t count, int64_t *index) {
    cst_view part = *view;
    for (int64_t i = 0; i < count; i++)
        index[i] = view->index ? view->index[first + i] : first + i;
    part.rows = count;
    part.index = index;
    part.attached = NULL;
    return part;
}

typedef struct score_job {
    const cst_scoring *scoring;
    cst_map_scores *out;
} score_job;

/* Buffers for one case. */
typedef struct buffers {
    float *probabilities; /* [piece][classes] */
    int64_t *index;       /* [piece] */
    int32_t *predicted;   /* [pixels]; none for label maps that are given */
    int64_t *confusion;   /* [classes][classes] */
} buffers;

/* Predicts the pixels of a case and adds what each says by itself. labels_of: [pixels], the
 * prediction. */
static cst_status predict_case(cst_context *worker, const score_job *job, int64_t index,
                               const buffers *b, const int32_t *labels_of, double *tally) {
    const cst_scoring *s = job->scoring;
    int32_t classes = job->out->classes;
    int64_t piece = piece_rows(classes);
    int64_t first = s->cases->first[index];
    int64_t pixels = s->cases->first[index + 1] - first;
    int32_t which = s->fit_of ? s->fit_of[index] : 0;
    const void *fit = s->predict ? s->fits[which] : NULL;
    const double *offsets =
        s->offsets && s->offsets_by_fit ? s->offsets + (size_t)which * (size_t)classes : s->offsets;
    for (int64_t at = 0; at < pixels; at += piece) {
        int64_t count = pixels - at < piece ? pixels - at : piece;
        const int32_t *labels = s->view.labels + first + at;
        CST_TRY(cst_poll(worker));
        if (!s->predicted && s->predict) {
            cst_view part = cst_view_range(&s->view, first + at, count, b->index);
            CST_TRY(s->predict(worker, fit, &part, b->probabilities));
            cst_decide_rows(b->probabilities, count, classes, offsets, b->predicted + at);
            cst_tally_probabilities(tally, classes, b->probabilities, labels, count);
        }
        cst_tally_labels(tally, classes, labels_of + at, labels, count, b->confusion);
    }
    return CST_OK;
}

/* Slice by slice: a boundary lies in a plane. */
static cst_status add_boundaries(cst_context *worker, const score_job *job, int64_t index,
                                 const int32_t *predicted, double *tally) {
    const cst_scoring *s = job->scoring;
    const int64_t *shape = s->cases->shape[index];
    const int32_t *labels = s->view.labels + s->cases->first[index];
    int64_t plane = shape[1] * shape[2];
    int64_t distance = cst_boundary_distance(s->boundary, shape[1], shape[2]);
    for (int64_t z = 0; z < shape[0]; z++)
        CST_TRY(cst_tally_boundary(worker, tally, job->out->classes, predicted + z * plane,
                                   labels + z * plane, shape[1], shape[2], distance));
    return CST_OK;
}

static cst_status score_case(cst_context *worker, void *user, int64_t task) {
    const score_job *job = user;
    const cst_scoring *s = job->scoring;
    cst_map_scores *out = job->out;
    size_t classes = (size_t)out->classes;
    size_t piece = (size_t)piece_rows(out->classes);
    size_t pixels = (size_t)(s->cases->first[task + 1] - s->cases->first[task]);
    piece = piece < pixels ? piece : pixels;
    double *tally = out->tallies + (size_t)task * out->width;
    const int32_t *given = s->predicted ? s->predicted + s->cases->first[task] : NULL;
    CST_SCOPE(scope);
    buffers b;
    CST_TAKE(worker, scope, b.probabilities, piece * classes);
    CST_TAKE(worker, scope, b.index, piece);
    CST_TAKE(worker, scope, b.predicted, given ? 0 : pixels);
    CST_TAKE(worker, scope, b.confusion, classes * classes);
    const int32_t *labels = given ? given : b.predicted;
    CST_TRY(predict_case(worker, job, task, &b, labels, tally));
    CST_TRY(add_boundaries(worker, job, task, labels, tally));
    /* Whole numbers: the sum does not depend on who comes first. */
    for (size_t i = 0; i < classes * classes; i++)
        if (b.confusion[i] != 0)
            (void)__atomic_fetch_add(&out->confusion[i], b.confusion[i], __ATOMIC_RELAXED);
    return CST_OK;
}

cst_status cst_maps_score(cst_context *context, cst_scope *scope, const cst_scoring *scoring,
                          cst_map_scores *out) {
    double start = cst_seconds();
    size_t classes = (size_t)scoring->view.classes;
    *out = (cst_map_scores){.cases = scoring->cases->count,
                            .classes = scoring->view.classes,
                            .probabilities = !scoring->predicted,
                            .width = cst_tally_width(scoring->view.classes)};
    CST_TAKE(context, scope, out->tallies, (size_t)out->cases * out->width);
    CST_TAKE(context, scope, out->total, out->width);
    CST_TAKE(context, scope, out->confusion, classes * classes);
    score_job job = {scoring, out};
    CST_TRY(cst_parallel_for(context, out->cases, score_case, &job));
    for (int64_t n = 0; n < out->cases; n++)
        for (size_t i = 0; i < out->width; i++)
            out->total[i] += out->tallies[(size_t)n * out->width + i];
    out->seconds = cst_seconds() - start;
    return CST_OK;
}
