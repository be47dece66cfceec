/* Counts and sums of a case that scores follow from. docs/segmentation.md#scores. */
#ifndef CST_SEGMENTATION_TALLY_H
#define CST_SEGMENTATION_TALLY_H

#include "core/base.h"
#include "core/scope.h"

#include <corestack/metrics.h>
#include <corestack/segmentation.h>

/* Doubles of a tally. Counts are whole numbers below 2^53, so their sums are exact in any order. */
size_t cst_tally_width(int32_t classes);

/* Adds `count` pixels: their predicted labels [count] (0..classes-1) against labels [count] (-1
 * does not count). confusion: [classes][classes], label by prediction, or NULL. */
void cst_tally_labels(double *tally, int32_t classes, const int32_t *predicted,
                      const int32_t *labels, int64_t count, int64_t *confusion);

/* Adds NLL, Brier score and calibration bins of probabilities [count][classes]. */
void cst_tally_probabilities(double *tally, int32_t classes, const float *probabilities,
                             const int32_t *labels, int64_t count);

/* Adds what lies near label boundaries of one image, [height][width]. */
cst_status cst_tally_boundary(cst_context *context, double *tally, int32_t classes,
                              const int32_t *predicted, const int32_t *labels, int64_t height,
                              int64_t width, int64_t distance);

/* Scores of a sum of tallies; without `probabilities` nll, brier and ece are NaN. */
void cst_tally_scores(const double *tally, int32_t classes, bool probabilities,
                      cst_segmentation_scores *out);

void cst_tally_class(const double *tally, int32_t classes, int32_t c, double found[4]);

/* Pixels of each class in labels, [classes]. */
const double *cst_tally_labelled(const double *tally, int32_t classes);

/* The label of the largest of each row's `classes` numbers, the lowest of equal ones. */
void cst_label_rows(const float *probabilities, int64_t count, int32_t classes, int32_t *out);

/* Which pixels count as another label. */
typedef enum cst_near_rule {
    CST_NEAR_LABELS = 0, /* other labels only: neither -1 nor the edge of the image */
    CST_NEAR_CONTOUR = 1 /* -1 and what is outside the image as well */
} cst_near_rule;

/* A map read row by row; rows are known `distance` rows later, in little memory. */
typedef struct cst_near {
    int64_t height, width, distance;
    bool contour;
    int32_t *windows; /* [width]: what the windows over the last row hold */
    int32_t *label;   /* [width]: the only label of the window that was read last */
    int64_t *last;    /* [width]: its row; -1: none yet */
    int64_t *change;  /* [width]: the last row at which the label changes, or that mixes several */
} cst_near;

cst_status cst_near_begin(cst_context *context, cst_scope *scope, cst_near *near, int64_t height,
                          int64_t width, int64_t distance, cst_near_rule rule);

/* Reads row `y` (0, 1, ...) of the map: labels are -1 (none) or more. */
void cst_near_enter(cst_near *near, int64_t y, const int32_t *row);

/* out[x] = 1 where another label lies within `distance` of pixel x of row `y` in |dx| and |dy|,
 * once rows up to `y` + distance or the last were read. */
void cst_near_leave(const cst_near *near, int64_t y, unsigned char *out);

/* Distance of `boundary`: pixels from 1 on, else a rounded share of the diagonal, >= 1. */
int64_t cst_boundary_distance(double boundary, int64_t height, int64_t width);

#endif
