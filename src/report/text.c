/* A report as text, as comma-separated values, in Markdown and LaTeX. See the header. */
#include "report/text.h"

#include "report/report.h"

static const cst_text_row *const PAGES[] = {
    [CST_REPORT_FIT] = cst_text_fit,           [CST_REPORT_INSPECT] = cst_text_inspect,
    [CST_REPORT_EVALUATE] = cst_text_evaluate, [CST_REPORT_PREDICT] = cst_text_predict,
    [CST_REPORT_FOLDS] = cst_text_folds,       [CST_REPORT_COMPARE] = cst_text_compare,
    [CST_REPORT_ABLATE] = cst_text_ablate,     [CST_REPORT_SWEEP] = cst_text_sweep,
    [CST_REPORT_SOUP] = cst_text_soup,         [CST_REPORT_SWA] = cst_text_swa,
    [CST_REPORT_SWAG] = cst_text_swag,         [CST_REPORT_BOUND] = cst_text_bound,
    [CST_REPORT_SHOW] = cst_text_show,         [CST_REPORT_PROFILE] = cst_text_profile,
    [CST_REPORT_ONLINE] = cst_text_online,     [CST_REPORT_ADAPT] = cst_text_adapt,
    [CST_REPORT_SUGGEST] = cst_text_suggest,   [CST_REPORT_MONITOR] = cst_text_monitor,
    [CST_REPORT_EXPORT] = cst_text_export,
};

typedef enum text_form {
    TEXT,
    TEXT_COLOR,
    TEXT_FULL,
    TEXT_FULL_COLOR,
    CSV,
    MARKDOWN,
    LATEX
} text_form;

static cst_status print_table(cst_page *page, const cst_report *report, text_form form) {
    static cst_rows_renderer *const renderers[] = {
        [CSV] = cst_rows_csv, [MARKDOWN] = cst_rows_markdown, [LATEX] = cst_rows_latex};
    json_t *rows = cst_document_rows(report->root);
    if (!rows)
        return cst_fail(page->text.context, CST_ERROR_MEMORY,
                        "out of memory while writing the report");
    if (json_array_size(rows) > 0)
        renderers[form](page, report->root, rows);
    else
        page->text.status = cst_fail(page->text.context, CST_ERROR_ARGUMENT,
                                     "rendering a table: this report has no rows of methods");
    json_decref(rows);
    return page->text.status;
}

static cst_status render(cst_context *context, const cst_report *report, text_form form,
                         char **out) {
    if (!report || !out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "rendering a report as %s: report and text are required",
                        form < CSV ? "text" : "a table");
    cst_page page = {.text = {.context = context},
                     .width = cst_context_width(context),
                     .color = form == TEXT_COLOR || form == TEXT_FULL_COLOR,
                     .full = form == TEXT_FULL || form == TEXT_FULL_COLOR};
    cst_page_print(&page, "%s", ""); /* an empty page is an empty string */
    if (form >= CSV)
        page.text.status = print_table(&page, report, form);
    else
        cst_text_rows(&page, report->root, PAGES[report->kind]);
    if (form < CSV && page.text.status == CST_OK)
        cst_page_wrap(&page);
    if (page.text.status == CST_OK)
        *out = page.text.bytes;
    else
        cst_free(context, page.text.bytes);
    return cst_why(context, page.text.status);
}

#define RENDER(context, report, form, out)                                                         \
    do {                                                                                           \
        if (out)                                                                                   \
            *(out) = NULL;                                                                         \
        CST_ENTER(context);                                                                        \
        return render(context, report, form, out);                                                 \
    } while (0)

cst_status cst_report_text(cst_context *context, const cst_report *report, int color, char **out) {
    RENDER(context, report, color ? TEXT_COLOR : TEXT, out);
}

cst_status cst_report_text_full(cst_context *context, const cst_report *report, int color,
                                char **out) {
    RENDER(context, report, color ? TEXT_FULL_COLOR : TEXT_FULL, out);
}

cst_status cst_report_csv(cst_context *context, const cst_report *report, char **out) {
    RENDER(context, report, CSV, out);
}

cst_status cst_report_markdown(cst_context *context, const cst_report *report, char **out) {
    RENDER(context, report, MARKDOWN, out);
}

cst_status cst_report_latex(cst_context *context, const cst_report *report, char **out) {
    RENDER(context, report, LATEX, out);
}
