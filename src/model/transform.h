/* Transforms of a regression's targets: members' predictions go through one before the stack, its
 * result and ends of intervals through the inverse. docs/regression.md#transform. */
#pragma once

#include "data/pool/view.h"

/* In the order of the option target.transform; values are stored in files: pinned. */
typedef enum cst_transform_kind {
    CST_TRANSFORM_NONE = 0,
    CST_TRANSFORM_LOG1P = 1,
    CST_TRANSFORM_LOG = 2,
    CST_TRANSFORM_SQRT = 3,
    CST_TRANSFORM_LOGIT = 4,
} cst_transform_kind;

typedef struct cst_transform {
    cst_transform_kind kind;
    double *low;  /* [outputs]: smallest and largest target of the fit, which stand for predictions
                     of members that are outside the domain on their side */
    double *high; /* [outputs] */
} cst_transform;

const char *cst_transform_name(cst_transform_kind kind);
/* What values have to be: "above -1". */
const char *cst_transform_domain(cst_transform_kind kind);
bool cst_transform_takes(cst_transform_kind kind, double value);

double cst_transform_of(cst_transform_kind kind, double value);
double cst_transform_inverse(cst_transform_kind kind, double transformed);
/* The value, or the nearest number whose transform is finite and whose slope is above 0: a
 * prediction in float32 may be at the end of the domain. */
double cst_transform_within(cst_transform_kind kind, double value);
/* Derivative of the inverse where it gives `value`, which is within. */
double cst_transform_slope(cst_transform_kind kind, double value);

/* One prediction of a member. */
static inline float cst_transform_member(const cst_transform *transform, int32_t output,
                                         float value) {
    double given = (double)value;
    double inside = cst_transform_takes(transform->kind, given) ? given
                    : given > 0.5                               ? transform->high[output]
                                                                : transform->low[output];
    return (float)cst_transform_of(transform->kind, inside);
}

/* Of a fit on a view with targets; CST_ERROR_INPUT names a target outside the domain. */
cst_status cst_transform_fit(cst_context *context, cst_scope *scope, cst_transform_kind kind,
                             const cst_view *view, cst_transform **out);
/* The view with transformed members, which lives as long as the scope; its targets too, if it has
 * any and `targets` says so. */
cst_status cst_transform_view(cst_context *context, cst_scope *scope,
                              const cst_transform *transform, const cst_view *view, bool targets,
                              cst_view *out);
/* A notice of how many predictions of the view are outside the domain, if any. */
cst_status cst_transform_tell(cst_context *context, const cst_transform *transform,
                              const cst_view *view);
