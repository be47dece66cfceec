/*
 * Calibration maps: probabilities in, probabilities out, fitted on labelled rows. After any method.
 * method.md section 8.
 */
#ifndef CST_CALIBRATION_H
#define CST_CALIBRATION_H

#include "base/base.h"

typedef enum cst_calibrator_kind {
    CST_CALIBRATOR_NONE = 0,
    CST_CALIBRATOR_TEMPERATURE = 1 /* softmax(log p / T), one T (Guo et al. 2017) */
} cst_calibrator_kind;

/* A fitted map. Free with cst_calibrator_free. */
typedef struct cst_calibrator {
    cst_calibrator_kind kind;
    int32_t classes;
    double temperature; /* CST_CALIBRATOR_TEMPERATURE */
    char detail[64];    /* "T = 1.234" */
} cst_calibrator;

/* "temperature"; NULL for CST_CALIBRATOR_NONE and unknown kinds. */
const char *cst_calibrator_name(cst_calibrator_kind kind);
/* One sentence; NULL as above. */
const char *cst_calibrator_definition(cst_calibrator_kind kind);
/* The kind of a name; CST_CALIBRATOR_NONE where there is none. */
cst_calibrator_kind cst_calibrator_find(const char *name);

/* Fits on probabilities [rows][classes] with labels [rows]. *out is zeroed first. */
cst_status cst_calibrator_fit(cst_context *context, cst_calibrator_kind kind,
                              const float *probabilities, int64_t rows, int32_t classes,
                              const int32_t *labels, cst_calibrator *out);

/* Maps probabilities [rows][classes] in place; rows sum to 1 afterwards. The same bytes for any
 * number of threads. */
cst_status cst_calibrator_apply(cst_context *context, const cst_calibrator *calibrator,
                                float *probabilities, int64_t rows);

void cst_calibrator_free(cst_context *context, cst_calibrator *calibrator);

/* Bounds of a fitted temperature; a fit that ends at one of them leaves a notice. */
#define CST_TEMPERATURE_LOW 0.01
#define CST_TEMPERATURE_HIGH 100.0

/* The temperature with the least mean NLL; a probability below 1e-15 counts as 1e-15. *nll: the
 * loss there; may be NULL. */
cst_status cst_temperature_fit(cst_context *context, const float *probabilities, int64_t rows,
                               int32_t classes, const int32_t *labels, double *temperature,
                               double *nll);

/* softmax(log(max(p, 1e-15)) / temperature) in place; probabilities: [count][classes]. */
void cst_temperature_rows(double temperature, int64_t count, int32_t classes,
                          double *probabilities);

#endif
