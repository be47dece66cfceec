/*
 * The online adapter: three Newton experts that forget at different speeds, combined with stack,
 * averages and members by fixed share, so that no stretch of the stream costs much more than the
 * stack alone. docs/prediction.md#learning-online.
 */
#ifndef CST_ADAPT_ONLINE_H
#define CST_ADAPT_ONLINE_H

#include "fit/adapt/online_conformal.h"
#include "fit/adapt/online_newton.h"
#include "model/stack.h"

#include <corestack/adapter.h>

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

#endif
