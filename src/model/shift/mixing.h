/* Leaning of a batch unlike the fit on the average of all members, without labels: whether the
 * stack's confidence fell, how accurate stack and average probably still are, and the temperatures
 * that follow. docs/prediction.md#guard. */
#pragma once

#include "data/pool/view.h"
#include "model/shift/label_shift.h"

enum {
    CST_MIXING_STACK = 0,
    CST_MIXING_AVERAGE = 1, /* of all members of the pool */
    CST_MIXING_SIDES = 2,
    CST_MIXING_POINTS = 5,   /* temperatures at which a side of a batch is looked at */
    CST_MIXING_STEPS = 13,   /* temperatures at which the average of a fit is looked at */
    CST_MIXING_UNITS = 16383 /* means and deviations are multiples of 1 / 16383 */
};
/* A batch has fired where z is below it. */
#define CST_MIXING_Z (-4.0)
/* The least weight of the average in a batch that has fired. */
#define CST_MIXING_LEAST 0.2

/* Predictions of the rows of a fit. The temperature T of a row p gives the softmax of T log max(p,
 * 1e-12): above 1 it sharpens. */
typedef struct cst_mixing {
    int32_t classes;
    int64_t rows;
    double accuracy[CST_MIXING_SIDES];
    double sharpest; /* largest temperature of the average: that at which its mean confidence is its
                        accuracy; 1 to 4 */
    int32_t *count[CST_MIXING_SIDES]; /* [classes]: rows for which a class is predicted */
    float *mean;     /* [classes]: of the stack's confidence, by predicted class, */
    float *variance; /* drawn to those of all rows with the weight of 20 rows */
} cst_mixing;

/* Of a row: the class that is predicted (of equal ones the first), its probability, and that at
 * some temperatures. */
typedef struct cst_mixing_row {
    int32_t predicted;
    float confidence;
} cst_mixing_row;

/* Measures rows p [rows][classes] at temperatures [points]: at [rows][points]. work: 2 * classes
 * floats. */
void cst_mixing_measure(const float *p, int64_t rows, int32_t classes, const double *temperature,
                        int32_t points, float *work, cst_mixing_row *row, float *at);
/* The temperatures [CST_MIXING_POINTS] of a side, ascending. Those of the stack end at 1, those of
 * the average start there. */
void cst_mixing_temperatures(const cst_mixing *mixing, int side, double *temperature);

/* ---- a fit ---- */

/* Averages of the members of a view, measured for cst_mixing_fit: row [rows], at
 * [rows][CST_MIXING_STEPS]. Any number of threads, same bytes. */
cst_status cst_mixing_average(cst_context *context, const cst_view *all, cst_mixing_row *row,
                              float *at);
/* stack [rows], with labels; average, at: as measured. */
cst_status cst_mixing_fit(cst_context *context, cst_scope *scope, const cst_confusion_row *stack,
                          const cst_mixing_row *average, const float *at, int64_t rows,
                          int32_t classes, cst_mixing **out);
/* Room, all 0. */
cst_status cst_mixing_alloc(cst_context *context, cst_scope *scope, int32_t classes,
                            cst_mixing **out);

/* ---- a batch ---- */

/* Sums over the rows of a side of a batch. */
typedef struct cst_mixing_side {
    double confidence; /* mean */
    double expected;   /* mean that the fit had for the predicted classes; of the stack */
    double skew;       /* total variation between the shares of predicted classes here and in the
                          fit, less what chance leaves */
    double accuracy;   /* probable, unless class shares have changed: that of the fit less skew */
    double z;          /* of the stack: (confidence - expected) / standard error */
} cst_mixing_side;

/* row [rows]; work: [classes]. */
cst_mixing_side cst_mixing_look(const cst_mixing *mixing, int side, const cst_mixing_row *row,
                                int64_t rows, int32_t *work);

/* The temperature at which a side's mean confidence ([CST_MIXING_POINTS], at its temperatures) is
 * its accuracy. The stack is only flattened, its confidence falling at most as far again as it has
 * fallen; the average is only sharpened. */
double cst_mixing_temperature(const cst_mixing *mixing, int side, const cst_mixing_side *found,
                              const double *mean);

/* out = softmax((1 - weight) flat log stack + weight sharp log average), rows of classes; out may
 * be one of them. work: 2 * classes floats. */
void cst_mixing_mix(const float *stack, const float *average, int32_t classes, double flat,
                    double sharp, double weight, float *work, float *out);
