/*
 * Adding to a report what only the caller knows, and making one for the caller's own work. Showing
 * one: corestack/fit.h.
 */
#ifndef CORESTACK_REPORT_H
#define CORESTACK_REPORT_H

#include <corestack/fit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A report for what a program does itself: "predict", "folds", "swa" or "swag" (the others come
 * from the library's own functions). *out is the caller's, freed with cst_report_free. */
CST_API cst_status cst_report_new(cst_context *context, const char *command, cst_report **out);

/* Set a key of the report's document, for example "model" to the path where a model was saved. A
 * key that is there keeps its place. A NULL string becomes null; values[count] is copied. */
CST_API cst_status cst_report_set_string(cst_context *context, cst_report *report, const char *key,
                                         const char *value);
CST_API cst_status cst_report_set_integer(cst_context *context, cst_report *report, const char *key,
                                          int64_t value);
/* A number that is not finite becomes null. */
CST_API cst_status cst_report_set_number(cst_context *context, cst_report *report, const char *key,
                                         double value);
CST_API cst_status cst_report_set_strings(cst_context *context, cst_report *report, const char *key,
                                          const char *const *values, int64_t count);
CST_API cst_status cst_report_set_integers(cst_context *context, cst_report *report,
                                           const char *key, const int64_t *values, int64_t count);
/* The notices of the calls made with the context so far, as the list "notices". */
CST_API cst_status cst_report_set_notices(cst_context *context, cst_report *report);

/* The rows of a report of cst_compare, cst_ablate or cst_sweep, or of an evaluation with what
 * stands beside the model. As comma-separated values: a header, numbers in full, intervals as
 * NAME_low and NAME_high, without the weights. As a Markdown table: best of each column bold,
 * second best underlined, intervals in brackets. CST_ERROR_ARGUMENT for a report without rows.
 * Strings are the caller's, freed with cst_free. */
CST_API cst_status cst_report_csv(cst_context *context, const cst_report *report, char **out);
CST_API cst_status cst_report_markdown(cst_context *context, const cst_report *report, char **out);

/* cst_report_text with all that it leaves out to fit a terminal: further scores and tests of a
 * comparison, the single draws of a sweep. *out is the caller's, freed with cst_free. */
CST_API cst_status cst_report_text_full(cst_context *context, const cst_report *report, int color,
                                        char **out);

#ifdef __cplusplus
}
#endif
#endif
