/*
 * Black box shift estimation: the class shares of which the confusion of the fit makes the shares
 * of predicted classes. Lipton, Wang and Smola 2018. See label_shift.h.
 */
#include "core/la.h"
#include "model/shift/label_shift.h"

#include <math.h>
#include <string.h>

/* A pivot of M'M below this share of the largest means that M is singular. */
static const double SINGULAR = 1e-12;

typedef struct system {
    size_t classes;
    double *matrix;   /* [classes][classes]: M */
    double *gram;     /* the Cholesky factor of M'M */
    double *observed; /* [classes]: shares of predicted classes */
} system;

static void free_system(cst_context *context, system *s) {
    cst_free(context, s->matrix);
    cst_free(context, s->gram);
    cst_free(context, s->observed);
}

static cst_status singular(cst_context *context, const system *s) {
    int32_t never = -1;
    for (size_t i = 0; never < 0 && i < s->classes; i++) {
        double sum = 0;
        for (size_t j = 0; j < s->classes; j++)
            sum += s->matrix[i * s->classes + j];
        never = sum > 0 ? never : (int32_t)i;
    }
    if (never >= 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "label shift by bbse: the stack predicts class %d for no row of the fit, "
                        "so its share cannot be solved for; use em",
                        (int)never);
    return cst_fail(context, CST_ERROR_UNSUPPORTED,
                    "label shift by bbse: the confusion of the fit's rows is singular, because the "
                    "stack does not tell some classes apart; use em");
}

static cst_status make_system(cst_context *context, const cst_confusion *confusion, const float *p,
                              int64_t rows, int parity, system *s) {
    size_t classes = (size_t)confusion->classes;
    *s = (system){.classes = classes,
                  .matrix = cst_alloc(context, classes * classes, sizeof *s->matrix),
                  .gram = cst_alloc(context, classes * classes, sizeof *s->gram),
                  .observed = cst_alloc(context, classes, sizeof *s->observed)};
    if (!s->matrix || !s->gram || !s->observed)
        return CST_ERROR_MEMORY;
    int64_t count = 0;
    for (int64_t i = parity > 0; i < rows; i += parity < 0 ? 1 : 2) {
        const float *row = p + i * (int64_t)classes;
        size_t top = 0;
        for (size_t c = 1; c < classes; c++)
            top = row[c] > row[top] ? c : top;
        s->observed[top] += 1;
        count++;
    }
    for (size_t c = 0; c < classes; c++)
        s->observed[c] /= (double)count;
    cst_confusion_matrix(confusion, s->matrix);
    cst_status status = cst_syrk_f64(context, (int64_t)classes, (int64_t)classes, 1, s->matrix,
                                     (int64_t)classes, 0, s->gram, (int64_t)classes);
    double largest = 0;
    for (size_t c = 0; c < classes; c++)
        largest = fmax(largest, s->gram[c * classes + c]);
    CST_THEN(cst_cholesky(context, (int64_t)classes, s->gram));
    double least = INFINITY;
    for (size_t c = 0; status == CST_OK && c < classes; c++)
        least = fmin(least, s->gram[c * classes + c] * s->gram[c * classes + c]);
    if (status == CST_ERROR_NUMERIC || (status == CST_OK && !(least > SINGULAR * largest)))
        return singular(context, s);
    return status;
}

/* x [classes] becomes the solution of M z = x. */
static void solve(const system *s, const double *x, double *z) {
    for (size_t j = 0; j < s->classes; j++)
        z[j] = 0;
    for (size_t i = 0; i < s->classes; i++)
        for (size_t j = 0; x[i] != 0 && j < s->classes; j++)
            z[j] += s->matrix[i * s->classes + j] * x[i];
    cst_cholesky_solve((int64_t)s->classes, s->gram, z);
}

/* Delta method: q = M^-1 mu, so Var q = M^-1 (Var mu + sum_j q_j^2 Var M_j) M^-T, mu and the
 * columns of M being multinomial. */
static cst_status variances(cst_context *context, const cst_confusion *confusion, const system *s,
                            double rows, const double *share, double *variance) {
    size_t classes = s->classes;
    double *work = cst_alloc(context, 3 * classes, sizeof *work);
    if (!work)
        return CST_ERROR_MEMORY;
    double *unit = work + classes;
    double *column = unit + classes;
    for (size_t i = 0; i < classes; i++) {
        work[i] = s->observed[i] / rows;
        for (size_t j = 0; j < classes; j++) {
            double known = (double)cst_confusion_rows(confusion, (int32_t)j);
            if (known > 0)
                work[i] += s->matrix[i * classes + j] * share[j] * share[j] / known;
        }
    }
    for (size_t c = 0; c < classes; c++) {
        double known = (double)cst_confusion_rows(confusion, (int32_t)c);
        variance[c] = -share[c] * share[c] * (1 / rows + (known > 0 ? 1 / known : 0));
    }
    for (size_t i = 0; i < classes; i++) { /* column i of M^-1 */
        unit[i] = 1;
        solve(s, unit, column);
        unit[i] = 0;
        for (size_t c = 0; c < classes; c++)
            variance[c] += column[c] * column[c] * work[i];
    }
    cst_free(context, work);
    return CST_OK;
}

cst_status cst_label_bbse(cst_context *context, const cst_confusion *confusion, const float *p,
                          int64_t rows, int parity, double *share, double *variance) {
    system s = {0};
    if (confusion->classes > CST_CONFUSION_CLASSES_MAX)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "label shift by bbse is for at most %d classes, but the model has %d; use "
                        "em",
                        (int)CST_CONFUSION_CLASSES_MAX, (int)confusion->classes);
    int64_t count = parity < 0 ? rows : (rows + 1 - parity) / 2;
    if (count < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT, "label shift by bbse needs at least one row");
    cst_status status = make_system(context, confusion, p, rows, parity, &s);
    if (status == CST_OK)
        solve(&s, s.observed, share);
    if (status == CST_OK && variance)
        status = variances(context, confusion, &s, (double)count, share, variance);
    free_system(context, &s);
    return status;
}
