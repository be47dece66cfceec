/*
 * Extreme pools of classification through every computation: inspect, fit, prediction, evaluation,
 * comparison, model files. Results are finite, or the refusal is one line.
 */
#include "edge_case.h"
#include "extreme_case.h"

/* Comparisons leave out presets that refuse a pool. */
static const edge EDGES[] = {
    EDGE(denormals),
    EDGE(denormals_of_float64),
    EDGE(half_precision),
    COMPARED(zeros_and_ones),
    EDGE(always_wrong),
    EDGE(truth_zero_in_some_rows),
    EDGE(perfectly_right),
    EDGE(separable),
    REFUSED(uniform, LINEAR, "nothing to fit"),
    COMPARED(constant_members),
    EDGE(a_constant_member),
    EDGE(identical_members),
    EDGE(forty_copies_and_two),
    EDGE(more_members_than_rows),
    REFUSED(one_row, EVERYBODY, "1 rows cannot be divided into 5 folds"),
    REFUSED(two_rows, EVERYBODY, "2 rows cannot be divided into 5 folds"),
    REFUSED(three_rows, EVERYBODY, "3 rows cannot be divided into 5 folds"),
    REFUSED(two_rows_in_two_folds, NESTED, "1 rows cannot be divided into 2 folds"),
    EDGE(ten_rows),
    EDGE(two_classes),
    COMPARED(one_member),
    COMPARED(one_constant_member),
    COMPARED(one_label),
    EDGE(one_label_of_two),
    EDGE(classes_that_never_occur),
    COMPARED(a_class_with_one_sample),
    EDGE(folds_that_miss_a_class),
    EDGE(duplicated_rows),
    EDGE(equal_rows),
    EDGE(huge_logits),
    COMPARED(largest_logits),
    REFUSED(tiny_logits, LINEAR, "nothing to fit"),
    EDGE(tiny_weights),
    EDGE(huge_weights),
    COMPARED(weights_of_every_size),
    EDGE(denormal_weights),
    REFUSED(weight_on_one_row, EVERYBODY, "1 rows cannot be divided into 5 folds"),
    EDGE(no_weight_on_a_class),
    LARGE(a_hundred_thousand_classes),
};
enum { EDGE_COUNT = sizeof EDGES / sizeof EDGES[0] };

/* ---- tests ---- */

static void compares(void **state) {
    static const char *const methods[] = {
        "all",
        "default+temperature",
        "default+vector",
        "default+isotonic",
        "default+platt",
        "average+temperature",
        "best-single+vector",
        "average+isotonic",
        "best-single+platt",
    };
    const edge *e = *state;
    compare_methods(e, methods, 9, e->refusal == EVERYBODY || e->refusal == NESTED);
}

/* Fits a preset; the weight of a member, 0 where it is not kept. */
static void fit_weights(pool_case *c, const char *fraction, int32_t *kept, double *weights) {
    cst_context *context = NULL;
    cst_options *options = NULL;
    cst_pool *pool = NULL;
    cst_model *model = NULL;
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(make_pool(context, c, &pool), CST_OK);
    assert_int_equal(cst_options_create(context, &options), CST_OK);
    assert_int_equal(cst_options_set(context, options, "keep.fraction", fraction), CST_OK);
    assert_int_equal(cst_fit(context, pool, "oof", options, &model, NULL), CST_OK);
    cst_options_free(context, options);
    *kept = (int32_t)cst_model_members(model);
    memset(weights, 0, (size_t)c->members * sizeof *weights);
    for (int32_t k = 0; k < *kept; k++)
        weights[cst_pool_member_index(pool, cst_model_member_name(model, k))] =
            cst_model_member_weight(model, k);
    cst_model_free(context, model);
    cst_pool_free(context, pool);
    cst_context_free(context);
}

/* Members that know nothing, and one that says the same of every row, get next to no weight where
 * there is place for three. Without a cap a negative weight of noise lets the others, which are
 * independent here, have more weight in all than the prior expects. */
static void noise_gets_no_weight(void **state) {
    (void)state;
    cst_rng rng;
    double weights[6];
    int32_t kept = 0;
    pool_case c = ordinary(6, 600, 4);
    cst_rng_init(&rng, 5, CST_STREAM_TEST, 3);
    for (int64_t i = 0; i < c.rows; i++) {
        noisy_row(&rng, 0, 0, 4, case_row(&c, 1, i));
        noisy_row(&rng, 0, 0, 4, case_row(&c, 3, i));
        sharp_row(case_row(&c, 4, i), 4, 2, 0.1);
    }
    fit_weights(&c, "0.6", &kept, weights);
    double skilled = weights[0] + weights[2] + weights[5];
    assert_true(skilled > 0.8);
    assert_true(fabs(weights[1]) < 0.05 * skilled && fabs(weights[3]) < 0.05 * skilled);
    assert_true(weights[4] == 0);
    free_case(&c);
}

/* Of forty copies one is kept, beside the two that are not copies. */
static void copies_are_kept_once(void **state) {
    (void)state;
    double weights[42];
    int32_t kept = 0;
    int32_t copies = 0;
    pool_case c = forty_copies_and_two();
    fit_weights(&c, "0", &kept, weights);
    for (int32_t k = 0; k < 40; k++)
        copies += weights[k] != 0;
    assert_int_equal(copies, 1);
    assert_int_equal(kept, 3);
    free_case(&c);
}

int main(int argc, char **argv) {
    bool all = argc > 1 && strcmp(argv[1], "long") == 0;
    struct CMUnitTest tests[2 * EDGE_COUNT + 2] = {cmocka_unit_test(noise_gets_no_weight),
                                                   cmocka_unit_test(copies_are_kept_once)};
    size_t count = 2 + edge_tests(EDGES, EDGE_COUNT, compares, all, tests + 2);
    return _cmocka_run_group_tests("numbers", tests, count, NULL, NULL);
}
