/* Stage S1 inside the pipeline: similarity, threshold, projection. */
#ifndef CST_PIPELINE_REDUNDANT_H
#define CST_PIPELINE_REDUNDANT_H

#include "fit/stages.h"

/* Fills risk, similarity, pearson, threshold, because and kept of `out`, whose arrays
 * are allocated. The caps apply here only where no selection follows. */
cst_status cst_redundant_members(cst_context *context, const cst_view *view, const int32_t *folds,
                                 int32_t fold_count, const cst_settings *settings,
                                 const cst_costs *costs, cst_stages *out);

/* The most members that the caps by count allow out of K. */
int32_t cst_count_cap(const cst_settings *settings, int32_t members);

/* The projection's rule by the settings: caps apply here where selection, which applies them after,
 * does not take part. costs, constant: [members]. */
cst_projection_rule cst_projection_rule_of(const cst_settings *settings, int32_t members,
                                           const cst_costs *costs, const bool *constant);
cst_reason cst_reason_of_drop(cst_drop_reason reason);

#endif
