/*
 * A report as text: the choice of renderer.
 * Last stage of a command without --json. Paper: none.
 */
#include "report/text.h"

#include "report/report.h"

static cst_status render(cst_context *context, const cst_report *report, int color, bool full,
                         char **out) {
    if (out)
        *out = NULL;
    if (!report || !out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "showing a report as text: a report and a place for the text are needed");
    cst_page page = {.text = {.context = context}, .color = color != 0};
    cst_page_print(&page, "%s", ""); /* an empty page is an empty string */
    switch (report->kind) {
    case CST_REPORT_FIT:
        cst_text_fit(&page, report->root);
        break;
    case CST_REPORT_INSPECT:
        cst_text_inspect(&page, report->root);
        break;
    case CST_REPORT_EVALUATE:
        cst_text_evaluate(&page, report->root);
        break;
    case CST_REPORT_PREDICT:
        cst_text_predict(&page, report->root);
        break;
    case CST_REPORT_FOLDS:
        cst_text_folds(&page, report->root);
        break;
    case CST_REPORT_COMPARE:
        cst_text_compare(&page, report->root, full);
        break;
    case CST_REPORT_ABLATE:
        cst_text_ablate(&page, report->root, full);
        break;
    case CST_REPORT_SWEEP:
        cst_text_sweep(&page, report->root, full);
        break;
    case CST_REPORT_BOUND:
        cst_text_bound(&page, report->root);
        break;
    case CST_REPORT_SOUP:
        cst_text_soup(&page, report->root, full);
        break;
    case CST_REPORT_SWA:
    case CST_REPORT_SWAG:
        cst_text_averages(&page, report->root);
        break;
    }
    if (page.text.status != CST_OK) {
        cst_free(context, page.text.bytes);
        return page.text.status;
    }
    *out = page.text.bytes;
    return CST_OK;
}

cst_status cst_report_text(cst_context *context, const cst_report *report, int color, char **out) {
    CST_ENTER(context);
    CST_CHECK(context, report, REPORT, "report");
    return cst_why(context, render(context, report, color, false, out));
}

cst_status cst_report_text_full(cst_context *context, const cst_report *report, int color,
                                char **out) {
    CST_ENTER(context);
    CST_CHECK(context, report, REPORT, "report");
    return cst_why(context, render(context, report, color, true, out));
}
