/* Class shares of an unlabelled batch where only they have changed, by EM (Saerens et al. 2002) and
 * black box shift estimation (Lipton et al. 2018), with tests of whether they changed and whether
 * that explains the batch. docs/prediction.md#label-shift. */
#pragma once

#include "core/scope.h"

#include <corestack/label_shift.h>

enum {
    CST_CONFUSION_BINS = 8,           /* of the confidence */
    CST_CONFUSION_ROWS_MIN = 200,     /* rows of the fit, at least */
    CST_CONFUSION_ENTRIES = 2048,     /* predicted classes that are kept, over all classes */
    CST_CONFUSION_CLASSES_MAX = 2048, /* for BBSE, which solves for all classes at once: with more,
                                         no predicted classes are kept */
    CST_CONFUSION_SHARES_MAX = 16384
};

/* A fit's stack by the true class: which classes are predicted, and with what confidence (the
 * largest probability). */
typedef struct cst_confusion {
    int32_t classes;
    float edge[CST_CONFUSION_BINS - 1]; /* ascending; a bin contains its lower edge */
    float *share;                       /* [classes] of the rows of the fit, by their weights */
    int32_t *bin;                       /* [classes][CST_CONFUSION_BINS]: rows */
    int32_t *first;     /* [classes + 1]: entries of class c are first[c] to first[c + 1] - 1 */
    int32_t *predicted; /* [first[classes]]: ascending within a class */
    int32_t *count;     /* [first[classes]]: rows of the class for which it is predicted, above 0.
                           The other rows of a class are spread evenly over the classes that are
                           not listed for it */
} cst_confusion;

/* The counted part of a row: the predicted class, and its probability. */
typedef struct cst_confusion_row {
    int32_t label;
    int32_t predicted;
    float confidence;
} cst_confusion_row;

/* Of a row p [classes]; of equal probabilities the first counts. */
cst_confusion_row cst_confusion_row_of(const float *p, int32_t classes, int32_t label);

/* rows [count], in another order afterwards; share [classes], of all rows of the fit. *out is NULL,
 * without an error, where there are fewer than CST_CONFUSION_ROWS_MIN rows, or more than
 * CST_CONFUSION_SHARES_MAX classes. */
cst_status cst_confusion_fit(cst_context *context, cst_scope *scope, cst_confusion_row *rows,
                             int64_t count, int32_t classes, const double *share,
                             cst_confusion **out);
/* Room for `classes` and `entries`, all 0. */
cst_status cst_confusion_alloc(cst_context *context, cst_scope *scope, int32_t classes,
                               int32_t entries, cst_confusion **out);

/* The share of class c in the rows that are counted, as the file's reader computes it. */
float cst_confusion_counted_share(const cst_confusion *confusion, int32_t c, int64_t rows);

/* Rows of all classes. */
int64_t cst_confusion_all_rows(const cst_confusion *confusion);

/* Rows of class c. */
int64_t cst_confusion_rows(const cst_confusion *confusion, int32_t c);

/* matrix [classes][classes]: entry (i, j) is the share of rows of class j for which i is predicted.
 * A class without rows is taken as always predicted right. */
void cst_confusion_matrix(const cst_confusion *confusion, double *matrix);

/* ---- estimates ---- */

/* Levels of the two tests. */
#define CST_LABEL_CHANGE_LEVEL 0.01
#define CST_LABEL_FIT_LEVEL 0.05
enum { CST_LABEL_ROWS_MIN = 50 };

typedef struct cst_label_shift {
    cst_label_method method;
    cst_label_verdict verdict;
    int64_t rows;
    int32_t classes;
    double *share;   /* [classes], estimated; 0 to 1 */
    double *low;     /* [classes]: 95% intervals, each for itself; NAN where there are none */
    double *high;    /* [classes] */
    double *ratio;   /* [classes]: what probabilities are multiplied by: share, drawn to that of the
                        fit by as many rows as there are classes, over the fit's */
    double change_p; /* of the test that the shares have changed */
    double fit_p;    /* of the test that the shares explain the confidence of the batch */
} cst_label_shift;

/* Estimates by EM (Dirichlet prior around the fit's shares, intervals by the inverse information)
 * and BBSE (delta method; CST_ERROR_UNSUPPORTED where the confusion is singular), with both tests;
 * the verdict is not GUARDED. FIXED: mean predictions as shares, without tests, a verdict or
 * ratios. p: [rows][classes] of the stack. */
cst_status cst_label_shift_estimate(cst_context *context, cst_scope *scope,
                                    const cst_confusion *confusion, cst_label_method method,
                                    const float *p, int64_t rows, cst_label_shift *out);

/* The ratios of FIXED, under which the mean prediction is close to the fit's shares. */
cst_status cst_label_shift_keep(cst_context *context, const cst_confusion *confusion,
                                const float *p, cst_label_shift *shift);

/* Multiplies by the ratios and divides by the sum, in place; p: [rows][classes]. */
cst_status cst_label_shift_apply(cst_context *context, const cst_label_shift *shift, float *p,
                                 int64_t rows);

/* "off", "em", "bbse", "fixed"; or NULL. */
const char *cst_label_method_name(cst_label_method method);

/* ---- parts of it, for tests ---- */

/* BBSE's shares, which may be negative, and their variances (NULL: not wanted). */
cst_status cst_label_bbse(cst_context *context, const cst_confusion *confusion, const float *p,
                          int64_t rows, int parity, double *share, double *variance);

/* Returns why a batch was corrected or not, in words; "" for an unknown verdict. Static. */
const char *cst_label_verdict_text(cst_label_verdict verdict, cst_label_method method);
