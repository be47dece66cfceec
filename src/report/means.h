/* The document of a repeated comparison: means, standard errors and paired differences over its
 * repetitions. Keys: docs/json.md#compare. Paper: section "Results". */
#ifndef CST_REPORT_MEANS_H
#define CST_REPORT_MEANS_H

#include "report/report.h"

enum { CST_MEANS_MAX = 1000 };

/* Fills `report`, so far only with the command, from comparisons [count], 2 to CST_MEANS_MAX:
 * means, KEY_se (standard errors) and "difference" to the reference. A row that some lack is left
 * out with a notice. *equal: every score is the same in all of them. */
cst_status cst_report_means(cst_context *context, cst_report *report,
                            const cst_report *const *documents, int32_t count, bool *equal);

#endif
