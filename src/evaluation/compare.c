/*
 * The leaderboard: every method on the same rows, intervals, differences and tests against one of
 * them. Paper: sections "Results" and "Condition Number as a Performance Predictor"; method.md
 * sections 6 and 8.
 */
#include "evaluation/rows.h"
#include "evaluation/shift.h"
#include "la/la.h"
#include "pipeline/balance.h"

#include <corestack/statistics.h>

#include <math.h>
#include <string.h>

/* What "all" stands for beside the methods of cst_method_name: calibration behind an average. */
static const char *const CALIBRATED[] = {"average+temperature", "average+vector",
                                         "average+isotonic", "average+platt"};

enum {
    CALIBRATED_COUNT = sizeof CALIBRATED / sizeof CALIBRATED[0],
    METHODS_MAX = 512,
    FEWEST_FOR_RANKS = 3
};

typedef struct comparison {
    cst_scene scene;
    cst_method *methods; /* [count] */
    bool *asked;         /* [count]: by name, and not as one of all */
    int32_t count;
    int32_t reference;
    cst_entry *entries;                /* [count] */
    cst_metric_intervals *intervals;   /* [count] */
    cst_metric_intervals *differences; /* [count] */
    bool has_intervals;
    double seconds_methods;
    double seconds_intervals;
} comparison;

/* ---- which methods ---- */

/* Whether a preset takes the settings: else an error that names it, or, as one of all, it is left
 * out with a notice. */
static cst_status check_settings(cst_context *context, const cst_method *method, bool asked,
                                 bool *takes) {
    cst_status status = method->preset ? cst_balance_check(context, &method->settings) : CST_OK;
    *takes = status == CST_OK;
    if (*takes)
        return CST_OK;
    char why[256];
    (void)cst_snprintf(why, sizeof why, "%s", cst_last_error(context));
    if (asked)
        return cst_fail(context, status, "method %s: %s", method->name, why);
    cst_notice(context, "%s is left out: %s", method->name, why);
    return CST_OK;
}

static cst_status add_method(cst_context *context, comparison *c,
                             const cst_compare_options *options, const char *name, bool asked) {
    cst_method method;
    cst_status status = cst_method_parse(context, name, options->seed, options->settings,
                                         options->setting_count, &method);
    bool takes = false;
    CST_TRY(check_settings(context, &method, asked, &takes));
    if (status != CST_OK || !takes)
        return status;
    for (int32_t m = 0; m < c->count; m++) {
        if (strcmp(c->methods[m].name, name) != 0)
            continue;
        c->asked[m] = c->asked[m] || asked;
        return CST_OK;
    }
    if (!cst_method_applies(&method, &c->scene.source))
        return asked ? cst_fail(context, CST_ERROR_INPUT,
                                "%s needs members that the manifest tags for it (key 'ensemble'), "
                                "of deep ensembles and snapshots two; this pool has too few",
                                name)
                     : CST_OK;
    if (c->count == METHODS_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "more than %d methods", METHODS_MAX);
    c->asked[c->count] = asked;
    c->methods[c->count++] = method;
    return CST_OK;
}

static cst_status add_all(cst_context *context, comparison *c, const cst_compare_options *options) {
    cst_status status = CST_OK;
    for (size_t i = 0; status == CST_OK && cst_method_name(i); i++) {
        const char *name = cst_method_name(i);
        status = add_method(context, c, options, name, false);
        for (int j = 0; status == CST_OK && strcmp(name, "average") == 0 && j < CALIBRATED_COUNT;
             j++)
            status = add_method(context, c, options, CALIBRATED[j], false);
    }
    return status;
}

static cst_status list_methods(cst_context *context, comparison *c,
                               const cst_compare_options *options) {
    cst_status status = CST_OK;
    c->methods = cst_alloc(context, METHODS_MAX, sizeof *c->methods);
    c->asked = cst_alloc(context, METHODS_MAX, sizeof *c->asked);
    if (!c->methods || !c->asked)
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

static cst_status tell(cst_context *context, const cst_compare_options *options,
                       const cst_scene *scene, const cst_entry *entry) {
    cst_status status = CST_OK;
    for (int32_t t = 0; status == CST_OK && t < scene->targets.count; t++) {
        const cst_target *target = &scene->targets.list[t];
        status = cst_rows_tell(context, options, entry->method.name, target->split,
                               entry->predicted[t], target->samples, scene->classes);
    }
    return status;
}

/* A method that cannot be fitted on these rows: an error that names it where it was asked for, else
 * it is left out with a notice. */
static cst_status give_up(cst_context *context, comparison *c, int32_t m, cst_status status) {
    bool about_data = status == CST_ERROR_INPUT || status == CST_ERROR_NUMERIC;
    if (!about_data)
        return status;
    char why[256];
    (void)cst_snprintf(why, sizeof why, "%s", cst_last_error(context));
    if (c->asked[m] || c->count == 1)
        return cst_fail(context, status, "method %s: %s", c->methods[m].name, why);
    cst_notice(context, "%s is left out: %s", c->methods[m].name, why);
    size_t behind = (size_t)(c->count - m - 1);
    memmove(c->methods + m, c->methods + m + 1, behind * sizeof *c->methods);
    memmove(c->asked + m, c->asked + m + 1, behind * sizeof *c->asked);
    c->count--;
    if (c->reference == m)
        c->reference = 0;
    else if (c->reference > m)
        c->reference--;
    return CST_OK;
}

static cst_status run_methods(cst_context *context, comparison *c,
                              const cst_compare_options *options) {
    double start = cst_seconds();
    c->entries = cst_alloc(context, (size_t)c->count, sizeof *c->entries);
    c->intervals = cst_alloc(context, (size_t)c->count, sizeof *c->intervals);
    c->differences = cst_alloc(context, (size_t)c->count, sizeof *c->differences);
    cst_status status = c->entries && c->intervals && c->differences ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t m = 0; status == CST_OK && m < c->count;) {
        status = cst_progress(context, c->methods[m].name, m, c->count);
        if (status != CST_OK)
            break;
        cst_notice_about(context, c->methods[m].name);
        status = cst_scene_run(context, &c->scene, &c->methods[m], NULL, 0, &c->entries[m]);
        cst_notice_about(context, NULL);
        if (status != CST_OK) {
            status = give_up(context, c, m, status);
            continue;
        }
        status = tell(context, options, &c->scene, &c->entries[m++]);
    }
    c->seconds_methods = cst_seconds() - start;
    start = cst_seconds();
    CST_TRY(cst_scene_intervals(context, &c->scene, c->entries, c->count, options->resamples,
                                c->reference, c->intervals, c->differences, &c->has_intervals));
    c->seconds_intervals = cst_seconds() - start;
    return status;
}

/* ---- tests ---- */

/* Per-sample losses of two methods and what they are tested for. */
typedef struct pair_tests {
    cst_t_test nll;
    cst_mcnemar_test top1;
} pair_tests;

/* Losses times the weights of their rows: the mean difference is then the scores'. */
static void weigh_losses(const cst_scene *scene, double *nll) {
    for (int64_t i = 0; scene->weights && i < scene->samples; i++)
        nll[i] *= scene->weights[i];
}

static cst_status test_pair(cst_context *context, const comparison *c, const double *reference_nll,
                            const unsigned char *reference_correct, int32_t m, double *nll,
                            unsigned char *correct, pair_tests *out) {
    const cst_scene *scene = &c->scene;
    cst_status status =
        cst_metrics_per_sample(context, c->entries[m].probabilities, scene->samples, scene->classes,
                               scene->labels, nll, NULL, NULL, correct);
    if (status == CST_OK)
        weigh_losses(scene, nll);
    CST_TRY(cst_paired_t_test(context, reference_nll, nll, scene->samples, &out->nll));
    CST_TRY(cst_mcnemar(context, reference_correct, correct, scene->samples, &out->top1));
    return status;
}

static void put_tests(cst_report *report, const comparison *c, const pair_tests *tests,
                      const double *adjusted) {
    json_t *list = cst_report_list(report, cst_report_root(report), "tests");
    for (int32_t m = 0; m < c->count; m++) {
        if (m == c->reference)
            continue;
        json_t *t = cst_report_add_object(report, list);
        cst_report_string(report, t, "a", c->methods[c->reference].name);
        cst_report_string(report, t, "b", c->methods[m].name);
        cst_report_string(report, t, "metric", "nll");
        cst_report_string(report, t, "test", "paired t");
        cst_report_number(report, t, "statistic", tests[m].nll.t);
        cst_report_number(report, t, "df", tests[m].nll.df);
        cst_report_number(report, t, "difference", tests[m].nll.mean_difference);
        cst_report_number(report, t, "p", tests[m].nll.p);
        cst_report_number(report, t, "p_adjusted", adjusted[m]);
        t = cst_report_add_object(report, list);
        cst_report_string(report, t, "a", c->methods[c->reference].name);
        cst_report_string(report, t, "b", c->methods[m].name);
        cst_report_string(report, t, "metric", "top1");
        cst_report_string(report, t, "test",
                          tests[m].top1.exact ? "McNemar exact" : "McNemar chi-square");
        cst_report_integer(report, t, "only_a", tests[m].top1.only_first);
        cst_report_integer(report, t, "only_b", tests[m].top1.only_second);
        cst_report_number(report, t, "p", tests[m].top1.p);
        cst_report_number(report, t, "p_adjusted", adjusted[c->count + m]);
    }
    cst_report_string(report, cst_report_root(report), "adjustment",
                      "Bonferroni over the methods compared with the reference, for each metric");
}

/* adjusted: [2][count], the reference's places unused. */
static cst_status adjust(cst_context *context, const comparison *c, const pair_tests *tests,
                         double *adjusted) {
    double *p = cst_alloc(context, (size_t)c->count, sizeof *p);
    cst_status status = p ? CST_OK : CST_ERROR_MEMORY;
    for (int metric = 0; status == CST_OK && metric < 2; metric++) {
        int32_t count = 0;
        for (int32_t m = 0; m < c->count; m++)
            if (m != c->reference)
                p[count++] = metric == 0 ? tests[m].nll.p : tests[m].top1.p;
        status = cst_bonferroni(context, p, count, p);
        count = 0;
        for (int32_t m = 0; m < c->count; m++)
            if (m != c->reference)
                adjusted[(size_t)metric * (size_t)c->count + (size_t)m] = p[count++];
    }
    cst_free(context, p);
    return status;
}

static cst_status compute_tests(cst_context *context, cst_report *report, const comparison *c) {
    if (c->count < 2 || cst_shift_scores(&c->scene.targets) || c->scene.samples < 2)
        return CST_OK;
    size_t samples = (size_t)c->scene.samples;
    double *nll = cst_alloc(context, 2 * samples, sizeof *nll);
    unsigned char *correct = cst_alloc(context, 2 * samples, sizeof *correct);
    pair_tests *tests = cst_alloc(context, (size_t)c->count, sizeof *tests);
    double *adjusted = cst_alloc(context, 2 * (size_t)c->count, sizeof *adjusted);
    cst_status status = nll && correct && tests && adjusted ? CST_OK : CST_ERROR_MEMORY;
    CST_TRY(cst_metrics_per_sample(context, c->entries[c->reference].probabilities,
                                   c->scene.samples, c->scene.classes, c->scene.labels, nll, NULL,
                                   NULL, correct));
    if (status == CST_OK)
        weigh_losses(&c->scene, nll);
    for (int32_t m = 0; status == CST_OK && m < c->count; m++)
        if (m != c->reference)
            status =
                test_pair(context, c, nll, correct, m, nll + samples, correct + samples, &tests[m]);
    CST_TRY(adjust(context, c, tests, adjusted));
    if (status == CST_OK)
        put_tests(report, c, tests, adjusted);
    cst_free(context, nll);
    cst_free(context, correct);
    cst_free(context, tests);
    cst_free(context, adjusted);
    return status;
}

/* Rank correlation of condition number and top-1 over the methods. */
static cst_status put_kappa(cst_context *context, cst_report *report, const comparison *c) {
    json_t *root = cst_report_root(report);
    double *x = cst_alloc(context, 2 * (size_t)c->count, sizeof *x);
    if (!x)
        return CST_ERROR_MEMORY;
    double *y = x + c->count;
    bool varies[2] = {false, false};
    int32_t count = 0;
    for (int32_t m = 0; m < c->count; m++) {
        if (isnan(c->entries[m].kappa)) /* a method that uses no member */
            continue;
        x[count] = c->entries[m].kappa;
        y[count] = c->entries[m].scores.top1;
        varies[0] = varies[0] || x[count] > x[0] || x[count] < x[0];
        varies[1] = varies[1] || y[count] > y[0] || y[count] < y[0];
        count++;
    }
    cst_status status = CST_OK;
    if (count < FEWEST_FOR_RANKS || !varies[0] || !varies[1]) {
        cst_report_value(report, root, "kappa_top1", json_null());
    } else {
        cst_rank_correlation found;
        status = cst_spearman(context, x, y, count, &found);
        json_t *object = cst_report_object(report, root, "kappa_top1");
        cst_report_number(report, object, "spearman", found.rho);
        cst_report_number(report, object, "p", found.p);
        cst_report_flag(report, object, "exact", found.exact);
        cst_report_integer(report, object, "methods", count);
    }
    cst_free(context, x);
    return status;
}

/* ---- document ---- */

static json_t *put_row(cst_report *report, json_t *list, const comparison *c, int32_t m) {
    static const char *const mixes[] = {"linear", "log-linear", NULL};
    const cst_entry *entry = &c->entries[m];
    json_t *row = cst_report_add_object(report, list);
    cst_report_string(report, row, "method", entry->method.name);
    cst_report_string(report, row, "definition", cst_method_definition(&entry->method));
    cst_report_string(report, row, "detail", entry->detail);
    cst_rows_scores(report, row, &entry->scores, c->has_intervals ? &c->intervals[m] : NULL);
    if (c->has_intervals && m != c->reference)
        cst_rows_difference(report, row, &c->differences[m]);
    cst_report_string(report, row, "mix", mixes[entry->mix]);
    if (entry->weights)
        cst_report_numbers(report, row, "weights", entry->weights, c->scene.source.view.members);
    else
        cst_report_value(report, row, "weights", json_null());
    cst_rows_cost(report, row, entry);
    return row;
}

/* Corruption, parts of the split, several splits, rows out of distribution. */
static cst_status put_shift(cst_context *context, cst_report *report, const comparison *c,
                            const cst_compare_options *options, json_t *const *rows) {
    const cst_scene *scene = &c->scene;
    size_t targets = (size_t)scene->targets.count;
    cst_view *views = cst_alloc(context, targets, sizeof *views);
    cst_shift_method *methods = cst_alloc(context, (size_t)c->count, sizeof *methods);
    cst_status status = views && methods ? CST_OK : CST_ERROR_MEMORY;
    for (size_t t = 0; status == CST_OK && t < targets; t++)
        views[t] = scene->targets.list[t].view;
    for (int32_t m = 0; status == CST_OK && m < c->count; m++)
        methods[m] = (cst_shift_method){.row = rows[m],
                                        .predicted = (const float *const *)c->entries[m].predicted,
                                        .views = views,
                                        .weights = c->entries[m].weights,
                                        .uses = c->entries[m].uses};
    const cst_shift shift = {.report = report,
                             .pool = scene->pool,
                             .targets = &scene->targets,
                             .classes = scene->classes,
                             .methods = methods,
                             .count = c->count,
                             .reference = c->reference,
                             .resamples = options->resamples,
                             .seed = options->seed,
                             .head_above = options->head_above,
                             .tail_below = options->tail_below,
                             .reference_errors = options->reference_errors};
    CST_TRY(cst_shift_report(context, &shift));
    cst_free(context, views);
    cst_free(context, methods);
    return status;
}

static void put_definitions(cst_report *report, const cst_scene *scene) {
    static const char *const names[] = {"top1",     "ece",           "nll",          "brier",
                                        "ece_mass", "ece_classwise", "ece_debiased", "corp"};
    json_t *object = cst_report_object(report, cst_report_root(report), "definitions");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cst_report_string(report, object, names[i], cst_metric_definition(names[i]));
    cst_shift_definitions(report, object, scene->pool, &scene->targets);
}

static cst_status fill(cst_context *context, cst_report *report, const comparison *c,
                       const cst_compare_options *options, double start) {
    json_t *root = cst_report_root(report);
    cst_status status = CST_OK;
    cst_rows_header(report, &c->scene);
    if (options->resamples > 0)
        cst_report_integer(report, root, "resamples", options->resamples);
    cst_report_string(report, root, "reference", c->methods[c->reference].name);
    if (c->scene.ood)
        cst_report_string(report, root, "ood", c->scene.ood);
    put_definitions(report, &c->scene);
    json_t *members = cst_report_list(report, root, "members");
    for (int32_t k = 0; k < c->scene.source.view.members; k++)
        cst_report_add_string(report, members, cst_pool_member_name(c->scene.pool, k));
    json_t *list = cst_report_list(report, root, "rows");
    json_t **rows = cst_alloc(context, (size_t)c->count, sizeof(json_t *));
    status = rows ? CST_OK : CST_ERROR_MEMORY;
    for (int32_t m = 0; status == CST_OK && m < c->count; m++)
        rows[m] = put_row(report, list, c, m);
    CST_TRY(put_shift(context, report, c, options, rows));
    cst_free(context, (void *)rows);
    CST_TRY(compute_tests(context, report, c));
    CST_TRY(put_kappa(context, report, c));
    json_t *seconds = cst_report_object(report, root, "seconds");
    cst_report_number(report, seconds, "read", c->scene.seconds_read);
    cst_report_number(report, seconds, "methods", c->seconds_methods);
    cst_report_number(report, seconds, "intervals", c->seconds_intervals);
    cst_report_number(report, seconds, "total", cst_seconds() - start);
    return status;
}

cst_status cst_classification_compare(cst_context *context, cst_pool *pool,
                                      const cst_compare_options *given, cst_report **report) {
    double start = cst_seconds();
    cst_compare_options options = cst_rows_options(given);
    comparison c = {0};
    cst_notices_clear(context);
    cst_la_enter();
    cst_status status = cst_report_create(context, CST_REPORT_COMPARE, report);
    CST_TRY(cst_scene_open(context, pool, &options, true, &c.scene));
    CST_TRY(list_methods(context, &c, &options));
    CST_TRY(run_methods(context, &c, &options));
    CST_TRY(fill(context, *report, &c, &options, start));
    for (int32_t m = 0; c.entries && m < c.count; m++)
        cst_entry_free(context, &c.entries[m]);
    cst_free(context, c.entries);
    cst_free(context, c.intervals);
    cst_free(context, c.differences);
    cst_free(context, c.methods);
    cst_free(context, c.asked);
    cst_scene_close(context, &c.scene);
    cst_la_leave();
    return cst_rows_finish(context, status, report);
}
