/* All checks of one split: labels, folds, members; the list of what they find. See the header. */
#include "data/checks/parts.h"
#include "data/pool/pool.h"

#include <string.h>

static cst_status check_labels(cst_context *context, const cst_check_source *source,
                               cst_findings *findings) {
    const cst_view *view = source->view;
    char class[64];
    int32_t present = 0;
    int32_t last = 0;
    bool numbers = view->rows >= CST_CHECK_FEWEST;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int64_t, counts, view->classes);
    for (int64_t i = 0; i < view->rows; i++) {
        int32_t label = cst_view_label(view, i);
        counts[label]++;
        numbers = numbers && label == i;
    }
    for (int32_t c = 0; c < view->classes; c++) {
        present += counts[c] > 0;
        last = counts[c] > 0 ? c : last;
    }
    if (present == 1)
        return cst_findings_add(context, findings, "labels", false, NULL, 0,
                                "split '%.60s': every row has %s, so that nothing can be learned",
                                source->split,
                                cst_class_of(source->pool, last, class, sizeof class));
    if (numbers)
        return cst_findings_add(context, findings, "labels", true, NULL, 0,
                                "split '%.60s': the labels are the numbers of the rows: another "
                                "column is probably the label",
                                source->split);
    return present < view->classes
               ? cst_findings_add(context, findings, "labels", false, NULL, 0,
                                  "split '%.60s': %d of %d classes have no row", source->split,
                                  (int)(view->classes - present), (int)view->classes)
               : CST_OK;
}

typedef struct grouped {
    int64_t group, row;
    int32_t fold;
} grouped;

CST_BY(by_group, grouped, CST_UP(group), CST_UP(row), 0)

cst_status cst_split_groups_of(cst_context *context, const int64_t *groups, const int64_t *index,
                               const int32_t *folds, int64_t count, cst_split_groups *out) {
    size_t rows = (size_t)count;
    *out = (cst_split_groups){0};
    CST_SCOPE(scope);
    CST_NEW(context, scope, grouped, list, rows);
    for (size_t i = 0; i < rows; i++)
        list[i] = (grouped){groups[index ? index[i] : (int64_t)i], (int64_t)i, folds[i]};
    CST_TRY(cst_sort(context, list, rows, sizeof *list, by_group));
    for (size_t i = 0; i < rows; out->groups++) {
        size_t end = i + 1;
        size_t differs = 0;
        for (; end < rows && list[end].group == list[i].group; end++)
            if (differs == 0 && list[end].fold != list[i].fold)
                differs = end;
        if (differs > 0) {
            out->example[0] = out->split == 0 ? list[i].row : out->example[0];
            out->example[1] = out->split == 0 ? list[differs].row : out->example[1];
            out->split++;
            out->rows += (int64_t)(end - i);
        }
        i = end;
    }
    return CST_OK;
}

static cst_status check_folds(cst_context *context, const cst_check_source *source,
                              cst_findings *findings) {
    cst_split_groups found;
    if (!source->folds || !source->groups)
        return CST_OK;
    CST_TRY(cst_split_groups_of(context, source->groups, source->view->index, source->folds,
                                source->view->rows, &found));
    if (found.split == 0)
        return CST_OK;
    return cst_findings_add(
        context, findings, "groups", false, NULL, 0,
        "split '%.60s': the folds split %lld of %lld groups, with %lld rows (rows %lld and %lld "
        "are of one group and in different folds): out-of-fold predictions have seen rows of "
        "their own groups, and scores are too good. Make folds that keep groups together "
        "(`corestack folds --groups`) and predict out-of-fold again",
        source->split, (long long)found.split, (long long)found.groups, (long long)found.rows,
        (long long)cst_check_row_number(source, found.example[0]),
        (long long)cst_check_row_number(source, found.example[1]));
}

/* Few effective rows, or one row that outweighs all others. */
static cst_status check_weights(cst_context *context, const cst_check_source *source,
                                cst_findings *findings) {
    const cst_view *view = source->view;
    if (!view->weights || view->index)
        return CST_OK;
    double sum = 0;
    int64_t top = 0;
    for (int64_t i = 0; i < view->rows; i++) {
        sum += view->weights[i];
        top = view->weights[i] > view->weights[top] ? i : top;
    }
    double rows = (double)view->rows;
    double share = view->weights[top] / sum;
    double effective = cst_view_effective_rows(view);
    bool few = effective < CST_CHECK_FEWEST && 2 * effective < rows;
    if (!few && 10 * effective >= rows && share <= 0.5)
        return CST_OK;
    return cst_findings_add(
        context, findings, "weights", false, NULL, 0,
        "split '%.60s': with their weights %lld rows say as much as %.1f rows of one weight, and "
        "row %lld has %.5g%% of the weight: fits and scores rest on few rows. Check the weights, "
        "or cut the largest ones",
        source->split, (long long)view->rows, effective,
        (long long)cst_check_row_number(source, top), 100 * share);
}

enum { CLASSES = 1, VALUES = 2, BOTH = 3 };

/* In this order: what explains a member comes before what would be said of it otherwise. */
static const struct {
    cst_check_fn *run;
    int of;   /* CLASSES, VALUES or BOTH */
    bool few; /* of few rows, and of labels that are all the same, too */
} CHECKS[] = {{cst_check_copies, BOTH, true},
              {cst_check_is_target, VALUES, false},
              {cst_check_target_is_index, VALUES, false},
              {cst_check_tell_targets, VALUES, false},
              {cst_check_known_outputs, VALUES, false},
              {cst_check_tell_filled, VALUES, false},
              {cst_check_agreement, BOTH, false},
              {cst_check_tell_filled, CLASSES, false},
              {cst_check_permutations, CLASSES, false},
              {cst_check_outputs, VALUES, false},
              {cst_check_order, BOTH, false},
              {cst_check_leaks, CLASSES, false},
              {cst_check_value_leaks, VALUES, false},
              {cst_check_hard, CLASSES, false},
              {cst_check_scale, CLASSES, false},
              {cst_check_value_scale, VALUES, false},
              {cst_check_empty_columns, CLASSES, true},
              {cst_check_equal_columns, CLASSES, true}};

cst_status cst_check_run(cst_context *context, const cst_check_source *source,
                         cst_findings *findings) {
    cst_check check;
    const cst_view *view = source->view;
    if (view->rows < 1 || view->classes < 1 || (!view->labels && !view->targets) || view->binary)
        return CST_OK;
    int of = view->labels ? CLASSES : VALUES;
    if (view->labels)
        CST_TRY(check_labels(context, source, findings));
    CST_TRY(check_folds(context, source, findings));
    CST_TRY(check_weights(context, source, findings));
    if (!source->taught)
        CST_TRY(cst_check_unknown(context, source, NULL, findings));
    CST_SCOPE(scope);
    CST_TRY(cst_check_begin(context, scope, source, findings, &check));
    CST_TRY(view->labels ? cst_check_read_classes(&check) : cst_check_read_values(&check));
    bool enough = check.rows >= CST_CHECK_FEWEST && (of == VALUES || check.label_spread > 0);
    for (size_t i = 0; i < sizeof CHECKS / sizeof CHECKS[0]; i++)
        if ((CHECKS[i].of & of) && (enough || CHECKS[i].few))
            CST_TRY(CHECKS[i].run(&check));
    return CST_OK;
}

void cst_check_tell(cst_context *context, const char *split, const cst_findings *findings) {
    bool name =
        split && strcmp(split, "oof") != 0; /* "oof": of a list of files, which has no name */
    for (size_t i = 0; i < findings->count; i++) {
        const char *text = findings->list[i].text;
        bool named = strncmp(text, "split '", strlen("split '")) == 0;
        if (!findings->list[i].quiet)
            cst_notice(context, "%s%s%s%s", named || !name ? "" : "split '",
                       named || !name ? "" : split, named || !name ? "" : "': ", text);
    }
}

static bool is_known(const cst_view *view, int64_t row) {
    int32_t label = cst_view_label(view, row);
    return label >= 0 && label < view->classes;
}

/* The rows whose label is a class: *index stays NULL where all are. */
static cst_status known_rows(cst_context *context, cst_scope *scope, const cst_view *view,
                             int64_t **index, int64_t *rows) {
    int64_t known = 0;
    *rows = view->rows;
    for (int64_t i = 0; view->labels && i < view->rows; i++)
        known += is_known(view, i);
    if (!view->labels || known == view->rows)
        return CST_OK;
    CST_TAKE(context, scope, *index, known);
    *rows = 0;
    for (int64_t i = 0; i < view->rows; i++)
        if (is_known(view, i))
            (*index)[(*rows)++] = view->index ? view->index[i] : i;
    return CST_OK;
}

static bool tells_order(const char *kind) {
    return strcmp(kind, "order") == 0 || strcmp(kind, "classes") == 0 ||
           strcmp(kind, "inverted") == 0;
}

CST_OWNED(cst_findings)

cst_status cst_check_scored(cst_context *context, const cst_check_source *source) {
    cst_check_source own = *source;
    cst_findings findings = {0};
    int64_t *index = NULL;
    size_t members = (size_t)source->view->members;
    int32_t count = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, const float *, pointers, members);
    CST_NEW(context, scope, int32_t, there, 2 * members);
    CST_OWN(context, scope, cst_findings, &findings);
    for (int32_t k = 0; k < source->view->members; k++)
        if (source->view->data[k]) { /* the split may lack a file */
            there[count] = k;
            there[members + (size_t)count++] = source->members ? source->members[k] : k;
        }
    cst_view view = cst_view_members(source->view, there, count, pointers);
    own.members = there + members;
    CST_TRY(known_rows(context, scope, source->view, &index, &view.rows));
    if (index) { /* rows are numbered anew, but for what is not looked at here */
        view.index = index;
        own.rows = NULL;
    }
    own.view = &view;
    if (count > 0)
        CST_TRY(cst_check_run(context, &own, &findings));
    for (size_t i = 0; i < findings.count; i++)
        if (view.labels && !source->shares && !findings.list[i].fatal &&
            strcmp(findings.list[i].kind, "labels") == 0)
            findings.list[i].quiet = true;
    for (size_t i = 0; i < findings.count; i++)
        if (source->guessed && (findings.list[i].fatal || !tells_order(findings.list[i].kind)))
            findings.list[i].quiet = true;
    cst_check_tell(context, source->split, &findings);
    return CST_OK;
}
