/*
 * Which rows a model was fitted on: written into its settings by the fit, asked by an evaluation.
 * Between fitting and scoring. Paper: scores are of rows that the fit did not see.
 */
#ifndef CST_MODEL_FITTED_ON_H
#define CST_MODEL_FITTED_ON_H

#include "model/row_sketch.h"
#include "model/stack.h"

enum { CST_FITTED_ON_SETTINGS = 3 };

/* Under which names a model notes rows: those of the fit, and those that it was adapted to. */
#define CST_FITTED_KEY "split"
#define CST_ADAPTED_KEY "adapt"

/* Fills setting[0..*count-1], with such a key ("split"): the split's name, how many labels it has
 * with a hash of them
 * ("split.labels=120:9ae1..."), so that another split of that name is told apart, and, where `kept`
 * is given (the rows with the model's members), a sketch of the rows ("split.rows=..."). */
cst_status cst_fitted_on_note(cst_context *context, const char *key, const char *split,
                              const int32_t *labels, int64_t rows, const cst_view *kept,
                              char **setting, size_t *count);

/* Targets as labels: the bits of each in two words, the low one first. words: [2 * count]. */
void cst_target_words(const double *targets, size_t count, int32_t *words);

/* Whether the model was fitted on the rows of this split. Files that do not say were fitted on
 * "oof". */
bool cst_fitted_on(const cst_model *model, const char *split, const int32_t *labels, int64_t rows);

/* What a model's file says of the rows it was fitted on. */
typedef struct cst_fit_rows {
    const char *split; /* "oof" where the file does not say */
    bool labelled;     /* the file says which labels */
    bool same_labels;  /* these in this order, or none given; false where the file does not say */
    bool sketched;     /* `sketch` is there */
    cst_row_sketch sketch;
} cst_fit_rows;

cst_fit_rows cst_fit_rows_of(const cst_model *model, const int32_t *labels, int64_t rows);

/* The same for rows under a key; false where the model has none such (CST_ADAPTED_KEY). */
bool cst_fit_rows_under(const cst_model *model, const char *key, const int32_t *labels,
                        int64_t rows, cst_fit_rows *out);

/* Whether name and labels are those of the fit: cst_fitted_on of what was found. */
bool cst_fit_rows_named(const cst_fit_rows *fit, const char *split);

#endif
