/*
 * The leaderboard of a regression: every method on the same rows, intervals, differences and paired
 * tests against one of them. Paper: section "Results"; method.md sections 6 and 8.
 */
#include "evaluation/rows.h"
#include "la/la.h"
#include "metrics/weighted.h"
#include "pool/counted.h"
#include "regression/check.h"
#include "regression/document.h"
#include "regression/methods.h"
#include "regression/redundant.h"
#include "regression/regression.h"

#include <corestack/statistics.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { METHODS_MAX = 64 };

typedef struct comparison {
    cst_pool *pool;
    const char *split;
    bool nested;
    cst_training source;
    cst_view rows;       /* what is scored */
    cst_counted counted; /* what it is in, unless it is the source's */
    cst_scaling scaling;
    cst_moments *moments; /* [outputs] */
    double *pearson;      /* [members][members] */
    cst_value_method *methods;
    int32_t count;
    int32_t reference;
    cst_value_entry *entries;         /* [count] */
    cst_value_metrics *scores;        /* [count] */
    cst_value_metrics *each;          /* [count][outputs] */
    cst_value_intervals *intervals;   /* [count] */
    cst_value_intervals *differences; /* [count] */
    bool has_intervals;
    double seconds_read;
} comparison;

/* ---- opening ---- */

static cst_status fold_count(cst_context *context, const cst_compare_options *options,
                             int32_t *out) {
    cst_value_method method;
    cst_status status = cst_value_method_parse(context, "default", options->seed, options->settings,
                                               options->setting_count, &method);
    *out = method.settings.folds;
    return status;
}

static cst_status open_rows(cst_context *context, comparison *c) {
    if (c->nested) {
        c->rows = c->source.view;
        return CST_OK;
    }
    cst_status status = cst_pool_load(context, c->pool, c->split);
    CST_TRY(cst_counted_open(context, c->pool, c->split, NULL, 0, &c->counted));
    c->rows = c->counted.view;
    if (status == CST_OK && !c->rows.targets)
        status = cst_fail(context, CST_ERROR_INPUT, "split '%s' has no targets to score against",
                          c->split);
    return status;
}

static cst_status open_scene(cst_context *context, cst_pool *pool,
                             const cst_compare_options *options, comparison *c) {
    double start = cst_seconds();
    int32_t folds = 0;
    c->pool = pool;
    c->split = options->split ? options->split : "oof";
    c->nested = strcmp(c->split, "oof") == 0;
    if (options->ood)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "out-of-distribution scores are for classification");
    cst_status status = cst_value_check_split(context, pool, c->split);
    CST_TRY(fold_count(context, options, &folds));
    CST_TRY(cst_training_open(context, pool, "oof", folds, options->seed, &c->source));
    CST_TRY(cst_value_check_folds(context, "oof", c->source.folds, c->source.view.rows,
                                  c->source.fold_count));
    CST_TRY(cst_value_check_units(context, pool, "oof", true));
    if (status != CST_OK)
        return status;
    size_t members = (size_t)c->source.view.members;
    cst_gate none = {.mode = CST_GATE_NONE, .inputs = (int32_t)members};
    c->moments = cst_alloc(context, (size_t)c->source.view.classes, sizeof *c->moments);
    c->pearson = cst_alloc(context, members * members, sizeof *c->pearson);
    status = c->moments && c->pearson ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(cst_scaling_make(context, &c->source.view, &c->scaling));
    CST_TRY(cst_value_moments(context, &c->source.view, &c->scaling, &none, c->source.folds,
                              c->source.fold_count, c->moments));
    if (status == CST_OK) {
        cst_value_pearson(c->moments, c->source.view.classes, c->pearson);
        status = open_rows(context, c);
    }
    c->seconds_read = cst_seconds() - start;
    return status;
}

static void close_scene(cst_context *context, comparison *c) {
    for (int32_t m = 0; c->entries && m < c->count; m++)
        cst_value_entry_free(context, &c->entries[m]);
    cst_free(context, c->entries);
    cst_free(context, c->scores);
    cst_free(context, c->each);
    cst_free(context, c->intervals);
    cst_free(context, c->differences);
    cst_free(context, c->methods);
    cst_free(context, c->pearson);
    if (c->moments)
        cst_value_moments_free(context, c->moments, c->source.view.classes);
    cst_free(context, c->moments);
    cst_scaling_free(context, &c->scaling);
    cst_counted_close(context, &c->counted);
    cst_training_close(context, &c->source);
}

/* ---- which methods ---- */

static cst_status add_method(cst_context *context, comparison *c,
                             const cst_compare_options *options, const char *name, bool asked) {
    for (int32_t m = 0; m < c->count; m++)
        if (strcmp(c->methods[m].name, name) == 0)
            return CST_OK;
    if (c->count == METHODS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "more than %d methods", METHODS_MAX);
    cst_status status = cst_value_method_parse(context, name, options->seed, options->settings,
                                               options->setting_count, &c->methods[c->count]);
    const cst_value_baseline *baseline = c->methods[c->count].baseline;
    if (status == CST_OK && baseline &&
        !cst_value_baseline_applies(baseline, c->source.ensembles, c->source.view.members))
        return asked ? cst_fail(context, CST_ERROR_INPUT,
                                "%s needs members that the manifest tags for it (key 'ensemble'), "
                                "of deep ensembles and snapshots two; this pool has too few",
                                name)
                     : CST_OK;
    if (status == CST_OK && c->methods[c->count].preset) {
        const cst_settings *s = &c->methods[c->count].settings;
        status =
            cst_training_check_costs(context, c->pool, &c->source, s->keep_flops, s->keep_latency);
    }
    c->count += status == CST_OK;
    return status;
}

static cst_status add_all(cst_context *context, comparison *c, const cst_compare_options *options) {
    cst_status status = CST_OK;
    for (size_t i = 0; status == CST_OK && cst_value_method_name(i); i++)
        status = add_method(context, c, options, cst_value_method_name(i), false);
    return status;
}

static cst_status list_methods(cst_context *context, comparison *c,
                               const cst_compare_options *options) {
    cst_status status = CST_OK;
    c->methods = cst_alloc(context, METHODS_MAX, sizeof *c->methods);
    if (!c->methods)
        return CST_ERROR_MEMORY;
    if (options->method_count < 1)
        status = add_all(context, c, options);
    for (int32_t m = 0; status == CST_OK && m < options->method_count; m++)
        status = strcmp(options->methods[m], "all") == 0
                     ? add_all(context, c, options)
                     : add_method(context, c, options, options->methods[m], true);
    const char *reference = options->reference ? options->reference : "default";
    c->reference = -1;
    for (int32_t m = 0; status == CST_OK && m < c->count; m++)
        if (strcmp(c->methods[m].name, reference) == 0)
            c->reference = m;
    if (status == CST_OK && c->reference < 0 && options->reference)
        status = cst_fail(context, CST_ERROR_ARGUMENT,
                          "the reference '%.60s' is not among the methods compared", reference);
    c->reference = c->reference < 0 ? 0 : c->reference;
    return status;
}

/* ---- running ---- */

static cst_status run_methods(cst_context *context, comparison *c,
                              const cst_compare_options *options) {
    size_t count = (size_t)c->count;
    size_t outputs = (size_t)c->rows.classes;
    c->entries = cst_alloc(context, count, sizeof *c->entries);
    c->scores = cst_alloc(context, count, sizeof *c->scores);
    c->each = cst_alloc(context, count * outputs, sizeof *c->each);
    c->intervals = cst_alloc(context, count, sizeof *c->intervals);
    c->differences = cst_alloc(context, count, sizeof *c->differences);
    cst_status status = c->entries && c->scores && c->each && c->intervals && c->differences
                            ? CST_OK
                            : CST_ERROR_MEMORY;
    cst_value_scene scene = {.source = &c->source,
                             .rows = c->nested ? NULL : &c->rows,
                             .scaling = &c->scaling,
                             .moments = c->moments,
                             .pool = c->pool};
    for (int32_t m = 0; status == CST_OK && m < c->count; m++) {
        cst_value_entry *entry = &c->entries[m];
        status = cst_progress(context, c->methods[m].name, m, c->count);
        cst_notice_about(context, c->methods[m].name);
        CST_TRY(cst_value_entry_run(context, &scene, &c->methods[m], entry));
        cst_notice_about(context, NULL);
        CST_TRY(cst_value_metrics_weighted(context, &entry->result.values, c->rows.targets,
                                           c->rows.weights, &c->scores[m],
                                           c->each + (size_t)m * outputs));
        CST_TRY(cst_rows_tell(context, options, c->methods[m].name, c->split, entry->result.mean,
                              c->rows.rows, c->rows.classes));
    }
    return status;
}

static cst_status compute_intervals(cst_context *context, comparison *c,
                                    const cst_compare_options *options) {
    if (options->resamples <= 0)
        return CST_OK;
    cst_predicted_values *all = cst_alloc(context, (size_t)c->count, sizeof *all);
    cst_status status = all ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t m = 0; status == CST_OK && m < c->count; m++)
        all[m] = c->entries[m].result.values;
    const cst_value_bootstrap_input input = {.predicted = all,
                                             .methods = c->count,
                                             .targets = c->rows.targets,
                                             .weights = c->rows.weights,
                                             .resamples = options->resamples,
                                             .seed = options->seed,
                                             .reference = c->reference};
    CST_TRY(cst_value_bootstrap_weighted(context, &input, c->intervals, c->differences));
    c->has_intervals = status == CST_OK;
    cst_free(context, all);
    return status;
}

/* ---- tests ---- */

static void put_test(cst_report *report, json_t *list, const comparison *c, int32_t m,
                     const cst_t_test *test, double adjusted) {
    json_t *t = cst_report_add_object(report, list);
    cst_report_string(report, t, "a", c->methods[c->reference].name);
    cst_report_string(report, t, "b", c->methods[m].name);
    cst_report_string(report, t, "metric", "squared_error");
    cst_report_string(report, t, "test", "paired t");
    cst_report_number(report, t, "statistic", test->t);
    cst_report_number(report, t, "df", test->df);
    cst_report_number(report, t, "difference", test->mean_difference);
    cst_report_number(report, t, "p", test->p);
    cst_report_number(report, t, "p_adjusted", adjusted);
}

/* A method's errors [rows] times the weights of the rows. */
static cst_status row_errors(cst_context *context, const comparison *c, int32_t m, double *out) {
    cst_status status =
        cst_value_errors(context, &c->entries[m].result.values, c->rows.targets, out);
    for (int64_t i = 0; status == CST_OK && c->rows.weights && i < c->rows.rows; i++)
        out[i] *= c->rows.weights[i];
    return status;
}

static cst_status compute_tests(cst_context *context, cst_report *report, const comparison *c) {
    if (c->count < 2 || c->rows.rows < 2)
        return CST_OK;
    size_t rows = (size_t)c->rows.rows;
    double *errors = cst_alloc(context, 2 * rows, sizeof *errors);
    cst_t_test *tests = cst_alloc(context, (size_t)c->count, sizeof *tests);
    double *p = cst_alloc(context, 2 * (size_t)c->count, sizeof *p);
    cst_status status = errors && tests && p ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(row_errors(context, c, c->reference, errors));
    int32_t count = 0;
    for (int32_t m = 0; status == CST_OK && m < c->count; m++) {
        if (m == c->reference)
            continue;
        status = row_errors(context, c, m, errors + rows);
        CST_TRY(cst_paired_t_test(context, errors, errors + rows, c->rows.rows, &tests[count]));
        if (status == CST_OK)
            p[count] = tests[count].p;
        count++;
    }
    CST_TRY(cst_bonferroni(context, p, count, p + c->count));
    json_t *list = cst_report_list(report, cst_report_root(report), "tests");
    count = 0;
    for (int32_t m = 0; status == CST_OK && m < c->count; m++)
        if (m != c->reference) {
            put_test(report, list, c, m, &tests[count], p[c->count + count]);
            count++;
        }
    cst_report_string(report, cst_report_root(report), "adjustment",
                      "Bonferroni over the methods compared with the reference");
    cst_free(context, errors);
    cst_free(context, tests);
    cst_free(context, p);
    return status;
}

/* ---- document ---- */

static cst_status put_costs(cst_context *context, cst_report *report, json_t *row,
                            const comparison *c, const cst_value_entry *entry) {
    int32_t members = c->source.view.members;
    int32_t *used = cst_alloc(context, (size_t)members, sizeof *used);
    double kappa = NAN;
    double all = 0;
    double mine = 0;
    int32_t count = 0;
    if (!used)
        return CST_ERROR_MEMORY;
    for (int32_t k = 0; k < members; k++) {
        all += c->source.flops[k];
        if (!entry->uses[k])
            continue;
        used[count++] = k;
        mine += c->source.flops[k];
    }
    cst_status status = cst_gram_kappa(context, c->pearson, members, used, count, &kappa);
    cst_report_integer(report, row, "models", entry->models);
    cst_report_number(report, row, "kappa", kappa);
    cst_report_number(report, row, "flops_rel", all > 0 ? mine / all : NAN);
    cst_report_number(report, row, "seconds", entry->seconds);
    cst_free(context, used);
    return status;
}

static cst_status put_row(cst_context *context, cst_report *report, json_t *list,
                          const comparison *c, int32_t m) {
    const cst_value_entry *entry = &c->entries[m];
    json_t *row = cst_report_add_object(report, list);
    cst_report_string(report, row, "method", c->methods[m].name);
    cst_report_string(report, row, "definition", c->methods[m].definition);
    cst_report_string(report, row, "detail", entry->detail);
    cst_value_put_scores(report, row, &c->scores[m]);
    if (c->has_intervals)
        cst_value_put_intervals(report, row, &c->intervals[m]);
    if (c->has_intervals && m != c->reference)
        cst_value_put_difference(report, row, &c->differences[m]);
    if (c->rows.classes > 1)
        (void)cst_value_put_outputs(report, row, c->pool,
                                    c->each + (size_t)m * (size_t)c->rows.classes, c->rows.classes);
    cst_report_string(report, row, "mix", entry->weights ? "linear" : NULL);
    if (entry->weights)
        cst_report_numbers(report, row, "weights", entry->weights, c->source.view.members);
    else
        cst_report_value(report, row, "weights", json_null());
    return put_costs(context, report, row, c, entry);
}

static cst_status fill(cst_context *context, cst_report *report, const comparison *c,
                       const cst_compare_options *options, double start) {
    json_t *root = cst_report_root(report);
    cst_status status = CST_OK;
    cst_report_string(report, root, "task", "regression");
    cst_report_string(report, root, "split", c->split);
    cst_report_string(report, root, "scored", c->nested ? "nested" : "held-out");
    cst_report_integer(report, root, "samples", c->rows.rows);
    cst_report_integer(report, root, "output_count", c->rows.classes);
    cst_report_integer(report, root, "models_in", c->source.view.members);
    cst_report_integer(report, root, "seed", (int64_t)options->seed);
    if (c->has_intervals)
        cst_report_integer(report, root, "resamples", options->resamples);
    cst_report_string(report, root, "reference", c->methods[c->reference].name);
    cst_value_put_definitions(report);
    json_t *members = cst_report_list(report, root, "members");
    for (int32_t k = 0; k < c->source.view.members; k++)
        cst_report_add_string(report, members, cst_pool_member_name(c->pool, k));
    json_t *list = cst_report_list(report, root, "rows");
    for (int32_t m = 0; status == CST_OK && m < c->count; m++)
        status = put_row(context, report, list, c, m);
    CST_TRY(compute_tests(context, report, c));
    json_t *seconds = cst_report_object(report, root, "seconds");
    cst_report_number(report, seconds, "read", c->seconds_read);
    cst_report_number(report, seconds, "total", cst_seconds() - start);
    return status;
}

cst_status cst_regression_compare(cst_context *context, cst_pool *pool,
                                  const cst_compare_options *given, cst_report **report) {
    double start = cst_seconds();
    cst_compare_options options = cst_rows_options(given);
    comparison c = {0};
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_COMPARE, report);
    CST_TRY(open_scene(context, pool, &options, &c));
    CST_TRY(list_methods(context, &c, &options));
    CST_TRY(run_methods(context, &c, &options));
    CST_TRY(compute_intervals(context, &c, &options));
    CST_TRY(fill(context, *report, &c, &options, start));
    close_scene(context, &c);
    cst_la_leave();
    return cst_rows_finish(context, status, report);
}
