/* The parts of the checks of a regression. */
#ifndef CST_CHECKS_VALUES_H
#define CST_CHECKS_VALUES_H

#include "data/checks/parts.h"

/* What is known of a member's values, besides cst_member_facts. */
typedef struct cst_value_facts {
    bool equal;      /* to the target in every row */
    bool row_number; /* of one output: the number of the row, from 0 or 1 */
    bool ids;        /* of one output: the id of the row */
    /* Of one output, [0] for log(target) on the member and [1] for the target on log(member); 0 and
     * infinity where the logarithm is not defined: correlation, slope, and squared error without a
     * correction relative to the variance. */
    double log_r[2];
    double log_slope[2];
    double log_raw[2];
} cst_value_facts;

/* Outputs of members in another order than those of the target. */
cst_status cst_check_outputs(cst_context *context, const cst_check_sample *sample,
                             cst_member_facts *facts, cst_findings *findings);
/* Members far better than the others, or whose errors have nothing in common with theirs. */
cst_status cst_check_value_leaks(cst_context *context, const cst_check_sample *sample,
                                 cst_member_facts *facts, cst_findings *findings);
/* Members in other units than the target, or in its logarithm. */
cst_status cst_check_value_scale(cst_context *context, const cst_check_sample *sample,
                                 cst_member_facts *facts, const cst_value_facts *of,
                                 cst_findings *findings);

#endif
