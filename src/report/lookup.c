/* Reading values of a report by their path. */
#include "report/report.h"

#include <math.h>
#include <string.h>

/* The entry of an object, or of a list by its position; NULL if there is none. */
static const json_t *entry(const json_t *value, const char *path, size_t length) {
    if (json_is_object(value)) {
        char key[128];
        (void)cst_snprintf(key, sizeof key, "%.*s", (int)length, path);
        return strlen(key) == length ? json_object_get(value, key) : NULL;
    }
    size_t place = 0;
    for (size_t i = 0; i < length; i++) {
        if (path[i] < '0' || path[i] > '9' || place > json_array_size(value))
            return NULL;
        place = place * 10 + (size_t)(path[i] - '0');
    }
    return length > 0 ? json_array_get(value, place) : NULL;
}

/* The value at `path`, or NULL. Keys may contain '.' ("settings.folds.count"). */
static const json_t *find(const json_t *value, const char *path) {
    for (const char *end = path; value; end++) {
        if (*end && *end != '.')
            continue;
        const json_t *next = entry(value, path, (size_t)(end - path));
        if (!*end)
            return next;
        const json_t *found = next ? find(next, end + 1) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

static cst_status look_up(cst_context *context, const char *call, const cst_report *report,
                          const char *path, const void *out, const json_t **value) {
    if (!report || !path || !out)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%s: report, path and out are required", call);
    *value = find(report->root, path);
    return *value ? CST_OK
                  : cst_fail(context, CST_ERROR_ARGUMENT,
                             "%s: the report has no '%s'; docs/json.md has the keys", call, path);
}

static cst_status wrong_type(cst_context *context, const char *path, const char *wanted) {
    return cst_fail(context, CST_ERROR_ARGUMENT, "'%s' of the report is not %s", path, wanted);
}

cst_status cst_report_get_number(cst_context *context, const cst_report *report, const char *path,
                                 double *out) {
    const json_t *value = NULL;
    CST_ENTER(context);
    CST_TRY(look_up(context, __func__, report, path, out, &value));
    if (!json_is_number(value) && !json_is_null(value) && !json_is_boolean(value))
        return wrong_type(context, path, "a number");
    *out = json_is_number(value) ? json_number_value(value)
           : json_is_null(value) ? (double)NAN
                                 : json_is_true(value);
    return CST_OK;
}

cst_status cst_report_get_string(cst_context *context, const cst_report *report, const char *path,
                                 const char **out) {
    const json_t *value = NULL;
    CST_ENTER(context);
    CST_TRY(look_up(context, __func__, report, path, out, &value));
    if (!json_is_string(value) && !json_is_null(value))
        return wrong_type(context, path, "a string");
    *out = json_string_value(value);
    return CST_OK;
}

cst_status cst_report_get_count(cst_context *context, const cst_report *report, const char *path,
                                int64_t *out) {
    const json_t *value = NULL;
    CST_ENTER(context);
    CST_TRY(look_up(context, __func__, report, path, out, &value));
    if (!json_is_array(value))
        return wrong_type(context, path, "a list");
    *out = (int64_t)json_array_size(value);
    return CST_OK;
}
