/* A report: one JSON document and its two renderings. Keys: docs/json.md. */
#pragma once

#include "core/base.h"

#include <corestack/fit.h>
#include <corestack/report.h>
#include <jansson.h>

typedef enum cst_report_kind {
    CST_REPORT_FIT = 0,
    CST_REPORT_INSPECT = 1,
    CST_REPORT_EVALUATE = 2,
    CST_REPORT_PREDICT = 3,
    CST_REPORT_FOLDS = 4,
    CST_REPORT_COMPARE = 5,
    CST_REPORT_ABLATE = 6,
    CST_REPORT_SWEEP = 7,
    CST_REPORT_SOUP = 8,
    CST_REPORT_SWA = 9,
    CST_REPORT_SWAG = 10,
    CST_REPORT_BOUND = 11,
    CST_REPORT_SHOW = 12,
    CST_REPORT_PROFILE = 13,
    CST_REPORT_ONLINE = 14,
    CST_REPORT_ADAPT = 15,
    CST_REPORT_SUGGEST = 16,
    CST_REPORT_MONITOR = 17,
    CST_REPORT_EXPORT = 18
} cst_report_kind;

struct cst_report {
    cst_report_kind kind;
    json_t *root;
    json_t *suspects; /* a list of rows with wrong labels, beside the document; NULL: none was
                         looked for */
    bool failed;      /* a helper below could not store its value; cst_report_finish says so */
};

/* A document that holds {"command": ...}. Keys keep the order in which they are set. */
cst_status cst_report_begin(cst_context *context, cst_report_kind kind, cst_report **out);

/* The value at `path`, or NULL. Keys may contain '.' ("settings.folds.count"). */
const json_t *cst_report_find(const json_t *value, const char *path);

/* The document, borrowed. */
json_t *cst_report_root(cst_report *report);

/* CST_ERROR_MEMORY, with a message, if any helper below failed so far, else CST_OK. */
cst_status cst_report_finish(cst_context *context, const cst_report *report);

/* Frees the report (may be NULL) and sets it to NULL after a failure. Returns the status. */
cst_status cst_report_settle(cst_context *context, cst_status status, cst_report **report);

/* Set `key` of `object` (borrowed; NULL counts as a failure). Numbers that are not finite become
 * null, as does a NULL string. Strings and keys that are not UTF-8 have the bad bytes replaced. */
void cst_report_number(cst_report *report, json_t *object, const char *key, double value);
void cst_report_integer(cst_report *report, json_t *object, const char *key, int64_t value);
void cst_report_flag(cst_report *report, json_t *object, const char *key, bool value);
/* null where the flag is not known. */
void cst_report_flag_where(cst_report *report, json_t *object, const char *key, bool known,
                           bool value);
void cst_report_string(cst_report *report, json_t *object, const char *key, const char *value);
void cst_report_value(cst_report *report, json_t *object, const char *key,
                      json_t *value); /* takes over the reference */

/* Several keys of one object, in their order. */
typedef struct cst_field {
    const char *key;
    char kind;
    bool flag;
    int64_t integer;
    double number;
    const char *string;
} cst_field;

#define CST_N(name, value)                                                                         \
    { .key = (name), .kind = 'n', .number = (value) }
#define CST_I(name, value)                                                                         \
    { .key = (name), .kind = 'i', .integer = (value) }
#define CST_S(name, value)                                                                         \
    { .key = (name), .kind = 's', .string = (value) }
#define CST_B(name, value)                                                                         \
    { .key = (name), .kind = 'b', .flag = (value) }
#define CST_PUT(report, object, ...)                                                               \
    cst_report_put(report, object, (const cst_field[]){__VA_ARGS__, {.key = NULL}})
void cst_report_put(cst_report *report, json_t *object, const cst_field *fields);

/* Changes a number that is there; cannot fail. */
void cst_report_change_number(json_t *object, const char *key, double value);

/* Arrays: `values` is [count], or [rows][columns] in C order; NULL gives an empty list. */
void cst_report_numbers(cst_report *report, json_t *object, const char *key, const double *values,
                        int64_t count);
void cst_report_integers(cst_report *report, json_t *object, const char *key, const int64_t *values,
                         int64_t count);
void cst_report_strings(cst_report *report, json_t *object, const char *key,
                        const char *const *values, int64_t count);
void cst_report_matrix(cst_report *report, json_t *object, const char *key, const double *values,
                       int64_t rows, int64_t columns);

/* A new empty object or list at `key`, or at the end of a list; borrowed, NULL on failure. */
json_t *cst_report_object(cst_report *report, json_t *object, const char *key);
json_t *cst_report_list(cst_report *report, json_t *object, const char *key);
json_t *cst_report_add_object(cst_report *report, json_t *list);
json_t *cst_report_add_list(cst_report *report, json_t *list);
void cst_report_add_number(cst_report *report, json_t *list, double value);
void cst_report_add_integer(cst_report *report, json_t *list, int64_t value);
void cst_report_add_string(cst_report *report, json_t *list, const char *value);

/* A document as JSON (cst_free); page: compact, for a script element of HTML. */
cst_status cst_report_dump(cst_context *context, const json_t *document, bool page, char **out);

/* Documents [count] as a page, in html.c; *out: cst_free. */
cst_status cst_report_html(cst_context *context, const cst_report *const *reports, int64_t count,
                           char **out);

/* Sets "rank" in the rows, from 1 for the best by the score "ranked_by"; null without one. */
void cst_report_rank(cst_report *report);

/* The context's notices as the list "notices". */
void cst_report_notices(cst_report *report, const cst_context *context);

/* ---- repeated comparisons, in means.c ---- */

enum { CST_MEANS_MAX = 1000 };

/* Fills `report`, so far only with the command, from comparisons [count], 2 to CST_MEANS_MAX:
 * means, KEY_se (standard errors) and "difference" to the reference. A row that some lack is left
 * out with a notice. *equal: every score is the same in all of them. */
cst_status cst_report_means(cst_context *context, cst_report *report,
                            const cst_report *const *documents, int32_t count, bool *equal);
