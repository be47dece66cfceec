/* The tally of a case: counts and sums that every score of a segmentation follows from and that
 * add up over cases. docs/segmentation.md#scores. */
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

/* Adds negative log-likelihood, Brier score and calibration bins of probabilities
 * [count][classes]. */
void cst_tally_probabilities(double *tally, int32_t classes, const float *probabilities,
                             const int32_t *labels, int64_t count);

/* Adds what lies near label boundaries of one image, [height][width]. */
cst_status cst_tally_boundary(cst_context *context, double *tally, int32_t classes,
                              const int32_t *predicted, const int32_t *labels, int64_t height,
                              int64_t width, int64_t distance);

/* Scores of a tally, or of a sum of tallies. `probabilities`: those were added; else nll, brier and
 * ece are NaN. */
void cst_tally_scores(const double *tally, int32_t classes, bool probabilities,
                      cst_segmentation_scores *out);

/* IoU, Dice, accuracy and Boundary IoU of one class. */
void cst_tally_class(const double *tally, int32_t classes, int32_t c, double found[4]);

/* Pixels of each class in labels, [classes]. */
const double *cst_tally_labelled(const double *tally, int32_t classes);

/* The label of the largest of each row's `classes` numbers, the lowest of equal ones. */
void cst_label_rows(const float *probabilities, int64_t count, int32_t classes, int32_t *out);

/* ---- pixels near a change of label ---- */

/* Which pixels count as another label. */
typedef enum cst_near_rule {
    CST_NEAR_LABELS = 0, /* other labels only: neither -1 nor the edge of the image */
    CST_NEAR_CONTOUR = 1 /* -1 and what is outside the image as well */
} cst_near_rule;

/* A map that is read row by row. A row is known `distance` rows after it was read, so that no more
 * than some numbers for each column are in memory. */
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

/* out[x] = 1 where another label lies within `distance` pixels (in the larger of |dx|, |dy|) of
 * pixel x of row `y`. The rows up to `y` + distance, or the map's last, were read and none after.
 */
void cst_near_leave(const cst_near *near, int64_t y, unsigned char *out);

/* The distance meant by the setting `boundary`: pixels where it is at least 1, else a share of the
 * image's diagonal, rounded, at least 1. */
int64_t cst_boundary_distance(double boundary, int64_t height, int64_t width);

#endif
