/* A model without some of its members: the minimised losses are kept as quadratic functions of the
 * members' weights, so that the weights are solved again for those present.
 * docs/prediction.md#absent-members. */
#pragma once

#include "model/codec.h"
#include "model/stack.h"

/* w'(curvature + ridge + pair/n) w / 2 - (slope + pull center / sum center)'w + sum l1 |w|,
 * minimised over weights of n members, with the biases at their best, rest - tilt w. Exact for
 * linear learners, of second order for the log-linear pool. Columns of the gate are left out. */
typedef struct cst_refit {
    int32_t learner;   /* of the model, whose weights it gives */
    int32_t output;    /* of a regression, else 0 */
    int32_t biases;    /* of the learner; of a regression 1, that of the output */
    bool nonnegative;  /* w >= 0 */
    double share;      /* in the learner's weights; 1 for each learner and output */
    double pair;       /* precision of the common scale beyond that of each weight */
    double pull;       /* total pull of the prior's center, 0: to 0 */
    double loss;       /* linear: mean squared error at w = 0, of a regression in units of its */
    double least;      /* scaling, and where no member is absent */
    double *curvature; /* [K][K] of the data */
    double *slope;     /* [K] */
    double *ridge;     /* [K] */
    double *l1;        /* [K] */
    double *center;    /* [K], not negative */
    double *rest;      /* [biases] */
    double *tilt;      /* [biases][K] */
} cst_refit;

typedef struct cst_refits {
    cst_scope *scope; /* of the model */
    int32_t count;
    cst_refit *refit;
} cst_refits;

/* Room for `most` refits, none of which is there yet. */
cst_status cst_refits_take(cst_context *context, cst_scope *scope, int32_t most, cst_refits **out);
/* One more, of zeros but for its share. */
cst_status cst_refits_add(cst_context *context, cst_refits *refits, int32_t members, int32_t biases,
                          cst_refit **out);

/* Files keep the biases of a refit that has many as numbers of 20 bits, column by column: in steps
 * of a power of two, of which the largest number is at least 2^18 and below 2^19. */
enum { CST_REFIT_BITS = 20, CST_REFIT_PLAIN = 64 /* biases that are kept as doubles */ };

bool cst_refits_packed(const cst_refits *refits); /* whether one has so many */
size_t cst_refit_column_bytes(size_t count);

/* The step of values [count], `stride` apart, and a value in steps. Rounded values have the same
 * step. */
double cst_refit_step(const double *values, size_t count, size_t stride);
int32_t cst_refit_steps(double value, double step);

/* Rounds what a file would round, so that a saved model predicts as the fitted one. */
void cst_refits_round(cst_refits *refits, int32_t members);

/* Memory for a model of fewer members, which borrows names and settings of the whole one. */
typedef struct cst_room {
    cst_scope scope;
    const cst_model *whole;
    cst_model model;      /* of those present, in their order; members 0: none was made yet */
    cst_values *values;   /* of a regression that has refits; else NULL */
    cst_learner *learner; /* of the room's own: the model's are the whole one's where only members
                             that came back are absent */
    bool stack_whole;     /* that is so */
    cst_adapted *adapted; /* of an adapted model; else NULL */
    uint8_t *present;     /* [K], and members that came back: for whom it was made */
    bool rescaled;        /* some weights were scaled, for lack of a refit */
    int32_t *place;       /* the same: positions of those present */
    double *work;
} cst_room;

cst_status cst_room_make(cst_context *context, const cst_model *whole, cst_room *out);
void cst_room_free(cst_room *room);

/* Makes room->model for the members with present[k] != 0, at least one; nothing is allocated. The
 * same pattern as before costs nothing. Learners without a refit have their weights scaled to the
 * sum they had; CST_ERROR_UNSUPPORTED for those with a gate. */
cst_status cst_room_fill(cst_context *context, cst_room *room, const uint8_t *present);

/* Says once that weights were scaled. */
void cst_room_tell(cst_context *context, const cst_room *room);

/* Says which members of the model have no predictions for a split. present: [cst_model_inputs]. */
void cst_absent_tell(cst_context *context, const cst_model *model, const char *split,
                     const uint8_t *present);

/* Sections ABSE and ABSP. */
void cst_code_refits(cst_codec *c, cst_model *model);
void cst_code_packed(cst_codec *c, cst_model *model);
