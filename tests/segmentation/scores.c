/*
 * Scores of segmentation against NumPy and SciPy: confusion matrix, boundaries by brute force,
 * calibration of probability maps.
 */
#include "confusion.h"
#include "data/segmentation.h"
#include "tasks/segmentation/segmentation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

enum { PIXELS = map_height * map_width, ALL = map_images * PIXELS, C = map_classes };

static void near_to(double value, double expected, double tolerance) {
    if (isnan(expected)) {
        assert_true(isnan(value));
        return;
    }
    if (!(fabs(value - expected) <= tolerance * fmax(1, fabs(expected))))
        print_error("%.17g instead of %.17g\n", value, expected);
    assert_true(fabs(value - expected) <= tolerance * fmax(1, fabs(expected)));
}

static void check_scores(const cst_segmentation_scores *scores) {
    near_to(scores->miou, map_scores[0], 1e-14);
    near_to(scores->pixel_accuracy, map_scores[1], 1e-14);
    near_to(scores->mean_accuracy, map_scores[2], 1e-14);
    near_to(scores->dice, map_scores[3], 1e-14);
    near_to(scores->fwiou, map_scores[4], 1e-14);
}

static void confusion_scores_are_numpys(void **state) {
    (void)state;
    double iou[C];
    double dice[C];
    double accuracy[C];
    cst_segmentation_scores scores = scores_of_confusion(map_confusion, C, iou, dice, accuracy);
    check_scores(&scores);
    assert_int_equal(scores.classes_present, 5);
    assert_true(isnan(scores.boundary_error) && isnan(scores.nll) && isnan(scores.ece));
    for (int c = 0; c < C; c++) {
        near_to(iou[c], map_iou[c], 1e-14);
        near_to(dice[c], map_dice[c], 1e-14);
        near_to(accuracy[c], map_accuracy[c], 1e-14);
    }
}

static void a_class_that_is_nowhere_does_not_count(void **state) {
    (void)state;
    const int64_t confusion[9] = {8, 2, 0, 1, 9, 0, 0, 0, 0};
    double iou[3];
    cst_segmentation_scores scores = scores_of_confusion(confusion, 3, iou, NULL, NULL);
    near_to(scores.miou, (8. / 11 + 9. / 12) / 2, 1e-15);
    assert_int_equal(scores.classes_present, 2);
    assert_true(isnan(iou[2]));
    const int64_t nothing[4] = {0};
    scores = scores_of_confusion(nothing, 2, NULL, NULL, NULL);
    assert_true(isnan(scores.miou) && isnan(scores.pixel_accuracy) && isnan(scores.dice));
}

static void maps_are_scored(void **state) {
    cst_context *context = *state;
    int64_t confusion[C * C];
    for (int row = 0; row < map_boundary_rows; row++) {
        const double *expected = map_boundary + (ptrdiff_t)3 * row;
        cst_segmentation_scores scores;
        assert_int_equal(cst_segmentation_evaluate_labels(context, map_predicted, map_labels,
                                                          map_images, map_height, map_width, C, 255,
                                                          expected[0], &scores, confusion),
                         CST_OK);
        check_scores(&scores);
        assert_memory_equal(confusion, map_confusion, sizeof confusion);
        near_to(scores.boundary_error, expected[1], 1e-14);
        near_to(scores.boundary_iou, expected[2], 1e-14);
    }
}

static void bad_maps_are_refused(void **state) {
    cst_context *context = *state;
    cst_segmentation_scores scores;
    int32_t predicted[4] = {0, 1, 2, 0};
    int32_t labels[4] = {0, 1, 255, 0};
    assert_int_equal(cst_segmentation_evaluate_labels(context, predicted, labels, 1, 2, 2, 2, 255,
                                                      1, &scores, NULL),
                     CST_OK); /* what is predicted where nothing counts does not matter */
    assert_int_equal(scores.pixels, 3);
    predicted[1] = 2;
    assert_int_equal(cst_segmentation_evaluate_labels(context, predicted, labels, 1, 2, 2, 2, 255,
                                                      1, &scores, NULL),
                     CST_ERROR_INPUT);
    assert_non_null(strstr(cst_last_error(context), "pixel 1 (column 1 of a row) is predicted 2"));
    predicted[1] = 1;
    for (int32_t bad = -1; bad <= 2; bad += 3) {
        labels[3] = bad;
        assert_int_equal(cst_segmentation_evaluate_labels(context, predicted, labels, 1, 2, 2, 2,
                                                          255, 1, &scores, NULL),
                         CST_ERROR_INPUT);
        assert_non_null(strstr(cst_last_error(context), "pixel 3"));
    }
    assert_int_equal(cst_segmentation_evaluate_labels(context, predicted, labels, 1, 0, 2, 2, 255,
                                                      1, &scores, NULL),
                     CST_ERROR_ARGUMENT);
}

static void probabilities_are_scored(void **state) {
    cst_context *context = *state;
    double *tally = cst_alloc(context, cst_tally_width(C), sizeof *tally);
    static int32_t labels[ALL];
    static int32_t predicted[ALL];
    cst_segmentation_scores scores;
    for (int i = 0; i < ALL; i++)
        labels[i] = map_labels[i] == 255 ? -1 : map_labels[i];
    cst_label_rows(map_probabilities, ALL, C, predicted);
    for (int first = 0; first < ALL; first += 100) { /* in any pieces */
        int count = ALL - first < 100 ? ALL - first : 100;
        cst_tally_labels(tally, C, predicted + first, labels + first, count, NULL);
        cst_tally_probabilities(tally, C, map_probabilities + (ptrdiff_t)first * C, labels + first,
                                count);
    }
    cst_tally_scores(tally, C, true, &scores);
    near_to(scores.nll, map_calibration[0], 1e-12);
    near_to(scores.brier, map_calibration[1], 1e-12);
    near_to(scores.ece, map_calibration[2], 1e-10);
    cst_free(context, tally);
}

/* A whole map, row by row. */
static void near_change(cst_context *context, const int32_t *map, int64_t height, int64_t width,
                        int64_t distance, int rule, unsigned char *out) {
    CST_SCOPE(scope);
    cst_near near;
    assert_int_equal(cst_near_begin(context, scope, &near, height, width, distance, rule != 0),
                     CST_OK);
    for (int64_t end = 0; end < height + distance; end++) {
        if (end < height)
            cst_near_enter(&near, end, map + end * width);
        if (end >= distance)
            cst_near_leave(&near, end - distance, out + (end - distance) * width);
    }
}

/* Against every window by itself. */
static void near_change_is_brute_force(void **state) {
    cst_context *context = *state;
    enum { H = 11, W = 9 };
    int32_t map[H * W];
    unsigned char near[H * W];
    for (uint64_t seed = 0; seed < 40; seed++) {
        cst_rng rng;
        cst_rng_init(&rng, seed, CST_STREAM_TEST, 0);
        int64_t spread = seed % 3 == 0 ? 40 : 4;
        for (int i = 0; i < H * W; i++) {
            int64_t v = cst_rng_below(&rng, spread);
            map[i] = v < 2 ? (int32_t)v - 1 : 1;
        }
        for (int64_t d = 1; d < 14; d += 2)
            for (int rule = 0; rule < 2; rule++) {
                near_change(context, map, H, W, d, rule, near);
                for (int64_t i = 0; i < H * W; i++) {
                    bool expected = false;
                    for (int64_t y = i / W - d; y <= i / W + d; y++)
                        for (int64_t x = i % W - d; x <= i % W + d; x++) {
                            bool inside = y >= 0 && y < H && x >= 0 && x < W;
                            int32_t other = inside ? map[y * W + x] : -2;
                            expected |= other != map[i] && (rule == 1 || other >= 0);
                        }
                    if (map[i] >= 0) /* others are never asked for */
                        assert_int_equal(near[i], expected);
                }
            }
    }
}

static void distance_follows_the_diagonal(void **state) {
    (void)state;
    assert_int_equal(cst_boundary_distance(0.0075, 180, 240), 2);
    assert_int_equal(cst_boundary_distance(0.02, 180, 240), 6);
    assert_int_equal(cst_boundary_distance(0.0075, 4, 4), 1);
    assert_int_equal(cst_boundary_distance(3, 1000, 1000), 3);
}

static void every_score_is_defined(void **state) {
    (void)state;
    static const char *const names[] = {
        "miou",           "pixel_accuracy", "mean_accuracy", "dice",  "fwiou",
        "boundary_error", "boundary_iou",   "nll",           "brier", "ece"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_non_null(cst_segmentation_definition(names[i]));
    assert_null(cst_segmentation_definition("top1"));
    assert_null(cst_segmentation_definition(NULL));
}

int suite_scores(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(confusion_scores_are_numpys),
        cmocka_unit_test(a_class_that_is_nowhere_does_not_count),
        cmocka_unit_test(maps_are_scored),
        cmocka_unit_test(bad_maps_are_refused),
        cmocka_unit_test(probabilities_are_scored),
        cmocka_unit_test(near_change_is_brute_force),
        cmocka_unit_test(distance_follows_the_diagonal),
        cmocka_unit_test(every_score_is_defined),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
