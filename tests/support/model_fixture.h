/*
 * The stacks of tests/data/model.h built in memory, and an allocator that fails on demand: for the
 * tests of src/model/.
 */
#ifndef TEST_MODEL_FIXTURE_H
#define TEST_MODEL_FIXTURE_H

#include "model/stack.h"

#include "data/model.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory that runs out ---- */

typedef struct flaky_heap {
    long left; /* allocations that succeed before one fails; negative: all do */
    long live; /* blocks not yet freed */
} flaky_heap;

/* For one thread at a time, or with `left` negative. */
static inline void *flaky_realloc(void *user, void *pointer, size_t bytes) {
    flaky_heap *heap = user;
    if (bytes == 0) {
        __atomic_fetch_sub(&heap->live, pointer != NULL, __ATOMIC_RELAXED);
        free(pointer);
        return NULL;
    }
    if (__atomic_load_n(&heap->left, __ATOMIC_RELAXED) >= 0 &&
        __atomic_fetch_sub(&heap->left, 1, __ATOMIC_RELAXED) <= 0) {
        __atomic_store_n(&heap->left, 0, __ATOMIC_RELAXED);
        return NULL;
    }
    void *moved = realloc(pointer, bytes);
    __atomic_fetch_add(&heap->live, pointer == NULL && moved != NULL, __ATOMIC_RELAXED);
    return moved;
}

/* ---- the stacks ---- */

enum { STACKS = 4 };

typedef struct learner_data {
    cst_learner_kind kind;
    int32_t coefficients;
    int32_t biases;
    const double *weights;
    const double *bias;
    const double *expected; /* [rows][classes] */
} learner_data;

typedef struct stack_data {
    cst_task task;
    cst_probability_map map;
    cst_gate_mode mode;
    int32_t best;
    int32_t learners;
    const double *blend;
    const double *expected; /* [rows][classes] */
    learner_data learner[3];
} stack_data;

#define LEARNER(kind, s, m, biases, bias)                                                          \
    {                                                                                              \
        kind, (int32_t)(sizeof model_weights_##s##_##m / sizeof(double)), biases,                  \
            model_weights_##s##_##m, bias, model_learner_##s##_##m                                 \
    }

static const stack_data STACK_DATA[STACKS] = {
    {CST_TASK_CLASSIFICATION,
     CST_PROBABILITY_CLIP,
     CST_GATE_LEARNED,
     1,
     3,
     model_blend_0,
     model_expected_0,
     {LEARNER(CST_LEARNER_RIDGE, 0, 0, 1, model_bias_0_0),
      LEARNER(CST_LEARNER_LASSO, 0, 1, 1, model_bias_0_1),
      LEARNER(CST_LEARNER_LOGLINEAR, 0, 2, MODEL_CLASSES, model_bias_0_2)}},
    {CST_TASK_CLASSIFICATION,
     CST_PROBABILITY_SIMPLEX,
     CST_GATE_PROTOTYPE,
     0,
     2,
     model_blend_1,
     model_expected_1,
     {LEARNER(CST_LEARNER_RIDGE, 1, 0, 1, model_bias_1_0),
      LEARNER(CST_LEARNER_ELASTIC_NET, 1, 1, 1, model_bias_1_1)}},
    {CST_TASK_CLASSIFICATION,
     CST_PROBABILITY_CLIP,
     CST_GATE_NONE,
     0,
     2,
     model_blend_2,
     model_expected_2,
     {LEARNER(CST_LEARNER_LOGLINEAR, 2, 0, 0, NULL),
      LEARNER(CST_LEARNER_RIDGE, 2, 1, 1, model_bias_2_1)}},
    {CST_TASK_REGRESSION,
     CST_PROBABILITY_CLIP,
     CST_GATE_PROTOTYPE,
     2,
     2,
     model_blend_3,
     model_expected_3,
     {LEARNER(CST_LEARNER_RIDGE, 3, 0, 1, model_bias_3_0),
      LEARNER(CST_LEARNER_LASSO, 3, 1, 1, model_bias_3_1)}},
};

static inline void *copy_of(cst_context *context, cst_scope *scope, const void *from, size_t count,
                            size_t size) {
    void *copy = cst_take(context, scope, count, size);
    if (copy && count > 0)
        memcpy(copy, from, count * size);
    return copy;
}

static inline char **strings_of(cst_context *context, cst_scope *scope, const char *const *from,
                                size_t count) {
    char **strings = cst_take(context, scope, count, sizeof *strings);
    for (size_t i = 0; strings && i < count; i++)
        strings[i] = cst_take_text(context, scope, from[i]);
    return strings;
}

/* Stack s of the fixture; NULL when memory runs out. */
static inline cst_model *build_stack(cst_context *context, int s) {
    static const char *const members[] = {"resnet50", "vit-b/16", "καλημέρα"};
    static const char *const classes[] = {"cat", "dog", "crane", "crane", "poisson rouge"};
    static const char *const settings[] = {"preset=default", "seed=7", "note=a=b"};
    const stack_data *data = &STACK_DATA[s];
    cst_model *model = NULL;
    if (cst_stack_create(context, &model) != CST_OK)
        return NULL;
    cst_scope *scope = &model->scope;
    model->task = data->task;
    model->map = data->map;
    model->classes = data->task == CST_TASK_REGRESSION ? 1 : MODEL_CLASSES;
    model->members = MODEL_MEMBERS;
    model->member_names = strings_of(context, scope, members, MODEL_MEMBERS);
    if (data->task == CST_TASK_CLASSIFICATION)
        model->class_names = strings_of(context, scope, classes, MODEL_CLASSES);
    model->settings = 3;
    model->setting = strings_of(context, scope, settings, 3);
    model->mix = copy_of(context, scope, model_mix, MODEL_MEMBERS, sizeof(double));
    model->gate = (cst_gate){.mode = data->mode, .inputs = MODEL_MEMBERS, .best = data->best};
    if (data->mode == CST_GATE_LEARNED) {
        model->gate.hidden = MODEL_HIDDEN;
        model->gate.w1 =
            copy_of(context, scope, model_w1, MODEL_HIDDEN * MODEL_MEMBERS, sizeof(float));
        model->gate.b1 = copy_of(context, scope, model_b1, MODEL_HIDDEN, sizeof(float));
        model->gate.w2 = copy_of(context, scope, model_w2, 12 * MODEL_HIDDEN, sizeof(float));
        model->gate.b2 = copy_of(context, scope, model_b2, 12, sizeof(float));
    }
    model->learners = data->learners;
    model->learner = cst_take(context, scope, (size_t)data->learners, sizeof *model->learner);
    for (int32_t l = 0; model->learner && l < data->learners; l++) {
        const learner_data *from = &data->learner[l];
        model->learner[l] = (cst_learner){
            .kind = from->kind,
            .blend = data->blend[l],
            .coefficients = from->coefficients,
            .biases = from->biases,
            .weights =
                copy_of(context, scope, from->weights, (size_t)from->coefficients, sizeof(double)),
            .bias = copy_of(context, scope, from->bias, (size_t)from->biases, sizeof(double))};
    }
    return model;
}

#endif
