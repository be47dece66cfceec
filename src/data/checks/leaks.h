/* Members of a classification that are too good to be true. */
#ifndef CST_CHECKS_LEAKS_H
#define CST_CHECKS_LEAKS_H

#include "data/checks/parts.h"

/* What is known of a member's probabilities, besides cst_member_facts. Sums over the rows looked
 * at. */
typedef struct cst_class_facts {
    double nll, nll2; /* sum and sum of squares */
    double confidence;
    int64_t right;      /* rows whose largest probability is the label's */
    int64_t zeros;      /* rows with probability 0 of the label */
    bool hard;          /* every probability is 0 or 1 */
    int64_t sure;       /* rows with probability 1 of the label */
    double label_least; /* probability of the label */
    double label_most;
    double range;   /* largest log ratio of two probabilities of a row */
    uint64_t *hash; /* [classes]: of each column */
    float *most;    /* [classes]: the largest of each column */
    bool *varies;   /* [classes] */
} cst_class_facts;

cst_status cst_check_leaks(cst_context *context, const cst_check_sample *sample,
                           cst_member_facts *facts, const cst_class_facts *of,
                           cst_findings *findings);

#endif
