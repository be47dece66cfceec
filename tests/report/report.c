/*
 * Reports: what the helpers put into a document, how it is written as JSON, and what the text
 * renderings say of a document made by hand.
 */
#include "report/report.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

static cst_report *parsed(cst_context *context, cst_report_kind kind, const char *document) {
    cst_report *report = NULL;
    assert_int_equal(cst_report_begin(context, kind, &report), CST_OK);
    json_error_t error;
    json_t *root = json_loads(document, 0, &error);
    if (!root)
        fail_msg("the test's own document: %s at %d", error.text, error.position);
    assert_int_equal(json_object_update(report->root, root), 0);
    json_decref(root);
    return report;
}

static char *text_of(cst_context *context, const cst_report *report, int color) {
    char *text = NULL;
    assert_int_equal(cst_report_text(context, report, color, &text), CST_OK);
    assert_non_null(text);
    return text;
}

static char *full_text_of(cst_context *context, const cst_report *report) {
    char *text = NULL;
    assert_int_equal(cst_report_text_full(context, report, 0, &text), CST_OK);
    return text;
}

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr(text, part))                                                                   \
            fail_msg("'%s' is not in:\n%s", part, text);                                           \
    } while (0)

static void json_keeps_order_and_nulls(void **state) {
    cst_context *context = *state;
    cst_report *report = NULL;
    assert_int_equal(cst_report_begin(context, CST_REPORT_FIT, &report), CST_OK);
    json_t *root = cst_report_root(report);
    cst_report_string(report, root, "model", NULL);
    cst_report_number(report, root, "zeta", 1.0 / 3);
    cst_report_number(report, root, "alpha", NAN);
    cst_report_number(report, root, "beta", INFINITY);
    cst_report_integer(report, root, "n", 9007199254740993);
    cst_report_flag(report, root, "nested", true);
    static const double values[] = {1, -2.5, 0, 4};
    static const int64_t sizes[] = {3, 1};
    static const char *const names[] = {"a", "b\xff"};
    cst_report_matrix(report, root, "m", values, 2, 2);
    cst_report_integers(report, root, "sizes", sizes, 2);
    cst_report_strings(report, root, "names", names, 2);
    cst_report_numbers(report, root, "none", NULL, 3);
    json_t *list = cst_report_list(report, root, "list");
    cst_report_string(report, cst_report_add_object(report, list), "k\xc3", "v");
    assert_int_equal(cst_report_set_string(context, report, "model", "x.cstack"), CST_OK);
    assert_int_equal(cst_report_finish(context, report), CST_OK);
    char *text = NULL;
    assert_int_equal(cst_report_json(context, report, &text), CST_OK);
    assert_string_equal(text, "{\n"
                              "  \"command\": \"fit\",\n"
                              "  \"model\": \"x.cstack\",\n"
                              "  \"zeta\": 0.3333333333,\n"
                              "  \"alpha\": null,\n"
                              "  \"beta\": null,\n"
                              "  \"n\": 9007199254740993,\n"
                              "  \"nested\": true,\n"
                              "  \"m\": [\n"
                              "    [\n      1.0,\n      -2.5\n    ],\n"
                              "    [\n      0.0,\n      4.0\n    ]\n"
                              "  ],\n"
                              "  \"sizes\": [\n    3,\n    1\n  ],\n"
                              "  \"names\": [\n    \"a\",\n    \"b?\"\n  ],\n"
                              "  \"none\": [],\n"
                              "  \"list\": [\n    {\n      \"k?\": \"v\"\n    }\n  ]\n"
                              "}");
    cst_free(context, text);
    cst_report_free(context, report);
}

static void failures_are_kept(void **state) {
    cst_context *context = *state;
    cst_report *report = NULL;
    assert_int_equal(cst_report_begin(context, CST_REPORT_FIT, &report), CST_OK);
    assert_int_equal(cst_report_finish(context, report), CST_OK);
    cst_report_number(report, NULL, "lost", 1);
    assert_int_equal(cst_report_finish(context, report), CST_ERROR_MEMORY);
    cst_report_free(context, report);
    assert_int_equal(cst_report_create(context, &report, "nonsense"), CST_ERROR_ARGUMENT);
    assert_null(report);
    assert_non_null(strstr(cst_last_error(context), "nonsense"));
    cst_report_free(context, NULL);
}

static const char FIT[] =
    "{\"model\": \"m.cstack\", \"preset\": \"default\", \"seed\": 7, \"samples\": 1437,"
    " \"classes\": 10, \"folds\": {\"count\": 5, \"source\": \"pool\"}, \"models_in\": 3,"
    " \"models_kept\": 1, \"kept\": [\"svm\"],"
    " \"dropped\": [{\"name\": \"twin\", \"because\": \"redundant\", \"cka\": 0.99712,"
    "                \"to\": \"svm\"},"
    "               {\"name\": \"flat\", \"because\": \"constant\", \"cka\": null}],"
    " \"members\": ["
    "  {\"name\": \"flat\", \"family\": null, \"kept\": false, \"top1\": 0.1, \"nll\": 2.302,"
    "   \"ece\": 0.0, \"brier\": 0.9, \"flops\": null},"
    "  {\"name\": \"svm\", \"family\": null, \"kept\": true, \"top1\": 0.98756, \"nll\": 0.0612,"
    "   \"ece\": 0.0113, \"brier\": 0.019, \"flops\": null},"
    "  {\"name\": \"twin\\u001b[2J\", \"family\": null, \"kept\": false, \"top1\": 0.98,"
    "   \"nll\": 0.07, \"ece\": 0.01, \"brier\": 0.02, \"flops\": null}],"
    " \"redundancy\": {\"measure\": \"cka\"},"
    " \"path\": [{\"size\": 2, \"loss\": 0.06, \"excess\": 0, \"excess_se\": 0,"
    "             \"flops\": null, \"latency_ms\": null, \"allowed\": true, \"chosen\": false,"
    "             \"added\": [\"svm\", \"twin\"]},"
    "            {\"size\": 1, \"loss\": 0.0612, \"excess\": 0.0012, \"excess_se\": 0.0004,"
    "             \"flops\": null, \"latency_ms\": null, \"allowed\": true, \"chosen\": true,"
    "             \"added\": [], \"removed\": [\"twin\"]}],"
    " \"kappa_gram_before\": 12345.6, \"kappa_gram_after\": 1.0, \"lambda\": null, "
    "\"lambda_rule\": \"star\","
    " \"sigma2\": null, \"mp_edge\": null, \"snr\": null,"
    " \"learners\": [{\"name\": \"log-linear\", \"nll\": 88.1, \"half_logdet\": 3.25,"
    "                 \"weight\": 1.0}],"
    " \"blend\": {\"ridge\": 0.25, \"log-linear\": 0.75}, \"weights\": {\"svm\": 1.0},"
    " \"oof\": {\"top1\": 0.987, \"ece\": 0.0123, \"nll\": 0.061, \"brier\": 0.02,"
    "           \"nested\": true},"
    " \"ece_definition\": \"top-label, 15 equal-width bins\", \"flops_rel\": 0.333,"
    " \"seconds\": {\"read\": 0.5, \"gate\": 0, \"total\": 1.5}, \"peak_rss_bytes\": 10485760,"
    " \"notices\": [\"member flat is constant\"]}";

static void fit_text_says_what_matters(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_FIT, FIT);
    char *text = full_text_of(context, report);
    assert_contains(text, "corestack fit: m.cstack\n");
    assert_contains(text, "preset default, seed 7; 1437 samples, 10 classes, 5 folds (the pool's)");
    assert_contains(text, "  *  svm        ");
    assert_contains(text, "98.76  0.0612  0.0113  0.0190  kept\n");
    assert_contains(text, "constant\n");
    assert_contains(text, "1.235e+04 before -> 1 after");
    assert_contains(text, "lambda              -  (rule: star)\n");
    assert_contains(text, "log-linear 0.7500, ridge 0.2500\n");
    assert_contains(text, "- twin\n");
    assert_contains(text,
                    "  ECE: top-label, 15 equal-width bins. NLL: mean over samples, in nats.\n");
    assert_contains(text, "0.333 of all members");
    assert_contains(text, "1.50 s: read 0.50\n");
    assert_contains(text, "10 MiB");
    assert_contains(text, "  - member flat is constant\n");
    /* sorted by NLL: svm before twin before flat */
    assert_true(strstr(text, "svm ") < strstr(text, "twin?"));
    assert_true(strstr(text, "twin?") < strstr(text, "flat "));
    /* no escape sequence reaches the terminal, and no line ends in a space */
    assert_null(strchr(text, '\033'));
    assert_null(strstr(text, " \n"));
    /* columns without content are left out */
    assert_null(strstr(text, "family"));
    cst_free(context, text);
    text = text_of(context, report, 1);
    assert_contains(text, "\033[1mcorestack fit\033[0m");
    cst_free(context, text);
    text = text_of(context, report, 0);
    assert_contains(text, "classification, 1437 rows, 10 classes, 3 members, 5 folds (the pool's)");
    assert_contains(text, "  > this model          98.70  0.0123  0.0610        1    33.3\n");
    assert_contains(text, "Members     1 of 3 kept, by weight: svm 1.00\n");
    assert_contains(text, "Left out    1 redundant (twin), 1 constant (flat)\n");
    assert_contains(text, "Look at     member flat is constant\n");
    assert_null(strstr(text, " \n"));
    cst_free(context, text);
    cst_report_free(context, report);
}

static void fit_text_names_the_twin(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_FIT, FIT);
    json_t *members = json_object_get(report->root, "members");
    assert_int_equal(json_object_set_new(json_array_get(members, 2), "name", json_string("twin")),
                     0);
    char *text = full_text_of(context, report);
    assert_contains(text, "redundant; CKA 0.9971 with svm\n");
    assert_int_equal(json_object_del(json_object_get(report->root, "blend"), "ridge"), 0);
    cst_free(context, text);
    text = full_text_of(context, report);
    assert_contains(text, "(rule: star; not used, because no linear meta-learner has a weight)\n");
    cst_free(context, text);
    cst_report_free(context, report);
}

static void empty_documents_are_shown(void **state) {
    cst_context *context = *state;
    for (int kind = CST_REPORT_FIT; kind <= CST_REPORT_SWEEP; kind++) {
        cst_report *report = parsed(context, (cst_report_kind)kind, "{}");
        char *text = text_of(context, report, 1);
        assert_true(strlen(text) > 0);
        cst_free(context, text);
        cst_report_free(context, report);
    }
}

static void evaluate_text_marks_the_best(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(
        context, CST_REPORT_EVALUATE,
        "{\"split\": \"test\", \"samples\": 360, \"top1\": 0.98, \"ece\": 0.02, \"nll\": 0.07,"
        " \"brier\": 0.03, \"top1_ci\": [0.96, 0.99], \"resamples\": 5000, \"seed\": 1,"
        " \"ece_definition\": \"top-label\","
        " \"baselines\": [{\"method\": \"average\", \"models\": 16, \"top1\": 0.97, \"ece\": 0.01,"
        "                  \"nll\": 0.09, \"brier\": 0.04, \"top1_ci\": [0.95, 0.985]}]}");
    char *text = text_of(context, report, 1);
    assert_contains(text, ": split test, 360 samples\n");
    assert_contains(text, "\033[1m98.00\033[0m");
    assert_contains(text, "96.0-99.0");
    assert_contains(text, "\033[1m0.0100\033[0m");
    assert_contains(text, "average");
    assert_null(strstr(text, "\033[1m97.00"));
    assert_contains(text, "95% bootstrap intervals, 5000 resamples, seed 1");
    cst_free(context, text);
    cst_report_free(context, report);
}

static void inspect_text_shows_both_halves(void **state) {
    cst_context *context = *state;
    cst_report *report =
        parsed(context, CST_REPORT_INSPECT,
               "{\"split\": \"oof\", \"samples\": 9, \"classes\": 3, \"models\": [\"a\", \"b\"],"
               " \"cka\": [[1, 0.987], [0.987, 1]], \"pearson\": [[1, -0.25], [-0.25, 1]],"
               " \"clusters\": [[\"a\", \"b\"]], \"cluster_threshold\": 0.9,"
               " \"cka_info\": {\"estimator\": \"exact\", \"statistic\": \"biased\"},"
               " \"eigenvalues\": [1.5, 0.5], \"kappa_gram\": 3, \"kappa_cka\": 7, \"sigma2\": "
               "0.1, \"mp_edge\": 0.2,"
               " \"snr\": 7, \"lambda\": {\"star\": 0.03, \"cv\": 0.0006, \"gcv\": 0.001,"
               " \"evidence\": 0.002}, \"class_counts\": [2, 3, 4],"
               " \"problems\": [\"class 0 has two samples\"], \"notices\": []}");
    char *text = text_of(context, report, 0);
    assert_contains(text, "1  a   . -250\n");
    assert_contains(text, "2  b 987    .\n");
    assert_contains(text, "samples of a class: 2 to 4\n");
    assert_contains(text, "together            a, b\n");
    assert_contains(text, "star 0.03, cv 0.0006, gcv 0.001, evidence 0.002\n");
    assert_contains(text, "  - class 0 has two samples\n");
    cst_free(context, text);
    cst_report_free(context, report);
}

static void many_members_become_pairs(void **state) {
    cst_context *context = *state;
    enum { COUNT = 25 };
    double cka[COUNT][COUNT];
    cst_report *report = NULL;
    assert_int_equal(cst_report_begin(context, CST_REPORT_INSPECT, &report), CST_OK);
    json_t *names = cst_report_list(report, report->root, "models");
    for (int i = 0; i < COUNT; i++) {
        char name[8] = {'m', (char)('a' + i), 0};
        cst_report_add_string(report, names, name);
        for (int j = 0; j < COUNT; j++)
            cka[i][j] = i == j ? 1 : 0.001 * (i + j);
    }
    cst_report_matrix(report, report->root, "cka", &cka[0][0], COUNT, COUNT);
    char *text = text_of(context, report, 0);
    assert_contains(text, "The 20 most similar pairs of 300");
    assert_contains(text, "mx      my      0.0470\n");
    cst_free(context, text);
    cst_report_free(context, report);
}

/* ---- comparisons ---- */

static const char COMPARE[] =
    "{\"split\": \"oof\", \"scored\": \"nested\", \"samples\": 1437, \"classes\": 10,"
    " \"models_in\": 16, \"seed\": 4, \"resamples\": 5000, \"reference\": \"default\","
    " \"ranked_by\": \"nll\", \"ood\": \"svhn\","
    " \"definitions\": {\"top1\": \"fraction right\", \"nll\": \"mean, nats\","
    "                   \"corp\": \"bin-free\", \"max_probability\": \"one less the largest\"},"
    " \"rows\": ["
    "  {\"method\": \"average\", \"rank\": 2, \"definition\": \"The mean, of all.\", \"detail\": "
    "\"a, "
    "\\\"b\\\"\","
    "   \"top1\": 0.97, \"top1_ci\": [0.961, 0.979], \"ece\": 0.05, \"ece_ci\": [0.04, 0.0604],"
    "   \"nll\": 0.1, \"nll_ci\": [0.09, 0.11], \"brier\": 0.06, \"brier_ci\": [0.0595, 0.0605],"
    "   \"corp\": 0.004, \"difference\": {\"nll\": 0.03, \"nll_ci\": [0.02, 0.04]},"
    "   \"ood_auroc\": 0.9, \"ood_fpr95\": 0.3,"
    "   \"mix\": \"linear\", \"weights\": [0.5, 0.5], \"models\": 16, \"kappa_gram\": 812.5,"
    "   \"flops_rel\": 1.0, \"seconds\": 0.01},"
    "  {\"method\": \"mlp\", \"rank\": 3, \"definition\": null, \"detail\": \"\","
    "   \"top1\": 0.98, \"top1_ci\": [0.97, 0.99], \"ece\": 0.02, \"ece_ci\": [0.01, 0.03],"
    "   \"nll\": 0.30000000000000004, \"nll_ci\": [0.29, 1.25], \"brier\": 0.05,"
    "   \"brier_ci\": [0.04, 0.06], \"corp\": 0.003,"
    "   \"difference\": {\"nll\": 0.23, \"nll_ci\": [0.2, 0.3]},"
    "   \"ood_auroc\": 0.8, \"ood_fpr95\": 0.2, \"mix\": null, \"weights\": null, \"models\": 16,"
    "   \"kappa_gram\": 812.5, \"flops_rel\": 1.0, \"seconds\": 2.5},"
    "  {\"method\": \"default\", \"rank\": 1, \"definition\": \"x\", \"detail\": \"\","
    "   \"top1\": 0.98, \"top1_ci\": [0.97, 0.99], \"ece\": 0.01, \"ece_ci\": [0.005, 0.015],"
    "   \"nll\": 0.07, \"nll_ci\": [0.06, 0.08], \"brier\": 0.04, \"brier_ci\": [0.03, 0.05],"
    "   \"corp\": 0.002, \"ood_auroc\": 0.95, \"ood_fpr95\": 0.1, \"mix\": \"log-linear\","
    "   \"weights\": [1, 0], \"models\": 5, \"kappa_gram\": 8.5, \"flops_rel\": 0.25,"
    "   \"seconds\": 3.0}],"
    " \"tests\": ["
    "  {\"a\": \"default\", \"b\": \"average\", \"metric\": \"nll\", \"test\": \"paired t\","
    "   \"statistic\": -6.5, \"df\": 1436, \"difference\": -0.03, \"p\": 1e-9,"
    "   \"p_adjusted\": 2e-9},"
    "  {\"a\": \"default\", \"b\": \"average\", \"metric\": \"top1\", \"test\": \"McNemar exact\","
    "   \"only_a\": 20, \"only_b\": 6, \"p\": 0.0125, \"p_adjusted\": 0.025},"
    "  {\"a\": \"default\", \"b\": \"mlp\", \"metric\": \"nll\", \"test\": \"paired t\","
    "   \"statistic\": -0.5, \"df\": 1436, \"difference\": -0.23, \"p\": 0.4,"
    "   \"p_adjusted\": 0.8}],"
    " \"adjustment\": \"Bonferroni\","
    " \"kappa_gram_top1\": {\"spearman\": -0.5, \"p\": 0.667, \"exact\": true, \"methods\": 3},"
    " \"seconds\": {\"read\": 0.5, \"total\": 6.25}, \"notices\": [\"a notice\"]}";

static void compare_text_is_a_leaderboard(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_COMPARE, COMPARE);
    char *text = text_of(context, report, 0);
    assert_contains(text, "split oof, 1437 samples, 16 members, 10 classes, seed 4\n");
    assert_contains(text, "nested out-of-fold: every row is scored by a fit that did not see it");
    assert_contains(text, "  default    98.00 97.0-99.0  0.0100 .005-.015  0.0700 .060-.080    5  "
                          "0.250  reference\n"
                          "  average    97.00 96.1-97.9  0.0500 .040-.060  0.1000 .090-.110   16  "
                          "1.000  worse, p <0.001\n"
                          "  mlp        98.00 97.0-99.0  0.0200 .010-.030  0.3000 .290-1.250  16  "
                          "1.000  unclear, p 0.800\n"
                          "  More columns: --verbose.\n");
    assert_contains(text, "95% bootstrap interval, 5000 resamples");
    assert_contains(text, "Detection of out-of-distribution rows: split svhn\n");
    assert_contains(text, "  - a notice\n");
    assert_contains(text, "Seconds: read 0.50, total 6.25\n");
    assert_null(strstr(text, "bin-free"));
    assert_null(strstr(text, "significant"));
    assert_null(strstr(text, "log-linear"));
    assert_null(strchr(text, '\033'));
    assert_null(strstr(text, " \n"));
    cst_free(context, text);
    text = full_text_of(context, report);
    assert_contains(text, "2 of 3 significant at 0.05 after adjustment (Bonferroni)\n");
    assert_contains(text, "  average  NLL         -0.0300             -  -6.50  1436     <0.001*  "
                          "paired t\n");
    assert_contains(text, "20 : 6");
    assert_contains(text, "over 3 methods: -0.500, p = 0.667 (exact), kappa of the Gram matrix\n");
    assert_contains(text, "  top-1 %: fraction right\n");
    assert_contains(text, "  max_probability: one less the largest\n");
    assert_contains(text, "CORP: bin-free");
    assert_contains(text, "log-linear");
    assert_contains(text, "812.5");
    assert_contains(text, "a, \"b\"");
    assert_contains(text, "  mlp      NLL         -0.2300             -  -0.50  1436       0.800  "
                          "paired t\n");
    cst_free(context, text);
    cst_report_free(context, report);
}

static void best_is_bold_and_second_underlined(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_COMPARE, COMPARE);
    char *text = text_of(context, report, 1);
    assert_contains(text, "\033[1m0.0100\033[0m"); /* ECE: less is better */
    assert_contains(text, "\033[4m0.0200\033[0m");
    assert_contains(text, "\033[4m0.1000\033[0m");
    assert_contains(text, "\033[4m97.00\033[0m");  /* two are best, so this is second */
    assert_contains(text, "\033[1m0.9500\033[0m"); /* AUROC: more is better */
    assert_contains(text, "\033[4m0.9000\033[0m");
    assert_contains(text, "\033[1m0.1000\033[0m"); /* FPR: less */
    assert_null(strstr(text, "\033[4m0.3000"));
    assert_contains(text, "Best of each column in bold");
    const char *bold = strstr(text, "\033[1m98.00\033[0m");
    assert_non_null(bold);
    assert_non_null(strstr(bold + 1, "\033[1m98.00\033[0m"));
    cst_free(context, text);
    assert_int_equal(cst_report_markdown(context, report, &text), CST_OK);
    assert_contains(text, "| method | top-1 % | ECE | NLL | Brier | CORP | AUROC | FPR@95 | K | "
                          "kappa Gram | FLOPs | seconds | detail | p NLL |\n"
                          "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|\n");
    assert_contains(text, "| average | <u>97.00</u> [96.10, 97.90] | 0.0500 [0.0400, 0.0604] |");
    assert_contains(text, "| default | **98.00** [97.00, 99.00] | **0.0100** [0.0050, 0.0150] |");
    assert_contains(text, " <0.001 |\n");
    assert_contains(text, " 0.800 |\n");
    cst_free(context, text);
    cst_report_free(context, report);
}

static void latex_escapes_and_marks(void **state) {
    cst_context *context = *state;
    cst_report *report =
        parsed(context, CST_REPORT_COMPARE,
               "{\"split\": \"a_b\", \"repetitions\": [{}, {}, {}], \"rows\": ["
               "{\"method\": \"a&b_c%$#{}~^\\\\\", \"top1\": 0.83104, \"top1_se\": 0.001,"
               " \"nll\": 0.5, \"models\": 2.5},"
               "{\"method\": \"d--e\", \"top1\": 0.83101, \"top1_se\": 0.0026, \"nll\": 0.4,"
               " \"models\": 3},"
               "{\"method\": \"f\", \"top1\": 0.82, \"top1_se\": 0, \"nll\": null,"
               " \"models\": 3}]}");
    char *text = NULL;
    assert_int_equal(cst_report_latex(context, report, &text), CST_OK);
    assert_contains(text,
                    "\\caption{Scores of the methods, split a\\_b. Mean and standard error over "
                    "3 repetitions.");
    assert_contains(text, "\\textbf{method} & \\textbf{top-1 (\\%)} $\\uparrow$ & \\textbf{NLL} "
                          "$\\downarrow$ & \\textbf{models} \\\\\n");
    assert_contains(text, "a\\&b\\_c\\%\\$\\#\\{\\}\\textasciitilde{}\\textasciicircum{}"
                          "\\textbackslash{} & $\\mathbf{83.10\\pm0.10}$ & "
                          "\\underline{$0.5000$} & $2.5$ \\\\\n");
    /* shown alike, so marked alike */
    assert_contains(text, "d-{}-e & $\\mathbf{83.10\\pm0.26}$ & $\\mathbf{0.4000}$ & $3.0$ \\\\\n");
    assert_contains(text, "f & \\underline{$82.00\\pm0.00$} & -- & $3.0$ \\\\\n");
    cst_free(context, text);
    cst_report_free(context, report);
    report = parsed(context, CST_REPORT_FIT, FIT);
    assert_int_equal(cst_report_latex(context, report, &text), CST_ERROR_ARGUMENT);
    assert_null(text);
    cst_report_free(context, report);
}

static void csv_has_every_number_in_full(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_COMPARE, COMPARE);
    char *text = NULL;
    assert_int_equal(cst_report_csv(context, report, &text), CST_OK);
    assert_string_equal(
        text,
        "method,rank,detail,top1,top1_low,top1_high,ece,ece_low,ece_high,nll,nll_low,nll_high,"
        "brier,"
        "brier_low,brier_high,corp,difference_nll,difference_nll_low,difference_nll_high,"
        "ood_auroc,ood_fpr95,mix,models,kappa_gram,flops_rel,seconds\n"
        "average,2,\"a, \"\"b\"\"\",0.97,0.961,0.979,0.05,0.04,0.0604,0.1,0.09,0.11,0.06,0.0595,"
        "0.0605,0.004,0.03,0.02,0.04,0.9,0.3,linear,16,812.5,1,0.01\n"
        "mlp,3,,0.98,0.97,0.99,0.02,0.01,0.03,0.30000000000000004,0.29,1.25,0.05,0.04,0.06,0.003,"
        "0.23,0.2,0.3,0.8,0.2,,16,812.5,1,2.5\n"
        "default,1,,0.98,0.97,0.99,0.01,0.005,0.015,0.07,0.06,0.08,0.04,0.03,0.05,0.002,,,,0.95,"
        "0.1,log-linear,5,8.5,0.25,3\n");
    cst_free(context, text);
    cst_report_free(context, report);
    report = parsed(context, CST_REPORT_FIT, FIT);
    assert_int_equal(cst_report_csv(context, report, &text), CST_ERROR_ARGUMENT);
    assert_null(text);
    assert_int_equal(cst_report_markdown(context, report, &text), CST_ERROR_ARGUMENT);
    assert_null(text);
    cst_report_free(context, report);
}

static void tables_of_an_evaluation(void **state) {
    cst_context *context = *state;
    cst_report *report =
        parsed(context, CST_REPORT_EVALUATE,
               "{\"split\": \"test\", \"top1\": 0.98, \"top1_ci\": [0.96, 0.99], \"nll\": 0.07,"
               " \"models\": 4, \"baselines\": [{\"method\": \"best-single\","
               " \"detail\": \"net|<b>\", \"top1\": 0.97, \"top1_ci\": [0.95, 0.98],"
               " \"nll\": 0.09, \"models\": 1}]}");
    char *text = NULL;
    assert_int_equal(cst_report_csv(context, report, &text), CST_OK);
    assert_string_equal(text, "method,detail,top1,top1_low,top1_high,nll,models\n"
                              "corestack,,0.98,0.96,0.99,0.07,4\n"
                              "best-single,net|<b>,0.97,0.95,0.98,0.09,1\n");
    cst_free(context, text);
    assert_int_equal(cst_report_markdown(context, report, &text), CST_OK);
    assert_string_equal(text, "| method | top-1 % | NLL | K | detail |\n"
                              "|---|--:|--:|--:|---|\n"
                              "| corestack | **98.00** [96.00, 99.00] | **0.0700** | 4 |  |\n"
                              "| best-single | <u>97.00</u> [95.00, 98.00] | <u>0.0900</u> | 1 | "
                              "net\\|\\<b\\> |\n");
    cst_free(context, text);
    cst_report_free(context, report);
}

static const char ABLATE[] =
    "{\"split\": \"test\", \"scored\": \"held-out\", \"samples\": 360, \"seed\": 0,"
    " \"resamples\": 100, \"rows\": ["
    "  {\"stage\": \"prototype\", \"settings\": [], \"top1\": 0.9, \"top1_ci\": [0.85, 0.95],"
    "   \"ece\": 0.1, \"nll\": 0.5, \"brier\": 0.2, \"kappa_gram\": 123.4, \"models\": 9,"
    "   \"flops_rel\": null, \"seconds\": 0.5},"
    "  {\"stage\": \"+S1 CKA\", \"settings\": [\"redundancy.measure=cka\","
    "   \"cka.threshold=0.85\"], \"top1\": 0.92, \"top1_ci\": [0.88, 0.96], \"ece\": 0.09,"
    "   \"nll\": 0.6, \"brier\": 0.2, \"difference\": {\"top1\": 0.02, \"top1_ci\": [0.01, 0.03],"
    "   \"nll\": 0.1, \"nll_ci\": [-0.05, 0.2]}, \"kappa_gram\": 12.5, \"models\": 4,"
    "   \"flops_rel\": null, \"seconds\": 0.25}], \"notices\": []}";

static void ablate_text_shows_what_each_stage_changes(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_ABLATE, ABLATE);
    char *text = text_of(context, report, 0);
    assert_contains(text, "fitted on split oof, scored once on split test.");
    assert_contains(text, "  prototype    90.00 85.0-95.0  0.1000  0.5000  0.2000  9\n");
    assert_contains(text, "  +S1 CKA    +2.00 [1.00, 3.00]*  +0.1000 [-0.0500, 0.2000]\n");
    assert_contains(text, "redundancy.measure=cka, cka.threshold=0.85\n");
    assert_null(strstr(text, "FLOPs  "));
    assert_null(strstr(text, "123.4"));
    cst_free(context, text);
    text = full_text_of(context, report);
    assert_contains(text, "  9       123.4  0.50\n");
    cst_free(context, text);
    assert_int_equal(cst_report_csv(context, report, &text), CST_OK);
    assert_contains(text, "stage,settings,top1,top1_low,top1_high,");
    assert_contains(text, "+S1 CKA,\"redundancy.measure=cka;cka.threshold=0.85\",0.92,");
    cst_free(context, text);
    cst_report_free(context, report);
}

static const char SWEEP[] =
    "{\"key\": \"pool.size\", \"split\": \"oof\", \"scored\": \"nested\", \"samples\": 90,"
    " \"seed\": 0, \"draws\": 2, \"rows\": ["
    "  {\"method\": \"default\", \"value\": \"4\", \"draw\": 0, \"members\": [\"a\", \"b;c\"],"
    "   \"top1\": 0.9, \"ece\": 0.1, \"nll\": 0.5, \"brier\": 0.2, \"models\": 3},"
    "  {\"method\": \"default\", \"value\": \"4\", \"draw\": 1, \"members\": [\"a\", \"=d\"],"
    "   \"top1\": 0.8, \"ece\": 0.2, \"nll\": 0.75, \"brier\": 0.3, \"models\": 4}],"
    " \"summary\": [{\"method\": \"default\", \"value\": \"4\", \"draws\": 2, \"top1_mean\": 0.85,"
    "  \"top1_sd\": 0.0707, \"ece_mean\": 0.15, \"ece_sd\": 0.0707, \"nll_mean\": 0.625,"
    "  \"nll_sd\": 0.1768, \"models_mean\": 3.5}], \"notices\": []}";

static void sweep_text_has_means_or_values(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_SWEEP, SWEEP);
    char *text = text_of(context, report, 0);
    assert_contains(text, "corestack sweep over pool.size\n");
    assert_contains(text, "  default          4      2    85.00 sd 7.07  0.1500 sd 0.0707  0.6250 "
                          "sd 0.1768  3.5\n");
    assert_null(strstr(text, "0.7500"));
    cst_free(context, text);
    text = full_text_of(context, report);
    assert_contains(text, "0.7500");
    cst_free(context, text);
    assert_int_equal(cst_report_csv(context, report, &text), CST_OK);
    assert_contains(text, "default,4,0,\"a;b;c\",0.9,0.1,0.5,0.2,3\n"
                          "default,4,1,\"a;'=d\",0.8,");
    cst_free(context, text);
    assert_int_equal(json_object_del(report->root, "summary"), 0);
    assert_int_equal(json_object_set_new(report->root, "key", json_string("cka.threshold")), 0);
    text = text_of(context, report, 0);
    assert_contains(text, "method   cka.threshold  draw  top-1 %");
    assert_contains(text, "0.7500");
    cst_free(context, text);
    assert_int_equal(cst_report_markdown(context, report, &text), CST_OK);
    assert_contains(text, "| method | cka.threshold | draw | top-1 % |");
    assert_contains(text, "| default | 4 | 0 | **90.00** |");
    cst_free(context, text);
    cst_report_free(context, report);
}

/* ---- other tasks ---- */

static const char SEGMENTATION[] =
    "{\"task\": \"segmentation\", \"split\": \"test\", \"scored\": \"held-out\", \"cases\": 16,"
    " \"pixels\": 18771, \"ignored\": 429, \"boundary\": {\"pixels\": 2}, \"classes\": 11,"
    " \"models_in\": 4, \"seed\": 0, \"resamples\": 200, \"reference\": \"default\","
    " \"definitions\": {\"miou\": \"mean IoU\", \"fwiou\": \"weighted IoU\"}, \"rows\": ["
    "  {\"method\": \"average\", \"detail\": \"\", \"miou\": 0.5139, \"miou_ci\": [0.47, 0.542],"
    "   \"pixel_accuracy\": 0.8719, \"pixel_accuracy_ci\": [0.8, 0.9], \"fwiou\": 0.7878,"
    "   \"fwiou_ci\": [0.7, 0.8], \"boundary_error\": 0.2725, \"ece\": 0.0904, \"nll\": 0.4463,"
    "   \"mix\": \"linear\", \"models\": 4, \"kappa_gram\": 62.5, \"flops_rel\": 1, \"seconds\": "
    "0.5},"
    "  {\"method\": \"default\", \"detail\": \"offsets\", \"miou\": 0.5389,"
    "   \"miou_ci\": [0.493, 0.568], \"pixel_accuracy\": 0.8795, \"fwiou\": 0.8012,"
    "   \"boundary_error\": 0.2549, \"ece\": 0.0178, \"nll\": 0.3479, \"models\": 3,"
    "   \"kappa_gram\": 8.5, \"flops_rel\": 0.817, \"seconds\": 5.88}],"
    " \"tests\": [{\"a\": \"default\", \"b\": \"average\", \"metric\": \"miou\","
    "  \"test\": \"paired bootstrap over cases\", \"difference\": 0.025, \"p\": 0.01,"
    "  \"p_adjusted\": 0.03}],"
    " \"kappa_gram_miou\": {\"spearman\": -0.5, \"p\": 0.667, \"exact\": true, \"methods\": 3}}";

static void compare_text_of_a_segmentation(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_COMPARE, SEGMENTATION);
    char *text = text_of(context, report, 0);
    assert_contains(text, "  split test, 16 cases, 18771 pixels, 429 ignored, boundary width 2, "
                          "4 members, 11 classes, seed 0\n");
    assert_contains(text, "  method   mIoU %            pixel %  edge %     ECE     NLL  K  FLOPs"
                          "  verdict\n"
                          "  average   51.39 47.0-54.2    87.19   27.25  0.0904  0.4463  4  1.000"
                          "  worse, p 0.030\n"
                          "  default   53.89 49.3-56.8    87.95   25.49  0.0178  0.3479  3  0.817"
                          "  reference\n");
    assert_contains(text, "  Next to mIoU %: the 95% bootstrap interval, 200 resamples paired over "
                          "cases.\n");
    assert_null(strstr(text, "only correct"));
    assert_null(strstr(text, "an ECE may lie"));
    assert_null(strstr(text, "fwIoU"));
    cst_free(context, text);
    text = full_text_of(context, report);
    assert_contains(text,
                    "  average  mIoU %     +0.0250      0.030*  paired bootstrap over cases\n");
    assert_contains(text, "\nCondition number and mIoU\n");
    assert_contains(text, "  mIoU %: mean IoU\n");
    assert_contains(text, "\nFurther scores\n  method   fwIoU %\n  average    78.78\n");
    assert_contains(text,
                    "  average  linear        62.5\n  default  -              8.5  offsets\n");
    assert_contains(text, "  fwIoU %: weighted IoU\n");
    cst_free(context, text);
    assert_int_equal(cst_report_markdown(context, report, &text), CST_OK);
    assert_contains(text,
                    "| method | mIoU % | pixel % | fwIoU % | edge % | ECE | NLL | K | kappa Gram | "
                    "FLOPs | seconds | detail | p mIoU % |\n");
    assert_contains(text, "| <u>78.78</u> [70.00, 80.00] |");
    cst_free(context, text);
    cst_report_free(context, report);
}

static const char DETECTION[] =
    "{\"task\": \"detection\", \"split\": \"test\", \"scored\": \"held-out\", \"samples\": 30,"
    " \"images\": 30, \"annotations\": 416, \"models_in\": 4, \"seed\": 0, \"resamples\": 50,"
    " \"ap_definition\": \"COCO: a mean\", \"rows\": ["
    "  {\"stage\": \"prototype\", \"settings\": [], \"AP\": 0.485, \"AP_ci\": [0.455, 0.532],"
    "   \"AP50\": 0.807, \"APs\": -1, \"APm\": 0.3845, \"AR100\": 0.556,"
    "   \"AR100_ci\": [0.5, 0.6], \"models\": 1, \"kappa_gram\": 1, \"seconds\": 0.25},"
    "  {\"stage\": \"+S1 CKA\", \"settings\": [\"a=b\"], \"AP\": 0.5367,"
    "   \"AP_ci\": [0.508, 0.581], \"AP50\": 0.86, \"APs\": 0, \"APm\": 0.408,"
    "   \"AR100\": 0.625, \"models\": 4, \"kappa_gram\": 12.5, \"seconds\": 0.5,"
    "   \"difference\": {\"AP\": -0.05, \"AP_ci\": [-0.07, -0.02], \"AP50\": 0.053}}]}";

static void ablate_text_of_detections(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_ABLATE, DETECTION);
    char *text = full_text_of(context, report);
    assert_contains(text, "  split test, 30 images, 416 true boxes, 4 members, seed 0\n");
    assert_contains(text,
                    "  stage       AP %            AP50 %  APs %  APm %  K  kappa Gram     s\n"
                    "  prototype  48.50 45.5-53.2   80.70      -  38.45  1         1.0  0.25\n"
                    "  +S1 CKA    53.67 50.8-58.1   86.00   0.00  40.80  4        12.5  0.50\n");
    assert_contains(text, "  stage     AP %                  AP50 %\n"
                          "  +S1 CKA  -5.00 [-7.00, -2.00]*   +5.30\n");
    assert_contains(text, "\nFurther scores\n"
                          "  stage      AR100 %\n"
                          "  prototype    55.60 [50.00, 60.00]\n");
    assert_contains(text, "  COCO: a mean\n");
    cst_free(context, text);
    cst_report_free(context, report);
}

static const char REGRESSION[] =
    "{\"task\": \"regression\", \"split\": \"test\", \"samples\": 111, \"rmse\": 57.9198,"
    " \"rmse_ci\": [50.97446, 65.93046], \"mae\": 44.9526, \"median_ae\": 36.9, \"r2\": -0.5,"
    " \"nll\": 5.4884, \"levels\": [0.5, 0.9], \"coverage\": [0.53, 0.88], \"width\": [79.9, 175],"
    " \"models\": 10, \"resamples\": 200, \"seed\": 3,"
    " \"outputs\": [{\"name\": \"x\", \"rmse\": 50}, {\"name\": \"y\", \"rmse\": 60}],"
    " \"baselines\": [{\"method\": \"average\", \"rmse\": 58.1, \"mae\": 44, \"r2\": 0.25,"
    "  \"nll\": null, \"coverage\": [0.5, 0.875], \"width\": [70, 150], \"models\": 18}]}";

static void evaluate_text_of_a_regression(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_EVALUATE, REGRESSION);
    char *text = text_of(context, report, 0);
    assert_contains(text, "corestack evaluate: split test, 111 samples\n");
    assert_contains(text, "  method      K      RMSE                       MAE      R^2     NLL\n"
                          "  corestack  10  57.91980 50.9745-65.9305  44.95260  -0.5000  5.4884\n"
                          "  average    18  58.10000                  44.00000   0.2500       -\n");
    assert_contains(text, "  method      50 %    width   90 %     width\n"
                          "  corestack  53.00  79.9000  88.00  175.0000\n"
                          "  average    50.00  70.0000  87.50  150.0000\n");
    assert_contains(text, "  output     RMSE\n  x       50.0000\n");
    assert_contains(text, "resamples, seed 3.\n");
    cst_free(context, text);
    assert_int_equal(cst_report_csv(context, report, &text), CST_OK);
    assert_contains(text, "method,rmse,rmse_low,rmse_high,mae,median_ae,r2,nll,models\n"
                          "corestack,57.9198,50.97446,65.93046,44.9526,36.9,-0.5,5.4884,10\n");
    cst_free(context, text);
    cst_report_free(context, report);
}

/* The document with which a sweep over the size of the pool ends. */
static void sweep_text_of_a_regression(void **state) {
    cst_context *context = *state;
    cst_report *report =
        parsed(context, CST_REPORT_SWEEP,
               "{\"task\": \"regression\", \"key\": \"pool.size\", \"split\": \"oof\","
               " \"samples\": 90, \"output_count\": 2, \"models_in\": 3, \"rows\": [],"
               " \"summary\": [{\"method\": \"default\", \"value\": \"4\", \"draws\": 2,"
               "  \"rmse_mean\": 50.5, \"rmse_sd\": 1.25, \"r2_mean\": 0.5, \"r2_sd\": null,"
               "  \"models_mean\": 3.5}]}");
    char *text = text_of(context, report, 0);
    assert_contains(text, "  split oof, 90 samples, 3 members, 2 outputs\n");
    assert_contains(text, "  method   pool.size  draws      RMSE                R^2    K\n"
                          "  default          4      2  50.50000 sd 1.25000  0.5000  3.5\n");
    cst_free(context, text);
    cst_report_free(context, report);
}

static void missing_arguments_are_errors(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_COMPARE, COMPARE);
    char *text = NULL;
    assert_int_equal(cst_report_csv(context, NULL, &text), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_report_csv(context, report, NULL), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_report_markdown(context, NULL, &text), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_report_markdown(context, report, NULL), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_report_text_full(context, NULL, 0, &text), CST_ERROR_ARGUMENT);
    assert_int_equal(cst_report_text_full(context, report, 0, NULL), CST_ERROR_ARGUMENT);
    assert_null(text);
    cst_report_free(context, report);
}

/* An allocator that grants `left` requests and refuses those after; `held` counts what is not
 * freed. */
typedef struct stingy {
    int left;
    int held;
} stingy;

static void *stingy_realloc(void *user, void *pointer, size_t bytes) {
    stingy *allocator = user;
    if (bytes == 0) {
        allocator->held -= pointer != NULL;
        free(pointer);
        return NULL;
    }
    if (allocator->left <= 0)
        return NULL;
    allocator->left--;
    void *result = realloc(pointer, bytes);
    allocator->held += !pointer && result;
    return result;
}

typedef cst_status (*rendering)(cst_context *context, const cst_report *report, char **out);

static cst_status in_color(cst_context *context, const cst_report *report, char **out) {
    return cst_report_text(context, report, 1, out);
}

static cst_status in_full(cst_context *context, const cst_report *report, char **out) {
    return cst_report_text_full(context, report, 0, out);
}

/* Every allocation of a rendering may fail: the status says so, nothing is left behind. */
static void run_out_of_memory(rendering render, cst_report_kind kind, const char *document) {
    int granted = 0;
    cst_status status = CST_ERROR_MEMORY;
    for (; status != CST_OK; granted++) {
        assert_true(granted < 2000);
        stingy allocator = {.left = 1000000};
        cst_context *context = NULL;
        assert_int_equal(cst_context_create_with(&context, stingy_realloc, &allocator), CST_OK);
        cst_report *report = parsed(context, kind, document);
        char *text = NULL;
        allocator.left = granted;
        status = render(context, report, &text);
        if (status != CST_OK) {
            assert_int_equal(status, CST_ERROR_MEMORY);
            assert_null(text);
            assert_non_null(strstr(cst_last_error(context), "memory"));
        }
        cst_free(context, text);
        cst_report_free(context, report);
        cst_context_free(context);
        assert_int_equal(allocator.held, 0);
    }
    assert_true(granted > (render == cst_report_json ? 1 : 50));
}

static void values_are_read_by_path(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_COMPARE,
                                "{\"rows\": [{\"method\": \"a\", \"nll\": 0.25}, {\"nll\": null}],"
                                " \"settings\": {\"folds.count\": 5}, \"nested\": true}");
    double number = 0;
    const char *text = NULL;
    int64_t count = 0;
    assert_int_equal(cst_report_get_number(context, report, "rows.0.nll", &number), CST_OK);
    assert_true(number == 0.25);
    assert_int_equal(cst_report_get_number(context, report, "rows.1.nll", &number), CST_OK);
    assert_true(isnan(number));
    assert_int_equal(cst_report_get_number(context, report, "settings.folds.count", &number),
                     CST_OK);
    assert_true(number == 5);
    assert_int_equal(cst_report_get_number(context, report, "nested", &number), CST_OK);
    assert_true(number == 1);
    assert_int_equal(cst_report_get_string(context, report, "rows.0.method", &text), CST_OK);
    assert_string_equal(text, "a");
    assert_int_equal(cst_report_get_count(context, report, "rows", &count), CST_OK);
    assert_int_equal(count, 2);
    static const char *const wrong[] = {"",      "rows.2.nll", "rows.x",
                                        "rows.", "row",        "rows.0.method"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(cst_report_get_number(context, report, wrong[i], &number),
                         CST_ERROR_ARGUMENT);
    assert_non_null(
        strstr(cst_last_error(context), "'rows.0.method' of the report is not a number"));
    cst_report_free(context, report);
}

static void memory_may_run_out(void **state) {
    (void)state;
    run_out_of_memory(in_color, CST_REPORT_FIT, FIT);
    run_out_of_memory(cst_report_json, CST_REPORT_FIT, FIT);
    run_out_of_memory(in_full, CST_REPORT_COMPARE, COMPARE);
    run_out_of_memory(in_color, CST_REPORT_ABLATE, ABLATE);
    run_out_of_memory(in_full, CST_REPORT_SWEEP, SWEEP);
    run_out_of_memory(cst_report_csv, CST_REPORT_COMPARE, COMPARE);
    run_out_of_memory(cst_report_csv, CST_REPORT_SWEEP, SWEEP);
    run_out_of_memory(cst_report_markdown, CST_REPORT_COMPARE, COMPARE);
    run_out_of_memory(cst_report_latex, CST_REPORT_COMPARE, COMPARE);
    run_out_of_memory(in_full, CST_REPORT_COMPARE, SEGMENTATION);
    run_out_of_memory(in_full, CST_REPORT_ABLATE, DETECTION);
    run_out_of_memory(in_full, CST_REPORT_EVALUATE, REGRESSION);
}

int suite_report(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_keeps_order_and_nulls),
        cmocka_unit_test(failures_are_kept),
        cmocka_unit_test(fit_text_says_what_matters),
        cmocka_unit_test(fit_text_names_the_twin),
        cmocka_unit_test(empty_documents_are_shown),
        cmocka_unit_test(evaluate_text_marks_the_best),
        cmocka_unit_test(inspect_text_shows_both_halves),
        cmocka_unit_test(many_members_become_pairs),
        cmocka_unit_test(compare_text_is_a_leaderboard),
        cmocka_unit_test(best_is_bold_and_second_underlined),
        cmocka_unit_test(latex_escapes_and_marks),
        cmocka_unit_test(csv_has_every_number_in_full),
        cmocka_unit_test(tables_of_an_evaluation),
        cmocka_unit_test(ablate_text_shows_what_each_stage_changes),
        cmocka_unit_test(sweep_text_has_means_or_values),
        cmocka_unit_test(compare_text_of_a_segmentation),
        cmocka_unit_test(ablate_text_of_detections),
        cmocka_unit_test(evaluate_text_of_a_regression),
        cmocka_unit_test(sweep_text_of_a_regression),
        cmocka_unit_test(missing_arguments_are_errors),
        cmocka_unit_test(values_are_read_by_path),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests_name("report", tests, context_setup, context_teardown);
}
