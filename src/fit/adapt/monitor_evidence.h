/*
 * Evidence that rows are unlike those of the fit: a test martingale, which may be looked at after
 * every row. docs/prediction.md#monitor.
 *
 * Levels of a statistic fall into bins. With rows like the N of the fit the next is in bin b with
 * probability (m_b + n_b) / (M + n), n_b of the n rows so far and m_b of M rows of the fit (Polya's
 * urn). M < N allows for a population that differs from the fit's as another sample would, and bets
 * allow small levels to be TOLERANCE more frequent. Each bet multiplies its capital by the density
 * k u^(k - 1) of the bin over its mean.
 *
 * The predicted class is one more statistic, with groups of classes as bins. Its bets are ratios to
 * an urn with fewer rows of the fit, which learns the new shares: from all rows, and from recent
 * ones.
 */
#ifndef CST_MONITOR_EVIDENCE_H
#define CST_MONITOR_EVIDENCE_H

#include "model/shift/watch.h"

enum { CST_EVIDENCE_BETS = 2, CST_EVIDENCE_TESTS = CST_WATCH_STATISTICS + 1 };
#define CST_EVIDENCE_MOST 1e12

typedef struct cst_evidence {
    int64_t rows;
    double waiting;                                        /* capital that no bet has yet */
    double capital[CST_EVIDENCE_TESTS][CST_EVIDENCE_BETS]; /* of the classes: the last */
    double peak;    /* the largest value so far, at least 1 */
    int64_t *seen;  /* [tables][statistics][bins], and [groups] of the classes */
    double *recent; /* [groups]: rows of a class, the older the less they count */
    double density[CST_EVIDENCE_BETS][CST_WATCH_BINS]; /* what each bet says of each bin */
} cst_evidence;

/* Nothing seen yet. */
cst_status cst_evidence_take(cst_context *context, cst_scope *scope, const cst_watch *watch,
                             cst_evidence *evidence);
void cst_evidence_reset(const cst_watch *watch, cst_evidence *evidence);
/* Copies the values; both have the room. */
void cst_evidence_copy(const cst_watch *watch, const cst_evidence *from, cst_evidence *to);

/* Numbers of `seen`. */
size_t cst_evidence_counts(const cst_watch *watch);

/* Adds a row of a class with this table, in this group. value: [statistics]. */
void cst_evidence_add(const cst_watch *watch, int32_t table, int32_t group, const float *value,
                      cst_evidence *evidence);

/* The evidence now: at most CST_EVIDENCE_MOST. */
double cst_evidence_value(const cst_evidence *evidence);

#endif
