/*
 * The monitor as the code sees it: the test over all batches, and what was found in those of this
 * run. After a fit. corestack/monitor.h.
 */
#ifndef CST_MONITOR_H
#define CST_MONITOR_H

#include "core/arguments.h"
#include "fit/adapt/monitor_evidence.h"
#include "model/stack.h"
#include "report/report.h"

#include <corestack/monitor.h>

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
void cst_monitor_compare(const cst_watch *watch, const cst_watch_rows *rows,
                         cst_monitor_result *result);

#endif
