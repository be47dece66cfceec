/* A cascade in a model: members run one after another, and a row stops where the pool of those that
 * ran is sure enough; the last stage is the stack itself. docs/cascades.md. */
#pragma once

#include "data/pool/costs.h"
#include "model/codec.h"
#include "model/stack.h"

#include <corestack/cascade.h>

/* Most pools before the stack. */
enum { CST_CASCADE_STAGES = 16 };

/* A threshold that no row reaches. */
#define CST_CASCADE_NEVER 2.0

/* Values are stored in files: pinned. */
typedef enum cst_cascade_risk {
    CST_CASCADE_DISAGREEMENT = 0, /* another class than the stack's is decided for */
    CST_CASCADE_ERROR = 1         /* that, and the stack's is right */
} cst_cascade_risk;

typedef struct cst_cascade_plan {
    int32_t members;
    int32_t classes;
    int32_t stages;    /* pools before the stack */
    int32_t *order;    /* [members]: positions in the model, as they run */
    int32_t *size;     /* [stages]: members of a pool, the first of `order`; ascending */
    double *cost;      /* [members] of the model: shares of what all cost */
    double *mix;       /* [members] of the model: share of the uniform distribution */
    double *weights;   /* [stages][members] in running order; 0 beyond the size */
    double *bias;      /* [stages][classes] */
    double *threshold; /* [stages]: a row stops whose largest probability is at least this */
    double *stopped;   /* [stages]: share of the tested rows that stop there */
    int32_t risk;      /* cst_cascade_risk */
    int32_t cost_of;   /* cst_cost; CST_COST_COUNT: members cost alike */
    double alpha;      /* most risk of a row */
    double confidence; /* of the bound */
    int64_t tested;    /* rows that the thresholds were not chosen on */
    int64_t failed;    /* of these, with the risk */
    double bound;      /* of the share of such rows; 1 where rows never stop */
    double share;      /* mean cost of the tested rows; 1 where rows never stop */
    double excess;     /* their NLL less that of the stack */
} cst_cascade_plan;

/* Arrays of zeros. */
cst_status cst_cascade_plan_take(cst_context *context, cst_scope *scope, int32_t members,
                                 int32_t classes, int32_t stages, cst_cascade_plan *out);

/* Probabilities of one row by the pool of a stage; rows[k]: of member k [classes]. Returns the
 * largest. out: [classes]. */
double cst_cascade_pool(const cst_cascade_plan *plan, int32_t stage, const float *const *rows,
                        double *out);

/* CST_ERROR_UNSUPPORTED without a cascade. */
cst_status cst_cascade_check(cst_context *context, const cst_model *model);

/* Members that a row of a stage has run: at `stages`, all. */
static inline int32_t cst_cascade_ran(const cst_cascade_plan *plan, int32_t stage) {
    return stage < plan->stages ? plan->size[stage] : plan->members;
}

/* What the first `ran` members cost. */
double cst_cascade_cost(const cst_cascade_plan *plan, int32_t ran);

/* Section CASC. */
void cst_code_cascade(cst_codec *c, cst_model *model);
