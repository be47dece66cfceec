/* Names and texts of the status codes, from the one list in corestack/status.h. */
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
