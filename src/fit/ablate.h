/* The rows of an ablation: their names, and what each sets. Paper: section "Component Ablation". */
#ifndef CST_EVALUATION_ABLATE_H
#define CST_EVALUATION_ABLATE_H

#include "fit/task.h"

enum { CST_ABLATION_STAGES = 6 };

/* All options of a row with the caller's settings, e->options. Free with cst_options_free. */
cst_status cst_ablation_options(cst_context *context, const cst_evaluation *e, int stage,
                                cst_options **out);

#endif
