/* Checks of members that list their likeliest classes: lists without entries, and members whose
 * lists do not go with the labels. docs/topk.md#files. */
#include "core/scope.h"
#include "data/checks/checks.h"

#include <math.h>

enum { ROWS = 20000, AT_ONCE = 512, FEWEST = 30 };
/* Standard errors that chance hardly reaches. */
static const double BETTER = 2;

/* Sums over rows of how far a member's logarithm of the label is above that of the label of another
 * row, and their squares. */
typedef struct list_facts {
    int64_t entries;
    double gain, gain2;
} list_facts;

static void add_list(const cst_view *view, const float *row, int32_t label, const int32_t *labels,
                     double rows, list_facts *facts) {
    int32_t listed = view->classes / 2;
    double gain = 0;
    for (int32_t j = 0; j < listed && row[j] >= 0; j++) {
        int32_t class = (int32_t)row[j];
        double above = (double)row[listed + j];
        gain += ((class == label) - labels[class] / rows) * above;
        facts->entries++;
    }
    facts->gain += gain;
    facts->gain2 += gain * gain;
}

/* out: [members]; *count: the rows looked at, evenly spread. */
static cst_status read_lists(cst_context *context, const cst_view *view, list_facts *out,
                             int64_t *count) {
    int64_t rows = view->rows < ROWS ? view->rows : ROWS;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, position, rows);
    CST_NEW(context, scope, int32_t, labels, view->listed_of);
    CST_NEW(context, scope, float, lists, AT_ONCE *(size_t)view->classes);
    for (int64_t i = 0; i < rows; i++) {
        position[i] = i * view->rows / rows;
        labels[cst_view_label(view, position[i])]++;
    }
    for (int32_t k = 0; k < view->members; k++)
        for (int64_t first = 0; first < rows; first += AT_ONCE) {
            int64_t part = rows - first < AT_ONCE ? rows - first : AT_ONCE;
            CST_TRY(cst_view_gather(context, view, k, position + first, part, lists));
            for (int64_t i = 0; i < part; i++)
                add_list(view, lists + i * view->classes, cst_view_label(view, position[first + i]),
                         labels, (double)rows, &out[k]);
        }
    *count = rows;
    return CST_OK;
}

cst_status cst_check_lists(cst_context *context, const cst_check_source *source,
                           cst_findings *findings) {
    const cst_view *view = source->view;
    int64_t rows = 0;
    int32_t empty = 0;
    int32_t poor = 0;
    char who[256];
    CST_SCOPE(scope);
    CST_NEW(context, scope, list_facts, facts, view->members);
    CST_NEW(context, scope, int32_t, list, 2 * (size_t)view->members);
    int32_t *chance = list + view->members;
    CST_TRY(read_lists(context, view, facts, &rows));
    for (int32_t k = 0; k < view->members; k++) {
        const list_facts *f = &facts[k];
        int32_t of = source->members ? source->members[k] : k;
        double spread = sqrt(fmax(f->gain2 - f->gain * f->gain / (double)rows, 0));
        if (f->entries == 0)
            list[empty++] = of;
        else if (rows >= FEWEST && f->gain <= BETTER * spread)
            chance[poor++] = of;
    }
    bool all = empty + poor == view->members;
    if (empty > 0)
        CST_TRY(cst_findings_add(
            context, findings, "constant", empty == view->members, list, empty,
            "%s list%s no class in any row%s: are all indices -1, or all logprobs -infinity?",
            cst_names_of(source->pool, list, empty, who, sizeof who), empty == 1 ? "s" : "",
            empty == view->members ? ", so that there is nothing to fit" : ""));
    return poor == 0
               ? CST_OK
               : cst_findings_add(
                     context, findings, "chance", false, chance, poor,
                     "split '%.60s': %s (%s): the labels may not belong to these rows, or number "
                     "the classes otherwise (another vocabulary)",
                     source->split,
                     all ? "no member is better than chance" : "members no better than chance",
                     cst_names_of(source->pool, chance, poor, who, sizeof who));
}
