/* Moments and scores of an evaluation of a regression. See the header. */
#include "tasks/regression/state.h"

#include "stats/weighted.h"

#include <string.h>

typedef cst_value_state state;
typedef cst_value_predictions predicted;

cst_status cst_value_state_moments(cst_context *context, state *s) {
    const cst_view *view = &s->source.view;
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = view->members};
    s->moments = cst_alloc(context, (size_t)view->classes, sizeof *s->moments);
    return s->moments ? cst_value_moments(context, view, &s->scaling, &none, s->source.folds,
                                          s->source.fold_count, s->moments)
                      : CST_ERROR_MEMORY;
}

cst_status cst_value_state_score(cst_context *context, const state *s, predicted *p,
                                 double *scores) {
    p->each = cst_alloc(context, (size_t)s->rows.classes, sizeof *p->each);
    if (!p->each)
        return CST_ERROR_MEMORY;
    cst_status status = cst_value_metrics_weighted(context, p->values, s->rows.targets,
                                                   s->rows.weights, &p->scores, p->each);
    const double found[] = {p->scores.rmse, p->scores.mae, p->scores.median_ae, p->scores.r2,
                            p->scores.nll};
    memcpy(scores, found, sizeof found);
    if (status == CST_OK)
        cst_value_intervals_tell(context, &p->scores);
    return status;
}
