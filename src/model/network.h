/*
 * The small network that a model may hold as a meta-learner: standardised log-probabilities of all
 * members, two hidden layers of ReLU units, softmax. Part of prediction. Paper: "Neural
 * meta-learners"; docs/model-format.md#netw.
 */
#ifndef CST_MODEL_NETWORK_H
#define CST_MODEL_NETWORK_H

#include "core/base.h"

/* A probability below this counts as this in the inputs. */
#define CST_NETWORK_FLOOR 1e-6

/* Input k * classes + c is (log(max(p_kc, 1e-6)) - mean) / scale. Parameters one after another:
 * weights of the first hidden layer [hidden][inputs], its biases [hidden]; of the second,
 * [hidden][hidden] and [hidden]; of the output, [classes][hidden] and [classes]. */
typedef struct cst_network {
    int32_t members;
    int32_t classes;
    int32_t hidden;
    double *mean;  /* [members * classes] */
    double *scale; /* [members * classes], positive */
    double *theta; /* [cst_network_size] */
} cst_network;

/* Number of parameters; 0 if it overflows. */
size_t cst_network_size(int32_t members, int32_t classes, int32_t hidden);

/* Doubles of scratch that a sample takes. */
size_t cst_network_scratch(const cst_network *network);

/* Probabilities of sample `row` of rows members[k], each [...][classes]. scratch: doubles
 * [cst_network_scratch]. out: [classes]. */
void cst_network_row(const cst_network *network, const float *const *members, int64_t row,
                     double *scratch, double *out);

/* All zero, of a shape whose size does not overflow. *out is to be freed also after a failure. */
cst_status cst_network_create(cst_context *context, int32_t members, int32_t classes,
                              int32_t hidden, cst_network **out);
void cst_network_free(cst_context *context, cst_network *network);

#endif
