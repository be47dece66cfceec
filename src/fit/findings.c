/* Findings of the checks in a document. */
#include "fit/findings.h"

void cst_findings_put(cst_report *report, const cst_pool *pool, const cst_findings *findings,
                      bool problems) {
    json_t *root = cst_report_root(report);
    json_t *list = cst_report_list(report, root, "findings");
    json_t *sentences = problems ? cst_report_list(report, root, "problems") : NULL;
    for (size_t i = 0; findings && i < findings->count; i++) {
        const cst_finding *finding = &findings->list[i];
        json_t *object = cst_report_add_object(report, list);
        cst_report_string(report, object, "kind", finding->kind);
        json_t *members = cst_report_list(report, object, "members");
        for (int32_t k = 0; k < finding->count; k++)
            cst_report_add_string(report, members, cst_pool_member_name(pool, finding->members[k]));
        cst_report_string(report, object, "text", finding->text);
        if (problems)
            cst_report_add_string(report, sentences, finding->text);
    }
}
