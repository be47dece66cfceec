/* The document of an adaptation. Filled by adapt_document.c for adapt.c. */
#ifndef CST_ADAPT_ADAPT_H
#define CST_ADAPT_ADAPT_H

#include "fit/adapt/adapt_choose.h"
#include "fit/adapt/adapt_rows.h"
#include "report/report.h"

/* made: the result; before: the stack. more: rows of split `unlabeled` (NULL: none). */
void cst_adapt_document(cst_report *report, const cst_model *before, const cst_model *made,
                        const cst_pool *pool, const char *split, const cst_adapt_rows *rows,
                        const cst_adapt_choice *choice, const char *unlabeled, int64_t more);

#endif
