/* Reports: keys that only the caller knows, a report for the caller's own work, and CSV, Markdown,
 * LaTeX and full text. JSON and short text: corestack/corestack.h. */
#ifndef CORESTACK_REPORT_H
#define CORESTACK_REPORT_H

#include <corestack/fit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a report for a program's own work: "predict", "folds", "swa" or "swag" (other reports
 * come from the library). *out belongs to the caller (cst_report_free). */
CST_API cst_status cst_report_create(cst_context *context, cst_report **out, const char *command);

/* Sets a key of the report to a string, e.g. "model" to the path of a saved model. An existing key
 * keeps its position. A NULL string becomes null. */
CST_API cst_status cst_report_set_string(cst_context *context, cst_report *report, const char *key,
                                         const char *value);

/* Sets a key of the report to an integer. An existing key keeps its position. */
CST_API cst_status cst_report_set_integer(cst_context *context, cst_report *report, const char *key,
                                          int64_t value);

/* Sets a key of the report to a number; a number that is not finite becomes null. An existing key
 * keeps its position. */
CST_API cst_status cst_report_set_number(cst_context *context, cst_report *report, const char *key,
                                         double value);

/* Sets a key of the report to a list of strings [count], which are copied. An existing key keeps
 * its position. */
CST_API cst_status cst_report_set_strings(cst_context *context, cst_report *report, const char *key,
                                          const char *const *values, int64_t count);

/* Sets a key of the report to a list of integers [count], which are copied. An existing key keeps
 * its position. */
CST_API cst_status cst_report_set_integers(cst_context *context, cst_report *report,
                                           const char *key, const int64_t *values, int64_t count);

/* Writes the rows whose labels are probably wrong as CSV, by a report of cst_fit or cst_inspect of
 * a classification (option "noise"): id (or row from 0), label, likely label, probability that the
 * label is right, the lowest first; a header alone where there are none. CST_ERROR_UNSUPPORTED for
 * other reports. The file is written completely, or `path` is unchanged. */
CST_API cst_status cst_write_suspects(cst_context *context, const cst_report *report,
                                      const char *path);

/* Renders the rows of a report of cst_compare, cst_ablate or cst_sweep, or of an evaluation with
 * baselines, as CSV: a header, unrounded numbers, intervals as NAME_low and NAME_high, without the
 * weights. CST_ERROR_ARGUMENT for a report without rows. *out belongs to the caller (cst_free). */
CST_API cst_status cst_report_csv(cst_context *context, const cst_report *report, char **out);

/* Renders the rows that cst_report_csv renders as a Markdown table: the best of each column in
 * bold, the second best underlined, intervals in brackets. CST_ERROR_ARGUMENT for a report without
 * rows. *out belongs to the caller (cst_free). */
CST_API cst_status cst_report_markdown(cst_context *context, const cst_report *report, char **out);

/* Renders those rows as LaTeX tables for the package booktabs: scores with an arrow for the better
 * direction, the best of each column in bold, the second best underlined, and +- the standard error
 * over repetitions, or half the width of the 95% interval. Corruption, parts of a split and rows
 * out of distribution have tables of their own. CST_ERROR_ARGUMENT for a report without rows. *out
 * belongs to the caller (cst_free). */
CST_API cst_status cst_report_latex(cst_context *context, const cst_report *report, char **out);

/* Reports of one page at most. */
#define CST_HTML_REPORTS 8

/* Writes reports [count] about one stack or pool (1 to CST_HTML_REPORTS) as one HTML page that
 * loads nothing: of cst_fit, cst_evaluate_stack, cst_compare, cst_show, cst_inspect and cst_bound,
 * the last of each kind (docs/report.md). What is measured, like seconds, is left out: the same
 * reports give the same bytes. The file is written completely, or `path` is unchanged. */
CST_API cst_status cst_write_html(cst_context *context, const cst_report *const *reports,
                                  int64_t count, const char *path);

/* Renders a report like cst_report_text, including what is left out there: additional scores and
 * tests of a comparison, single draws of a sweep. *out belongs to the caller (cst_free). */
CST_API cst_status cst_report_text_full(cst_context *context, const cst_report *report, int color,
                                        char **out);

#ifdef __cplusplus
}
#endif
#endif
