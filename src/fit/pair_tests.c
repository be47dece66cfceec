/* Paired tests of one method against others on the same rows. docs/json.md#compare. */
#include "fit/harness.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

typedef struct compared {
    const cst_evaluation *e;
    const cst_entry *entries; /* [count] */
    int32_t count;
    int32_t reference;
    const cst_intervals *intervals;
    const char *name; /* of the reference */
} compared;

/* What the reference is beside the method. */
static const char *verdict(const cst_pair_test *test, double adjusted) {
    double gain = test->only_a >= 0 ? (double)(test->only_a - test->only_b)
                  : test->higher    ? test->difference
                                    : -test->difference;
    bool clear = adjusted < CST_SIGNIFICANT && (gain > 0 || gain < 0);
    return !clear ? "no clear difference" : gain > 0 ? "better" : "worse";
}

static void put_test(cst_report *report, json_t *list, const compared *c, int32_t m,
                     const cst_pair_test *test, double adjusted) {
    json_t *t = cst_report_add_object(report, list);
    CST_PUT(report, t, CST_S("a", c->name), CST_S("b", c->entries[m].name),
            CST_S("metric", test->metric));
    char resampled[40];
    (void)cst_snprintf(resampled, sizeof resampled, "paired bootstrap over %s", c->e->ops->unit);
    cst_report_string(report, t, "test", test->test ? test->test : resampled);
    if (!isnan(test->df)) {
        CST_PUT(report, t, CST_N("statistic", test->statistic), CST_N("df", test->df));
    }
    if (!isnan(test->difference))
        cst_report_number(report, t, "difference", test->difference);
    if (!isnan(test->se))
        cst_report_number(report, t, "se", test->se);
    if (test->only_a >= 0) {
        CST_PUT(report, t, CST_I("only_a", test->only_a), CST_I("only_b", test->only_b));
    }
    CST_PUT(report, t, CST_N("p", test->p), CST_N("p_adjusted", adjusted),
            CST_S("verdict", verdict(test, adjusted)));
}

/* Bonferroni for each metric over the tests that there are. adjusted: as tests. */
static cst_status adjust(cst_context *context, const compared *c, const cst_pair_test *tests,
                         double *adjusted) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, p, c->count);
    for (int t = 0; t < CST_PAIR_TESTS_MAX; t++) {
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
    return CST_OK;
}

/* A paired t-test of each method's losses, and McNemar's test. */
static cst_status tests_of_losses(cst_context *context, const compared *c, cst_pair_test *out) {
    CST_SCOPE(scope);
    cst_losses of[2] = {0};
    CST_TRY(c->e->ops->losses(context, scope, c->e, &c->entries[c->reference], &of[0]));
    for (int32_t m = 0; of[0].samples > 1 && m < c->count; m++) {
        CST_SCOPE(own);
        cst_t_test t;
        cst_mcnemar_test top1;
        cst_pair_test *pair = &out[m * CST_PAIR_TESTS_MAX + 1];
        if (m == c->reference)
            continue;
        CST_TRY(c->e->ops->losses(context, own, c->e, &c->entries[m], &of[1]));
        CST_TRY(cst_paired_t_test(context, of[0].loss, of[1].loss, of[0].samples, &t));
        pair[0] = (cst_pair_test){.metric = of[0].metric,
                                  .test = "paired t",
                                  .statistic = t.t,
                                  .df = t.df,
                                  .difference = t.mean_difference,
                                  .se = t.standard_error,
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

/* A score that is tested by the bootstrap itself: test `t` of every method. */
static void test_of_resamples(const compared *c, const char *key, int t, cst_pair_test *out) {
    int32_t count = 0;
    const cst_score_spec *specs = cst_evaluation_scores(c->e, &count);
    for (int32_t i = 0; i < c->count * count; i++) {
        cst_pair_test *test = &out[i / count * CST_PAIR_TESTS_MAX + t];
        if (i / count == c->reference || strcmp(specs[i % count].key, key) != 0)
            continue;
        if (isnan(c->intervals->p[i])) /* the score is not defined on any resample */
            continue;
        test->metric = specs[i % count].key;
        test->difference = -c->intervals->difference[i].value; /* reference less method */
        test->higher = specs[i % count].higher_is_better;
        test->p = c->intervals->p[i];
    }
}

/* Of the metric, where it is none of the task's scores. */
static cst_status tests_of_metric(cst_context *context, const compared *c, cst_pair_test *out) {
    if (!c->e->added || !c->intervals->done)
        return CST_OK;
    test_of_resamples(c, c->e->metric.metric->shown.key, 0, out);
    for (int32_t m = 0; m < c->count; m++)
        if (out[m * CST_PAIR_TESTS_MAX].metric)
            CST_TRY(cst_metric_test(context, c->e, c->entries[c->reference].result,
                                    c->entries[m].result, &out[m * CST_PAIR_TESTS_MAX]));
    return CST_OK;
}

static cst_status put(cst_context *context, cst_report *report, const compared *c) {
    json_t *root = cst_report_root(report);
    if (c->count < 2)
        return CST_OK;
    size_t cells = (size_t)c->count * CST_PAIR_TESTS_MAX;
    bool any = false;
    CST_SCOPE(scope);
    CST_NEW(context, scope, cst_pair_test, tests, cells);
    CST_NEW(context, scope, double, adjusted, cells);
    for (size_t i = 0; i < cells; i++)
        tests[i] = (cst_pair_test){.statistic = NAN,
                                   .df = NAN,
                                   .difference = NAN,
                                   .se = NAN,
                                   .only_a = -1,
                                   .only_b = -1,
                                   .p = NAN};
    CST_TRY(tests_of_metric(context, c, tests));
    if (c->e->ops->losses)
        CST_TRY(tests_of_losses(context, c, tests));
    for (int t = 1; !c->e->ops->losses && c->intervals->done && t < CST_PAIR_TESTS_MAX; t++)
        if (c->e->ops->tested[t - 1])
            test_of_resamples(c, c->e->ops->tested[t - 1], t, tests);
    for (size_t i = 0; i < cells; i++)
        any = any || tests[i].metric;
    if (!any)
        return CST_OK;
    CST_TRY(adjust(context, c, tests, adjusted));
    json_t *list = cst_report_list(report, root, "tests");
    for (size_t i = 0; i < cells; i++)
        if (tests[i].metric)
            put_test(report, list, c, (int32_t)(i / CST_PAIR_TESTS_MAX), &tests[i], adjusted[i]);
    cst_report_string(report, root, "adjustment",
                      "Bonferroni over the methods compared with the reference, for each metric");
    return CST_OK;
}

cst_status cst_put_tests(cst_context *context, cst_report *report, const cst_evaluation *e,
                         const cst_entry *entries, int32_t count, int32_t reference,
                         const cst_intervals *intervals, const char *name) {
    return put(context, report, &(compared){e, entries, count, reference, intervals, name});
}
