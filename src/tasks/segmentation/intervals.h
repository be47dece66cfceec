/*
 * Bootstrap over cases: intervals of the scores of several methods and of their paired differences.
 * After scoring. docs/segmentation.md#scores: 5,000 resamples, 95%.
 */
#ifndef CST_SEGMENTATION_INTERVALS_H
#define CST_SEGMENTATION_INTERVALS_H

#include "fit/task.h"
#include "tasks/segmentation/score.h"

/* Scores by name, in the order of reports. */
enum { CST_MAP_SCORES = 10 };
const char *cst_map_score_name(int field);

/* Every score of the tallies, [CST_MAP_SCORES]. */
void cst_map_score_values(const cst_map_scores *scores, double *out);

/* methods: [count], of the same cases. Resample r of a seed draws as many cases as there are, the
 * same for every method. */
cst_status cst_map_bootstrap(cst_context *context, const cst_map_scores *const *methods,
                             int32_t count, int32_t reference, int32_t resamples, uint64_t seed,
                             cst_intervals *out);

#endif
