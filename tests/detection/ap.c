/*
 * COCO's figures against the reference evaluator (tests/reference/coco), against NumPy
 * (tests/oracles/detection.py), and their properties.
 */
#include "tasks/detection/detection.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "check.h"

#include <jansson.h>

#include "data/detection.h"

#define REFERENCE CST_TEST_DATA "/../reference/coco/"
#define HAND_MADE CST_TEST_DATA "/detection/"

enum { FIGURES = 12, PATH_CHARS = 512 };

static const char *const KEYS[FIGURES] = {"AP",  "AP50", "AP75",  "APs", "APm", "APl",
                                          "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"};

typedef struct scored {
    cst_coco *truth;
    cst_coco_boxes *boxes;
    cst_ap_matches matches;
    cst_scope scope;
} scored;

static void read_case(cst_context *context, const char *folder, const char *name, scored *out) {
    char path[PATH_CHARS];
    *out = (scored){0};
    (void)snprintf(path, sizeof path, "%s%s.gt.json", folder, name);
    assert_int_equal(cst_coco_read(context, &out->truth, path, 0, true), CST_OK);
    (void)snprintf(path, sizeof path, "%s%s.dt.json", folder, name);
    assert_int_equal(cst_coco_read_boxes(context, &out->boxes, path, 0, out->truth, false), CST_OK);
    assert_int_equal(
        cst_ap_match(context, &out->scope, out->truth, out->boxes, true, &out->matches), CST_OK);
}

static void free_case(cst_context *context, scored *s) {
    cst_scope_free(&s->scope);
    cst_coco_boxes_free(context, s->boxes);
    cst_coco_free(context, s->truth);
}

static void compare(const char *name, const cst_detection_scores *scores, const double *expected) {
    const double *values = (const double *)scores;
    for (int f = 0; f < FIGURES; f++)
        if (!(fabs(values[f] - expected[f]) <= 1e-9))
            fail_msg("%s: %s is %.12f instead of %.12f", name, KEYS[f], values[f], expected[f]);
}

static void figures_equal_the_reference(void **state) {
    static const char *const names[] = {"plain",        "crowd",  "small",     "ties",
                                        "empty_images", "absent", "crowded150"};
    cst_context *context = *state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[PATH_CHARS];
        double expected[FIGURES];
        scored s;
        cst_detection_scores scores;
        read_case(context, REFERENCE, names[i], &s);
        assert_int_equal(cst_ap_scores(context, &s.matches, NULL, &scores, NULL), CST_OK);
        (void)snprintf(path, sizeof path, REFERENCE "%s.expected.json", names[i]);
        json_t *root = json_load_file(path, 0, NULL);
        assert_non_null(root);
        for (int f = 0; f < FIGURES; f++)
            expected[f] = json_number_value(json_object_get(root, KEYS[f]));
        json_decref(root);
        compare(names[i], &scores, expected);
        free_case(context, &s);
    }
}

static void figures_equal_numpy(void **state) {
    enum { CATEGORIES_MAX = 3 };
    cst_context *context = *state;
    for (int i = 0; i < DETECTION_CASES; i++) {
        scored s;
        cst_detection_scores scores;
        cst_detection_scores each[CATEGORIES_MAX];
        read_case(context, HAND_MADE, DETECTION_NAMES[i], &s);
        assert_true(s.truth->categories <= CATEGORIES_MAX);
        assert_int_equal(cst_ap_scores(context, &s.matches, NULL, &scores, each), CST_OK);
        compare(DETECTION_NAMES[i], &scores, DETECTION_FIGURES[i]);
        for (int32_t c = 0; c < s.truth->categories; c++)
            assert_true(fabs(each[c].ap - DETECTION_CATEGORIES[i][c]) <= 1e-9);
        free_case(context, &s);
    }
}

static void threads_change_no_bit(void **state) {
    cst_context *context = *state;
    cst_detection_scores scores[2];
    for (int i = 0; i < 2; i++) {
        scored s;
        assert_int_equal(cst_context_set_threads(context, i ? 4 : 1), CST_OK);
        read_case(context, REFERENCE, "crowded150", &s);
        assert_int_equal(cst_ap_scores(context, &s.matches, NULL, &scores[i], NULL), CST_OK);
        free_case(context, &s);
    }
    assert_memory_equal(&scores[0], &scores[1], sizeof scores[0]);
}

/* An image that counts twice is an image that stands twice in the files. */
static void images_may_count_several_times(void **state) {
    cst_context *context = *state;
    scored s;
    scored twice = {0};
    cst_detection_scores by_times;
    cst_detection_scores by_copies;
    cst_detection_scores main_only;
    read_case(context, HAND_MADE, "random", &s);
    int32_t images = s.truth->images;
    /* Equal scores would stand in another order among copies of an image. */
    for (int64_t d = 0; d < s.boxes->count; d++)
        s.boxes->box[d].score -= 1e-9 * (double)d;
    cst_scope_free(&s.scope);
    assert_int_equal(cst_ap_match(context, &s.scope, s.truth, s.boxes, true, &s.matches), CST_OK);
    int32_t *times = cst_alloc(context, (size_t)images, sizeof *times);
    for (int32_t i = 0; i < images; i++)
        times[i] = i % 3;
    assert_int_equal(cst_ap_scores(context, &s.matches, times, &by_times, NULL), CST_OK);
    double *scratch = cst_alloc(context, cst_ap_scratch(&s.matches), sizeof *scratch);
    cst_ap_main_scores(&s.matches, times, scratch, &main_only);
    assert_true(fabs(main_only.ap - by_times.ap) < 1e-12);
    assert_true(fabs(main_only.ap50 - by_times.ap50) < 1e-12);
    assert_true(fabs(main_only.ap75 - by_times.ap75) < 1e-12);
    assert_true(fabs(main_only.ar100 - by_times.ar100) < 1e-12);

    cst_coco_true *truth = cst_alloc(context, 2 * (size_t)s.truth->count, sizeof *truth);
    cst_coco_box *box = cst_alloc(context, 2 * (size_t)s.boxes->count, sizeof *box);
    int64_t *first = cst_alloc(context, 2 * (size_t)images + 1, sizeof *first);
    int64_t truths = 0;
    int64_t boxes = 0;
    int32_t copies = 0;
    for (int32_t i = 0; i < images; i++)
        for (int32_t t = 0; t < times[i]; t++, copies++) {
            for (int64_t g = s.truth->first[i]; g < s.truth->first[i + 1]; g++) {
                truth[truths] = s.truth->box[g];
                truth[truths++].image = copies;
            }
            for (int64_t d = s.boxes->first[i]; d < s.boxes->first[i + 1]; d++) {
                box[boxes] = s.boxes->box[d];
                box[boxes++].image = copies;
            }
            first[copies + 1] = truths;
        }
    cst_coco copy = *s.truth;
    copy.images = copies;
    copy.count = truths;
    copy.box = truth;
    copy.first = first;
    assert_int_equal(
        cst_coco_boxes_take(context, &twice.boxes, box, boxes, copies, copy.categories), CST_OK);
    assert_int_equal(cst_ap_match(context, &twice.scope, &copy, twice.boxes, true, &twice.matches),
                     CST_OK);
    assert_int_equal(cst_ap_scores(context, &twice.matches, NULL, &by_copies, NULL), CST_OK);
    compare("copies", &by_times, (const double *)&by_copies);
    free_case(context, &twice);
    free_case(context, &s);
    cst_free(context, truth);
    cst_free(context, first);
    cst_free(context, times);
    cst_free(context, scratch);
}

/* The true boxes as detections find everything; halving their overlap loses the strict thresholds.
 */
static void perfect_boxes_score_one(void **state) {
    cst_context *context = *state;
    scored s;
    scored own = {0};
    cst_detection_scores scores;
    read_case(context, HAND_MADE, "random", &s);
    for (int shrink = 0; shrink < 2; shrink++) {
        cst_coco_box *box = cst_alloc(context, (size_t)s.truth->count, sizeof *box);
        for (int64_t g = 0; g < s.truth->count; g++) {
            const cst_coco_true *t = &s.truth->box[g];
            box[g] = (cst_coco_box){t->x,     t->y,       shrink ? t->w * 0.8 : t->w, t->h, 0.5,
                                    t->image, t->category};
        }
        assert_int_equal(cst_coco_boxes_take(context, &own.boxes, box, s.truth->count,
                                             s.truth->images, s.truth->categories),
                         CST_OK);
        assert_int_equal(cst_ap_match(context, &own.scope, s.truth, own.boxes, true, &own.matches),
                         CST_OK);
        assert_int_equal(cst_ap_scores(context, &own.matches, NULL, &scores, NULL), CST_OK);
        /* An overlap of 0.8 passes 0.50 to 0.80 but for rounding: six or seven of ten. */
        if (shrink)
            assert_true(scores.ap < 0.75 && scores.ap75 > 0.95);
        else
            assert_true(scores.ap > 1 - 1e-9 && scores.ar100 > 1 - 1e-9);
        free_case(context, &own);
        own = (scored){0};
    }
    free_case(context, &s);
}

int suite_ap(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_equal_the_reference),
        cmocka_unit_test(figures_equal_numpy),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(images_may_count_several_times),
        cmocka_unit_test(perfect_boxes_score_one),
    };
    return cmocka_run_group_tests(tests, context_setup, context_teardown);
}
