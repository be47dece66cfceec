/* Checks of detections: members whose boxes hit no true box, and why. */
#ifndef CST_DETECTION_CHECK_H
#define CST_DETECTION_CHECK_H

#include "data/checks/checks.h"
#include "tasks/detection/splits.h"

/* Looks at up to 500 evenly spread images. Where most members are wrong in one way, that is fatal.
 * Free findings with cst_findings_free, also after a failure. */
cst_status cst_box_check(cst_context *context, const cst_pool *pool, const char *split,
                         const cst_box_split *files, cst_findings *findings);
/* The same of boxes that are scored and not fitted on: findings are notices. pool, split: NULL for
 * a file alone. */
cst_status cst_box_check_scored(cst_context *context, const cst_pool *pool, const char *split,
                                const cst_box_split *files);

#endif
