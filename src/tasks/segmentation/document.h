/* Scores of maps, their intervals over cases, and the parts of documents that hold them. */
#ifndef CST_SEGMENTATION_DOCUMENT_H
#define CST_SEGMENTATION_DOCUMENT_H

#include "data/pool/spatial.h"
#include "fit/task.h"
#include "tasks/segmentation/tally.h"

/* Probabilities [view->rows][classes] of the rows of a view. Called from several threads. */
typedef cst_status (*cst_pixel_predict_fn)(cst_context *context, const void *fit,
                                           const cst_view *view, float *out);

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

/* Scores by name, in the order of reports. */
enum { CST_MAP_SCORES = 10 };
const char *cst_map_score_name(int field);

/* Every score of the tallies, [CST_MAP_SCORES]. */
void cst_map_score_values(const cst_map_scores *scores, double *out);

/* Of cst_task_ops: intervals over cases, drawn alike for all methods. */
cst_status cst_map_bootstrap(cst_context *context, const cst_evaluation *e,
                             const void *const *results, int32_t count, int32_t reference,
                             int32_t resamples, cst_intervals *out);

/* "cases", "pixels", "ignored", "classes", "boundary". */
void cst_map_put_size(cst_report *report, const cst_cases *cases, int64_t pixels, int32_t classes,
                      double boundary);
/* "task", "split" (NULL: none), sizes, "definitions". */
void cst_map_put_header(cst_report *report, const char *split, const cst_cases *cases,
                        int64_t pixels, int32_t classes, double boundary);
void cst_map_put_definitions(cst_report *report);

/* Every score, and "classes_present". */
void cst_map_put_scores(cst_report *report, json_t *object, const cst_map_scores *scores);
void cst_map_put_present(cst_report *report, json_t *object, const cst_map_scores *scores);

/* "per_class" and, up to 64 classes, "confusion". pool: for names; NULL: none. */
void cst_map_put_classes(cst_report *report, json_t *object, const cst_pool *pool,
                         const cst_map_scores *scores);

#endif
