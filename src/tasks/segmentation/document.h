/* Scores of maps, their intervals over cases, and the parts of documents that hold them. */
#ifndef CST_SEGMENTATION_DOCUMENT_H
#define CST_SEGMENTATION_DOCUMENT_H

#include "fit/task.h"
#include "tasks/segmentation/score.h"

/* Scores by name, in the order of reports. */
enum { CST_MAP_SCORES = 10 };
const char *cst_map_score_name(int field);

/* Every score of the tallies, [CST_MAP_SCORES]. */
void cst_map_score_values(const cst_map_scores *scores, double *out);

/* Intervals over cases. methods: [count], of the same cases. Resample r of a seed draws as many
 * cases as there are, the same for every method. */
cst_status cst_map_bootstrap(cst_context *context, const cst_map_scores *const *methods,
                             int32_t count, int32_t reference, int32_t resamples, uint64_t seed,
                             cst_intervals *out);

/* "cases", "pixels", "ignored", "classes", "boundary". */
void cst_map_put_size(cst_report *report, const cst_cases *cases, int64_t pixels, int32_t classes,
                      double boundary);
/* "task", "split" (NULL: none), sizes, "definitions". */
void cst_map_put_header(cst_report *report, const char *split, const cst_cases *cases,
                        int64_t pixels, int32_t classes, double boundary);
/* "definitions". */
void cst_map_put_definitions(cst_report *report);

/* Every score, and "classes_present". */
void cst_map_put_scores(cst_report *report, json_t *object, const cst_map_scores *scores);
/* "classes_present". */
void cst_map_put_present(cst_report *report, json_t *object, const cst_map_scores *scores);

/* "per_class" and, up to 64 classes, "confusion". pool: for names; NULL: none. */
void cst_map_put_classes(cst_report *report, json_t *object, const cst_pool *pool,
                         const cst_map_scores *scores);

#endif
