/*
 * Selection of members on held-out squared error in the space of the linear pool, the counterpart
 * of src/method/select for a regression: same rules, same options. Between S1 and S2.
 */
#ifndef CST_REGRESSION_PATH_H
#define CST_REGRESSION_PATH_H

#include "fit/stages.h"

/* That of cst_family (fit/family.h). The loss is the squared error in units of the scaling, its
 * mean over the outputs; losses and their paired errors take one pass over the rows.
 * CST_ERROR_INPUT where no size satisfies the caps. */
cst_status cst_value_choose(cst_context *context, const cst_run *run, const int32_t *members,
                            int32_t count, const cst_select_options *options, cst_selection *out,
                            cst_front *front);

#endif
