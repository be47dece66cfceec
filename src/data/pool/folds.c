/* Stratified and grouped folds, those of a regression and those inside of a fold, and the check of
 * given ones. Stage S0, before anything is fitted.
 * Paper: the stratified L-fold partition; docs/method.md#s0-rows-folds-ids. */
#include "data/pool/pool.h"

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

CST_BY(by_key, keyed, CST_UP(key), CST_UP(row), 0)

/* Rows sorted by key, ascending rows within a key; `sorted` has their keys and rows. */
static cst_status sort_keys(cst_context *context, keyed *sorted, int64_t rows) {
    return cst_sort(context, sorted, (size_t)rows, sizeof *sorted, by_key);
}

static cst_status sort_by_label(cst_context *context, cst_scope *scope, const int32_t *labels,
                                int64_t rows, keyed **out) {
    CST_TAKE(context, scope, *out, rows);
    for (int64_t i = 0; i < rows; i++) {
        cst_trim_item(context, i);
        (*out)[i] = (keyed){.key = labels[i], .row = i};
    }
    return sort_keys(context, *out, rows);
}

/* End of the run of equal keys that starts at `first`. */
static int64_t run_end(cst_context *context, const keyed *sorted, int64_t rows, int64_t first) {
    int64_t end = first + 1;
    while (end < rows && sorted[end].key == sorted[first].key)
        cst_trim_item(context, end++);
    return end;
}

static cst_status check_sizes(cst_context *context, int64_t rows, int32_t folds) {
    if (folds < 2)
        return cst_fail(context, CST_ERROR_ARGUMENT, "%d folds requested: at least 2 are needed",
                        folds);
    if (rows < folds)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%lld rows cannot be divided into %d folds: use fewer folds or more rows",
                        (long long)rows, folds);
    return CST_OK;
}

static cst_status check_labels(cst_context *context, const int32_t *labels, int64_t rows) {
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
static cst_status make_stratified(cst_context *context, const int32_t *labels, int64_t rows,
                                  int32_t folds, uint64_t seed, int32_t *out) {
    keyed *sorted;
    cst_rng rng;
    CST_SCOPE(scope);
    CST_TRY(check_sizes(context, rows, folds));
    CST_TRY(check_labels(context, labels, rows));
    CST_TRY(sort_by_label(context, scope, labels, rows, &sorted));
    CST_NEW(context, scope, int64_t, order, rows);
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
    return CST_OK;
}

cst_status cst_folds_stratified(cst_context *context, const int32_t *labels, int64_t rows,
                                int32_t folds, uint64_t seed, int32_t *out) {
    CST_ENTER(context);
    CST_FITS(context, rows, 1, sizeof(*labels));
    CST_NEED(context, labels && out, "labels and folds are required");
    return cst_why(context, make_stratified(context, labels, rows, folds, seed, out));
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
    CST_TRY(sort_keys(context, scratch, rows));
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
    CST_TRY(sort_keys(context, scratch, rows));
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
    cst_rng rng;
    CST_SCOPE(scope);
    CST_NEW(context, scope, group *, order, count);
    CST_NEW(context, scope, int64_t, shuffled, count);
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
    return CST_OK;
}

static cst_status grouping_take(cst_context *context, cst_scope *scope, int64_t rows, grouping *g) {
    size_t cells = 0;
    if (!cst_size_mul((size_t)g->label_count, (size_t)g->folds, &cells))
        return cst_fail(context, CST_ERROR_LIMIT, "too many classes (%lld) in %d folds",
                        (long long)g->label_count, g->folds);
    CST_TAKE(context, scope, g->group_list, g->group_count);
    CST_TAKE(context, scope, g->shares, rows);
    CST_TAKE(context, scope, g->totals, g->label_count);
    CST_TAKE(context, scope, g->counts, cells);
    CST_TAKE(context, scope, g->fold_rows, g->folds);
    return CST_OK;
}

static cst_status make_grouped(cst_context *context, const int32_t *labels, const int64_t *groups,
                               int64_t rows, int32_t folds, uint64_t seed, int32_t *out) {
    grouping g = {.folds = folds};
    keyed *sorted;
    CST_SCOPE(scope);
    CST_TRY(check_sizes(context, rows, folds));
    CST_TRY(check_labels(context, labels, rows));
    CST_TRY(sort_by_label(context, scope, labels, rows, &sorted));
    CST_TAKE(context, scope, g.dense, rows);
    CST_TAKE(context, scope, g.member_of, rows);
    g.label_count = number_keys(context, sorted, rows, g.dense);
    notice_small(context, sorted, rows, folds);
    CST_TRY(number_groups(context, groups, rows, sorted, &g));
    CST_TRY(grouping_take(context, scope, rows, &g));
    CST_TRY(count_shares(context, rows, sorted, &g));
    CST_TRY(place_groups(context, seed, &g));
    for (int64_t i = 0; i < rows; i++) {
        cst_trim_item(context, i);
        out[i] = g.group_list[g.member_of[i]].fold;
    }
    return CST_OK;
}

cst_status cst_folds_grouped(cst_context *context, const int32_t *labels, const int64_t *groups,
                             int64_t rows, int32_t folds, uint64_t seed, int32_t *out) {
    CST_ENTER(context);
    CST_FITS(context, rows, 1, sizeof(*labels));
    CST_NEED(context, labels && groups && out, "labels, groups and folds are required");
    return cst_why(context, make_grouped(context, labels, groups, rows, folds, seed, out));
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
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, seen, count);
    for (int64_t i = 0; i < rows; i++) {
        cst_trim_item(context, i);
        seen[folds[i]] = true;
    }
    for (int32_t f = 0; f < count; f++)
        if (!seen[f])
            return cst_fail(context, CST_ERROR_INPUT,
                            "fold %d of 0..%d has no rows: number the folds 0, 1, ... without gaps",
                            f, count - 1);
    return CST_OK;
}

cst_status cst_folds_check(cst_context *context, const int32_t *folds, const int32_t *labels,
                           int64_t rows) {
    int32_t count = cst_folds_count(folds, rows);
    keyed *sorted;
    CST_SCOPE(scope);
    CST_TRY(check_numbering(context, folds, rows, count));
    if (!labels)
        return CST_OK;
    CST_TRY(sort_by_label(context, scope, labels, rows, &sorted));
    CST_NEW(context, scope, int64_t, last_seen, count);
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
    return CST_OK;
}

/* ---- a regression: every stretch of similar targets is spread over all folds ---- */

typedef struct ranked {
    double key;
    int64_t row;
} ranked;

CST_BY(by_rank, ranked, CST_UP(key), CST_UP(row), 0)

/* Labels of a multilabel pool may be unknown. */
static double or_zero(double target) {
    return isnan(target) ? 0 : target;
}

/* Sum over the outputs of the target in standard deviations from its mean. */
static void make_keys(const double *targets, int64_t rows, int32_t outputs, ranked *out) {
    for (int64_t i = 0; i < rows; i++)
        out[i] = (ranked){.row = i};
    for (int32_t d = 0; d < outputs; d++) {
        double mean = 0;
        double square = 0;
        for (int64_t i = 0; i < rows; i++)
            mean += or_zero(targets[i * outputs + d]) / (double)rows;
        for (int64_t i = 0; i < rows; i++) {
            double off = or_zero(targets[i * outputs + d]) - mean;
            square += off * off / (double)rows;
        }
        for (int64_t i = 0; square > 0 && i < rows; i++)
            out[i].key += (or_zero(targets[i * outputs + d]) - mean) / sqrt(square);
    }
}

cst_status cst_target_stretches(cst_context *context, const double *targets, int32_t outputs,
                                int64_t rows, int64_t count, int32_t *out) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, ranked, order, rows);
    make_keys(targets, rows, outputs, order);
    CST_TRY(cst_sort(context, order, (size_t)rows, sizeof *order, by_rank));
    count = count < 1 ? 1 : count;
    int64_t length = rows / count > 1 ? rows / count : 1;
    for (int64_t i = 0; i < rows; i++)
        out[order[i].row] = (int32_t)(i / length < count ? i / length : count - 1);
    return CST_OK;
}

static cst_status make_quantile(cst_context *context, const double *targets, int32_t outputs,
                                const int64_t *groups, int64_t rows, int32_t folds, uint64_t seed,
                                int32_t *out) {
    CST_SCOPE(scope);
    CST_TRY(check_sizes(context, rows, folds));
    CST_NEW(context, scope, int32_t, stretch, rows);
    /* Each stretch has as many rows as there are folds; the last one has what is left over. */
    int64_t count = rows / folds < INT32_MAX ? rows / folds : INT32_MAX;
    if (groups && count > CST_GROUP_STRETCHES)
        count = CST_GROUP_STRETCHES;
    CST_TRY(cst_target_stretches(context, targets, outputs, rows, count, stretch));
    return groups ? make_grouped(context, stretch, groups, rows, folds, seed, out)
                  : make_stratified(context, stretch, rows, folds, seed, out);
}

cst_status cst_folds_quantile(cst_context *context, const double *targets, int64_t outputs_given,
                              const int64_t *groups, int64_t rows, int32_t folds, uint64_t seed,
                              int32_t *out) {
    CST_ENTER(context);
    CST_COUNT(context, outputs, outputs_given);
    CST_NEED(context, targets && out && outputs > 0, "targets and folds are required");
    CST_FITS(context, rows, outputs, sizeof *targets);
    return cst_why(context,
                   make_quantile(context, targets, outputs, groups, rows, folds, seed, out));
}

/* ---- folds for the rows that a fold leaves ---- */

/* Two new folds, stratified by label, or by target where the view has targets. */
static cst_status make_two(cst_context *context, const cst_view *in, uint64_t seed, int32_t *out) {
    size_t rows = (size_t)in->rows;
    size_t outputs = (size_t)in->classes;
    double *targets;
    CST_SCOPE(scope);
    CST_NEW(context, scope, int32_t, labels, in->targets ? 0 : rows);
    CST_TAKE(context, scope, targets, in->targets ? rows * outputs : 0);
    CST_NEW(context, scope, int64_t, groups, in->groups ? rows : 0);
    for (int64_t i = 0; i < in->rows; i++) {
        if (in->targets)
            memcpy(targets + (size_t)i * outputs, cst_view_target(in, i),
                   outputs * sizeof *targets);
        else
            labels[i] = cst_view_label(in, i);
        if (in->groups)
            groups[i] = in->groups[in->index ? in->index[i] : i];
    }
    if (in->binary)
        return cst_folds_labels(context, targets, in->classes, in->groups ? groups : NULL, in->rows,
                                2, seed, out);
    if (in->targets)
        return make_quantile(context, targets, in->classes, in->groups ? groups : NULL, in->rows, 2,
                             seed, out);
    return in->groups ? make_grouped(context, labels, groups, in->rows, 2, seed, out)
                      : make_stratified(context, labels, in->rows, 2, seed, out);
}

cst_status cst_folds_inside(cst_context *context, const cst_view *in, const int32_t *folds,
                            int64_t rows, int32_t fold_count, int32_t fold, uint64_t seed,
                            int32_t **out, int32_t *count) {
    *out = cst_alloc(context, (size_t)in->rows, sizeof **out);
    if (!*out)
        return CST_ERROR_MEMORY;
    *count = fold_count > 2 ? fold_count - 1 : 2;
    for (int64_t i = 0, to = 0; fold_count > 2 && i < rows; i++)
        if (folds[i] != fold)
            (*out)[to++] = folds[i] - (folds[i] > fold);
    cst_status status = fold_count > 2 ? CST_OK : make_two(context, in, seed, *out);
    if (status != CST_OK) {
        cst_free(context, *out);
        *out = NULL;
    }
    return status;
}
