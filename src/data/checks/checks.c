/* All checks of one split: labels, folds, members. See the header. */
#include "data/checks/parts.h"
#include "data/pool/subset.h"

#include <string.h>

/* ---- labels ---- */

static cst_status check_labels(cst_context *context, const cst_check_source *source,
                               cst_findings *findings) {
    const cst_view *view = source->view;
    int64_t *counts = cst_alloc(context, (size_t)view->classes, sizeof *counts);
    if (!counts)
        return CST_ERROR_MEMORY;
    char class[64];
    int32_t present = 0;
    int32_t last = 0;
    bool numbers = view->rows >= CST_CHECK_FEWEST;
    cst_status status = CST_OK;
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
        status =
            cst_findings_add(context, findings, "labels", false, NULL, 0,
                             "split '%.60s': every row has %s, so that nothing can be learned",
                             source->split, cst_class_of(source->pool, last, class, sizeof class));
    else if (numbers)
        status = cst_findings_add(context, findings, "labels", true, NULL, 0,
                                  "split '%.60s': the labels are the numbers of the rows: another "
                                  "column is probably the label",
                                  source->split);
    else if (present < view->classes)
        status = cst_findings_add(context, findings, "labels", false, NULL, 0,
                                  "split '%.60s': %d of %d classes have no row", source->split,
                                  (int)(view->classes - present), (int)view->classes);
    cst_free(context, counts);
    return status;
}

/* ---- folds ---- */

typedef struct grouped {
    int64_t group;
    int64_t row;
    int32_t fold;
} grouped;

static int by_group(const void *a, const void *b) {
    const grouped *x = a;
    const grouped *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static cst_status check_folds(cst_context *context, const cst_check_source *source,
                              cst_findings *findings) {
    const cst_view *view = source->view;
    size_t rows = (size_t)view->rows;
    if (!source->folds || !source->groups || rows < 2)
        return CST_OK;
    grouped *list = cst_alloc(context, rows, sizeof *list);
    if (!list)
        return CST_ERROR_MEMORY;
    for (size_t i = 0; i < rows; i++)
        list[i] = (grouped){source->groups[view->index ? view->index[i] : (int64_t)i], (int64_t)i,
                            source->folds[i]};
    cst_status status = cst_sort(context, list, rows, sizeof *list, by_group);
    int64_t groups = 0;
    int64_t split = 0;
    int64_t concerned = 0;
    int64_t example = -1;
    int64_t other = -1;
    for (size_t i = 0; status == CST_OK && i < rows; groups++) {
        size_t end = i + 1;
        size_t differs = 0;
        for (; end < rows && list[end].group == list[i].group; end++)
            if (differs == 0 && list[end].fold != list[i].fold)
                differs = end;
        if (differs > 0) {
            example = split == 0 ? list[i].row : example;
            other = split == 0 ? list[differs].row : other;
            split++;
            concerned += (int64_t)(end - i);
        }
        i = end;
    }
    cst_free(context, list);
    if (status != CST_OK || split == 0)
        return status;
    const int64_t *of = source->rows;
    return cst_findings_add(
        context, findings, "groups", false, NULL, 0,
        "split '%.60s': the folds split %lld of %lld groups, with %lld rows (rows %lld and %lld "
        "are of one group and in different folds): out-of-fold predictions have seen rows of "
        "their own groups, and scores are too good. Make folds that keep groups together "
        "(`corestack folds --groups`) and predict out-of-fold again",
        source->split, (long long)split, (long long)groups, (long long)concerned,
        (long long)(of ? of[example] : example), (long long)(of ? of[other] : other));
}

/* ---- weights ---- */

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
        (long long)(source->rows ? source->rows[top] : top), 100 * share);
}

/* ---- all ---- */

cst_status cst_check_run(cst_context *context, const cst_check_source *source,
                         cst_findings *findings) {
    cst_check_sample sample = {0};
    const cst_view *view = source->view;
    cst_status status = CST_OK;
    if (view->rows < 1 || view->classes < 1 || (!view->labels && !view->targets))
        return CST_OK;
    if (view->labels)
        status = check_labels(context, source, findings);
    CST_THEN(check_folds(context, source, findings));
    CST_THEN(check_weights(context, source, findings));
    if (!source->taught)
        CST_THEN(cst_check_unknown(context, source, NULL, findings));
    CST_THEN(cst_check_sample_make(context, source, &sample));
    CST_THEN(view->labels ? cst_check_classes(context, &sample, findings)
                          : cst_check_values(context, &sample, findings));
    cst_check_sample_free(context, &sample);
    return status;
}

/* ---- rows that are scored ---- */

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

/* The rows whose label is a class: *index stays NULL where all are. */
static cst_status known_rows(cst_context *context, const cst_view *view, int64_t **index,
                             int64_t *rows) {
    int64_t known = 0;
    *rows = view->rows;
    for (int64_t i = 0; view->labels && i < view->rows; i++) {
        int32_t label = cst_view_label(view, i);
        known += label >= 0 && label < view->classes;
    }
    if (!view->labels || known == view->rows)
        return CST_OK;
    *index = cst_alloc(context, (size_t)known, sizeof **index);
    if (!*index)
        return CST_ERROR_MEMORY;
    *rows = 0;
    for (int64_t i = 0; i < view->rows; i++) {
        int32_t label = cst_view_label(view, i);
        if (label >= 0 && label < view->classes)
            (*index)[(*rows)++] = view->index ? view->index[i] : i;
    }
    return CST_OK;
}

cst_status cst_check_scored(cst_context *context, const cst_check_source *source) {
    cst_check_source own = *source;
    cst_findings findings = {0};
    int64_t *index = NULL;
    size_t members = (size_t)source->view->members;
    const float **pointers = cst_alloc(context, members, sizeof *pointers);
    int32_t *there = cst_alloc(context, 2 * members, sizeof *there);
    int32_t count = 0;
    if (!pointers || !there) {
        cst_free(context, pointers);
        cst_free(context, there);
        return CST_ERROR_MEMORY;
    }
    for (int32_t k = 0; k < source->view->members; k++)
        if (source->view->data[k]) { /* the split may lack a file */
            there[count] = k;
            there[members + (size_t)count++] = source->members ? source->members[k] : k;
        }
    cst_view view = cst_view_members(source->view, there, count, pointers);
    own.members = there + members;
    cst_status status = known_rows(context, source->view, &index, &view.rows);
    if (index) { /* rows are numbered anew, but for what is not looked at here */
        view.index = index;
        own.rows = NULL;
    }
    own.view = &view;
    if (count > 0)
        CST_THEN(cst_check_run(context, &own, &findings));
    for (size_t i = 0; i < findings.count; i++)
        if (view.labels && !source->shares && !findings.list[i].fatal &&
            strcmp(findings.list[i].kind, "labels") == 0)
            findings.list[i].quiet = true;
    if (status == CST_OK)
        cst_check_tell(context, source->split, &findings);
    cst_findings_free(context, &findings);
    cst_free(context, index);
    cst_free(context, pointers);
    cst_free(context, there);
    return status;
}
