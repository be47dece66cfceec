/*
 * The leaderboard of any task: every method on the same rows, intervals, differences and tests
 * against one of them. Paper: sections "Results" and "Condition Number as a Performance Predictor".
 */
#include "core/la.h"
#include "fit/harness.h"
#include "fit/repeat.h"

#include "stats/statistics.h"

#include <math.h>
#include <string.h>

enum { FEWEST_FOR_RANKS = 3 };

typedef struct comparison {
    cst_evaluation e;
    cst_entry *entries; /* [count] */
    int32_t count;
    int32_t reference;
    cst_intervals intervals;
    double seconds_methods;
    double seconds_intervals;
} comparison;

/* ---- which methods ---- */

static cst_status find_reference(cst_context *context, comparison *c) {
    const char *given = c->e.options->reference;
    c->reference = cst_entries_find(c->entries, c->count, given ? given : "default");
    if (c->reference < 0 && given)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the reference '%.60s' is not one of the compared methods", given);
    c->reference = c->reference < 0 ? 0 : c->reference;
    return CST_OK;
}

static cst_status list_methods(cst_context *context, comparison *c) {
    cst_status status =
        cst_entries_list(context, &c->e, c->e.ops->default_methods, &c->entries, &c->count);
    if (status == CST_OK && c->count == 0)
        status = cst_fail(context, CST_ERROR_INPUT, "no method can be fitted on this pool");
    CST_THEN(find_reference(context, c));
    return status;
}

/* ---- running ---- */

static void remove_method(cst_context *context, comparison *c, int32_t m) {
    cst_entries_remove(context, &c->e, c->entries, &c->count, m);
    if (c->reference == m)
        c->reference = 0;
    else if (c->reference > m)
        c->reference--;
}

static cst_status run_methods(cst_context *context, comparison *c) {
    double start = cst_seconds();
    cst_status status = CST_OK;
    for (int32_t m = 0; status == CST_OK && m < c->count;) {
        cst_entry *entry = &c->entries[m];
        status = cst_progress(context, entry->name, m, c->count);
        if (status != CST_OK)
            break;
        status = cst_entry_run(context, &c->e, NULL, entry);
        if (status == CST_OK)
            status = cst_entry_tell(context, &c->e, entry);
        else if (status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC ||
                 status == CST_ERROR_UNSUPPORTED) {
            status = cst_entry_leave_out(context, entry, c->count == 1, status);
            if (status == CST_OK)
                remove_method(context, c, m--);
        }
        m++;
    }
    c->seconds_methods = cst_seconds() - start;
    start = cst_seconds();
    CST_THEN(cst_intervals_make(context, &c->e, c->entries, c->count, c->reference,
                                c->e.options->resamples, &c->intervals));
    c->seconds_intervals = cst_seconds() - start;
    return status;
}

/* ---- tests ---- */

static void put_test(cst_report *report, json_t *list, const comparison *c, int32_t m,
                     const cst_pair_test *test, double adjusted) {
    json_t *t = cst_report_add_object(report, list);
    cst_report_string(report, t, "a", c->entries[c->reference].name);
    cst_report_string(report, t, "b", c->entries[m].name);
    cst_report_string(report, t, "metric", test->metric);
    char resampled[40];
    (void)cst_snprintf(resampled, sizeof resampled, "paired bootstrap over %s", c->e.ops->unit);
    cst_report_string(report, t, "test", test->test ? test->test : resampled);
    if (!isnan(test->df)) {
        cst_report_number(report, t, "statistic", test->statistic);
        cst_report_number(report, t, "df", test->df);
    }
    if (!isnan(test->difference))
        cst_report_number(report, t, "difference", test->difference);
    if (test->only_a >= 0) {
        cst_report_integer(report, t, "only_a", test->only_a);
        cst_report_integer(report, t, "only_b", test->only_b);
    }
    cst_report_number(report, t, "p", test->p);
    cst_report_number(report, t, "p_adjusted", adjusted);
}

/* Bonferroni for each metric over the tests that there are. adjusted: as tests. */
static cst_status adjust(cst_context *context, const comparison *c, const cst_pair_test *tests,
                         double *adjusted) {
    double *p = cst_alloc(context, (size_t)c->count, sizeof *p);
    cst_status status = p ? CST_OK : CST_ERROR_MEMORY;
    for (int t = 0; status == CST_OK && t < CST_PAIR_TESTS_MAX; t++) {
        int32_t count = 0;
        for (int32_t m = 0; m < c->count; m++)
            if (tests[m * CST_PAIR_TESTS_MAX + t].metric)
                p[count++] = tests[m * CST_PAIR_TESTS_MAX + t].p;
        cst_bonferroni(p, count);
        count = 0;
        for (int32_t m = 0; m < c->count; m++)
            if (tests[m * CST_PAIR_TESTS_MAX + t].metric)
                adjusted[m * CST_PAIR_TESTS_MAX + t] = p[count++];
    }
    cst_free(context, p);
    return status;
}

/* A paired t-test of each method's losses, and McNemar's test. */
static cst_status tests_of_losses(cst_context *context, const comparison *c, cst_pair_test *out) {
    CST_SCOPE(scope);
    cst_losses of[2] = {0};
    CST_TRY(c->e.ops->losses(context, scope, &c->e, &c->entries[c->reference], &of[0]));
    for (int32_t m = 0; of[0].samples > 1 && m < c->count; m++) {
        CST_SCOPE(own);
        cst_t_test t;
        cst_mcnemar_test top1;
        cst_pair_test *pair = &out[m * CST_PAIR_TESTS_MAX];
        if (m == c->reference)
            continue;
        CST_TRY(c->e.ops->losses(context, own, &c->e, &c->entries[m], &of[1]));
        CST_TRY(cst_paired_t_test(context, of[0].loss, of[1].loss, of[0].samples, &t));
        pair[0] = (cst_pair_test){.metric = of[0].metric,
                                  .test = "paired t",
                                  .statistic = t.t,
                                  .df = t.df,
                                  .difference = t.mean_difference,
                                  .only_a = -1,
                                  .only_b = -1,
                                  .p = t.p};
        if (!of[0].correct)
            continue;
        cst_mcnemar(of[0].correct, of[1].correct, of[0].samples, &top1);
        pair[1].metric = "top1";
        pair[1].test = top1.exact ? "McNemar exact" : "McNemar chi-square";
        pair[1].only_a = top1.only_first;
        pair[1].only_b = top1.only_second;
        pair[1].p = top1.p;
    }
    return CST_OK;
}

/* Scores that are tested by the bootstrap itself. */
static void tests_of_resamples(const comparison *c, cst_pair_test *out) {
    int32_t count = 0;
    const cst_score_spec *specs = cst_task_scores(c->e.ops->task, &count);
    for (int t = 0; t < CST_PAIR_TESTS_MAX && c->e.ops->tested[t]; t++)
        for (int32_t i = 0; i < c->count * count; i++) {
            cst_pair_test *test = &out[i / count * CST_PAIR_TESTS_MAX + t];
            if (i / count == c->reference || strcmp(specs[i % count].key, c->e.ops->tested[t]) != 0)
                continue;
            if (isnan(c->intervals.p[i])) /* the score is not defined on any resample */
                continue;
            test->metric = specs[i % count].key;
            test->difference = -c->intervals.difference[i].value; /* reference less method */
            test->p = c->intervals.p[i];
        }
}

static cst_status put_tests(cst_context *context, cst_report *report, const comparison *c) {
    json_t *root = cst_report_root(report);
    if (c->count < 2)
        return CST_OK;
    size_t cells = (size_t)c->count * CST_PAIR_TESTS_MAX;
    cst_pair_test *tests = cst_alloc(context, cells, sizeof *tests);
    double *adjusted = cst_alloc(context, cells, sizeof *adjusted);
    cst_status status = tests && adjusted ? CST_OK : CST_ERROR_MEMORY;
    for (size_t i = 0; status == CST_OK && i < cells; i++)
        tests[i] = (cst_pair_test){
            .statistic = NAN, .df = NAN, .difference = NAN, .only_a = -1, .only_b = -1, .p = NAN};
    if (c->e.ops->losses)
        CST_THEN(tests_of_losses(context, c, tests));
    else if (status == CST_OK && c->intervals.done)
        tests_of_resamples(c, tests);
    bool any = false;
    for (size_t i = 0; status == CST_OK && i < cells; i++)
        any = any || tests[i].metric;
    if (any)
        status = adjust(context, c, tests, adjusted);
    if (status == CST_OK && any) {
        json_t *list = cst_report_list(report, root, "tests");
        for (size_t i = 0; i < cells; i++)
            if (tests[i].metric)
                put_test(report, list, c, (int32_t)(i / CST_PAIR_TESTS_MAX), &tests[i],
                         adjusted[i]);
        cst_report_string(
            report, root, "adjustment",
            "Bonferroni over the methods compared with the reference, for each metric");
    }
    cst_free(context, tests);
    cst_free(context, adjusted);
    return status;
}

/* Rank correlation of a condition number and the task's first score over the methods. */
static cst_status put_kappa(cst_context *context, cst_report *report, const comparison *c,
                            const char *name, bool cka) {
    json_t *root = cst_report_root(report);
    int32_t scores = 0;
    char key[40];
    (void)cst_snprintf(key, sizeof key, "%s_%s", name,
                       cst_task_scores(c->e.ops->task, &scores)->key);
    double *x = cst_alloc(context, 2 * (size_t)c->count, sizeof *x);
    if (!x)
        return CST_ERROR_MEMORY;
    double *y = x + c->count;
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
    cst_status status = CST_OK;
    if (count < FEWEST_FOR_RANKS || !varies[0] || !varies[1]) {
        cst_report_value(report, root, key, json_null());
    } else {
        cst_rank_correlation found;
        status = cst_spearman(context, x, y, count, &found);
        json_t *object = cst_report_object(report, root, key);
        cst_report_number(report, object, "spearman", found.rho);
        cst_report_number(report, object, "p", found.p);
        cst_report_flag(report, object, "exact", found.exact);
        cst_report_integer(report, object, "methods", count);
    }
    cst_free(context, x);
    return status;
}

/* ---- document ---- */

static cst_status put_row(cst_context *context, cst_report *report, json_t *row,
                          const comparison *c, int32_t m) {
    const cst_entry *entry = &c->entries[m];
    cst_report_string(report, row, "method", entry->name);
    cst_report_string(report, row, "definition", entry->definition);
    cst_report_string(report, row, "detail", entry->detail);
    cst_status status = cst_put_scores(context, report, row, &c->e, entry, &c->intervals, m);
    if (m != c->reference)
        cst_put_difference(report, row, &c->e, &c->intervals, m);
    cst_put_weights(report, row, &c->e, entry);
    cst_put_cost(report, row, entry);
    return status;
}

static cst_status put_rows(cst_context *context, cst_report *report, const comparison *c) {
    json_t *list = cst_report_list(report, cst_report_root(report), "rows");
    json_t **rows = cst_alloc(context, (size_t)c->count, sizeof(json_t *));
    cst_status status = rows ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t m = 0; status == CST_OK && m < c->count; m++) {
        rows[m] = cst_report_add_object(report, list);
        status = put_row(context, report, rows[m], c, m);
    }
    CST_THEN(c->e.ops->describe(context, CST_PART_MORE,
                                &(cst_description){report, cst_report_root(report), &c->e,
                                                   c->entries, rows, c->count, c->reference}));
    cst_free(context, (void *)rows);
    return status;
}

static cst_status fill(cst_context *context, cst_report *report, const comparison *c,
                       double start) {
    json_t *root = cst_report_root(report);
    const cst_compare_options *o = c->e.options;
    cst_put_header(report, &c->e);
    if (o->resamples > 0)
        cst_report_integer(report, root, "resamples", o->resamples);
    cst_report_string(report, root, "reference", c->entries[c->reference].name);
    if (o->ood)
        cst_report_string(report, root, "ood", o->ood);
    cst_put_score_definitions(report, &c->e);
    json_t *members = cst_report_list(report, root, "members");
    for (int32_t k = 0; k < c->e.members; k++)
        cst_report_add_string(report, members, cst_pool_member_name(c->e.pool, k));
    cst_status status = put_rows(context, report, c);
    CST_THEN(put_tests(context, report, c));
    CST_THEN(put_kappa(context, report, c, "kappa_gram", false));
    CST_THEN(put_kappa(context, report, c, "kappa_cka", true));
    json_t *seconds = cst_report_object(report, root, "seconds");
    cst_report_number(report, seconds, "read", c->e.seconds_read);
    cst_report_number(report, seconds, "methods", c->seconds_methods);
    cst_report_number(report, seconds, "intervals", c->seconds_intervals);
    cst_report_number(report, seconds, "total", cst_seconds() - start);
    return status;
}

/* One comparison. */
static cst_status compare_once(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                               const cst_compare_options *options, bool checked,
                               cst_findings *findings, cst_report *report) {
    double start = cst_seconds();
    comparison c = {.e.checked = checked};
    cst_status status = cst_evaluation_open(context, ops, pool, options, true, &c.e);
    if (status == CST_OK && findings) {
        c.e.findings = *findings;
        *findings = (cst_findings){0};
    }
    CST_THEN(list_methods(context, &c));
    CST_THEN(run_methods(context, &c));
    CST_THEN(fill(context, report, &c, start));
    cst_entries_free(context, &c.e, c.entries, c.count);
    cst_intervals_free(context, &c.intervals);
    cst_evaluation_close(context, &c.e);
    return status;
}

cst_status cst_run_compare(cst_context *context, const cst_task_ops *ops, cst_pool *pool,
                           const cst_compare_options *given, cst_report **report) {
    cst_compare_options options = cst_options_or_default(given);
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_COMPARE, report);
    CST_THEN(cst_run_repeated(context, ops, pool, &options, compare_once, *report));
    cst_la_leave();
    return cst_finish_report(context, status, report);
}
