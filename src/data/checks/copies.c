/* Members that say nothing of their own: constant, or equal to another number by number. */
#include "data/checks/parts.h"

static cst_status constant(cst_context *context, const cst_check_sample *sample,
                           cst_member_facts *facts, int32_t *list, cst_findings *findings) {
    char text[256];
    int32_t count = 0;
    for (int32_t k = 0; k < sample->view->members; k++)
        if (facts[k].association.constant)
            list[count++] = k;
    if (count == 0)
        return CST_OK;
    (void)cst_check_names(sample->source, list, count, text, sizeof text);
    return cst_findings_add(context, findings, "constant", false, list, count,
                            "%s %s every sample the same prediction", text,
                            count == 1 ? "gives" : "give");
}

static cst_status identical(cst_context *context, const cst_check_sample *sample,
                            cst_member_facts *facts, int32_t first, int32_t *list,
                            cst_findings *findings) {
    char text[256];
    int32_t count = 0;
    for (int32_t k = 0; k < sample->view->members; k++) {
        if (facts[k].association.constant || facts[k].hash != facts[first].hash)
            continue;
        if (k < first)
            return CST_OK; /* said with that one */
        facts[k].association.copy = k > first;
        list[count++] = k;
    }
    if (count < 2)
        return CST_OK;
    (void)cst_check_names(sample->source, list, count, text, sizeof text);
    return cst_findings_add(context, findings, "identical", false, list, count,
                            "%s are the same predictions under %d names, number by number: was one "
                            "file saved twice?",
                            text, (int)count);
}

cst_status cst_check_copies(cst_context *context, const cst_check_sample *sample,
                            cst_member_facts *facts, cst_findings *findings) {
    int32_t members = sample->view->members;
    int32_t *list = cst_alloc(context, (size_t)members, sizeof *list);
    if (!list)
        return CST_ERROR_MEMORY;
    cst_status status = constant(context, sample, facts, list, findings);
    for (int32_t k = 0; status == CST_OK && k < members; k++)
        if (!facts[k].association.constant)
            status = identical(context, sample, facts, k, list, findings);
    cst_free(context, list);
    return status;
}
