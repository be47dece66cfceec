/*
 * Leaning of a batch unlike the fit on the average of all members, without labels: whether the
 * stack's confidence fell, how accurate stack and average probably still are, and the temperatures
 * that follow. docs/prediction.md#guard.
 */
#ifndef CST_LEAN_H
#define CST_LEAN_H

#include "data/pool/view.h"
#include "model/shift/label_shift.h"

enum {
    CST_LEAN_STACK = 0,
    CST_LEAN_AVERAGE = 1, /* of all members of the pool */
    CST_LEAN_SIDES = 2,
    CST_LEAN_POINTS = 5,   /* temperatures at which a side of a batch is looked at */
    CST_LEAN_STEPS = 13,   /* temperatures at which the average of a fit is looked at */
    CST_LEAN_UNITS = 16383 /* means and deviations are multiples of 1 / 16383 */
};
/* A batch has fired where z is below it. */
#define CST_LEAN_Z (-4.0)
/* The least weight of the average in a batch that has fired. */
#define CST_LEAN_LEAST 0.2

/* What is known of the predictions of the rows of a fit. The temperature T of a row p gives the
 * softmax of T log max(p, 1e-12): above 1 it sharpens. */
typedef struct cst_lean {
    int32_t classes;
    int64_t rows;
    double accuracy[CST_LEAN_SIDES];
    double sharpest; /* largest temperature of the average: that at which its mean confidence is its
                        accuracy; 1 to 4 */
    int32_t *count[CST_LEAN_SIDES]; /* [classes]: rows for which a class is predicted */
    float *mean;                    /* [classes]: of the stack's confidence, by predicted class, */
    float *variance;                /* drawn to those of all rows with the weight of 20 rows */
} cst_lean;

/* Of a row: the class that is predicted (of equal ones the first), its probability, and that at
 * some temperatures. */
typedef struct cst_lean_row {
    int32_t predicted;
    float confidence;
} cst_lean_row;

/* Measures rows p [rows][classes] at temperatures [points]: at [rows][points]. work: 2 * classes
 * floats. */
void cst_lean_measure(const float *p, int64_t rows, int32_t classes, const double *temperature,
                      int32_t points, float *work, cst_lean_row *row, float *at);
/* The temperatures [CST_LEAN_POINTS] of a side, ascending. Those of the stack end at 1, those of
 * the average start there. */
void cst_lean_temperatures(const cst_lean *lean, int side, double *temperature);

/* ---- a fit ---- */

/* Averages of the members of a view, measured for cst_lean_fit: row [rows], at
 * [rows][CST_LEAN_STEPS]. Any number of threads, same bytes. */
cst_status cst_lean_average(cst_context *context, const cst_view *all, cst_lean_row *row,
                            float *at);
/* stack [rows], with labels; average, at: as measured. */
cst_status cst_lean_fit(cst_context *context, cst_scope *scope, const cst_confusion_row *stack,
                        const cst_lean_row *average, const float *at, int64_t rows, int32_t classes,
                        cst_lean **out);
/* Room, all 0. */
cst_status cst_lean_alloc(cst_context *context, cst_scope *scope, int32_t classes, cst_lean **out);

/* ---- a batch ---- */

/* What the rows of a side of a batch tell. */
typedef struct cst_lean_side {
    double confidence; /* mean */
    double expected;   /* mean that the fit had for the predicted classes; of the stack */
    double skew;       /* total variation between the shares of predicted classes here and in the
                          fit, less what chance leaves */
    double accuracy;   /* probable, unless class shares have changed: that of the fit less skew */
    double z;          /* of the stack: (confidence - expected) / standard error */
} cst_lean_side;

/* row [rows]; work: [classes]. */
cst_lean_side cst_lean_look(const cst_lean *lean, int side, const cst_lean_row *row, int64_t rows,
                            int32_t *work);

/* The temperature of a side from what its rows tell and their mean confidence [CST_LEAN_POINTS] at
 * its temperatures: that at which the mean confidence is the accuracy. The stack is only flattened,
 * so that its confidence falls at most as far again as it has fallen; the average is only
 * sharpened. */
double cst_lean_temperature(const cst_lean *lean, int side, const cst_lean_side *found,
                            const double *mean);

/* out = softmax((1 - weight) flat log stack + weight sharp log average), rows of classes; out may
 * be one of them. work: 2 * classes floats. */
void cst_lean_mix(const float *stack, const float *average, int32_t classes, double flat,
                  double sharp, double weight, float *work, float *out);

#endif
