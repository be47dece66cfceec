/* Counts and sums of a segmentation, and the scores that follow from them. */
#include "tasks/segmentation/segmentation.h"

#include "stats/samples.h"

#include <math.h>
#include <string.h>

/* Parts of a tally: five numbers for each class, then single numbers, then the bins. */
enum { TRUE_POSITIVE, LABELLED, PREDICTED, EDGE_BOTH, EDGE_ANY, CLASS_PARTS };
enum { BAND, BAND_WRONG, NLL, BRIER, SINGLES };
enum { BIN_COUNT, BIN_CORRECT, BIN_CONFIDENCE, BIN_PARTS };

enum { POLL_PIXELS = 1 << 18 };

static const double MIN_PROBABILITY = 1e-15;

size_t cst_tally_width(int32_t classes) {
    return (size_t)classes * CLASS_PARTS + SINGLES + (size_t)CST_METRIC_BINS * BIN_PARTS;
}

static double *class_part(double *tally, int32_t classes, int part) {
    return tally + (size_t)part * (size_t)classes;
}

static const double *class_sums(const double *tally, int32_t classes, int part) {
    return tally + (size_t)part * (size_t)classes;
}

static size_t singles_at(int32_t classes) {
    return (size_t)classes * CLASS_PARTS;
}

const double *cst_tally_labelled(const double *tally, int32_t classes) {
    return class_sums(tally, classes, LABELLED);
}

void cst_label_rows(const float *probabilities, int64_t count, int32_t classes, int32_t *out) {
    for (int64_t i = 0; i < count; i++) {
        const float *row = probabilities + (size_t)i * (size_t)classes;
        int32_t best = 0;
        for (int32_t c = 1; c < classes; c++)
            best = row[c] > row[best] ? c : best;
        out[i] = best;
    }
}

void cst_tally_labels(double *tally, int32_t classes, const int32_t *predicted,
                      const int32_t *labels, int64_t count, int64_t *confusion) {
    double *right = class_part(tally, classes, TRUE_POSITIVE);
    double *labelled = class_part(tally, classes, LABELLED);
    double *found = class_part(tally, classes, PREDICTED);
    for (int64_t i = 0; i < count; i++) {
        if (labels[i] < 0)
            continue;
        labelled[labels[i]] += 1;
        found[predicted[i]] += 1;
        right[labels[i]] += predicted[i] == labels[i];
        if (confusion)
            confusion[(size_t)labels[i] * (size_t)classes + (size_t)predicted[i]]++;
    }
}

void cst_tally_probabilities(double *tally, int32_t classes, const float *probabilities,
                             const int32_t *labels, int64_t count) {
    double *singles = tally + singles_at(classes);
    double *bins = singles + SINGLES;
    double nll = 0;
    double brier = 0;
    for (int64_t i = 0; i < count; i++) {
        if (labels[i] < 0)
            continue;
        const float *row = probabilities + (size_t)i * (size_t)classes;
        int32_t best = 0;
        double squares = 0;
        for (int32_t c = 0; c < classes; c++) {
            double p = (double)row[c];
            best = row[c] > row[best] ? c : best;
            squares += c == labels[i] ? (1 - p) * (1 - p) : p * p;
        }
        nll -= log(fmax((double)row[labels[i]], MIN_PROBABILITY));
        brier += squares;
        double *bin = bins + (size_t)cst_bin_of((double)row[best], CST_METRIC_BINS) * BIN_PARTS;
        bin[BIN_COUNT] += 1;
        bin[BIN_CORRECT] += best == labels[i];
        bin[BIN_CONFIDENCE] += (double)row[best];
    }
    singles[NLL] += nll;
    singles[BRIER] += brier;
}

/* Of one row: `inner` is what is predicted where the label counts, and -1 elsewhere. */
static void add_edges(double *tally, int32_t classes, const int32_t *inner, const int32_t *labels,
                      int64_t pixels, const unsigned char *near_label,
                      const unsigned char *near_predicted) {
    double *both = class_part(tally, classes, EDGE_BOTH);
    double *any = class_part(tally, classes, EDGE_ANY);
    for (int64_t i = 0; i < pixels; i++) {
        if (labels[i] < 0)
            continue;
        bool same = near_label[i] && near_predicted[i] && inner[i] == labels[i];
        both[labels[i]] += same;
        any[labels[i]] += near_label[i];
        any[inner[i]] += near_predicted[i] && !same;
    }
}

static void add_band(double *tally, int32_t classes, const int32_t *inner, const int32_t *labels,
                     int64_t pixels, const unsigned char *near) {
    double *singles = tally + singles_at(classes);
    for (int64_t i = 0; i < pixels; i++)
        if (labels[i] >= 0 && near[i]) {
            singles[BAND] += 1;
            singles[BAND_WRONG] += inner[i] != labels[i];
        }
}

typedef struct edges {
    cst_near band, labelled, predicted;
    int32_t *inner;      /* [width] */
    unsigned char *near; /* [3][width] */
} edges;

/* What is predicted where the label counts, and -1 elsewhere. */
static void take_inner(const edges *e, const int32_t *predicted, const int32_t *labels,
                       int64_t width) {
    for (int64_t x = 0; x < width; x++)
        e->inner[x] = labels[x] < 0 ? -1 : predicted[x];
}

cst_status cst_tally_boundary(cst_context *context, double *tally, int32_t classes,
                              const int32_t *predicted, const int32_t *labels, int64_t height,
                              int64_t width, int64_t distance) {
    int64_t longest = height > width ? height : width;
    int64_t reach = distance < longest ? distance : longest;
    int64_t every = 1 + POLL_PIXELS / width;
    CST_SCOPE(scope);
    edges e;
    CST_TAKE(context, scope, e.inner, width);
    CST_TAKE(context, scope, e.near, 3 * width);
    CST_TRY(cst_near_begin(context, scope, &e.band, height, width, reach, false));
    CST_TRY(cst_near_begin(context, scope, &e.labelled, height, width, reach, true));
    CST_TRY(cst_near_begin(context, scope, &e.predicted, height, width, reach, true));
    for (int64_t end = 0; end < height + reach; end++) {
        if (end % every == 0)
            CST_TRY(cst_poll(context));
        if (end < height) {
            take_inner(&e, predicted + end * width, labels + end * width, width);
            cst_near_enter(&e.band, end, labels + end * width);
            cst_near_enter(&e.labelled, end, labels + end * width);
            cst_near_enter(&e.predicted, end, e.inner);
        }
        int64_t y = end - reach;
        if (y < 0)
            continue;
        const int32_t *row = labels + y * width;
        take_inner(&e, predicted + y * width, row, width);
        cst_near_leave(&e.band, y, e.near);
        cst_near_leave(&e.labelled, y, e.near + width);
        cst_near_leave(&e.predicted, y, e.near + 2 * width);
        add_band(tally, classes, e.inner, row, width, e.near);
        add_edges(tally, classes, e.inner, row, width, e.near + width, e.near + 2 * width);
    }
    return CST_OK;
}

static double ratio(double part, double whole) {
    return whole > 0 ? part / whole : NAN;
}

void cst_tally_class(const double *tally, int32_t classes, int32_t c, double found[4]) {
    double right = class_sums(tally, classes, TRUE_POSITIVE)[c];
    double labelled = class_sums(tally, classes, LABELLED)[c];
    double predicted = class_sums(tally, classes, PREDICTED)[c];
    found[0] = ratio(right, labelled + predicted - right);
    found[1] = ratio(2 * right, labelled + predicted);
    found[2] = ratio(right, labelled);
    found[3] =
        ratio(class_sums(tally, classes, EDGE_BOTH)[c], class_sums(tally, classes, EDGE_ANY)[c]);
}

/* Sums of what exists, and how much of it there is. */
typedef struct mean {
    double sum;
    int32_t count;
} mean;

static void add_to(mean *m, double part, double whole) {
    if (whole <= 0)
        return;
    m->sum += part / whole;
    m->count++;
}

static double mean_of(const mean *m) {
    return ratio(m->sum, m->count);
}

static double ece_of(const double *bins, double pixels) {
    double sum = 0;
    for (int b = 0; b < CST_METRIC_BINS; b++)
        sum += fabs(bins[b * BIN_PARTS + BIN_CORRECT] - bins[b * BIN_PARTS + BIN_CONFIDENCE]);
    return ratio(sum, pixels);
}

void cst_tally_scores(const double *tally, int32_t classes, bool probabilities,
                      cst_segmentation_scores *out) {
    const double *right = class_sums(tally, classes, TRUE_POSITIVE);
    const double *labelled = class_sums(tally, classes, LABELLED);
    const double *found = class_sums(tally, classes, PREDICTED);
    const double *both = class_sums(tally, classes, EDGE_BOTH);
    const double *any = class_sums(tally, classes, EDGE_ANY);
    const double *singles = tally + singles_at(classes);
    mean iou = {0};
    mean dice = {0};
    mean accuracy = {0};
    mean edge = {0};
    double pixels = 0;
    double hits = 0;
    double weighted = 0;
    for (int32_t c = 0; c < classes; c++) {
        double either = labelled[c] + found[c] - right[c];
        add_to(&iou, right[c], either);
        add_to(&dice, 2 * right[c], labelled[c] + found[c]);
        add_to(&accuracy, right[c], labelled[c]);
        add_to(&edge, both[c], any[c]);
        weighted += either > 0 ? labelled[c] * right[c] / either : 0;
        pixels += labelled[c];
        hits += right[c];
    }
    *out =
        (cst_segmentation_scores){.pixels = (int64_t)pixels,
                                  .classes_present = iou.count,
                                  .miou = mean_of(&iou),
                                  .pixel_accuracy = ratio(hits, pixels),
                                  .mean_accuracy = mean_of(&accuracy),
                                  .dice = mean_of(&dice),
                                  .fwiou = ratio(weighted, pixels),
                                  .boundary_error = ratio(singles[BAND_WRONG], singles[BAND]),
                                  .boundary_iou = mean_of(&edge),
                                  .nll = probabilities ? ratio(singles[NLL], pixels) : NAN,
                                  .brier = probabilities ? ratio(singles[BRIER], pixels) : NAN,
                                  .ece = probabilities ? ece_of(singles + SINGLES, pixels) : NAN};
}

void cst_tally_bin(const double *tally, int32_t classes, int32_t b, double found[3]) {
    memcpy(found, tally + singles_at(classes) + SINGLES + (size_t)b * BIN_PARTS,
           BIN_PARTS * sizeof *found);
}

enum { NOTHING = -1, MIXED = -2 };

int64_t cst_boundary_distance(double boundary, int64_t height, int64_t width) {
    double pixels =
        boundary >= 1 ? boundary : round(boundary * hypot((double)height, (double)width));
    return pixels < 1 ? 1 : (int64_t)pixels;
}

/* The only label of a window over one row, NOTHING, or MIXED; `change` is the first of the last
 * two neighbours that differ. */
static void scan_row(const int32_t *map, int64_t width, int64_t distance, bool contour,
                     int32_t *out) {
    int64_t last = -1;
    int64_t change = -1;
    for (int64_t end = 0; end < width + distance; end++) {
        if (end < width && (contour || map[end] >= 0)) {
            if (last >= 0 && map[last] != map[end])
                change = last;
            last = end;
        }
        int64_t x = end - distance;
        if (x < 0)
            continue;
        int64_t begin = x - distance;
        bool outside = begin < 0 || end >= width;
        begin = begin < 0 ? 0 : begin;
        bool mixed = change >= begin || (contour && outside);
        out[x] = mixed ? MIXED : last >= begin ? map[last] : NOTHING;
    }
}

cst_status cst_near_begin(cst_context *context, cst_scope *scope, cst_near *near, int64_t height,
                          int64_t width, int64_t distance, bool contour) {
    *near = (cst_near){.height = height, .width = width, .distance = distance, .contour = contour};
    CST_TAKE(context, scope, near->windows, 2 * width);
    CST_TAKE(context, scope, near->last, 2 * width);
    near->label = near->windows + width;
    near->change = near->last + width;
    for (int64_t x = 0; x < 2 * width; x++)
        near->last[x] = -1;
    return CST_OK;
}

void cst_near_enter(cst_near *near, int64_t y, const int32_t *row) {
    const int32_t *windows = near->windows;
    int32_t *label = near->label;
    int64_t *last = near->last;
    int64_t *change = near->change;
    scan_row(row, near->width, near->distance, near->contour, near->windows);
    for (int64_t x = 0; x < near->width; x++) {
        if (windows[x] == MIXED) {
            change[x] = y;
        } else if (near->contour || windows[x] >= 0) {
            if (last[x] >= 0 && label[x] != windows[x] && change[x] < last[x])
                change[x] = last[x];
            last[x] = y;
            label[x] = windows[x];
        }
    }
}

void cst_near_leave(const cst_near *near, int64_t y, unsigned char *out) {
    int64_t begin = y - near->distance;
    bool outside = near->contour && (begin < 0 || y + near->distance >= near->height);
    begin = begin < 0 ? 0 : begin;
    for (int64_t x = 0; x < near->width; x++)
        out[x] = outside || near->change[x] >= begin;
}

/* ---- label maps ---- */

/* Labels as the tally takes them, checked: -1 for those that do not count. */
static cst_status take_labels(cst_context *context, const int32_t *predicted, const int32_t *labels,
                              size_t pixels, int64_t width, int32_t classes, int32_t ignore,
                              int32_t *out) {
    for (size_t i = 0; i < pixels; i++) {
        out[i] = labels[i] == ignore ? -1 : labels[i];
        bool bad_label = out[i] < -1 || out[i] >= classes || (out[i] == -1 && ignore != labels[i]);
        bool bad_guess = out[i] >= 0 && (predicted[i] < 0 || predicted[i] >= classes);
        if (bad_label || bad_guess)
            return cst_fail(context, CST_ERROR_INPUT,
                            "pixel %zu (column %zu of a row) is %s %d, but there are %d classes; "
                            "only labels may be the ignored label (%d)",
                            i, i % (size_t)width, bad_label ? "label" : "predicted",
                            bad_label ? labels[i] : predicted[i], classes, ignore);
    }
    return CST_OK;
}

static cst_status tally_maps(cst_context *context, const int32_t *predicted, const int32_t *labels,
                             int64_t images, int64_t height, int64_t width, int32_t classes,
                             int32_t ignore, double boundary, cst_segmentation_scores *out,
                             int64_t *confusion) {
    int64_t size = height * width;
    int64_t pixels = images * size;
    int64_t distance =
        cst_boundary_distance(boundary > 0 ? boundary : CST_SEGMENTATION_BOUNDARY, height, width);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, tally, cst_tally_width(classes));
    CST_NEW(context, scope, int32_t, inside, pixels);
    CST_TRY(
        take_labels(context, predicted, labels, (size_t)pixels, width, classes, ignore, inside));
    if (confusion)
        memset(confusion, 0, (size_t)classes * (size_t)classes * sizeof *confusion);
    cst_tally_labels(tally, classes, predicted, inside, pixels, confusion);
    for (int64_t n = 0; n < images; n++)
        CST_TRY(cst_tally_boundary(context, tally, classes, predicted + n * size, inside + n * size,
                                   height, width, distance));
    cst_tally_scores(tally, classes, false, out);
    return CST_OK;
}

cst_status cst_segmentation_evaluate_labels(cst_context *context, const int32_t *predicted,
                                            const int32_t *labels, int64_t images, int64_t height,
                                            int64_t width, int64_t classes_given, int32_t ignore,
                                            double boundary, cst_segmentation_scores *out,
                                            int64_t *confusion) {
    size_t pixels = 0;
    CST_ENTER(context);
    CST_COUNT(context, classes, classes_given);
    if (!predicted || !labels || !out || images < 1 || height < 1 || width < 1 || classes < 1 ||
        !(boundary >= 0) || boundary > 1e6)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "cst_segmentation_evaluate_labels: label maps, their size and scores are required");
    if (!cst_size_mul((size_t)images, (size_t)height, &pixels) ||
        !cst_size_mul(pixels, (size_t)width, &pixels) || pixels >= CST_ARRAY_BYTES / sizeof *labels)
        return cst_fail(context, CST_ERROR_LIMIT, "too many pixels");
    return cst_why(context, tally_maps(context, predicted, labels, images, height, width, classes,
                                       ignore, boundary, out, confusion));
}
