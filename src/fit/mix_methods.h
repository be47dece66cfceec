/* Evaluations of tasks whose methods are baselines and presets that mix all members by one rule
 * (multilabel, topk): their part of cst_task_ops, over what differs. */
#pragma once

#include "fit/harness.h"

typedef struct cst_named {
    const char *name, *definition;
} cst_named;

typedef const cst_named *cst_named_at_fn(size_t index); /* NULL past the end */
const cst_named *cst_named_find(cst_named_at_fn *at, const char *name);

/* e->data, or its first member. */
typedef struct cst_mix_state {
    cst_training source;
    cst_view rows;          /* what is scored */
    cst_counted counted;    /* what it is in, unless it is the source's */
    cst_counted model_rows; /* the rows scored, with the members of a model */
} cst_mix_state;

/* entry->method. */
typedef struct cst_mix_method {
    const cst_named *baseline; /* NULL: a preset */
    cst_settings settings;     /* of a preset */
} cst_mix_method;

/* entry->result, or its first member. */
typedef struct cst_mix_result {
    float *rows; /* [rows][width] */
} cst_mix_result;

struct cst_mix_task {
    const char *name;
    const char *definition;    /* of presets */
    bool removals;             /* presets may remove members and fit again */
    cst_named_at_fn *baseline; /* in the order of reports */
    cst_status (*check_options)(cst_context *context, const cst_options *options);
    /* The fit of a baseline, which the scope frees; calibrator: [64]. */
    cst_status (*make)(cst_context *context, cst_scope *scope, const cst_named *baseline,
                       const cst_training *source, char *calibrator, cst_made_model *out);
    /* Columns of a prediction, and functions of the members in a model. */
    int32_t (*width)(const cst_view *rows);
    int32_t (*functions)(const cst_model *model);
    /* kept: positions of the model's members in the rows; NULL: they are the first. */
    cst_status (*predict)(cst_context *context, const cst_model *model, const int32_t *kept,
                          const cst_view *rows, float *out);
    cst_status (*score)(cst_context *context, const cst_evaluation *e, cst_entry *entry);
};

/* Greedy selection with replacement: what a block of rows is asked in each round. */
typedef struct cst_mix_greedy {
    const cst_view *view;
    const void *of;  /* the task's own */
    int32_t *counts; /* [members]: how often each was taken, */
    int32_t taken;   /* and all of them */
} cst_mix_greedy;

/* Weights [members] up to the round of the least loss. block (user: cst_mix_greedy): sum [members],
 * the loss of the mean with each member taken once more. */
cst_status cst_mix_greedy_weights(cst_context *context, const cst_view *view, const void *of,
                                  cst_block_fn block, double *weights);

static inline cst_mix_state *cst_mix_state_of(const cst_evaluation *e) {
    return e->data;
}

/* Entries of cst_task_ops, but that of names needs the task. */
const char *cst_mix_name(const cst_mix_task *task, size_t index);
cst_status cst_mix_parse(cst_context *context, const cst_evaluation *e, const char *const *settings,
                         int32_t count, cst_entry *entry);
cst_status cst_mix_open(cst_context *context, cst_evaluation *e, const cst_model *model);
cst_status cst_mix_subset(cst_context *context, const cst_evaluation *e, cst_evaluation *out);
cst_status cst_mix_run(cst_context *context, const cst_evaluation *e, const cst_model *model,
                       cst_entry *entry);
/* Room for an entry's result. */
cst_status cst_mix_room(cst_context *context, const cst_evaluation *e, cst_entry *entry);
/* The rows of the split with one member alone. */
cst_status cst_mix_member(cst_context *context, cst_evaluation *e, const int32_t *member);
