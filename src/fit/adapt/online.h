/* The online adapter: three Newton experts that forget at different speeds, combined with stack,
 * averages and members by fixed share, so that no long stretch costs much more than the stack
 * alone. docs/prediction.md#learning-online. */
#pragma once

#include "core/scope.h"
#include "model/stack.h"

#include <corestack/adapter.h>

/* A Newton expert: steps with forgetting on softmax_c(sum_j w_j x_jc + b_c), one labelled row at a
 * time. Its parameters are those of an adapted model, with a prior centred on the first feature.
 * docs/prediction.md#learning-online. */

/* Every row's loss is kept as a quadratic at the parameters of its time, so that the state does not
 * grow: minimised is prior/2 |t|^2 + sum_i keep^(n-i) (g_i'(t - t_i) + 1/2 (t - t_i)'H_i(t - t_i)),
 * t being the parameters less their prior means (1, 0, 0, ...). */
typedef struct cst_newton {
    int32_t features; /* w: the first has a prior mean of 1, the others of 0 */
    int32_t classes;
    int32_t biases; /* 0, or as many as classes; prior mean 0 */
    int32_t size;   /* features + biases */
    double keep;    /* what a row leaves of the rows before it, in (0, 1] */
    double prior;   /* precision of every parameter */
    int32_t period; /* labels from one solution to the next, by `size`: the same work per label */
    int32_t since;  /* labels since the last one */
    double *curvature; /* [size][size], lower triangle */
    double *pull;      /* [size] */
    double *shift;     /* [size] t */
    double *factor;    /* [size][size]: scratch, as the rest */
    double *mean;      /* [features] */
    double *row;       /* [classes] */
    double *side;      /* [classes] */
} cst_newton;

/* No parameter leaves its mean by more. */
#define CST_NEWTON_MAX 1e6

cst_status cst_newton_take(cst_context *context, cst_scope *scope, int32_t features,
                           int32_t classes, bool biases, double keep, double prior,
                           cst_newton *out);

/* Probabilities of a row x [features][classes]; out [classes]. */
void cst_newton_predict(const cst_newton *newton, const double *x, double *out);

/* The label of a row x. Allocates nothing. */
void cst_newton_learn(cst_newton *newton, const double *x, int32_t label);

/* Adaptive conformal inference (Gibbs and Candes 2021): each miss moves the level of the prediction
 * sets, so that their misses come to a share of alpha on any sequence of rows.
 * docs/bounds.md#under-shift. */

enum { CST_ACI_WINDOW = 512 };

/* A plain value of fixed size, without pointers. A file keeps `alpha` to `next` and the first
 * `count` of `scores`; cst_aci_restore makes the rest. */
typedef struct cst_aci {
    double alpha; /* the share of rows that may be missed, in (0, 1) */
    double step;  /* how far one row moves the level, in (0, 1] */
    double level; /* the present level; below 0 sets are full, above 1 they are empty */
    int64_t rows; /* answers so far */
    int64_t missed;
    int32_t count; /* scores in the window */
    int32_t next;  /* place of the next score in `scores`, where the window is full */
    double scores[CST_ACI_WINDOW]; /* of the last labelled rows */
    double sorted[CST_ACI_WINDOW]; /* the same, ascending */
} cst_aci;

/* An empty state; sets are full until there are 1/alpha scores. CST_ERROR_ARGUMENT for alpha or
 * step out of range. */
cst_status cst_aci_start(cst_context *context, double alpha, double step, cst_aci *out);

/* Fills `sorted` from the fields that a file keeps; false where these cannot be of a state. */
bool cst_aci_restore(cst_aci *aci);

/* Classes whose score is at most this are in the set of the next row: the score of place
 * ceil((count + 1) (1 - level)) in the window; INFINITY: every class, -INFINITY: none. */
double cst_aci_threshold(const cst_aci *aci);

/* How strange class c is for a row of probabilities: 1 - p_c. */
static inline double cst_aci_score(const float *row, int32_t c) {
    return 1 - (double)row[c];
}

/* The label of a row has come: whether its set, as it was given out, held the label, and the score
 * of the label. Labels may come late and in any order; rows whose labels never come change nothing.
 * A score that is no number is not kept. */
void cst_aci_update(cst_aci *aci, bool covered, double score);

enum {
    CST_ONLINE_NEWTONS = 3,
    CST_ONLINE_EXTRA = CST_ONLINE_NEWTONS + 4, /* rows of a record besides the members' */
    CST_ONLINE_MIXED = CST_ONLINE_NEWTONS + 2, /* what the adapter mixes: stack, Newton, share */
    CST_ONLINE_SINGLES = 3,                    /* stack, average, average with temperature */
    CST_ONLINE_MEMBERS_MAX = 1024
};

/* A row that was observed: float32 [members + CST_ONLINE_EXTRA][classes]: the members, the stack,
 * the Newton experts, the average with temperature, fixed share, the adapter; as they were
 * predicted then. */
typedef struct cst_online_slot {
    bool waiting;     /* for its label to be learned */
    int32_t label;    /* known, but not learned yet; -1: unknown */
    double threshold; /* scores of the classes in its prediction set are at most this, -1 to 2 */
} cst_online_slot;

typedef enum cst_online_scored { /* whose errors are counted */
                                 CST_ONLINE_ADAPTER = 0,
                                 CST_ONLINE_STACK = 1,
                                 CST_ONLINE_AVERAGE = 2,
                                 CST_ONLINE_SCORED = 3
} cst_online_scored;

struct cst_adapter {
    cst_scope scope;
    const cst_model *model;
    uint64_t model_hash; /* of the bytes of its file */
    cst_predictor *predictor;
    int32_t members;
    int32_t classes;
    char **names;   /* [members] */
    int32_t *place; /* [model's members]: where each comes among them */
    cst_newton newton[CST_ONLINE_NEWTONS];
    cst_newton average; /* with a temperature */
    double mixture[CST_ONLINE_MIXED];
    int32_t experts; /* of fixed share: CST_ONLINE_SINGLES + members */
    double *share;   /* [experts] */
    double *loss;    /* [experts]: sums over rows with a label */
    double adapter_loss;
    int64_t errors[CST_ONLINE_SCORED];
    cst_aci sets;     /* of the adapter's predictions */
    int64_t set_size; /* sum over rows with a label */
    int64_t next;     /* ticket */
    int64_t labelled;
    int64_t waiting;
    int64_t dropped;
    int64_t capacity;
    cst_online_slot *slot; /* [capacity]: that of a ticket is its remainder */
    float *record;         /* [capacity][members + CST_ONLINE_EXTRA][classes] */
    /* scratch of one row */
    float *row;          /* a record */
    const float **given; /* [model's members] */
    double *logs;        /* [1 + members][classes]: stack, members */
    double *mean;        /* [classes]: average of the members */
    double *mean_log;    /* [classes] */
    double *mixed;       /* [classes] */
    double *likelihood;  /* [experts] */
};

/* Floats of a record. */
static inline size_t cst_online_width(const cst_adapter *adapter) {
    return (size_t)(adapter->members + CST_ONLINE_EXTRA) * (size_t)adapter->classes;
}

/* One row: predictions[k] [classes], in the members' order. `place`: of the row in messages. The
 * adapter's prediction is the last of its record. */
cst_status cst_online_observe(cst_context *context, cst_adapter *adapter,
                              const float *const *predictions, int64_t place);

/* The slot of a ticket that may still get its label; NULL: of none. */
cst_online_slot *cst_online_find(const cst_adapter *adapter, int64_t ticket);

/* Learns the label of such a ticket. */
void cst_online_learn(cst_adapter *adapter, int64_t ticket, int32_t label);
