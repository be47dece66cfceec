/*
 * Mean NLL of the members of a view: the order in which redundancy projects and baselines choose.
 * Used by stages S1 and S2 and by src/baselines. docs/method.md#s1-redundancy and
 * docs/json.md#evaluate.
 */
#ifndef CST_METRICS_RISK_H
#define CST_METRICS_RISK_H

#include "core/base.h"
#include "data/pool/view.h"

/* The probability of the true class never counts as less than this in a logarithm. */
#define CST_NLL_FLOOR 1e-15

/* Mean NLL of every member. out: [members]. */
cst_status cst_risk_all(cst_context *context, const cst_view *view, double *out);

/* Share of rows whose largest probability (lowest class of equal ones) is the label's. out:
 * [members]. */
cst_status cst_risk_top1_all(cst_context *context, const cst_view *view, double *out);

#endif
