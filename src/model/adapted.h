/*
 * A stack adapted to new data: softmax_c(a log p_stack + sum_k w_k log p~_k + b_c), p~_k the
 * members mixed with a share of the uniform distribution. The stack itself stays as it was fitted;
 * members that it left out may come back. docs/model-format.md#adpt.
 */
#ifndef CST_MODEL_ADAPTED_H
#define CST_MODEL_ADAPTED_H

#include "core/scope.h"

/* Mixed into the stack's own probabilities, so that a zero costs a bounded amount. */
#define CST_ADAPTED_STACK_MIX 1e-9

typedef struct cst_adapted {
    int32_t members; /* K + extra: first the stack's, in its order */
    int32_t extra;   /* members that the stack's learners do not read */
    int32_t classes;
    char **names;    /* [extra] */
    double *mix;     /* [members]: share of the uniform distribution */
    double scale;    /* a */
    double *weights; /* [members] */
    double *bias;    /* [classes] */
    int64_t rows;    /* labelled rows that it was fitted on */
} cst_adapted;

/* Arrays of zeros; names are NULL. */
cst_status cst_adapted_take(cst_context *context, cst_scope *scope, int32_t members, int32_t extra,
                            int32_t classes, cst_adapted **out);

/* Takes `count` rows of the stack's probabilities [count][classes] to those of the adapted stack,
 * in place. members: [adapted->members] rows of each. scores: [count * classes] scratch. */
void cst_adapted_rows(const cst_adapted *adapted, const float *const *members, int64_t count,
                      double *scores, float *probabilities);

/* The same function for some of the members: an absent one's weight goes to the stack, which is
 * the best guess of what the member would have said. present: [members]. `to` has room for all of
 * them and borrows names. */
void cst_adapted_restrict(const cst_adapted *from, const uint8_t *present, cst_adapted *to);

#endif
