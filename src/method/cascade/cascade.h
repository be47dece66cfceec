/* Where the rows of a cascade stop: thresholds by backward induction on loss plus cost, and how
 * bold they may be by fixed-sequence testing (Learn then Test, Angelopoulos et al. 2021) with exact
 * binomial bounds. docs/cascades.md. */
#pragma once

#include "core/base.h"

/* Held-out rows at every stage but the last, where nothing is lost. */
typedef struct cst_cascade_rows {
    int64_t rows;
    int32_t stages;
    const double *sure;    /* [stages][rows]: largest probability */
    const double *loss;    /* [stages][rows]: of a row that stops, against the last stage */
    const uint8_t *failed; /* [stages][rows]: 1: a stop brings the risk about */
    const uint8_t *tested; /* [rows]: 1: for the test, 0: for the thresholds */
    const double *cost;    /* [stages + 1] up to each stage and the last, of which it is 1 */
} cst_cascade_rows;

typedef struct cst_cascade_limits {
    double alpha;      /* of the share of rows with the risk */
    double confidence; /* of its bound */
    double loss;       /* of the mean loss, on the rows for the thresholds */
} cst_cascade_limits;

typedef struct cst_cascade_found {
    double cheapest; /* mean cost, on the rows for the thresholds, where these reach a limit */
    int64_t tested;
    int64_t failed;
    double bound; /* 1: no thresholds passed, and rows never stop */
    double share; /* mean cost of the tested rows */
} cst_cascade_found;

/* threshold: [stages]; above 1 where no row stops. */
cst_status cst_cascade_choose(cst_context *context, const cst_cascade_rows *rows,
                              const cst_cascade_limits *limits, double *threshold,
                              cst_cascade_found *out);

/* The stage at which a row stops; `stages` for the last. */
int32_t cst_cascade_stop(const cst_cascade_rows *rows, const double *threshold, int64_t row);
