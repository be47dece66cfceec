/*
 * Members whose NLL is above that of the uniform distribution, by cause, and those that went
 * through a softmax twice.
 */
#include "data/checks/scale.h"

#include <math.h>

typedef enum cause { CAUSE_NONE, CAUSE_ZEROS, CAUSE_CONFIDENT, CAUSE_OTHER, CAUSE_SOFTMAX } cause;

/* Mean confidence less accuracy that counts as a cause. */
static const double OVER = 0.1;
static const double UNDER = 0.2;
/* What a probability of 0 of the label costs. */
static const double ZERO_COST = 34.538776394910684;

static cause cause_of(const cst_check_sample *sample, const cst_member_facts *facts,
                      const cst_class_facts *of) {
    double n = (double)sample->rows;
    double nll = of->nll / n;
    double deviation = sqrt(fmax(of->nll2 / n - nll * nll, 0));
    double uniform = log((double)sample->view->classes);
    double confidence = of->confidence / n;
    double right = (double)of->right / n;
    if (facts->association.constant || facts->association.explained)
        return CAUSE_NONE;
    /* Probabilities are in [0, 1], so that after a second softmax no ratio is above e. */
    if (of->range <= 1 + 1e-5 && right - confidence > UNDER && sample->view->classes > 2)
        return CAUSE_SOFTMAX;
    if (!(nll > uniform + 2 * deviation / sqrt(n)))
        return CAUSE_NONE;
    if (of->zeros > 0 && nll - ZERO_COST * (double)of->zeros / n < uniform)
        return CAUSE_ZEROS;
    return confidence - right > OVER ? CAUSE_CONFIDENT : CAUSE_OTHER;
}

static cst_status tell(cst_context *context, const cst_check_sample *sample, const int32_t *list,
                       int32_t count, const cst_class_facts *of, cause why,
                       cst_findings *findings) {
    char who[256];
    double n = (double)sample->rows;
    const cst_class_facts *first = &of[list[0]];
    double uniform = log((double)sample->view->classes);
    const char *of_first = count > 1 ? " (figures of the first)" : "";
    (void)cst_check_names(sample->source, list, count, who, sizeof who);
    switch (why) {
    case CAUSE_ZEROS:
        return cst_findings_add(context, findings, "scale", false, list, count,
                                "%s: NLL %.3f is above that of the uniform distribution (%.3f) "
                                "because the label has probability 0 in %lld of %.0f rows%s",
                                who, first->nll / n, uniform, (long long)first->zeros, n, of_first);
    case CAUSE_CONFIDENT:
        return cst_findings_add(context, findings, "scale", false, list, count,
                                "%s: NLL %.3f is above that of the uniform distribution (%.3f) "
                                "because of overconfidence: mean confidence %.1f%%, top-1 %.1f%%%s",
                                who, first->nll / n, uniform, 100 * first->confidence / n,
                                100 * (double)first->right / n, of_first);
    case CAUSE_OTHER:
        return cst_findings_add(context, findings, "scale", false, list, count,
                                "%s: NLL %.3f is no better than that of the uniform distribution "
                                "(%.3f)%s",
                                who, first->nll / n, uniform, of_first);
    case CAUSE_SOFTMAX:
        return cst_findings_add(context, findings, "scale", false, list, count,
                                "%s: mean confidence %.1f%% at top-1 %.1f%%, and no probability is "
                                "more than e times another of its row: a softmax was probably "
                                "applied to probabilities%s",
                                who, 100 * first->confidence / n, 100 * (double)first->right / n,
                                of_first);
    case CAUSE_NONE:
        break;
    }
    return CST_OK;
}

cst_status cst_check_scale(cst_context *context, const cst_check_sample *sample,
                           const cst_member_facts *facts, const cst_class_facts *of,
                           cst_findings *findings) {
    static const cause causes[] = {CAUSE_ZEROS, CAUSE_CONFIDENT, CAUSE_OTHER, CAUSE_SOFTMAX};
    int32_t members = sample->view->members;
    int32_t *list = cst_alloc(context, (size_t)members, sizeof *list);
    cst_status status = list ? CST_OK : CST_ERROR_MEMORY;
    for (size_t i = 0; status == CST_OK && i < sizeof causes / sizeof causes[0]; i++) {
        int32_t count = 0;
        for (int32_t k = 0; k < members; k++)
            if (cause_of(sample, &facts[k], &of[k]) == causes[i])
                list[count++] = k;
        if (count == 0)
            continue;
        status = tell(context, sample, list, count, of, causes[i], findings);
        /* Trees and neighbours are like that, and a stack copes with it. */
        if (status == CST_OK)
            findings->list[findings->count - 1].quiet =
                causes[i] == CAUSE_ZEROS || causes[i] == CAUSE_OTHER;
    }
    cst_free(context, list);
    return status;
}
