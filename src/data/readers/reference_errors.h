/* Errors of a reference by which corruption errors are divided: from a manifest, a JSON file, or
 * the published ones of AlexNet. docs/robustness.md#corruption. */
#pragma once

#include "core/scope.h"

#include <jansson.h>

typedef struct cst_reference_error {
    const char *kind;
    int32_t count; /* 1: the mean over severities; else one for each severity, from the lowest */
    const double *errors; /* [count], fractions in (0, 1] */
} cst_reference_error;

typedef struct cst_reference_errors {
    cst_scope scope;
    const char *source; /* for reports */
    int32_t count;
    const cst_reference_error *kinds; /* [count] */
    bool published; /* a table by its name, with more kinds than a split may have */
    double clean;   /* error on the samples as they are, key "clean"; NaN where it is not given */
} cst_reference_errors;

/* From {"gaussian_noise": 0.89, "fog": [0.7, 0.75, 0.8], "clean": 0.43}. `where` stands in messages
 * and in `source`. Free with cst_reference_errors_free, also after a failure. */
cst_status cst_reference_errors_parse(cst_context *context, const char *where, const json_t *object,
                                      cst_reference_errors *out);

/* The table with this name ("alexnet"), else from a file. */
cst_status cst_reference_errors_read(cst_context *context, const char *path,
                                     cst_reference_errors *out);
void cst_reference_errors_free(cst_context *context, cst_reference_errors *reference);

/* NULL where the reference does not have the kind. */
const cst_reference_error *cst_reference_errors_find(const cst_reference_errors *reference,
                                                     const char *kind);
