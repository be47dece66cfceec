/*
 * Stratified and grouped folds, and the check of given ones. Stage S0, before anything is fitted.
 * Paper: the stratified L-fold partition; docs/method.md#s0-rows-folds-ids.
 */
#include "data/pool/folds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Classes named in one notice. */
enum { NAMED = 5 };

/* A row with its class or group, to be sorted. */
typedef struct keyed {
    int64_t key;
    int64_t row;
} keyed;

static int by_key(const void *a, const void *b) {
    const keyed *x = a;
    const keyed *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Rows sorted by label, ascending rows within a label. NULL with the error recorded. */
static keyed *sort_by_label(cst_context *context, const int32_t *labels, int64_t rows) {
    keyed *sorted = cst_alloc(context, (size_t)rows, sizeof *sorted);
    for (int64_t i = 0; sorted && i < rows; i++) {
        cst_trim_item(context, i);
        sorted[i] = (keyed){.key = labels[i], .row = i};
    }
    if (sorted && cst_sort(context, sorted, (size_t)rows, sizeof *sorted, by_key) != CST_OK) {
        cst_free(context, sorted);
        sorted = NULL;
    }
    return sorted;
}

/* End of the run of equal keys that starts at `first`. */
static int64_t run_end(cst_context *context, const keyed *sorted, int64_t rows, int64_t first) {
    int64_t end = first + 1;
    while (end < rows && sorted[end].key == sorted[first].key)
        cst_trim_item(context, end++);
    return end;
}

static cst_status check_sizes(cst_context *context, const int32_t *labels, int64_t rows,
                              int32_t folds) {
    if (folds < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%d folds requested: at least 2 are needed",
                        folds);
    if (rows < folds)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%lld rows cannot be divided into %d folds: use fewer folds or more rows",
                        (long long)rows, folds);
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] < 0)
            return cst_fail(context, CST_ERROR_INPUT,
                            "label of row %lld is %d: labels must be class numbers starting at 0",
                            (long long)i, labels[i]);
    return CST_OK;
}

/* ---- notices about classes ---- */

typedef struct name_list {
    char text[128];
    size_t length;
    int64_t count;
} name_list;

static void name_list_add(name_list *list, int64_t label) {
    if (list->count < NAMED) {
        int written = cst_snprintf(list->text + list->length, sizeof list->text - list->length,
                                   "%s%lld", list->count ? ", " : "", (long long)label);
        if (written > 0)
            list->length += (size_t)written;
    }
    list->count++;
}

/* "class 3" or "7 classes (0, 1, 2, 3, 4, ...)" */
static void name_list_say(const name_list *list, char *out, size_t size) {
    if (list->count == 1)
        (void)cst_snprintf(out, size, "class %s", list->text);
    else
        (void)cst_snprintf(out, size, "%lld classes (%s%s)", (long long)list->count, list->text,
                           list->count > NAMED ? ", ..." : "");
}

static void notice_small(cst_context *context, const keyed *sorted, int64_t rows, int32_t folds) {
    name_list small = {.count = 0};
    for (int64_t first = 0, end = 0; first < rows; first = end) {
        end = run_end(context, sorted, rows, first);
        if (end - first < folds)
            name_list_add(&small, sorted[first].key);
    }
    if (small.count == 0)
        return;
    char who[192];
    name_list_say(&small, who, sizeof who);
    cst_notice(context, "%s: fewer rows than the %d folds, so some folds have none", who, folds);
}

/* ---- stratified ---- */

/* Rows are dealt to the folds in turn, class after class without starting over, each class in
 * shuffled order: a class takes a run of consecutive turns, so that its counts differ by at most
 * one, and so do those of all rows. */
cst_status cst_folds_stratified(cst_context *context, const int32_t *labels, int64_t rows,
                                int32_t folds, uint64_t seed, int32_t *out) {
    CST_ENTER(context);
    CST_FITS(context, rows, 1, sizeof(*labels));
    if (!labels || !out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_folds_stratified: labels and folds are required");
    cst_status status = check_sizes(context, labels, rows, folds);
    if (status != CST_OK)
        return status;
    keyed *sorted = sort_by_label(context, labels, rows);
    int64_t *order = cst_alloc(context, (size_t)rows, sizeof *order);
    if (!sorted || !order) {
        status = CST_ERROR_MEMORY;
        goto cleanup;
    }
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_FOLDS, 0);
    for (int64_t i = 0; i < rows; i++) {
        cst_trim_item(context, i);
        order[i] = sorted[i].row;
    }
    for (int64_t first = 0, end = 0; first < rows; first = end) {
        end = run_end(context, sorted, rows, first);
        cst_rng_shuffle(&rng, order + first, end - first);
    }
    for (int64_t i = 0; i < rows; i++) {
        cst_trim_item(context, i);
        out[order[i]] = (int32_t)(i % folds);
    }
    notice_small(context, sorted, rows, folds);
cleanup:
    cst_free(context, order);
    cst_free(context, sorted);
    return cst_why(context, status);
}

/* ---- grouped ---- */

/* How many rows of one class a group has. */
typedef struct share {
    int64_t label; /* dense: 0..label_count-1 */
    int64_t count;
} share;

typedef struct group {
    int64_t rows;
    int64_t shuffled; /* place in a seeded order, to rank groups of equal size */
    int64_t first_share;
    int64_t shares;
    int32_t fold;
} group;

typedef struct grouping {
    int32_t folds;
    int64_t label_count;
    int64_t group_count;
    int64_t *dense;     /* [rows] label, densely numbered */
    int64_t *member_of; /* [rows] group, densely numbered */
    group *group_list;  /* [group_count] */
    share *shares;      /* [at most rows], those of one group together */
    int64_t *totals;    /* [label_count] */
    int64_t *counts;    /* [label_count][folds] rows placed so far */
    int64_t *fold_rows; /* [folds] */
} grouping;

static void grouping_free(cst_context *context, grouping *g) {
    cst_free(context, g->dense);
    cst_free(context, g->member_of);
    cst_free(context, g->group_list);
    cst_free(context, g->shares);
    cst_free(context, g->totals);
    cst_free(context, g->counts);
    cst_free(context, g->fold_rows);
}

/* Numbers the distinct keys of sorted rows 0, 1, ... into number[row]; returns how many there are.
 */
static int64_t number_keys(cst_context *context, const keyed *sorted, int64_t rows,
                           int64_t *number) {
    int64_t count = 0;
    for (int64_t first = 0, end = 0; first < rows; first = end, count++) {
        end = run_end(context, sorted, rows, first);
        for (int64_t i = first; i < end; i++) {
            cst_trim_item(context, i);
            number[sorted[i].row] = count;
        }
    }
    return count;
}

static cst_status number_groups(cst_context *context, const int64_t *groups, int64_t rows,
                                keyed *scratch, grouping *g) {
    for (int64_t i = 0; i < rows; i++) {
        cst_trim_item(context, i);
        scratch[i] = (keyed){.key = groups[i], .row = i};
    }
    cst_status status = cst_sort(context, scratch, (size_t)rows, sizeof *scratch, by_key);
    if (status != CST_OK)
        return status;
    g->group_count = number_keys(context, scratch, rows, g->member_of);
    if (g->group_count < g->folds)
        return cst_fail(
            context, CST_ERROR_INPUT,
            g->group_count == 1
                ? "%lld group cannot be divided into %d folds: divide it into smaller groups"
                : "%lld groups cannot be divided into %d folds: use fewer folds or smaller groups",
            (long long)g->group_count, g->folds);
    return CST_OK;
}

/* Counts of every (group, class) pair that occurs, and the totals of the classes. */
static cst_status count_shares(cst_context *context, int64_t rows, keyed *scratch, grouping *g) {
    for (int64_t i = 0; i < rows; i++) { /* below 2^63: both factors are at most `rows` */
        cst_trim_item(context, i);
        scratch[i] = (keyed){.key = g->member_of[i] * g->label_count + g->dense[i], .row = i};
    }
    cst_status status = cst_sort(context, scratch, (size_t)rows, sizeof *scratch, by_key);
    if (status != CST_OK)
        return status;
    int64_t used = 0;
    for (int64_t first = 0, end = 0; first < rows; first = end, used++) {
        end = run_end(context, scratch, rows, first);
        group *owner = &g->group_list[scratch[first].key / g->label_count];
        int64_t label = scratch[first].key % g->label_count;
        if (owner->shares++ == 0)
            owner->first_share = used;
        owner->rows += end - first;
        g->shares[used] = (share){.label = label, .count = end - first};
        g->totals[label] += end - first;
    }
    return CST_OK;
}

static int larger_first(const void *a, const void *b) {
    const group *x = *(const group *const *)a;
    const group *y = *(const group *const *)b;
    if (x->rows != y->rows)
        return x->rows > y->rows ? -1 : 1;
    return (x->shuffled > y->shuffled) - (x->shuffled < y->shuffled);
}

/* Standard deviation over the folds of the shares of one class, with `extra` rows added to `fold`.
 */
static double spread(const grouping *g, int64_t label, int32_t fold, int64_t extra) {
    const int64_t *counts = g->counts + label * g->folds;
    double sum = 0;
    double squares = 0;
    for (int32_t f = 0; f < g->folds; f++) {
        double count = (double)(counts[f] + (f == fold ? extra : 0));
        sum += count;
        squares += count * count;
    }
    double mean = sum / g->folds;
    double variance = squares / g->folds - mean * mean;
    return sqrt(variance > 0 ? variance : 0) / (double)g->totals[label];
}

/* The fold that leaves the classes of a group spread most evenly; of equally good ones that with
 * the fewest rows, then the first. An empty fold is never worse than another one. */
static int32_t best_fold(const grouping *g, const group *candidate) {
    int32_t best = 0;
    double least = INFINITY;
    for (int32_t fold = 0; fold < g->folds; fold++) {
        double change = 0; /* classes that the group lacks stay as they are */
        for (int64_t s = 0; s < candidate->shares; s++) {
            const share *one = &g->shares[candidate->first_share + s];
            change += spread(g, one->label, fold, one->count) - spread(g, one->label, -1, 0);
        }
        double slack = 1e-9 * (fabs(least) + 1.0 / (double)g->label_count) * (least < INFINITY);
        if (least == INFINITY || change < least - slack ||
            (change <= least + slack && g->fold_rows[fold] < g->fold_rows[best])) {
            best = fold;
            least = change;
        }
    }
    return best;
}

static cst_status place_groups(cst_context *context, uint64_t seed, grouping *g) {
    size_t count = (size_t)g->group_count;
    group **order = cst_alloc(context, count, sizeof *order);
    int64_t *shuffled = cst_alloc(context, count, sizeof *shuffled);
    cst_status status = order && shuffled ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK) {
        cst_rng rng;
        cst_rng_init(&rng, seed, CST_STREAM_FOLDS, 1);
        for (size_t i = 0; i < count; i++)
            shuffled[i] = (int64_t)i;
        cst_rng_shuffle(&rng, shuffled, g->group_count);
        for (size_t i = 0; i < count; i++) {
            g->group_list[i].shuffled = shuffled[i];
            order[i] = &g->group_list[i];
        }
        qsort(order, count, sizeof(group *), larger_first);
        for (size_t i = 0; i < count; i++) {
            group *next = order[i];
            next->fold = best_fold(g, next);
            g->fold_rows[next->fold] += next->rows;
            for (int64_t s = 0; s < next->shares; s++) {
                const share *one = &g->shares[next->first_share + s];
                g->counts[one->label * g->folds + next->fold] += one->count;
            }
        }
    }
    cst_free(context, shuffled);
    cst_free(context, order);
    return status;
}

static cst_status grouping_alloc(cst_context *context, int64_t rows, grouping *g) {
    size_t cells = 0;
    if (!cst_size_mul((size_t)g->label_count, (size_t)g->folds, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many classes (%lld) in %d folds",
                        (long long)g->label_count, g->folds);
    g->group_list = cst_alloc(context, (size_t)g->group_count, sizeof *g->group_list);
    g->shares = cst_alloc(context, (size_t)rows, sizeof *g->shares);
    g->totals = cst_alloc(context, (size_t)g->label_count, sizeof *g->totals);
    g->counts = cst_alloc(context, cells, sizeof *g->counts);
    g->fold_rows = cst_alloc(context, (size_t)g->folds, sizeof *g->fold_rows);
    return g->group_list && g->shares && g->totals && g->counts && g->fold_rows ? CST_OK
                                                                                : CST_ERROR_MEMORY;
}

cst_status cst_folds_grouped(cst_context *context, const int32_t *labels, const int64_t *groups,
                             int64_t rows, int32_t folds, uint64_t seed, int32_t *out) {
    CST_ENTER(context);
    CST_FITS(context, rows, 1, sizeof(*labels));
    if (!labels || !groups || !out)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_folds_grouped: labels, groups and folds are required");
    cst_status status = check_sizes(context, labels, rows, folds);
    if (status != CST_OK)
        return status;
    grouping g = {.folds = folds};
    keyed *sorted = sort_by_label(context, labels, rows);
    g.dense = cst_alloc(context, (size_t)rows, sizeof *g.dense);
    g.member_of = cst_alloc(context, (size_t)rows, sizeof *g.member_of);
    if (!sorted || !g.dense || !g.member_of) {
        status = CST_ERROR_MEMORY;
        goto cleanup;
    }
    g.label_count = number_keys(context, sorted, rows, g.dense);
    notice_small(context, sorted, rows, folds);
    status = number_groups(context, groups, rows, sorted, &g);
    CST_THEN(grouping_alloc(context, rows, &g));
    if (status != CST_OK)
        goto cleanup;
    status = count_shares(context, rows, sorted, &g);
    CST_THEN(place_groups(context, seed, &g));
    for (int64_t i = 0; status == CST_OK && i < rows; i++) {
        cst_trim_item(context, i);
        out[i] = g.group_list[g.member_of[i]].fold;
    }
cleanup:
    cst_free(context, sorted);
    grouping_free(context, &g);
    return cst_why(context, status);
}

/* ---- the check of given folds ---- */

int32_t cst_folds_count(const int32_t *folds, int64_t rows) {
    int32_t largest = -1;
    for (int64_t i = 0; i < rows; i++)
        if (folds[i] > largest)
            largest = folds[i];
    return largest < INT32_MAX ? largest + 1 : INT32_MAX;
}

static cst_status check_numbering(cst_context *context, const int32_t *folds, int64_t rows,
                                  int32_t count) {
    for (int64_t i = 0; i < rows; i++)
        if (folds[i] < 0)
            return cst_fail(context, CST_ERROR_INPUT,
                            "fold of row %lld is %d: folds must be numbered from 0", (long long)i,
                            folds[i]);
    if (count < 2)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the fold vector has %d fold: at least 2 are needed; or leave it out, and "
                        "folds are made automatically",
                        count);
    if (count > rows)
        return cst_fail(context, CST_ERROR_INPUT,
                        "the fold vector contains fold %d, but there are only %lld rows: number "
                        "the folds 0, 1, ... without gaps",
                        count - 1, (long long)rows);
    bool *seen = cst_alloc(context, (size_t)count, sizeof *seen);
    if (!seen)
        return CST_ERROR_MEMORY;
    for (int64_t i = 0; i < rows; i++) {
        cst_trim_item(context, i);
        seen[folds[i]] = true;
    }
    cst_status status = CST_OK;
    for (int32_t f = 0; status == CST_OK && f < count; f++)
        if (!seen[f])
            status =
                cst_fail(context, CST_ERROR_INPUT,
                         "fold %d of 0..%d has no rows: number the folds 0, 1, ... without gaps", f,
                         count - 1);
    cst_free(context, seen);
    return status;
}

cst_status cst_folds_check(cst_context *context, const int32_t *folds, const int32_t *labels,
                           int64_t rows) {
    int32_t count = cst_folds_count(folds, rows);
    cst_status status = check_numbering(context, folds, rows, count);
    if (status != CST_OK || !labels)
        return status;
    keyed *sorted = sort_by_label(context, labels, rows);
    int64_t *last_seen = cst_alloc(context, (size_t)count, sizeof *last_seen);
    if (!sorted || !last_seen) {
        status = CST_ERROR_MEMORY;
        goto cleanup;
    }
    name_list absent = {.count = 0};
    name_list alone = {.count = 0};
    for (int64_t first = 0, end = 0; first < rows; first = end) {
        end = run_end(context, sorted, rows, first);
        int32_t present = 0; /* folds with this class; last_seen holds 1 + the run's start */
        for (int64_t i = first; i < end; i++) {
            cst_trim_item(context, i);
            int64_t *mark = &last_seen[folds[sorted[i].row]];
            present += *mark != first + 1;
            *mark = first + 1;
        }
        if (present == 1)
            name_list_add(&alone, sorted[first].key);
        else if (present < count)
            name_list_add(&absent, sorted[first].key);
    }
    char who[192];
    if (alone.count > 0) {
        name_list_say(&alone, who, sizeof who);
        cst_notice(context,
                   "%s: all rows are in one fold, so a fit without that fold never sees it", who);
    }
    if (absent.count > 0) {
        name_list_say(&absent, who, sizeof who);
        cst_notice(context, "%s: at least one of the %d folds has no row", who, count);
    }
cleanup:
    cst_free(context, last_seen);
    cst_free(context, sorted);
    return cst_why(context, status);
}
