/* The network of the `mlp` baseline on standardised log-probabilities of all members. */
#pragma once

#include "core/scope.h"
#include "data/pool/view.h"
#include "model/stack.h"

/* The gate's random streams with this bit set in the substream are the network's. */
#define CST_MLP_SUBSTREAM (UINT32_C(1) << 31)

typedef struct cst_mlp_options {
    int32_t hidden;     /* units of each hidden layer, >= 1 */
    int32_t epochs;     /* at most */
    int32_t patience;   /* epochs without a lower held-out loss before training stops */
    int64_t batch_rows; /* rows of a minibatch */
    double rate;        /* Adam's learning rate */
    double decay;       /* decoupled weight decay (AdamW), of weights, not of biases */
    double dropout;     /* share of hidden units dropped in training, 0 <= dropout < 1 */
    double work;        /* an epoch visits at most this many rows times parameters */
    uint64_t seed;
} cst_mlp_options;

/* Settings of the `mlp` baseline for that many training rows. */
cst_mlp_options cst_mlp_defaults(int64_t rows);

/* Rows to learn from (shuffled in place, from epoch to epoch) and rows to stop on. */
typedef struct cst_mlp_rows {
    int64_t *train;
    int64_t train_count;
    const int64_t *held;
    int64_t held_count;
} cst_mlp_rows;

/* Trains net->theta by Adam; leaves the parameters of the epoch with the least held-out loss. The
 * caller holds cst_la_enter. */
cst_status cst_mlp_train(cst_context *context, cst_network *net, const cst_view *view,
                         const cst_mlp_rows *rows, const cst_mlp_options *options,
                         int32_t *best_epoch, double *held_loss);
