/*
 * Bootstrap over cases: intervals of the scores of several methods and of their paired differences.
 * After scoring. method.md section 8: 5,000 resamples, 95%.
 */
#ifndef CST_SEGMENTATION_INTERVALS_H
#define CST_SEGMENTATION_INTERVALS_H

#include "segmentation/score.h"

/* Scores by name, in the order of reports. */
enum { CST_MAP_SCORES = 10 };
const char *cst_map_score_name(int field);
double cst_map_score_value(const cst_segmentation_scores *scores, int field);

typedef struct cst_map_intervals {
    cst_interval score[CST_MAP_SCORES];
    cst_interval difference[CST_MAP_SCORES]; /* to the reference */
    double p[CST_MAP_SCORES]; /* of no difference: twice the share of resamples on the other side,
                                 at least 2 / resamples */
} cst_map_intervals;

/* methods: [count], of the same cases. Resample r of a seed draws as many cases as there are, the
 * same for every method. out: [count]. */
cst_status cst_map_intervals_make(cst_context *context, const cst_map_scores *const *methods,
                                  int32_t count, int32_t resamples, uint64_t seed,
                                  int32_t reference, cst_map_intervals *out);

#endif
