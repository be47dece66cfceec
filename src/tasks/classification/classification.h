/* The table of classification: rows are samples, and every call is there. Chosen by src/tasks. */
#ifndef CST_CLASSIFICATION_H
#define CST_CLASSIFICATION_H

#include "fit/task.h"

extern const cst_task_ops cst_classification_ops;

#endif
