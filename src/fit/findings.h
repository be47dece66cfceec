/* Findings of the checks in a document. */
#ifndef CST_FIT_FINDINGS_H
#define CST_FIT_FINDINGS_H

#include "data/checks/findings.h"
#include "report/report.h"

/* "findings" (NULL: none): a list of {kind, members, text}, at the top of a document; and with
 * `problems` the sentences alone under that key. */
void cst_findings_put(cst_report *report, const cst_pool *pool, const cst_findings *findings,
                      bool problems);

#endif
