/* One run of the checks: sampled rows, other orders of them, facts of members, findings. */
#pragma once

#include "core/scope.h"
#include "data/checks/checks.h"

#include <string.h>

enum {
    CST_CHECK_ORDERS = 8,  /* other orders of the rows that are tried, at most */
    CST_CHECK_FEWEST = 30, /* rows below which nothing is said about statistics */
};

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

/* A value that looks like no prediction. */
typedef struct cst_filled {
    int64_t rows; /* that all have the value, although their targets are like any; 0: none */
    double value;
    int64_t far_row; /* of the sample, with a value far from every target; -1: none */
    double far_value;
} cst_filled;

/* Facts of a member after the first reading. mean, scale: [classes] of its columns. */
typedef struct cst_member_facts {
    cst_association association;
    uint64_t hash; /* of every number */
    cst_filled filled;
    double *mean, *scale;
    double *slope; /* [classes], regression: of the targets on the member, both standardised */
} cst_member_facts;

/* And of its probabilities. Sums over the rows looked at. */
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

/* And of its values, in a regression. */
typedef struct cst_value_facts {
    bool equal;      /* to the target in every row */
    bool row_number; /* of one output: the number of the row, from 0 or 1 */
    bool ids;        /* of one output: the id of the row */
    /* Of one output, [0] for log(target) on the member and [1] for the target on log(member); 0 and
     * infinity where the logarithm is not defined: correlation, slope, and squared error without a
     * correction relative to the variance. */
    double log_r[2], log_slope[2], log_raw[2];
} cst_value_facts;

/* Agreement of a member with the others. Hard rows: the mean of the others is wrong. */
typedef struct cst_together {
    double agreement;
    double hard, hard_wrong;
} cst_together;

typedef struct cst_check {
    cst_context *context;
    cst_scope *scope; /* of everything here */
    const cst_check_source *source;
    const cst_view *view;
    cst_findings *findings;
    int32_t members;
    /* The rows that are looked at: all, or evenly spread ones. */
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
    /* [members] */
    cst_member_facts *facts;
    cst_class_facts *of;
    cst_value_facts *values;
    int32_t *top;         /* [members][rows]: predicted classes */
    int32_t *list;        /* [members], scratch */
    int32_t agreed_count; /* of the members whose agreement was looked at: */
    int32_t *agreed;
    cst_together *agreement;
    bool unknown;  /* some targets say that they are not known, which explains every member */
    char who[256]; /* what cst_check_who wrote */
} cst_check;

/* Takes the sample; the facts are still to be read. */
cst_status cst_check_begin(cst_context *context, cst_scope *scope, const cst_check_source *source,
                           cst_findings *findings, cst_check *out);

/* Rows first..first+count-1 of the sample of a member, copied to out [count][classes]. */
cst_status cst_check_read(cst_context *context, const cst_check *check, int32_t member,
                          int64_t first, int64_t count, float *out);

/* Names of the first members of the list, and of one member of the view. */
const char *cst_check_who(cst_check *check, int32_t count);
static inline const char *cst_check_name(const cst_check *check, int32_t k) {
    const cst_check_source *source = check->source;
    return cst_pool_member_name(source->pool, source->members ? source->members[k] : k);
}
/* The number of a row of the view in its split. */
static inline int64_t cst_check_row_number(const cst_check_source *source, int64_t row) {
    return source->rows ? source->rows[row] : row;
}
/* A finding about the first `count` members of the list. */
#define CST_SAY(check, kind, fatal, count, ...)                                                    \
    cst_findings_add((check)->context, (check)->findings, kind, fatal, (check)->list, count,       \
                     __VA_ARGS__)
/* And about one member. */
#define CST_SAY_OF(check, kind, fatal, k, ...)                                                     \
    cst_findings_add((check)->context, (check)->findings, kind, fatal, &(k), 1, __VA_ARGS__)

/* out: [count] of members [count] (in the view). residuals: of errors after its own slope. */
cst_status cst_check_together(const cst_check *check, const int32_t *members, int32_t count,
                              bool residuals, cst_together *out);

/* Members that predict the labels, with nothing else wrong: out [members]. Returns how many. */
int32_t cst_check_good(const cst_check *check, int32_t *out);
bool cst_check_any_good(const cst_check *check);
/* Whether a member is neither constant nor explained. */
static inline bool cst_check_open(const cst_check *check, int32_t k) {
    const cst_association *a = &check->facts[k].association;
    return !a->constant && !a->explained;
}

/* The hash of a member's numbers so far with one more. */
static inline uint64_t cst_check_mix(uint64_t hash, float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Looks in values [n] for such rows, and with `range` for values far from every target. */
cst_status cst_check_filled(cst_context *context, const double *values, const double *targets,
                            int64_t n, bool range, cst_filled *out);

/* Reads the facts of the members. */
cst_status cst_check_read_classes(cst_check *check);
cst_status cst_check_read_values(cst_check *check);

/* The checks, in the table of checks.c. */
typedef cst_status cst_check_fn(cst_check *check);
cst_check_fn cst_check_copies, cst_check_agreement, cst_check_tell_filled, cst_check_permutations,
    cst_check_order, cst_check_leaks, cst_check_hard, cst_check_scale, cst_check_empty_columns,
    cst_check_equal_columns, cst_check_is_target, cst_check_target_is_index, cst_check_tell_targets,
    cst_check_known_outputs, cst_check_outputs, cst_check_value_leaks, cst_check_value_scale;

/* Assigns columns to classes by the largest sum of value [count][count]: to[column]. */
cst_status cst_assignment(cst_context *context, const double *value, int32_t count, int32_t *to);

/* Median of values [count]; they are sorted. NaN of none. */
double cst_check_median(double *values, int32_t count);
