/* For the files that train the gate: the parameter vector's layout and the rows to train on. */
#ifndef CST_GATE_TRAINING_H
#define CST_GATE_TRAINING_H

#include "core/scope.h"
#include "method/gate/gate.h"

/* Where the parts of the parameter vector begin. */
typedef struct cst_gate_layout {
    size_t b1;
    size_t w2;
    size_t b2;
    size_t head_members;
    size_t head_aggregates;
    size_t intercept;
    size_t count;
} cst_gate_layout;

cst_gate_layout cst_gate_layout_of(int32_t inputs, int32_t hidden);

/* The training set: rows of the first `held` samples are for validation, the rest for training. */
typedef struct cst_gate_training {
    cst_gate_problem problem;
    int64_t held_rows; /* rows 0..held_rows-1 are held out */
    double *input;     /* the problem's arrays */
    double *aggregate;
    double *target;
    double *weight;
    double *mean;  /* [inputs] */
    double *scale; /* [inputs] */
} cst_gate_training;

/* Decides how much to draw, draws it, and prepares the training set. */
cst_status cst_gate_training_make(cst_context *context, cst_scope *scope, const cst_view *view,
                                  int32_t best, const cst_gate_options *options,
                                  cst_gate_training *out);

#endif
