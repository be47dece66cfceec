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

static int setup(void **state) {
    return cst_context_create((cst_context **)state) != CST_OK;
}

static int teardown(void **state) {
    cst_context_free(*state);
    return 0;
}

static cst_report *parsed(cst_context *context, cst_report_kind kind, const char *document) {
    cst_report *report = NULL;
    assert_int_equal(cst_report_create(context, kind, &report), CST_OK);
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

#define assert_contains(text, part)                                                                \
    do {                                                                                           \
        if (!strstr(text, part))                                                                   \
            fail_msg("'%s' is not in:\n%s", part, text);                                           \
    } while (0)

static void json_keeps_order_and_nulls(void **state) {
    cst_context *context = *state;
    cst_report *report = NULL;
    assert_int_equal(cst_report_create(context, CST_REPORT_FIT, &report), CST_OK);
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
    assert_int_equal(cst_report_create(context, CST_REPORT_FIT, &report), CST_OK);
    assert_int_equal(cst_report_finish(context, report), CST_OK);
    cst_report_number(report, NULL, "lost", 1);
    assert_int_equal(cst_report_finish(context, report), CST_ERROR_MEMORY);
    cst_report_free(context, report);
    assert_int_equal(cst_report_new(context, "nonsense", &report), CST_ERROR_ARGUMENT);
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
    "             \"members\": [\"svm\", \"twin\"]},"
    "            {\"size\": 1, \"loss\": 0.0612, \"excess\": 0.0012, \"excess_se\": 0.0004,"
    "             \"flops\": null, \"latency_ms\": null, \"allowed\": true, \"chosen\": true,"
    "             \"members\": [\"svm\"]}],"
    " \"kappa_before\": 12345.6, \"kappa_after\": 1.0, \"lambda\": null, \"lambda_rule\": \"star\","
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
    char *text = text_of(context, report, 0);
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
    assert_contains(text, "0.333 of all members'");
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
    cst_report_free(context, report);
}

static void fit_text_names_the_twin(void **state) {
    cst_context *context = *state;
    cst_report *report = parsed(context, CST_REPORT_FIT, FIT);
    json_t *members = json_object_get(report->root, "members");
    assert_int_equal(json_object_set_new(json_array_get(members, 2), "name", json_string("twin")),
                     0);
    char *text = text_of(context, report, 0);
    assert_contains(text, "redundant; CKA 0.9971 to svm\n");
    assert_int_equal(json_object_del(json_object_get(report->root, "blend"), "ridge"), 0);
    cst_free(context, text);
    text = text_of(context, report, 0);
    assert_contains(text, "(rule: star; not used, since no linear meta-learner has weight)\n");
    cst_free(context, text);
    cst_report_free(context, report);
}

static void empty_documents_are_shown(void **state) {
    cst_context *context = *state;
    for (int kind = CST_REPORT_FIT; kind <= CST_REPORT_FOLDS; kind++) {
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
    assert_contains(text, "[96.00, 99.00]");
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
               " \"eigenvalues\": [1.5, 0.5], \"kappa\": 3, \"sigma2\": 0.1, \"mp_edge\": 0.2,"
               " \"snr\": 7, \"lambda\": {\"star\": 0.03, \"cv\": 0.0006, \"gcv\": 0.001,"
               " \"evidence\": 0.002}, \"class_counts\": [2, 3, 4],"
               " \"problems\": [\"class 0 has two samples\"], \"notices\": []}");
    char *text = text_of(context, report, 0);
    assert_contains(text, "1  a     .  -.250\n");
    assert_contains(text, "2  b  .987      .\n");
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
    assert_int_equal(cst_report_create(context, CST_REPORT_INSPECT, &report), CST_OK);
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

/* Every allocation of every rendering may fail: the status says so, nothing is left behind. */
static void memory_may_run_out(void **state) {
    (void)state;
    int granted = 0;
    cst_status status = CST_ERROR_MEMORY;
    for (; status != CST_OK; granted++) {
        assert_true(granted < 2000);
        stingy allocator = {.left = 1000000};
        cst_context *context = NULL;
        assert_int_equal(cst_context_create_with(&context, stingy_realloc, &allocator), CST_OK);
        cst_report *report = parsed(context, CST_REPORT_FIT, FIT);
        char *text = NULL;
        char *json = NULL;
        allocator.left = granted;
        status = cst_report_text(context, report, 1, &text);
        if (status == CST_OK)
            status = cst_report_json(context, report, &json);
        if (status != CST_OK) {
            assert_int_equal(status, CST_ERROR_MEMORY);
            assert_null(json);
            assert_non_null(strstr(cst_last_error(context), "memory"));
        }
        cst_free(context, text);
        cst_free(context, json);
        cst_report_free(context, report);
        cst_context_free(context);
        assert_int_equal(allocator.held, 0);
    }
    assert_true(granted > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_keeps_order_and_nulls),
        cmocka_unit_test(failures_are_kept),
        cmocka_unit_test(fit_text_says_what_matters),
        cmocka_unit_test(fit_text_names_the_twin),
        cmocka_unit_test(empty_documents_are_shown),
        cmocka_unit_test(evaluate_text_marks_the_best),
        cmocka_unit_test(inspect_text_shows_both_halves),
        cmocka_unit_test(many_members_become_pairs),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests_name("report", tests, setup, teardown);
}
