/* The domain-aware layer of a fit or a model as text. Paper: "Domain Shift". */
#include "report/text_table.h"

void cst_text_domains(cst_page *page, const json_t *root) {
    static const cst_text_column columns[] = {
        {.key = "domain", .header = "domain", .kind = CST_COLUMN_TEXT},
        {.key = "samples", .header = "samples", .decimals = 0},
        {.key = "scale", .header = "scale", .decimals = 4},
        {.key = "bias_norm", .header = "norm of biases", .decimals = 4},
        {.key = "nll_before", .header = "NLL without", .decimals = 4},
        {.key = "nll_after", .header = "with", .decimals = 4}};
    const json_t *domains = json_object_get(root, "domains");
    const json_t *list = json_object_get(domains, "list");
    const json_t *used = json_object_get(domains, "used");
    if (json_array_size(list) == 0)
        return;
    cst_page_heading(page, "Domains%s", json_is_false(used) ? " (not used: no clear gain)" : "");
    cst_text_table_show(page, list, columns, sizeof columns / sizeof columns[0]);
    if (used)
        cst_page_print(page,
                       "  held-out NLL %.4f without, %.4f with (standard error of the "
                       "difference %.4f)\n",
                       cst_json_number(domains, "nll_before"),
                       cst_json_number(domains, "nll_after"), cst_json_number(domains, "se"));
}
