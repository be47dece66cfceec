/*
 * A report as text, as comma-separated values, in Markdown and LaTeX: the choice of renderer. Last
 * stage of a command without --json.
 */
#include "report/text.h"

#include "report/report.h"
#include "report/scores.h"

static cst_text_renderer *const RENDERERS[] = {
    [CST_REPORT_FIT] = cst_text_fit,           [CST_REPORT_INSPECT] = cst_text_inspect,
    [CST_REPORT_EVALUATE] = cst_text_evaluate, [CST_REPORT_PREDICT] = cst_text_predict,
    [CST_REPORT_FOLDS] = cst_text_folds,       [CST_REPORT_COMPARE] = cst_text_compare,
    [CST_REPORT_ABLATE] = cst_text_ablate,     [CST_REPORT_SWEEP] = cst_text_sweep,
    [CST_REPORT_SOUP] = cst_text_soup,         [CST_REPORT_SWA] = cst_text_averages,
    [CST_REPORT_SWAG] = cst_text_averages,     [CST_REPORT_BOUND] = cst_text_bound,
    [CST_REPORT_SHOW] = cst_text_show,         [CST_REPORT_PROFILE] = cst_text_profile,
    [CST_REPORT_ONLINE] = cst_text_online,     [CST_REPORT_ADAPT] = cst_text_adapt,
    [CST_REPORT_SUGGEST] = cst_text_suggest,   [CST_REPORT_MONITOR] = cst_text_monitor,
};

/* The start of every public call here. */
#define START(context, out)                                                                        \
    if (out)                                                                                       \
        *(out) = NULL;                                                                             \
    CST_ENTER(context)

/* The page's text, or its failure. */
static cst_status finish(cst_page *page, char **out) {
    if (page->text.status == CST_OK)
        *out = page->text.bytes;
    else
        cst_free(page->text.context, page->text.bytes);
    return cst_why(page->text.context, page->text.status);
}

static cst_status render_text(cst_context *context, const cst_report *report, int color, bool full,
                              char **out) {
    if (!report || !out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "rendering a report as text: report and text are required");
    cst_page page = {.text = {.context = context}, .color = color != 0};
    cst_page_print(&page, "%s", ""); /* an empty page is an empty string */
    RENDERERS[report->kind](&page, report->root, full);
    return finish(&page, out);
}

cst_status cst_report_text(cst_context *context, const cst_report *report, int color, char **out) {
    START(context, out);
    return render_text(context, report, color, false, out);
}

cst_status cst_report_text_full(cst_context *context, const cst_report *report, int color,
                                char **out) {
    START(context, out);
    return render_text(context, report, color, true, out);
}

/* ---- tables of rows ---- */

static cst_status render_rows(cst_context *context, const cst_report *report,
                              cst_rows_renderer *print, char **out) {
    if (!report || !out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "rendering a report as a table: report and text are required");
    cst_page page = {.text = {.context = context}};
    json_t *rows = cst_document_rows(report->root);
    if (!rows)
        return cst_fail(context, CST_ERROR_MEMORY, "out of memory while writing the report");
    if (json_array_size(rows) > 0)
        print(&page, report->root, rows);
    else
        page.text.status = cst_fail(context, CST_ERROR_ARGUMENT,
                                    "rendering a table: this report has no rows of methods");
    json_decref(rows);
    return finish(&page, out);
}

cst_status cst_report_csv(cst_context *context, const cst_report *report, char **out) {
    START(context, out);
    return render_rows(context, report, cst_rows_csv, out);
}

cst_status cst_report_markdown(cst_context *context, const cst_report *report, char **out) {
    START(context, out);
    return render_rows(context, report, cst_rows_markdown, out);
}

cst_status cst_report_latex(cst_context *context, const cst_report *report, char **out) {
    START(context, out);
    return render_rows(context, report, cst_rows_latex, out);
}
