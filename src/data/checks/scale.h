/* Members of a classification whose probabilities are on a wrong scale. */
#ifndef CST_CHECKS_SCALE_H
#define CST_CHECKS_SCALE_H

#include "data/checks/leaks.h"

cst_status cst_check_scale(cst_context *context, const cst_check_sample *sample,
                           const cst_member_facts *facts, const cst_class_facts *of,
                           cst_findings *findings);

#endif
