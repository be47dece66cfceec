/* Scores of a segmentation with their intervals, in documents. docs/segmentation.md#scores. */
#include "tasks/segmentation/segmentation.h"

#include <string.h>

static const struct field {
    const char *name;
    size_t at;
    const char *definition;
} FIELDS[CST_MAP_SCORES] = {
    {"miou", offsetof(cst_segmentation_scores, miou),
     "mean of TP / (TP + FP + FN) over the classes in labels or predictions, counted "
     "over all pixels of the split"},
    {"pixel_accuracy", offsetof(cst_segmentation_scores, pixel_accuracy),
     "fraction of pixels classified correctly"},
    {"mean_accuracy", offsetof(cst_segmentation_scores, mean_accuracy),
     "mean over the classes in the labels of the fraction of their pixels "
     "classified correctly"},
    {"dice", offsetof(cst_segmentation_scores, dice),
     "mean of 2 TP / (2 TP + FP + FN) over the classes in labels or predictions"},
    {"fwiou", offsetof(cst_segmentation_scores, fwiou),
     "mean of the classes' IoU weighted by their fraction of the labelled pixels"},
    {"boundary_error", offsetof(cst_segmentation_scores, boundary_error),
     "error rate on the pixels within d pixels (in rows and columns) of a "
     "pixel with another label"},
    {"boundary_iou", offsetof(cst_segmentation_scores, boundary_iou),
     "Boundary IoU (Cheng et al. 2021): mean over classes of the IoU between "
     "labels and predictions, restricted to the pixels of the class within d "
     "pixels of its contour"},
    {"ece", offsetof(cst_segmentation_scores, ece),
     "top-label expected calibration error with 15 equal-width bins [lo, hi), the last "
     "one closed"},
    {"nll", offsetof(cst_segmentation_scores, nll), "mean of -log p(label) in nats"},
    {"brier", offsetof(cst_segmentation_scores, brier),
     "mean over pixels of the sum over classes of (p - y)^2, from 0 to 2"},
};

static double map_score_value(const cst_segmentation_scores *scores, int field) {
    double value = 0;
    memcpy(&value, (const char *)scores + FIELDS[field].at, sizeof value);
    return value;
}

void cst_map_score_values(const cst_map_scores *scores, double *out) {
    cst_segmentation_scores found;
    cst_tally_scores(scores->total, scores->classes, scores->probabilities, &found);
    for (int f = 0; f < CST_MAP_SCORES; f++)
        out[f] = map_score_value(&found, f);
}

/* Of sums of the tallies of the drawn cases. scratch: [width]. */
static void figures(const cst_bootstrap *b, const cst_resample *drawn, void *scratch, int64_t lanes,
                    int64_t stride, double *out) {
    const void *const *methods = b->user;
    double *sum = scratch;
    for (int64_t c = 0; c < lanes * b->methods; c++) {
        const cst_map_scores *method = methods[c % b->methods];
        const unsigned char *times = drawn->lane + c / b->methods * drawn->padded;
        cst_segmentation_scores scores;
        memset(sum, 0, method->width * sizeof *sum);
        for (int64_t n = 0; n < drawn->rows; n++)
            for (size_t i = 0; times[n] > 0 && i < method->width; i++)
                sum[i] += times[n] * method->tallies[(size_t)n * method->width + i];
        cst_tally_scores(sum, method->classes, method->probabilities, &scores);
        for (int f = 0; f < CST_MAP_SCORES; f++)
            out[(c % b->methods * CST_MAP_SCORES + f) * stride + c / b->methods] =
                map_score_value(&scores, f);
    }
}

cst_status cst_map_bootstrap(cst_context *context, const cst_evaluation *e,
                             const void *const *results, int32_t count, int32_t reference,
                             int32_t resamples, cst_intervals *out) {
    const cst_map_scores *first = results[0];
    const cst_bootstrap b = {.samples = {first->cases},
                             .seed = {e->options->seed},
                             .resamples = resamples,
                             .methods = count,
                             .scores = CST_MAP_SCORES,
                             .every_word = true,
                             .scratch = first->width * sizeof(double),
                             .figures = figures,
                             .user = (const void *)results};
    return cst_bootstrap_intervals(context, &b, reference, out->interval, out->difference, out->p);
}

const char *cst_segmentation_definition(const char *name) {
    for (int f = 0; name && f < CST_MAP_SCORES; f++)
        if (strcmp(FIELDS[f].name, name) == 0)
            return FIELDS[f].definition;
    return NULL;
}

enum { CONFUSION_CLASSES = 64 };

void cst_map_put_size(cst_report *report, const cst_cases *cases, int64_t pixels, int32_t classes,
                      double boundary) {
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_I("cases", cases->count), CST_I("pixels", pixels),
            CST_I("ignored", cases->first[cases->count] - pixels), CST_I("classes", classes));
    json_t *band = cst_report_object(report, root, "boundary");
    cst_report_number(report, band, "setting", boundary);
    if (cases->uniform)
        cst_report_integer(report, band, "pixels",
                           cst_boundary_distance(boundary, cases->shape[0][1], cases->shape[0][2]));
}

void cst_map_put_definitions(cst_report *report) {
    json_t *definitions = cst_report_object(report, cst_report_root(report), "definitions");
    for (int f = 0; f < CST_MAP_SCORES; f++)
        cst_report_string(report, definitions, FIELDS[f].name, FIELDS[f].definition);
}

void cst_map_put_header(cst_report *report, const char *split, const cst_cases *cases,
                        int64_t pixels, int32_t classes, double boundary) {
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "task", "segmentation");
    if (split)
        cst_report_string(report, root, "split", split);
    cst_map_put_size(report, cases, pixels, classes, boundary);
    cst_map_put_definitions(report);
}

void cst_map_put_present(cst_report *report, json_t *object, const cst_map_scores *scores) {
    cst_segmentation_scores found;
    cst_tally_scores(scores->total, scores->classes, scores->probabilities, &found);
    cst_report_integer(report, object, "classes_present", found.classes_present);
}

void cst_map_put_scores(cst_report *report, json_t *object, const cst_map_scores *scores) {
    double values[CST_MAP_SCORES];
    cst_map_score_values(scores, values);
    for (int f = 0; f < CST_MAP_SCORES; f++)
        cst_report_number(report, object, FIELDS[f].name, values[f]);
    cst_map_put_present(report, object, scores);
}

static void put_reliability(cst_report *report, json_t *object, const cst_map_scores *scores) {
    json_t *list = cst_report_list(report, object, "reliability");
    for (int32_t b = 0; b < CST_METRIC_BINS; b++) {
        double found[3];
        json_t *entry = cst_report_add_object(report, list);
        cst_tally_bin(scores->total, scores->classes, b, found);
        CST_PUT(report, entry, CST_N("lower", (double)b / CST_METRIC_BINS),
                CST_N("upper", (double)(b + 1) / CST_METRIC_BINS),
                CST_N("confidence", found[2] / found[0]), CST_N("accuracy", found[1] / found[0]),
                CST_I("count", (int64_t)found[0]));
    }
}

void cst_map_put_classes(cst_report *report, json_t *object, const cst_pool *pool,
                         const cst_map_scores *scores) {
    if (scores->probabilities)
        put_reliability(report, object, scores);
    const double *labelled = cst_tally_labelled(scores->total, scores->classes);
    json_t *list = cst_report_list(report, object, "per_class");
    for (int32_t c = 0; c < scores->classes; c++) {
        double found[4];
        json_t *entry = cst_report_add_object(report, list);
        cst_tally_class(scores->total, scores->classes, c, found);
        CST_PUT(report, entry, CST_I("class", c),
                CST_S("name", pool ? cst_pool_class_name(pool, c) : NULL),
                CST_I("pixels", (int64_t)labelled[c]), CST_N("iou", found[0]),
                CST_N("dice", found[1]), CST_N("accuracy", found[2]),
                CST_N("boundary_iou", found[3]));
    }
    if (scores->classes > CONFUSION_CLASSES)
        return;
    json_t *rows = cst_report_list(report, object, "confusion");
    for (int32_t a = 0; a < scores->classes; a++) {
        json_t *row = cst_report_add_list(report, rows);
        for (int32_t b = 0; b < scores->classes; b++)
            cst_report_add_integer(
                report, row, scores->confusion[(size_t)a * (size_t)scores->classes + (size_t)b]);
    }
}

enum { PIECE_VALUES = 1 << 17 }; /* by each thread */

int64_t cst_piece_rows(int64_t values, int32_t classes) {
    int64_t rows = values / classes / CST_BLOCK_ROWS * CST_BLOCK_ROWS;
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

typedef struct buffers {
    float *probabilities; /* [piece][classes] */
    int64_t *index;       /* [piece] */
    int32_t *predicted;   /* [pixels]; none for label maps that are given */
    int64_t *confusion;   /* [classes][classes] */
} buffers;

/* Predicts and scores the pixels of a case. labels_of: [pixels], the prediction. */
static cst_status predict_case(cst_context *worker, const score_job *job, int64_t index,
                               const buffers *b, const int32_t *labels_of, double *tally) {
    const cst_scoring *s = job->scoring;
    int32_t classes = job->out->classes;
    int64_t piece = cst_piece_rows(PIECE_VALUES, classes);
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
    size_t piece = (size_t)cst_piece_rows(PIECE_VALUES, out->classes);
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
