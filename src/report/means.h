/*
 * The document of a repeated comparison, made of those of its repetitions: means, standard errors,
 * paired differences. Last step of fit/compare.c. Keys: docs/json.md#compare.
 * Paper: section "Results", means and standard errors over meta-training splits.
 */
#ifndef CST_REPORT_MEANS_H
#define CST_REPORT_MEANS_H

#include "report/report.h"

enum { CST_MEANS_MAX = 1000 };

/* Fills `report`, of which only the command is there, from documents of comparisons [count], 2 to
 * CST_MEANS_MAX: in each row the means over the documents, KEY_se with the standard error (standard
 * deviation over the square root of the count), "difference" with the same of the differences to
 * the reference in each document; and "repetitions" with what each document has. A row that is not
 * in all of them is left out with a notice. *equal: every score is the same in all of them. */
cst_status cst_report_means(cst_context *context, cst_report *report,
                            const cst_report *const *documents, int32_t count, bool *equal);

#endif
