/* All of a fit that rows without labels are compared with. docs/model-format.md. */
#ifndef CST_SHIFT_REFERENCE_H
#define CST_SHIFT_REFERENCE_H

#include "model/shift/cases.h"
#include "model/shift/gauge.h"
#include "model/shift/label_shift.h"
#include "model/shift/mixing.h"
#include "model/shift/novelty.h"

/* Each part may be NULL: a fit of few rows or of another task has none. */
typedef struct cst_reference {
    cst_novelty *novelty;     /* what the guard compares batches with; NULL: no guard */
    cst_novelty_cases *cases; /* of a segmentation, beside `novelty`: what it compares cases with */
    cst_confusion *confusion; /* what class shares of a batch are estimated with */
    cst_mixing
        *mixing; /* how a batch that has fired leans on the average; NULL: by its levels alone */
    cst_gauge *gauge; /* what the monitor compares rows with; NULL: no monitor */
} cst_reference;

#endif
