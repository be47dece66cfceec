/* Mean NLL and top-1 of the members of a view. docs/method.md#s1-redundancy. */
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
