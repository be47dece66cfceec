/*
 * Drop-and-refit: a kept member goes where the stack without it loses less than a standard error.
 * With many members removals are tried in groups, so that the number of refits does not grow with
 * the number of members. After stage S4. docs/method.md#s4-blend.
 */
#ifndef CST_PIPELINE_REMOVAL_H
#define CST_PIPELINE_REMOVAL_H

#include "fit/stages.h"

/* Fits the kept members, and what is left of them after removals where those are asked for. */
cst_status cst_fit_and_drop(cst_context *context, const cst_run *run, cst_stages *out);

/* Up to so many kept members each is left out alone. */
enum { CST_DROP_SINGLY = 64 };

/* What the tries work on. Members are positions in the pool's view. */
typedef struct cst_removal {
    void *user;
    const int32_t *kept;       /* as of now: a removal changes it */
    const int32_t *kept_count; /* the same */
    /* How much the present fit relies on each kept member: reliance [kept_count]. */
    void (*rely)(const void *user, double *reliance);
    /* Refits without these; *gone where the loss grew by less than a standard error, and they are
     * not among the kept any more. */
    cst_status (*attempt)(cst_context *context, void *user, const int32_t *members, int32_t count,
                          bool *gone);
} cst_removal;

/* While more than CST_DROP_SINGLY members are kept: leaves out the half that the fit relies on
 * least; where it is missed, half as many, and so on, until a group of a 32nd of all is missed. */
cst_status cst_remove_groups(cst_context *context, const cst_removal *removal);

/* Standard deviation of each column of each member: deviation [members][classes]. A weight times it
 * says how much of the scores is the member's. */
cst_status cst_member_deviations(cst_context *context, const cst_view *view, double *deviation);

#endif
