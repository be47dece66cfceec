/* Rows of a view by which of the model's members predicted them, each set of rows with the model of
 * those members. docs/prediction.md#absent-members. */
#pragma once

#include "model/absent.h"

/* Whether some member of the view did not predict some row. */
bool cst_view_has_absent(const cst_view *view);

/* Some rows: `part` is a view of them with the members of `model` alone. positions [part->rows]: of
 * them in the whole view. */
typedef cst_status (*cst_pattern_fn)(cst_context *context, void *user, const cst_model *model,
                                     const cst_view *part, const int64_t *positions);

/* Calls `fn` until every row of the view, whose members are the model's, was in a part. A row that
 * no member predicted is an error that names it; or, unless `strict` and if each member has data,
 * goes to the whole model with what was filled in for it. */
cst_status cst_for_patterns(cst_context *context, const cst_model *model, const cst_view *view,
                            bool strict, cst_pattern_fn fn, void *user);

/* Rows of `from` [count][classes] to their positions in `to`. */
void cst_put_rows(const float *from, const int64_t *positions, int64_t count, int32_t classes,
                  float *to);
