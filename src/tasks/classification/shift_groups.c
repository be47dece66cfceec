/* Accuracy of classes by training count and of groups. docs/robustness.md#groups. */
#include "tasks/classification/classification.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Groups with fewer rows than this are named: an accuracy of so few says little. */
enum { FEW_ROWS = 20, NAMED_GROUPS = 8, LISTED_GROUPS = 100 };

static double weight_of(const cst_target *target, int64_t i) {
    return target->weights ? target->weights[i] : 1;
}

/* The sample's weight where a method is right, else 0, [samples]. */
static cst_status right_of(cst_context *context, const cst_shift *shift, int32_t m, double *right) {
    const cst_target *target = &shift->targets->list[0];
    CST_SCOPE(scope);
    cst_samples s;
    CST_TRY(cst_samples_make(context, scope, shift->methods[m].predicted[0], target->samples,
                             shift->classes, target->labels, &s));
    for (int64_t i = 0; i < target->samples; i++)
        right[i] = s.correct[i] ? weight_of(target, i) : 0;
    return CST_OK;
}

enum { BALANCED, HEAD, MID, TAIL, PARTS };

static const char *const PART_NAMES[PARTS] = {"balanced_accuracy", "accuracy_head", "accuracy_mid",
                                              "accuracy_tail"};

static cst_status limits(cst_context *context, const cst_shift *shift, int64_t *head,
                         int64_t *tail) {
    bool given = shift->head_above != 0 || shift->tail_below != 0;
    *head = shift->head_above > 0 ? shift->head_above : CST_HEAD_ABOVE;
    *tail = shift->tail_below > 0 ? shift->tail_below : CST_TAIL_BELOW;
    if (given && !cst_pool_training_counts(shift->pool))
        return cst_fail(context, CST_ERROR_INPUT,
                        "head and tail classes are defined by the number of training samples, and "
                        "the manifest has no 'training_counts'");
    if (*tail - 1 > *head)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a class with %" PRId64 " training samples would be head (above %" PRId64
                        ") and tail (below %" PRId64
                        "); choose limits that no class can satisfy both of",
                        *tail - 1, *head, *tail);
    return CST_OK;
}

typedef struct class_parts {
    const cst_shift *shift;
    cst_ratio ratios[PARTS];
    double *part[PARTS]; /* [samples]: weight in the part, 0 outside; NULL: 1 */
    double *right;       /* [samples] */
    double *counted;     /* [PARTS][samples] */
} class_parts;

static cst_status draw_classes(cst_context *context, void *user, int32_t m, double *value,
                               double *drawn) {
    class_parts *c = user;
    size_t n = (size_t)c->shift->targets->list[0].samples;
    CST_TRY(right_of(context, c->shift, m, c->right));
    for (size_t s = 0; s < PARTS; s++) {
        double *to = c->counted + s * n;
        c->ratios[s].numerator = to;
        c->ratios[s].denominator = c->part[s];
        for (size_t i = 0; i < n; i++)
            to[i] = c->part[s] && c->part[s][i] <= 0 ? 0 : c->right[i];
    }
    return cst_ratios_bootstrap(context, c->ratios, PARTS, (int64_t)n, c->shift->resamples,
                                c->shift->seed, value, drawn);
}

static int part_of(int64_t count, int64_t head, int64_t tail) {
    if (count > head)
        return HEAD;
    return count < tail ? TAIL : MID;
}

/* "classes": limits, and how many classes and samples are in each part. */
static void put_limits(const cst_shift *shift, int64_t head, int64_t tail, const int64_t *samples) {
    static const char *const names[PARTS] = {NULL, "head", "mid", "tail"};
    const int64_t *counts = cst_pool_training_counts(shift->pool);
    int64_t classes[PARTS] = {0};
    for (int32_t c = 0; c < shift->classes; c++)
        classes[part_of(counts[c], head, tail)]++;
    json_t *at =
        cst_report_object(shift->report, cst_report_root(shift->report), "training_counts");
    CST_PUT(shift->report, at, CST_I("head_above", head), CST_I("tail_below", tail));
    for (int p = HEAD; p < PARTS; p++) {
        json_t *part = cst_report_object(shift->report, at, names[p]);
        CST_PUT(shift->report, part, CST_I("classes", classes[p]), CST_I("samples", samples[p]));
    }
}

cst_status cst_shift_classes(cst_context *context, const cst_shift *shift) {
    const cst_target *target = &shift->targets->list[0];
    const int64_t *counts = cst_pool_training_counts(shift->pool);
    size_t n = (size_t)target->samples;
    int64_t head = 0;
    int64_t tail = 0;
    int64_t samples[PARTS] = {0};
    class_parts c = {
        .shift = shift,
        .ratios = {[BALANCED] = {.groups = target->labels, .group_count = shift->classes}}};
    CST_SCOPE(scope);
    CST_TRY(limits(context, shift, &head, &tail));
    if (!counts)
        return CST_OK;
    CST_NEW(context, scope, double, inside, (PARTS * n));
    for (int p = HEAD; p < PARTS; p++)
        c.part[p] = inside + (size_t)p * n;
    c.part[BALANCED] = target->weights ? inside : NULL;
    for (size_t i = 0; i < n; i++) {
        int p = part_of(counts[target->labels[i]], head, tail);
        inside[i] = c.part[p][i] = weight_of(target, (int64_t)i);
        samples[p]++;
    }
    CST_TAKE(context, scope, c.right, n);
    CST_TAKE(context, scope, c.counted, PARTS * n);
    CST_TRY(cst_shift_statistics(context, shift, PARTS, PART_NAMES, draw_classes, &c));
    put_limits(shift, head, tail, samples);
    return CST_OK;
}

typedef struct group_list {
    const cst_shift *shift;
    int64_t *ids;   /* [count], ascending */
    int64_t *rows;  /* [count] */
    int32_t *of;    /* [samples]: position of the row's group */
    double *right;  /* [count]: weight of the rows where a method is right */
    double *weight; /* [count]: of all rows */
    double *hits;   /* [samples]: weight where a method is right */
    double *inside; /* [samples]: weight in the group that is looked at */
    int32_t count;
} group_list;

static int32_t find_group(const group_list *g, int64_t id) {
    int32_t first = 0;
    int32_t end = g->count;
    while (first < end) {
        int32_t middle = first + (end - first) / 2;
        if (g->ids[middle] < id)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

static cst_status list_groups(cst_context *context, cst_scope *scope, const cst_target *target,
                              group_list *out) {
    const int64_t *groups = target->groups;
    int64_t samples = target->samples;
    CST_TAKE(context, scope, out->ids, samples);
    CST_TAKE(context, scope, out->rows, samples);
    CST_TAKE(context, scope, out->right, samples);
    CST_TAKE(context, scope, out->of, samples);
    CST_TAKE(context, scope, out->weight, samples);
    for (int64_t i = 0; i < samples; i++) {
        int32_t at = find_group(out, groups[i]);
        if (at < out->count && out->ids[at] == groups[i])
            continue;
        memmove(out->ids + at + 1, out->ids + at, (size_t)(out->count - at) * sizeof *out->ids);
        out->ids[at] = groups[i];
        out->count++;
    }
    for (int64_t i = 0; i < samples; i++) {
        out->of[i] = find_group(out, groups[i]);
        out->rows[out->of[i]]++;
        out->weight[out->of[i]] += weight_of(target, i);
    }
    return CST_OK;
}

static void tell_small(cst_context *context, const group_list *g) {
    char names[NAMED_GROUPS * 24] = "";
    int32_t small = 0;
    for (int32_t i = 0; i < g->count; i++) {
        size_t used = strlen(names);
        if (g->rows[i] >= FEW_ROWS)
            continue;
        if (small++ < NAMED_GROUPS)
            (void)cst_snprintf(names + used, sizeof names - used, "%s%" PRId64, used ? ", " : "",
                               g->ids[i]);
    }
    if (small > 0)
        cst_notice(context,
                   "%d of %d groups have fewer than %d rows (%s%s): the accuracy of the worst "
                   "group may be due to chance",
                   (int)small, (int)g->count, FEW_ROWS, names, small > NAMED_GROUPS ? ", ..." : "");
}

/* The group of a method's lowest accuracy, the first of equal ones. */
static int32_t find_worst(const group_list *g, const double *right, int64_t samples) {
    int32_t worst = 0;
    memset(g->right, 0, (size_t)g->count * sizeof *g->right);
    for (int64_t i = 0; i < samples; i++)
        g->right[g->of[i]] += right[i];
    for (int32_t i = 1; i < g->count; i++)
        if (g->right[i] * g->weight[worst] < g->right[worst] * g->weight[i])
            worst = i;
    return worst;
}

typedef struct group_scores {
    double top1, nll;
    int64_t id, rows;
} group_scores;

CST_BY(lowest_first, group_scores, (x->rows < FEW_ROWS) - (y->rows < FEW_ROWS), CST_UP(top1),
       CST_UP(id))

/* The groups of lowest accuracy; those of few rows come last. */
static cst_status put_groups(cst_context *context, const group_list *g, int32_t m) {
    const cst_shift *shift = g->shift;
    const cst_target *target = &shift->targets->list[0];
    CST_SCOPE(scope);
    cst_samples s;
    CST_TRY(cst_samples_make(context, scope, shift->methods[m].predicted[0], target->samples,
                             shift->classes, target->labels, &s));
    CST_NEW(context, scope, group_scores, scores, g->count);
    for (int64_t i = 0; i < target->samples; i++) {
        group_scores *of = &scores[g->of[i]];
        of->top1 += s.correct[i] ? weight_of(target, i) : 0;
        of->nll += s.nll[i] * weight_of(target, i);
    }
    for (int32_t k = 0; k < g->count; k++) {
        double weight = g->weight[k];
        scores[k] = (group_scores){.id = g->ids[k],
                                   .rows = g->rows[k],
                                   .top1 = weight > 0 ? scores[k].top1 / weight : INFINITY,
                                   .nll = weight > 0 ? scores[k].nll / weight : INFINITY};
    }
    qsort(scores, (size_t)g->count, sizeof *scores, lowest_first);
    json_t *list = cst_report_list(shift->report, shift->methods[m].row, "group_scores");
    for (int32_t k = 0; k < g->count && k < LISTED_GROUPS; k++) {
        json_t *at = cst_report_add_object(shift->report, list);
        CST_PUT(shift->report, at, CST_I("group", scores[k].id), CST_I("samples", scores[k].rows),
                CST_N("top1", scores[k].top1), CST_N("nll", scores[k].nll));
    }
    return CST_OK;
}

/* The interval is that of the group that is the worst one, drawn as often as its rows are. */
static cst_status put_worst(cst_context *context, void *user, int32_t m, double *value,
                            double *drawn) {
    const group_list *g = user;
    const cst_shift *shift = g->shift;
    const cst_target *target = &shift->targets->list[0];
    json_t *row = shift->methods[m].row;
    double *right = g->hits;
    double *inside = g->inside;
    if (row == cst_report_root(shift->report)) /* an evaluation */
        CST_TRY(put_groups(context, g, m));
    CST_TRY(right_of(context, shift, m, right));
    int32_t worst = find_worst(g, right, target->samples);
    for (int64_t i = 0; i < target->samples; i++) {
        bool in = g->of[i] == worst;
        inside[i] = in ? weight_of(target, i) : 0;
        right[i] = in ? right[i] : 0;
    }
    CST_PUT(shift->report, row, CST_I("worst_group", g->ids[worst]),
            CST_I("worst_group_samples", g->rows[worst]));
    const cst_ratio ratio = {.numerator = right, .denominator = inside};
    return cst_ratios_bootstrap(context, &ratio, 1, target->samples, shift->resamples, shift->seed,
                                value, drawn);
}

cst_status cst_shift_groups(cst_context *context, const cst_shift *shift) {
    static const char *const names[] = {"worst_group_accuracy"};
    const cst_target *target = &shift->targets->list[0];
    CST_SCOPE(scope);
    group_list groups = {.shift = shift};
    CST_TAKE(context, scope, groups.hits, target->samples);
    CST_TAKE(context, scope, groups.inside, target->samples);
    CST_TRY(list_groups(context, scope, target, &groups));
    CST_TRY(cst_shift_statistics(context, shift, 1, names, put_worst, &groups));
    cst_report_integer(shift->report, cst_report_root(shift->report), "groups", groups.count);
    tell_small(context, &groups);
    return CST_OK;
}
