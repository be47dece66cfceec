/*
 * What the files of this folder share: the sample of rows, other orders of the rows, association of
 * members with the labels and with one another. docs/method.md#checks.
 */
#ifndef CST_CHECKS_PARTS_H
#define CST_CHECKS_PARTS_H

#include "data/checks/checks.h"

#include <string.h>

enum {
    CST_CHECK_ORDERS = 8,  /* other orders of the rows that are tried, at most */
    CST_CHECK_FEWEST = 30, /* rows below which nothing is said about statistics */
};

/* The rows that are looked at: all, or evenly spread ones. */
typedef struct cst_check_sample {
    const cst_check_source *source;
    const cst_view *view;
    int64_t rows;
    int64_t *position; /* [rows], ascending positions in the view */
    int32_t orders;
    const char *order_words[CST_CHECK_ORDERS];
    bool order_late[CST_CHECK_ORDERS]; /* predictions are of rows before their own */
    int64_t *order[CST_CHECK_ORDERS];  /* [rows]: the row of the view whose label would be that of
                                          the prediction, or -1; NULL: order_label says it */
    const int32_t *order_label[CST_CHECK_ORDERS]; /* [rows of the view], or NULL */
    double *label_mean;  /* [classes]: shares of the classes; means of the targets */
    double *label_scale; /* [classes]: 1; one over the standard deviation of targets */
    double label_spread; /* root of the summed variance of the columns of the labels */
} cst_check_sample;

/* As cst_names_of and cst_pool_member_name, of members of the view. */
const char *cst_check_names(const cst_check_source *source, const int32_t *members, int32_t count,
                            char *text, size_t size);
static inline const char *cst_check_name(const cst_check_source *source, int32_t k) {
    return cst_pool_member_name(source->pool, source->members ? source->members[k] : k);
}

cst_status cst_check_sample_make(cst_context *context, const cst_check_source *source,
                                 cst_check_sample *out);
void cst_check_sample_free(cst_context *context, cst_check_sample *sample);

/* Rows first..first+count-1 of the sample of a member, copied to out [count][classes]. */
cst_status cst_check_read(cst_context *context, const cst_check_sample *sample, int32_t member,
                          int64_t first, int64_t count, float *out);

/* How a member goes with the labels. Correlations are over all columns together. */
typedef struct cst_association {
    bool constant;
    bool copy;      /* of a member before it */
    bool explained; /* a finding says already what is wrong */
    double r;       /* correlation with the labels */
    double z;       /* r in standard errors of a member that knows nothing */
    double spread;  /* of the predictions, relative to that of the labels: what r would be if the
                       member were calibrated */
    double order_r[CST_CHECK_ORDERS]; /* with the labels in another order */
    double order_z[CST_CHECK_ORDERS];
    double agreement; /* correlation with the mean of the other members */
} cst_association;

/* What looks like no prediction. */
typedef struct cst_filled {
    int64_t rows; /* that all have the value, although their targets are like any; 0: none */
    double value;
    int64_t far_row; /* of the sample, with a value far from every target; -1: none */
    double far_value;
} cst_filled;

/* What is known of a member after the first reading. mean, scale: [classes] of its columns. */
typedef struct cst_member_facts {
    cst_association association;
    uint64_t hash; /* of every number */
    cst_filled filled;
    double *mean;
    double *scale;
    double *slope; /* [classes], regression: of the targets on the member, both standardised */
} cst_member_facts;

/* How members go together; one of these for each. Rows are hard where the mean of the others is
 * wrong. */
typedef struct cst_together {
    double agreement;
    double hard, hard_wrong;
} cst_together;

/* out: [count] of members [count] (positions in the view). residuals: of the errors that are left
 * after the member's own slope, instead of the predictions. */
cst_status cst_check_together(cst_context *context, const cst_check_sample *sample,
                              const cst_member_facts *facts, const int32_t *members, int32_t count,
                              bool residuals, cst_together *out);

/* Members and labels that do not go together because of the order of rows, or at all. facts:
 * [members], with agreement. */
cst_status cst_check_order(cst_context *context, const cst_check_sample *sample,
                           cst_member_facts *facts, cst_findings *findings);

/* Members that predict the labels, with nothing else wrong: out [members]. Returns how many. */
int32_t cst_check_good(const cst_check_sample *sample, const cst_member_facts *facts, int32_t *out);

/* The hash of a member's numbers so far with one more. */
static inline uint64_t cst_check_mix(uint64_t hash, float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Members that are constant or the same as another. */
cst_status cst_check_copies(cst_context *context, const cst_check_sample *sample,
                            cst_member_facts *facts, cst_findings *findings);

/* Looks for such rows of a member's values [n] of targets [n], and with `range` for values that are
 * far from every target. */
cst_status cst_check_filled(cst_context *context, const double *values, const double *targets,
                            int64_t n, bool range, cst_filled *out);
/* Says what it found of each member. */
cst_status cst_check_tell_filled(cst_context *context, const cst_check_sample *sample,
                                 cst_member_facts *facts, cst_findings *findings);
/* Targets that say that the target is not known (-999). good: some member predicts the targets. */
cst_status cst_check_tell_targets(cst_context *context, const cst_check_sample *sample, bool good,
                                  bool *found, cst_findings *findings);

/* The three kinds of checks of values. */
cst_status cst_check_classes(cst_context *context, const cst_check_sample *sample,
                             cst_findings *findings);
cst_status cst_check_values(cst_context *context, const cst_check_sample *sample,
                            cst_findings *findings);

/* Permutations of the columns of members. top: [members][rows] classes that they predict. */
cst_status cst_check_permutations(cst_context *context, const cst_check_sample *sample,
                                  const int32_t *top, cst_member_facts *facts,
                                  cst_findings *findings);

/* The assignment of columns to classes with the largest sum of value [count][count]:
 * to[column] = class. */
cst_status cst_assignment(cst_context *context, const double *value, int32_t count, int32_t *to);

/* Median of values [count]; they are sorted. NaN of none. */
double cst_check_median(double *values, int32_t count);

#endif
