/* Scores of predicted probabilities, means over conditions or splits. See the header. */
#include "tasks/classification/state.h"

#include "stats/weighted.h"

enum { SCORES = CST_CLASS_SCORES };

typedef cst_class_state state;
typedef cst_class_predictions predicted;

static void add_scores(const cst_metrics *one, double share, double *scores) {
    const double values[SCORES] = {one->top1,     one->ece,           one->nll,          one->brier,
                                   one->ece_mass, one->ece_classwise, one->ece_debiased, one->corp};
    for (int i = 0; i < SCORES; i++)
        scores[i] += values[i] / share;
}

cst_status cst_class_score(cst_context *context, const state *s, predicted *p, double *scores) {
    const cst_target *first = &s->targets.list[0];
    bool splits = s->targets.scored > 1;
    int32_t times = splits ? s->targets.scored : first->conditions > 0 ? first->conditions : 1;
    size_t cells = (size_t)first->samples * (size_t)s->classes;
    p->parts = cst_alloc(context, (size_t)times, sizeof *p->parts);
    cst_status status = p->parts ? CST_OK : CST_ERROR_MEMORY;
    for (int i = 0; i < SCORES; i++)
        scores[i] = 0;
    for (int32_t t = 0; status == CST_OK && t < times; t++) {
        const cst_target *target = &s->targets.list[splits ? t : 0];
        const float *rows = splits ? p->rows[t] : p->rows[0] + (size_t)t * cells;
        status = cst_metrics_weighted(context, rows, target->samples, s->classes, target->labels,
                                      target->weights, 0, &p->parts[t]);
        if (status == CST_OK)
            add_scores(&p->parts[t], times, scores);
    }
    return status;
}
