/* What an adaptation did, as a report. docs/json.md#adapt. */
#include "fit/adapt/adapt.h"

/* docs/bounds.md#under-shift */
static const char CERTIFICATES[] =
    "bounds and prediction sets of the stack before do not hold for the adapted one: run bound on "
    "labelled rows that neither the fit nor the adaptation used; similarity, clusters and spectrum "
    "of the members stay";

static double weight_of(const cst_model *made, int32_t k) {
    return made->adapted ? made->adapted->weights[k] : 0;
}

static void put_members(cst_report *report, const cst_model *made) {
    json_t *list = cst_report_list(report, cst_report_root(report), "members");
    for (int32_t k = 0; k < cst_model_inputs(made); k++) {
        json_t *member = cst_report_add_object(report, list);
        cst_report_string(report, member, "name", cst_model_input_name(made, k));
        cst_report_number(report, member, "weight", weight_of(made, k));
        cst_report_flag(report, member, "returned", k >= made->members);
    }
}

static void put_candidates(cst_report *report, const cst_adapt_choice *choice) {
    json_t *list = cst_report_list(report, cst_report_root(report), "candidates");
    for (int32_t c = 0; c < CST_ADAPT_CANDIDATES; c++) {
        const cst_adapt_candidate *from = &choice->candidate[c];
        json_t *entry = cst_report_add_object(report, list);
        cst_report_string(report, entry, "center", from->halfway ? "halfway" : "stack");
        cst_report_number(report, entry, "precision", from->precision);
        cst_report_number(report, entry, "nll", from->loss);
        cst_report_number(report, entry, "log_evidence", from->evidence);
        cst_report_number(report, entry, "share", from->share);
    }
}

void cst_adapt_document(cst_report *report, const cst_model *before, const cst_model *made,
                        const cst_pool *pool, const char *split, const cst_adapt_rows *rows,
                        const cst_adapt_choice *choice, const char *unlabeled, int64_t more) {
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "model", NULL);
    cst_report_string(report, root, "out", NULL);
    cst_report_string(report, root, "split", split);
    cst_report_integer(report, root, "samples", rows->view.rows);
    if (rows->view.weights)
        cst_report_number(report, root, "effective_samples", cst_view_effective_rows(&rows->view));
    cst_report_integer(report, root, "classes", made->classes);
    cst_report_flag(report, root, "adapted", choice->adapted);
    json_t *nll = cst_report_object(report, root, "nll");
    cst_report_number(report, nll, "stack", choice->stack_loss);
    cst_report_number(report, nll, "cross_validated", choice->loss);
    cst_report_number(report, nll, "fitted", choice->fitted);
    cst_report_integer(report, root, "folds", choice->folds);
    if (unlabeled) {
        json_t *object = cst_report_object(report, root, "unlabeled");
        cst_report_string(report, object, "split", unlabeled);
        cst_report_integer(report, object, "samples", more);
        cst_report_flag(report, object, "used", choice->balanced);
        cst_report_number(report, object, "nll_without", choice->labels_loss);
    }
    cst_report_number(report, root, "log_evidence", choice->evidence);
    cst_report_number(report, root, "step", choice->step);
    cst_report_number(report, root, "scale", made->adapted ? made->adapted->scale : 1);
    cst_report_integer(report, root, "members_before", before->members);
    cst_report_integer(report, root, "members_after", cst_model_inputs(made));
    cst_report_integer(report, root, "members_pool", cst_pool_members(pool));
    put_members(report, made);
    json_t *list = cst_report_list(report, root, "biases");
    for (int32_t c = 0; made->adapted && choice->biases && c < made->classes; c++)
        cst_report_add_number(report, list, made->adapted->bias[c]);
    put_candidates(report, choice);
    if (choice->adapted)
        cst_report_string(report, root, "certificates", CERTIFICATES);
}
