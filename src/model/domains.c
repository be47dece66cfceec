/*
 * The domains that a model has scales and biases of, and what is said of rows of others. Beside
 * prediction. docs/method.md#domains.
 */
#include "data/readers/strings.h"
#include "model/stack.h"

#include <string.h>

/* Says which rows get none of the model's scales and biases of domains. split: NULL for arrays. */
void cst_model_domains_tell(cst_context *context, const cst_model *model, const char *split,
                            const cst_view *view) {
    enum { NAMED = 5 };
    char names[NAMED * 44] = "";
    char where[320] = "";
    const cst_domains *domains = view->domains;
    int64_t rows = 0;
    int32_t unknown = 0;
    if (!model->domains)
        return;
    if (split)
        (void)cst_snprintf(where, sizeof where, "split '%.255s': ", split);
    if (!domains) {
        cst_notice(context,
                   "%sthe rows have no domains, and the model has scales and biases of %d domains: "
                   "all rows get the common ones (give the domains with --domains, or a column "
                   "'domain')",
                   where, (int)model->domains->count);
        return;
    }
    for (int64_t i = 0; i < view->rows; i++) {
        int32_t d = cst_view_domain(view, i);
        rows += d < 0 || cst_domain_find(model->domains->names, model->domains->count,
                                         domains->names[d]) < 0;
    }
    for (int32_t d = 0; d < domains->count; d++) {
        char quoted[CST_QUOTE_CHARS];
        size_t used = strlen(names);
        if (cst_domain_find(model->domains->names, model->domains->count, domains->names[d]) >= 0)
            continue;
        if (unknown++ < NAMED)
            (void)cst_snprintf(names + used, sizeof names - used, "%s'%.40s'", used ? ", " : "",
                               cst_quote(quoted, domains->names[d]));
    }
    if (rows > 0 && unknown == 0)
        cst_notice(context,
                   "%s%lld of %lld rows have no domain: they get the common scale and biases",
                   where, (long long)rows, (long long)view->rows);
    else if (rows > 0)
        cst_notice(
            context,
            "%s%lld of %lld rows get the common scale and biases: the model does not know %s "
            "(%s%s)",
            where, (long long)rows, (long long)view->rows,
            unknown == 1 ? "their domain" : "their domains", names, unknown > NAMED ? ", ..." : "");
}
