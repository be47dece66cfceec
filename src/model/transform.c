/* Transforms of a regression's targets and of members' predictions. See the header. */
#include "model/transform.h"

#include <float.h>
#include <math.h>

static const struct {
    const char *name, *domain;
} KINDS[] = {[CST_TRANSFORM_NONE] = {"none", "of any size"},
             [CST_TRANSFORM_LOG1P] = {"log1p", "above -1"},
             [CST_TRANSFORM_LOG] = {"log", "above 0"},
             [CST_TRANSFORM_SQRT] = {"sqrt", "0 or more"},
             [CST_TRANSFORM_LOGIT] = {"logit", "between 0 and 1, both excluded"}};

const char *cst_transform_name(cst_transform_kind kind) {
    return KINDS[kind].name;
}

const char *cst_transform_domain(cst_transform_kind kind) {
    return KINDS[kind].domain;
}

bool cst_transform_takes(cst_transform_kind kind, double value) {
    switch (kind) {
    case CST_TRANSFORM_LOG1P:
        return value > -1;
    case CST_TRANSFORM_LOG:
        return value > 0;
    case CST_TRANSFORM_SQRT:
        return value >= 0;
    case CST_TRANSFORM_LOGIT:
        return value > 0 && value < 1;
    default:
        return true;
    }
}

double cst_transform_of(cst_transform_kind kind, double value) {
    switch (kind) {
    case CST_TRANSFORM_LOG1P:
        return log1p(value);
    case CST_TRANSFORM_LOG:
        return log(value);
    case CST_TRANSFORM_SQRT:
        return sqrt(value);
    case CST_TRANSFORM_LOGIT:
        return log(value) - log1p(-value);
    default:
        return value;
    }
}

double cst_transform_inverse(cst_transform_kind kind, double transformed) {
    switch (kind) {
    case CST_TRANSFORM_LOG1P:
        return expm1(transformed);
    case CST_TRANSFORM_LOG:
        return exp(transformed);
    case CST_TRANSFORM_SQRT:
        return transformed > 0 ? transformed * transformed : 0;
    case CST_TRANSFORM_LOGIT:
        return 1 / (1 + exp(-transformed));
    default:
        return transformed;
    }
}

double cst_transform_within(cst_transform_kind kind, double value) {
    static const double least = FLT_EPSILON / 4;
    switch (kind) {
    case CST_TRANSFORM_LOG1P:
        return fmax(value, least - 1);
    case CST_TRANSFORM_LOG:
    case CST_TRANSFORM_SQRT:
        return fmax(value, (double)FLT_MIN);
    case CST_TRANSFORM_LOGIT:
        return fmin(fmax(value, (double)FLT_MIN), 1 - least);
    default:
        return value;
    }
}

double cst_transform_slope(cst_transform_kind kind, double value) {
    switch (kind) {
    case CST_TRANSFORM_LOG1P:
        return 1 + value;
    case CST_TRANSFORM_LOG:
        return value;
    case CST_TRANSFORM_SQRT:
        return 2 * sqrt(value);
    case CST_TRANSFORM_LOGIT:
        return value * (1 - value);
    default:
        return 1;
    }
}

/* ---- of a fit, and of views ---- */

cst_status cst_transform_fit(cst_context *context, cst_scope *scope, cst_transform_kind kind,
                             const cst_view *view, cst_transform **out) {
    int32_t outputs = view->classes;
    CST_NEW(context, scope, cst_transform, made, 1);
    made->kind = kind;
    CST_TAKE(context, scope, made->low, outputs);
    CST_TAKE(context, scope, made->high, outputs);
    for (int64_t i = 0; i < view->rows; i++) {
        const double *y = cst_view_target(view, i);
        for (int32_t d = 0; d < outputs; d++) {
            if (!cst_transform_takes(kind, y[d]))
                return cst_fail(context, CST_ERROR_INPUT,
                                "row %lld, output %d: the target is %g, and target.transform=%s "
                                "needs targets %s: correct the row, or leave target.transform out",
                                (long long)(view->index ? view->index[i] : i), (int)d, y[d],
                                KINDS[kind].name, KINDS[kind].domain);
            made->low[d] = i == 0 ? y[d] : fmin(made->low[d], y[d]);
            made->high[d] = i == 0 ? y[d] : fmax(made->high[d], y[d]);
        }
    }
    *out = made;
    return CST_OK;
}

typedef struct view_job {
    const cst_transform *transform;
    const cst_view *from;
    float **to;       /* [members]: rows of the split; NULL: outside ones are only counted */
    int64_t *outside; /* [members] */
} view_job;

static cst_status view_member(cst_context *context, void *user, int64_t member) {
    const view_job *job = user;
    const cst_view *view = job->from;
    int32_t width = view->classes;
    const uint8_t *present = cst_view_present(view, (int32_t)member);
    for (int64_t block = 0; view->data[member] && block < cst_block_count(view->rows); block++) {
        cst_rows rows;
        CST_SCOPE(scope);
        CST_TRY(cst_rows_open(context, scope, view, block, &rows));
        CST_TRY(cst_rows_read(context, &rows, (int32_t)member));
        for (int64_t i = 0; i < rows.count; i++) {
            int64_t row = rows.first + i;
            const float *values = cst_rows_at(&rows, i);
            bool there = cst_view_is_there(view, present, row);
            row = view->index ? view->index[row] : row;
            for (int32_t d = 0; d < width; d++) {
                if (job->to)
                    job->to[member][row * width + d] =
                        cst_transform_member(job->transform, d, values[d]);
                else if (there)
                    job->outside[member] +=
                        !cst_transform_takes(job->transform->kind, (double)values[d]);
            }
        }
    }
    return CST_OK;
}

/* Rows of the split up to the last of the view. */
static int64_t split_rows(const cst_view *view) {
    int64_t rows = view->index ? 0 : view->rows;
    for (int64_t i = 0; view->index && i < view->rows; i++)
        rows = view->index[i] >= rows ? view->index[i] + 1 : rows;
    return rows;
}

cst_status cst_transform_view(cst_context *context, cst_scope *scope,
                              const cst_transform *transform, const cst_view *view, bool targets,
                              cst_view *out) {
    size_t cells = (size_t)split_rows(view) * (size_t)view->classes;
    int32_t members = view->members;
    CST_NEW(context, scope, float *, data, members);
    CST_NEW(context, scope, uint8_t *, present, members);
    CST_NEW(context, scope, cst_presence, presence, 1);
    view_job job = {.transform = transform, .from = view, .to = data};
    for (int32_t k = 0; k < members; k++) {
        present[k] = (uint8_t *)(uintptr_t)cst_view_present(view, k); /* only looked at */
        if (view->data[k])
            CST_TAKE(context, scope, data[k], cells);
    }
    CST_TRY(cst_parallel_for(context, members, view_member, &job));
    *presence = (cst_presence){members, (const float *const *)data, present};
    *out = *view;
    out->data = presence->data;
    out->store = NULL;
    out->presence = view->presence ? presence : NULL;
    if (!targets || !view->targets)
        return CST_OK;
    CST_NEW(context, scope, double, moved, cells);
    for (int64_t i = 0; i < view->rows; i++)
        for (int32_t d = 0; d < view->classes; d++)
            moved[(view->index ? view->index[i] : i) * view->classes + d] =
                cst_transform_of(transform->kind, cst_view_target(view, i)[d]);
    out->targets = moved;
    return CST_OK;
}

cst_status cst_transform_tell(cst_context *context, const cst_transform *transform,
                              const cst_view *view) {
    int64_t outside = 0;
    CST_SCOPE(scope);
    view_job job = {.transform = transform, .from = view};
    CST_TAKE(context, scope, job.outside, view->members);
    CST_TRY(cst_parallel_for(context, view->members, view_member, &job));
    for (int32_t k = 0; k < view->members; k++)
        outside += job.outside[k];
    if (outside > 0)
        cst_notice(context,
                   "target.transform=%s: %lld predictions of members are not %s, and count as the "
                   "%s target of the fit",
                   KINDS[transform->kind].name, (long long)outside, KINDS[transform->kind].domain,
                   transform->kind == CST_TRANSFORM_LOGIT ? "smallest or largest" : "smallest");
    return CST_OK;
}
