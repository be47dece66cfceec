/* How rows without labels compare with the out-of-fold rows of the fit, row by row and member by
 * member, for the monitor. docs/model-format.md, section MONI. */
#pragma once

#include "core/scope.h"
#include "data/pool/view.h"

enum {
    CST_GAUGE_ROWS_MIN = 50,    /* rows of the fit that every member predicted */
    CST_GAUGE_ROWS_MAX = 32768, /* rows of the fit that are looked at */
    CST_GAUGE_CLASS_MIN = 100,  /* rows of a class that has thresholds */
    CST_GAUGE_TABLES_MAX = 64,  /* sets of thresholds */
    CST_GAUGE_GROUPS_MAX = 32,  /* classes that are counted by themselves, and the rest */
    CST_GAUGE_EDGES = 10,       /* thresholds of a statistic */
    CST_GAUGE_BINS = CST_GAUGE_EDGES + 1
};

/* Of a row that every member predicted; large values are unlike the fit. */
typedef enum cst_gauge_statistic {
    CST_GAUGE_DOUBT = 0,  /* the stack's entropy */
    CST_GAUGE_SPREAD = 1, /* entropy of the members' average less their mean entropy */
    CST_GAUGE_ALIKE = 2,  /* standard deviation over the members of log(entropy + 1e-3), negative */
    CST_GAUGE_STATISTICS = 3
} cst_gauge_statistic;

/* The share of the rows of the fit up to the upper end of each bin; the last is 1. */
extern const double cst_gauge_level[CST_GAUGE_BINS];

/* The share of rows that have at least as high a confidence as the threshold is an estimate of the
 * accuracy: `share` of those with just this confidence count. */
typedef struct cst_gauge_cut {
    double threshold;
    double share;
} cst_gauge_cut;

typedef struct cst_gauge {
    int32_t classes;
    int32_t members;   /* kept ones of the stack, K */
    int64_t rows;      /* of the fit, looked at */
    int64_t whole;     /* those that every member predicted */
    double accuracy;   /* of the stack on them */
    double confidence; /* mean */
    double ece;
    cst_gauge_cut stack;   /* for the stack's confidence */
    cst_gauge_cut average; /* for that of the members' average */
    int32_t tables;
    int32_t *table_class; /* [tables - 1], ascending: classes that have a table, by the
                             stack's prediction; the first table is of the others */
    int64_t *table_rows;  /* [tables] */
    float *edge;          /* [tables][statistics][edges], descending: a value above edge[b] and not
                             above edge[b - 1] is in bin b, and in the last if above none */
    int32_t groups;
    int32_t *group_class; /* [groups - 1], ascending: classes counted by themselves; the others are
                             the last group */
    double *entropy;      /* [K + 1]: mean entropy of each member and, last, of the stack */
    double *deviation;    /* [K + 1]: standard deviation over the rows */
    int64_t *predicted;   /* [K]: rows that the member predicted */
    int64_t *apart;       /* [K]: of these, with another class than the stack */
    int64_t *share;       /* [K + 1][groups]: rows by predicted class; of the stack: whole ones */
} cst_gauge;

/* Measures of some rows, and sums over all of them. */
typedef struct cst_gauge_rows {
    int64_t rows;
    int64_t whole;
    uint8_t *usable;   /* [rows]: every member predicted the row */
    int32_t *class;    /* [rows]: that the stack predicts */
    double *doubt;     /* [rows]: entropy of the stack */
    float *statistic;  /* [rows][statistics]; of usable rows */
    float *confidence; /* [rows]: of the stack */
    float *average;    /* [rows]: of the members' average; 0 where no member predicted it */
    double *entropy;   /* [K + 1]: sums, as in cst_gauge */
    double *squares;   /* [K + 1] */
    int64_t *predicted;
    int64_t *apart;
    int64_t *share; /* [K + 1][groups] */
} cst_gauge_rows;

/* Room for the rows of a view of the kept members. */
cst_status cst_gauge_rows_take(cst_context *context, cst_scope *scope, const cst_view *kept,
                               cst_gauge_rows *out);
/* Takes the stack's predictions of rows first..first+count-1. stack: [count][classes]. */
void cst_gauge_stack(cst_gauge_rows *rows, const float *stack, int64_t first, int64_t count,
                     int32_t classes);
/* Everything else, once the stack's part is there for every row. groups, group_of [classes]: as in
 * cst_gauge. Any number of threads, same bytes. */
cst_status cst_gauge_measure(cst_context *context, cst_scope *scope, const cst_view *kept,
                             int32_t groups, const int32_t *group_of, cst_gauge_rows *rows);

/* From the chosen rows, with their labels and what the stack predicts of each. *out is NULL,
 * without an error, where fewer than CST_GAUGE_ROWS_MIN were predicted by every member. */
cst_status cst_gauge_fit(cst_context *context, cst_scope *scope, const cst_view *chosen,
                         cst_gauge_rows *rows, double ece, cst_gauge **out);
/* Room for everything; classes, members, tables and groups are set. */
cst_status cst_gauge_alloc(cst_context *context, cst_scope *scope, const cst_gauge *sizes,
                           cst_gauge **out);

/* Which table, or group, each class has: of [classes]. */
void cst_gauge_place(const cst_gauge *gauge, int32_t *table_of, int32_t *group_of);

/* The bin of a statistic's value. */
int cst_gauge_bin(const cst_gauge *gauge, int32_t table, int statistic, float value);

/* The estimate of the accuracy of rows with these confidences. */
double cst_gauge_above(const cst_gauge_cut *cut, const float *confidence, int64_t rows);
