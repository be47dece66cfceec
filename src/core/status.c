/* Names and texts of status codes and tasks. */
#include <corestack/pool.h>
#include <corestack/status.h>

const char *cst_status_name(cst_status status) {
    switch (status) {
#define CST_STATUS_NAME(name, value, text)                                                         \
    case name:                                                                                     \
        return #name;
        CST_STATUS_LIST(CST_STATUS_NAME)
    case CST_STATUS_FORCE_INT:
        break;
    }
    return "unknown status";
}

const char *cst_status_text(cst_status status) {
    switch (status) {
#define CST_STATUS_TEXT(name, value, text)                                                         \
    case name:                                                                                     \
        return text;
        CST_STATUS_LIST(CST_STATUS_TEXT)
    case CST_STATUS_FORCE_INT:
        break;
    }
    return "unknown status";
}

const char *cst_task_name(cst_task task) {
    static const char *const names[] = {"classification", "regression", "segmentation",
                                        "detection",      "multilabel", "topk"};
    return (unsigned)task < sizeof names / sizeof names[0] ? names[task] : NULL;
}

const char *cst_task_text(cst_task task) {
    return task == CST_TASK_TOPK ? "topk (lists of the likeliest classes)" : cst_task_name(task);
}
