/*
 * Adaptive conformal inference (Gibbs and Candes 2021): each miss moves the level of the prediction
 * sets, so that their misses come to a share of alpha on any sequence of rows, without assumptions.
 * For the online adapter. docs/bounds.md#under-shift.
 */
#ifndef CST_ADAPT_ONLINE_CONFORMAL_H
#define CST_ADAPT_ONLINE_CONFORMAL_H

#include "core/base.h"

enum { CST_ACI_WINDOW = 512 };

/* A plain value of fixed size, without pointers. A file keeps `alpha` to `next` and the first
 * `count` of `scores`; cst_aci_restore makes the rest. */
typedef struct cst_aci {
    double alpha; /* the share of rows that may be missed, in (0, 1) */
    double step;  /* how far one row moves the level, in (0, 1] */
    double level; /* the present level; below 0 sets are full, above 1 they are empty */
    int64_t rows; /* answers so far */
    int64_t missed;
    int32_t count; /* scores in the window */
    int32_t next;  /* place of the next score in `scores`, where the window is full */
    double scores[CST_ACI_WINDOW]; /* of the last labelled rows */
    double sorted[CST_ACI_WINDOW]; /* the same, ascending */
} cst_aci;

/* An empty state; sets are full until there are 1/alpha scores. CST_ERROR_ARGUMENT for alpha or
 * step out of range. */
cst_status cst_aci_start(cst_context *context, double alpha, double step, cst_aci *out);

/* Fills `sorted` from the fields that a file keeps; false where these cannot be of a state. */
bool cst_aci_restore(cst_aci *aci);

/* Classes whose score is at most this are in the set of the next row: the score of place
 * ceil((count + 1) (1 - level)) in the window; INFINITY: every class, -INFINITY: none. */
double cst_aci_threshold(const cst_aci *aci);

/* How strange class c is for a row of probabilities: 1 - p_c. */
static inline double cst_aci_score(const float *row, int32_t c) {
    return 1 - (double)row[c];
}

/* The label of a row has come: whether its set, as it was given out, held the label, and the score
 * of the label. Labels may come late and in any order; rows whose labels never come change nothing.
 * A score that is no number is not kept. */
void cst_aci_update(cst_aci *aci, bool covered, double score);

#endif
