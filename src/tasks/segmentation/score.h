/*
 * Scores of a whole split, case by case: predicted, tallied and forgotten, so that no more than a
 * piece of each case is in memory. After a fit. docs/segmentation.md, "Scores".
 */
#ifndef CST_SEGMENTATION_SCORE_H
#define CST_SEGMENTATION_SCORE_H

#include "data/pool/spatial.h"
#include "tasks/segmentation/tally.h"

/* Probabilities [view->rows][classes] of the rows of a view. Called from several threads. */
typedef cst_status (*cst_pixel_predict_fn)(cst_context *context, const void *fit,
                                           const cst_view *view, float *out);

/* What is scored, and by whom. */
typedef struct cst_scoring {
    const cst_cases *cases;
    cst_view view; /* all rows of the split, with labels, of the members that predictions need */
    double boundary;
    cst_pixel_predict_fn predict;
    const void *const *fits;  /* [fits of all cases], or one */
    const int32_t *fit_of;    /* [cases]: which of the fits predicts a case; NULL: the first */
    const double *offsets;    /* [classes] for label maps (tasks/segmentation/decide.h), or NULL */
    bool offsets_by_fit;      /* offsets are [fits][classes] */
    const int32_t *predicted; /* [all rows]: label maps to score instead of predictions, or NULL */
} cst_scoring;

typedef struct cst_map_scores {
    int64_t cases;
    int32_t classes;
    bool probabilities;
    size_t width;
    double *tallies;    /* [cases][width] */
    double *total;      /* [width]: their sum */
    int64_t *confusion; /* [classes][classes], label by prediction */
    double seconds;
} cst_map_scores;

cst_status cst_maps_score(cst_context *context, cst_scope *scope, const cst_scoring *scoring,
                          cst_map_scores *out);

/* A view of `count` consecutive rows from `first` on. index: storage for `count` numbers. */
cst_view cst_view_range(const cst_view *view, int64_t first, int64_t count, int64_t *index);

#endif
