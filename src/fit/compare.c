/* The leaderboard of any task: methods on the same rows, also repeated. */
#include "data/pool/pool.h"
#include "data/pool/spatial.h"
#include "fit/harness.h"
#include "report/report.h"

#include "stats/statistics.h"

#include <math.h>
#include <string.h>

enum { FEWEST_FOR_RANKS = 3 };

static const char OOF[] = "oof";

typedef struct comparison {
    cst_evaluation e;
    cst_entry *entries; /* [count] */
    int32_t count;
    int32_t reference;
    cst_intervals intervals;
    double seconds_methods;
    double seconds_intervals;
} comparison;

static cst_status find_reference(cst_context *context, comparison *c) {
    const char *given = c->e.options->reference;
    c->reference = cst_entries_find(c->entries, c->count, given ? given : "default");
    if (c->reference < 0 && given)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the reference '%.60s' is not one of the compared methods", given);
    c->reference = c->reference < 0 ? 0 : c->reference;
    return CST_OK;
}

static cst_status list_methods(cst_context *context, cst_scope *scope, comparison *c) {
    CST_TRY(
        cst_entries_list(context, scope, &c->e, c->e.ops->default_methods, &c->entries, &c->count));
    if (c->count == 0)
        return cst_fail(context, CST_ERROR_INPUT, "no method can be fitted on this pool");
    CST_TRY(cst_entries_add_own(context, &c->e, c->entries, &c->count));
    return find_reference(context, c);
}

static void remove_method(cst_context *context, comparison *c, int32_t m) {
    cst_entry *entry = &c->entries[m];
    cst_entry_free(context, entry);
    memmove(entry, entry + 1, (size_t)(--c->count - m) * sizeof *entry);
    c->entries[c->count] = (cst_entry){0};
    if (c->reference == m)
        c->reference = 0;
    else if (c->reference > m)
        c->reference--;
}

/* Of the time that the methods from `m` on take: presets run longest. */
static double share_of(const comparison *c, int32_t m) {
    double sum = 0;
    for (int32_t i = m; i < c->count; i++)
        sum += c->entries[i].preset ? 10 : 1;
    return (c->entries[m].preset ? 10 : 1) / sum;
}

static cst_status run_methods(cst_context *context, cst_scope *scope, comparison *c) {
    double start = cst_seconds();
    double end = cst_part_begin(context, 0.9);
    for (int32_t m = 0; m < c->count; m++) {
        cst_entry *entry = &c->entries[m];
        double rest = cst_part_begin(context, share_of(c, m));
        CST_TRY(cst_progress(context, entry->name, m, c->count));
        cst_status status = entry->own ? CST_OK : cst_entry_run(context, &c->e, NULL, entry);
        cst_part_end(context, rest);
        if (status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC ||
            status == CST_ERROR_UNSUPPORTED) {
            CST_TRY(cst_entry_leave_out(context, entry, c->count == 1, status));
            remove_method(context, c, m--);
            continue;
        }
        CST_TRY(status);
        if (!entry->own)
            CST_TRY(cst_entry_tell(context, &c->e, entry));
    }
    cst_part_end(context, end);
    c->seconds_methods = cst_seconds() - start;
    start = cst_seconds();
    CST_TRY(cst_intervals_make(context, scope, &c->e, c->entries, c->count, c->reference,
                               (int32_t)c->e.options->resamples, &c->intervals));
    c->seconds_intervals = cst_seconds() - start;
    return CST_OK;
}

/* Rank correlation of a condition number and the task's first score over the methods. */
static cst_status put_kappa(cst_context *context, cst_report *report, const comparison *c,
                            const char *name, bool cka) {
    json_t *root = cst_report_root(report);
    int32_t scores = 0;
    char key[40];
    (void)cst_snprintf(key, sizeof key, "%s_%s", name,
                       cst_task_scores(c->e.ops->task, &scores)->key);
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, x, c->count);
    CST_NEW(context, scope, double, y, c->count);
    bool varies[2] = {false, false};
    int32_t count = 0;
    for (int32_t m = 0; m < c->count; m++) {
        double kappa = cka ? c->entries[m].kappa_cka : c->entries[m].kappa_gram;
        if (isnan(kappa)) /* a method that uses no member */
            continue;
        x[count] = kappa;
        y[count] = c->entries[m].scores[0];
        varies[0] = varies[0] || x[count] > x[0] || x[count] < x[0];
        varies[1] = varies[1] || y[count] > y[0] || y[count] < y[0];
        count++;
    }
    cst_rank_correlation found;
    if (count < FEWEST_FOR_RANKS || !varies[0] || !varies[1]) {
        cst_report_value(report, root, key, json_null());
        return CST_OK;
    }
    CST_TRY(cst_spearman(context, x, y, count, &found));
    json_t *object = cst_report_object(report, root, key);
    CST_PUT(report, object, CST_N("spearman", found.rho), CST_N("p", found.p),
            CST_B("exact", found.exact), CST_I("methods", count));
    return CST_OK;
}

static cst_status put_rows(cst_context *context, cst_report *report, const comparison *c) {
    json_t *list = cst_report_list(report, cst_report_root(report), "rows");
    CST_SCOPE(scope);
    CST_NEW(context, scope, json_t *, rows, c->count);
    for (int32_t m = 0; m < c->count; m++) {
        const cst_entry *entry = &c->entries[m];
        json_t *row = rows[m] = cst_report_add_object(report, list);
        CST_PUT(report, row, CST_S("method", entry->name), CST_S("definition", entry->definition),
                CST_S("detail", entry->detail));
        cst_report_value(report, row, "rank", json_null());
        CST_TRY(cst_put_scores(context, report, row, &c->e, entry, &c->intervals, m));
        if (m != c->reference)
            cst_put_difference(report, row, &c->e, &c->intervals, m);
        cst_put_weights(report, row, &c->e, entry);
        cst_put_cost(report, row, entry);
    }
    return c->e.ops->describe(context, CST_PART_MORE,
                              &(cst_description){report, cst_report_root(report), &c->e, c->entries,
                                                 rows, c->count, c->reference});
}

/* What rows are ranked by: the metric, else what is tested. */
static const char *ranking(const cst_evaluation *e) {
    int32_t scores = 0;
    if (e->metric.metric || e->named)
        return e->named ? e->named : e->metric.metric->shown.key;
    return e->ops->task == CST_TASK_CLASSIFICATION ? "nll"
                                                   : cst_task_scores(e->ops->task, &scores)->key;
}

static cst_status fill(cst_context *context, cst_report *report, const comparison *c,
                       double start) {
    json_t *root = cst_report_root(report);
    const cst_compare_options *o = c->e.options;
    cst_put_header(report, &c->e);
    if (o->resamples > 0)
        cst_report_integer(report, root, "resamples", (int32_t)o->resamples);
    cst_report_string(report, root, "reference", c->entries[c->reference].name);
    cst_report_string(report, root, "ranked_by", ranking(&c->e));
    if (o->ood)
        cst_report_string(report, root, "ood", o->ood);
    cst_put_score_definitions(report, &c->e);
    json_t *members = cst_report_list(report, root, "members");
    for (int32_t k = 0; k < c->e.members; k++)
        cst_report_add_string(report, members, cst_pool_member_name(c->e.pool, k));
    CST_TRY(put_rows(context, report, c));
    cst_report_rank(report);
    CST_TRY(cst_put_tests(context, report, &c->e, c->entries, c->count, c->reference, &c->intervals,
                          c->entries[c->reference].name));
    CST_TRY(put_kappa(context, report, c, "kappa_gram", false));
    CST_TRY(put_kappa(context, report, c, "kappa_cka", true));
    json_t *seconds = cst_report_object(report, root, "seconds");
    CST_PUT(report, seconds, CST_N("read", c->e.seconds_read), CST_N("methods", c->seconds_methods),
            CST_N("intervals", c->seconds_intervals), CST_N("total", cst_seconds() - start));
    return CST_OK;
}

/* One comparison. checked: before, with `findings` (or NULL), which are emptied. */
static cst_status compare_once(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                               const cst_compare_options *options, bool checked,
                               cst_findings *findings, cst_report *report) {
    double start = cst_seconds();
    comparison c = {.e.checked = checked};
    CST_SCOPE(scope);
    CST_OWN(context, scope, cst_evaluation, &c.e);
    double end = cst_part_begin(context, 0.1);
    CST_TRY(cst_evaluation_open(context, ops, pool, options, true, &c.e));
    cst_part_end(context, end);
    if (findings) {
        c.e.findings = *findings;
        *findings = (cst_findings){0};
    }
    CST_TRY(list_methods(context, scope, &c));
    CST_TRY(run_methods(context, scope, &c));
    return fill(context, report, &c, start);
}

typedef struct repeated {
    const cst_task_ops *ops;
    cst_pool *pool;
    const cst_compare_options *options;
    int32_t count;
    cst_report **reports; /* [count] */
    cst_findings findings;
} repeated;

static cst_status check_options(cst_context *context, const cst_compare_options *o) {
    if (o->splits < 0 || o->splits > CST_SPLITS_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT, "splits must be 1 to %d, got %d",
                        CST_SPLITS_MAX, (int)o->splits);
    if (!(o->holdout >= 0 && o->holdout < 1))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "holdout must be above 0 and below 1, got %g: 0.2 holds out a fifth of the "
                        "rows",
                        o->holdout);
    if (o->splits > 1 && o->seed + (uint64_t)o->splits - 1 > CST_SEED_MAX)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%d repetitions from seed %llu go beyond the largest seed, 2^53",
                        (int)o->splits, (unsigned long long)o->seed);
    if (o->holdout > 0 && o->split && strcmp(o->split, OOF) != 0)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "a holdout scores rows of split 'oof', so split '%.100s' cannot be scored "
                        "with it; leave one of them out",
                        o->split);
    if (o->predicted && (o->splits > 1 || o->holdout > 0))
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "predictions are saved of one comparison without a holdout; leave out "
                        "--save, or --splits and --holdout");
    return CST_OK;
}

/* What is named is there; the rows are checked as a whole, not by parts. */
static cst_status check_whole(cst_context *context, repeated *r) {
    cst_compare_options options = *r->options;
    cst_evaluation e = {0};
    options.split = OOF;
    cst_status status = cst_evaluation_open(context, r->ops, r->pool, &options, true, &e);
    r->findings = e.findings;
    e.findings = (cst_findings){0};
    cst_evaluation_close(context, &e);
    return status;
}

CST_RELEASED(cst_pool_parts, cst_pool_parts_free)

static cst_status run_part(cst_context *context, repeated *r, const cst_compare_options *options,
                           cst_report *report) {
    cst_compare_options own = *options;
    cst_pool_parts *parts = NULL;
    CST_SCOPE(scope);
    CST_TRY(cst_pool_divide(context, r->pool, OOF, options->holdout, options->seed, &parts));
    CST_OWN(context, scope, cst_pool_parts, parts);
    own.split = cst_parts_held(parts);
    CST_TRY(compare_once(context, r->ops, cst_parts_pool(parts), &own, true, &r->findings, report));
    const cst_division *division = cst_pool_division(cst_parts_pool(parts));
    json_t *root = cst_report_root(report);
    CST_PUT(report, root, CST_S("split", OOF), CST_N("holdout", options->holdout));
    cst_report_integers(report, root, "held_out", division->held_units, division->held_count);
    return CST_OK;
}

static cst_status run_one(cst_context *context, repeated *r, int32_t repetition,
                          cst_report *report) {
    cst_compare_options own = *r->options;
    own.seed += (uint64_t)repetition;
    if (own.holdout > 0)
        return run_part(context, r, &own, report);
    return compare_once(context, r->ops, r->pool, &own, repetition > 0, NULL, report);
}

/* Where the folds are given, and where all repetitions are equal. */
static void tell(cst_context *context, const repeated *r, bool equal) {
    const cst_cases *cases = cst_pool_cases(r->pool, OOF);
    bool folds = cst_pool_folds(r->pool, OOF) || (cases && cases->folds);
    if (r->options->holdout > 0)
        return;
    if (equal)
        cst_notice(context,
                   "all %d repetitions are equal, because nothing in them depends on the seed%s; "
                   "--holdout 0.2 repeats the fits on other rows",
                   (int)r->count, folds ? " (split 'oof' has its own folds)" : "");
    else if (folds)
        cst_notice(context,
                   "split 'oof' has its own folds, so the repetitions differ only in what the "
                   "methods draw at random; --holdout 0.2 repeats the fits on other rows");
}

static void release(cst_context *context, void *user) {
    repeated *r = user;
    for (int32_t i = 0; r->reports && i < r->count; i++)
        cst_report_free(context, r->reports[i]);
    cst_findings_free(context, &r->findings);
}

/* Predictions of the user's own are of the rows of one split, in their order. */
static cst_status check_own(cst_context *context, const repeated *r) {
    const cst_compare_options *o = r->options;
    const char *split = o->split ? o->split : OOF;
    bool several = strchr(split, ',') && !cst_pool_has_split(r->pool, split);
    for (int64_t i = 0; several && i < o->own_count; i++)
        if (!cst_pool_own_of_splits(r->pool, o->own[i].path))
            return cst_fail(context, CST_ERROR_UNSUPPORTED,
                            "predictions of your own '%.60s' are of the rows of one split, and "
                            "'%.100s' is several; give a file for each (--with "
                            "NAME=SPLIT:FILE,SPLIT:FILE), score one split, or leave out --with",
                            o->own[i].name, split);
    if (o->own_count == 0)
        return CST_OK;
    if (cst_pool_conditions(r->pool, split) > 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "--with gives predictions of the rows of a split without conditions, and "
                        "'%.100s' has some; score another split, or leave out --with",
                        split);
    if (o->splits > 1 || o->holdout > 0 || o->ood)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "--with gives predictions of the rows of one split; leave out --splits, "
                        "--holdout and --ood, or --with");
    return CST_OK;
}

/* Comparisons with ascending seeds and holdouts by the options; the report has their means. */
static cst_status run(cst_context *context, void *user, cst_report *report) {
    repeated *r = user;
    const cst_compare_options *options = r->options;
    bool equal = false;
    CST_SCOPE(scope);
    CST_TRY(check_options(context, options));
    CST_TRY(check_own(context, r));
    r->count = options->splits > 1 ? (int32_t)options->splits : 1;
    CST_TAKE(context, scope, r->reports, r->count);
    CST_TRY(cst_scope_own(context, scope, release, r));
    if (options->holdout > 0)
        CST_TRY(check_whole(context, r));
    if (r->count == 1)
        return run_one(context, r, 0, report);
    for (int32_t i = 0; i < r->count; i++) {
        CST_TRY(cst_report_begin(context, report->kind, &r->reports[i]));
        CST_TRY(run_one(context, r, i, r->reports[i]));
        CST_TRY(cst_report_finish(context, r->reports[i]));
    }
    CST_TRY(
        cst_report_means(context, report, (const cst_report *const *)r->reports, r->count, &equal));
    tell(context, r, equal);
    return CST_OK;
}

cst_status cst_run_compare(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                           const cst_compare_options *given, cst_report **report) {
    cst_compare_options options = *given;
    repeated r = {.ops = ops, .pool = pool, .options = &options};
    return cst_run_call(context, CST_REPORT_COMPARE, run, &r, report);
}
