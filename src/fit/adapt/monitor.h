/* The monitor as the code sees it: the test over all batches, and findings in those of this run. */
#pragma once

#include "core/arguments.h"
#include "model/shift/gauge.h"
#include "model/stack.h"
#include "report/report.h"
#include "stats/metric_list.h"

#include <corestack/monitor.h>

/* A test martingale against rows like the fit's: the next is in bin b of a statistic with
 * probability (m_b + n_b) / (M + n), n_b of n rows so far and m_b of M < N of the fit; a bet gains
 * by the density of the bin. Classes have bins too. docs/prediction.md#monitor. */

enum { CST_EVIDENCE_BETS = 2, CST_EVIDENCE_TESTS = CST_GAUGE_STATISTICS + 1 };
#define CST_EVIDENCE_MOST 1e12

typedef struct cst_evidence {
    int64_t rows;
    double waiting;                                        /* capital that no bet has yet */
    double capital[CST_EVIDENCE_TESTS][CST_EVIDENCE_BETS]; /* of the classes: the last */
    double peak;    /* the largest value so far, at least 1 */
    int64_t *seen;  /* [tables][statistics][bins], and [groups] of the classes */
    double *recent; /* [groups]: rows of a class, the older the less they count */
    double density[CST_EVIDENCE_BETS][CST_GAUGE_BINS]; /* what each bet says of each bin */
} cst_evidence;

/* Nothing seen yet. */
cst_status cst_evidence_take(cst_context *context, cst_scope *scope, const cst_gauge *gauge,
                             cst_evidence *evidence);
void cst_evidence_reset(const cst_gauge *gauge, cst_evidence *evidence);
/* Copies the values; both have the room. */
void cst_evidence_copy(const cst_gauge *gauge, const cst_evidence *from, cst_evidence *to);

/* Numbers of `seen`. */
size_t cst_evidence_counts(const cst_gauge *gauge);

/* Adds a row of a class with this table, in this group. value: [statistics]. */
void cst_evidence_add(const cst_gauge *gauge, int32_t table, int32_t group, const float *value,
                      cst_evidence *evidence);

/* The evidence now: at most CST_EVIDENCE_MOST. */
double cst_evidence_value(const cst_evidence *evidence);

/* A figure of a batch against that of the fit. */
typedef struct cst_drift {
    double value;
    double fit;
    double se; /* of the difference, if the rows are like those of the fit; NAN where none */
    double p;  /* two-sided; NAN where it was not tested */
    bool flag; /* after correction for all tests of the batch */
} cst_drift;

/* One member, or the stack. */
typedef struct cst_member_drift {
    cst_drift entropy;
    cst_drift
        shares;   /* value: half the sum of |share - share of the fit| over the groups; fit: 0 */
    int32_t most; /* class whose share changed most; -1: those counted together */
    double most_share;
    double most_fit;
    cst_drift apart;   /* not of the stack */
    cst_drift missing; /* not of the stack */
} cst_member_drift;

typedef struct cst_monitor_result {
    const char *name;
    int64_t rows;
    int64_t tested;    /* rows that every member predicted */
    double evidence;   /* after the batch */
    double own;        /* largest evidence of a test of this batch alone */
    bool alarm;        /* in this or an earlier batch */
    double confidence; /* mean */
    double accuracy;   /* expected */
    double error;      /* typical, of this figure and of the next */
    double ece;        /* expected */
    int64_t labelled;
    double observed; /* accuracy on labelled rows; NAN without */
    double observed_ece;
    double metric;           /* of the labelled rows; NAN without */
    cst_member_drift *drift; /* [K + 1], the stack last */
    int32_t flags;
} cst_monitor_result;

/* The batches of one call, which owns what was found in them. */
typedef struct cst_monitor_call {
    cst_scope scope;
    struct cst_monitor_call *next;
    int32_t count;
    cst_monitor_result *result; /* [count] */
    cst_evidence evidence;      /* after them */
    size_t notices;
    const char **notice; /* those that no call before had */
    char *alarm_name;    /* of the first batch with an alarm, if it is in this call */
    int32_t alarm;       /* its number from 1; 0: none */
} cst_monitor_call;

struct cst_monitor {
    cst_scope scope;
    const cst_model *model;
    uint64_t model_hash;
    double alpha;
    bool in_order;
    cst_metric_choice metric; /* none: .metric is NULL */
    cst_evidence evidence;
    int64_t batches; /* of all runs */
    bool alarm;
    int64_t alarm_batch;    /* from 1; 0: none */
    const char *alarm_name; /* of this batch; NULL: none */
    int32_t *table_of;      /* [classes] */
    int32_t *group_of;
    int32_t count; /* results of this run */
    size_t notices;
    cst_monitor_call *first; /* of this run */
    cst_monitor_call **last;
};

/* Against the fit, with flags. */
void cst_monitor_compare(const cst_gauge *gauge, const cst_gauge_rows *rows,
                         cst_monitor_result *result);
