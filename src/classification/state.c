/*
 * Scores of predicted probabilities, means over conditions or splits. See the header.
 */
#include "classification/state.h"

#include "metrics/weighted.h"

enum { SCORES = CST_CLASS_SCORES };

typedef cst_class_state state;
typedef cst_class_predictions predicted;

static cst_status score_target(cst_context *context, const state *s, const cst_target *target,
                               const float *rows, double *scores, double share) {
    cst_metrics one;
    cst_status status = cst_metrics_weighted(context, rows, target->samples, s->classes,
                                             target->labels, target->weights, 0, &one);
    if (status != CST_OK)
        return status;
    const double values[SCORES] = {one.top1,     one.ece,           one.nll,          one.brier,
                                   one.ece_mass, one.ece_classwise, one.ece_debiased, one.corp};
    for (int i = 0; i < SCORES; i++)
        scores[i] += values[i] / share;
    return CST_OK;
}

cst_status cst_class_score(cst_context *context, const state *s, const predicted *p,
                           double *scores) {
    const cst_target *first = &s->targets.list[0];
    bool splits = s->targets.scored > 1;
    int32_t times = splits ? s->targets.scored : first->conditions > 0 ? first->conditions : 1;
    size_t cells = (size_t)first->samples * (size_t)s->classes;
    cst_status status = CST_OK;
    for (int i = 0; i < SCORES; i++)
        scores[i] = 0;
    for (int32_t t = 0; status == CST_OK && t < times; t++)
        status = score_target(context, s, &s->targets.list[splits ? t : 0],
                              splits ? p->rows[t] : p->rows[0] + (size_t)t * cells, scores, times);
    return status;
}
