/*
 * Methods of a regression by their names on the command line: linear baselines, fitted from moments
 * alone, and the presets of the stack. What every comparison is made of. Paper: section
 * "Experimental Setup"; docs/regression.md.
 */
#ifndef CST_REGRESSION_METHODS_H
#define CST_REGRESSION_METHODS_H

#include "fit/method.h"
#include "fit/training.h"
#include "tasks/regression/baselines.h"
#include "tasks/regression/stages.h"

enum { CST_VALUE_METHOD_CHARS = 64 };

typedef struct cst_value_method {
    char name[CST_VALUE_METHOD_CHARS];
    const char *definition;             /* one sentence, borrowed */
    const cst_value_baseline *baseline; /* NULL: a preset */
    const char *preset;                 /* NULL: a baseline */
    cst_settings settings;              /* of a preset */
} cst_value_method;

/* Names in the order of reports; NULL past the end. */
const char *cst_value_method_name(size_t index);

/* Presets take the seed and then `settings` [setting_count] of "key=value". CST_ERROR_ARGUMENT says
 * which methods there are; CST_ERROR_UNSUPPORTED where a method is one for classification. */
cst_status cst_value_method_parse(cst_context *context, const char *text, uint64_t seed,
                                  const char *const *settings, int32_t setting_count,
                                  cst_value_method *out);

/* What one method gave on the rows that it is scored on. */
typedef struct cst_value_entry {
    const cst_value_method *method; /* borrowed */
    cst_value_result result;
    double *weights; /* [members], means over the outputs; NULL where it is no linear mix */
    bool *uses;      /* [members] */
    int32_t models;
    double seconds; /* of the fit on all rows */
    char detail[192];
} cst_value_entry;

/* Rows to fit on, and where the entries are scored. */
typedef struct cst_value_place {
    cst_made_model *made; /* gets the fit on all rows; NULL: it is not wanted */
    bool unscored;        /* the rows are not predicted */
    const cst_training *source;
    const cst_view *rows;       /* NULL: nested, on the rows of `source` themselves */
    const cst_scaling *scaling; /* of the source's targets */
    const cst_moments *moments; /* [outputs] of the source's members, by its folds */
} cst_value_place;

/* Fits on the source, predicts the rows. *out is zeroed first; free with cst_value_entry_free. */
cst_status cst_value_entry_run(cst_context *context, const cst_value_place *place,
                               const cst_value_method *method, cst_value_entry *out);
void cst_value_entry_free(cst_context *context, cst_value_entry *entry);

#endif
