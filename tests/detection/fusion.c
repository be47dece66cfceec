/*
 * Fusion of boxes: clusters, targets and fusion without a fit against NumPy
 * (tests/oracles/detection.py); fit, nested evaluation, model file and prediction of a pool.
 */
#include "io_files.h"

#include "report/report.h"
#include "tasks/detection/detection.h"

#include <corestack/detection.h>
#include <jansson.h>
#include <math.h>

#include "data/detection.h"

#define DATA CST_TEST_DATA "/detection/"

enum { MEMBERS = 3 };

static cst_box_split open_case(cst_context *context) {
    cst_box_split split = {.members = MEMBERS};
    char path[512];
    assert_int_equal(cst_coco_read(context, &split.coco, DATA "fusion.gt.json", 0, true), CST_OK);
    split.boxes = cst_alloc(context, MEMBERS, sizeof *split.boxes);
    for (int k = 0; k < MEMBERS; k++) {
        (void)snprintf(path, sizeof path, DATA "fusion.%d.json", k);
        assert_int_equal(cst_coco_read_boxes(context, &split.boxes[k], path, 0, split.coco, true),
                         CST_OK);
    }
    return split;
}

static void same_boxes(const cst_coco_boxes *a, const cst_coco_boxes *b) {
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        const cst_coco_box *x = &a->box[i];
        const cst_coco_box *y = &b->box[i];
        assert_int_equal(x->image, y->image);
        assert_int_equal(x->category, y->category);
        if (!(fabs(x->score - y->score) < 1e-9 && fabs(x->x - y->x) < 1e-7 &&
              fabs(x->y - y->y) < 1e-7 && fabs(x->w - y->w) < 1e-7 && fabs(x->h - y->h) < 1e-7))
            fail_msg("box %d: %.9f %.9f %.9f %.9f score %.12f instead of %.9f %.9f %.9f %.9f %.12f",
                     (int)i, x->x, x->y, x->w, x->h, x->score, y->x, y->y, y->w, y->h, y->score);
    }
}

static void fusion_without_a_fit_equals_numpy(void **state) {
    static const char *const files[] = {"wbf", "hard", "gaussian", "linear"};
    cst_context *context = ((fixture *)*state)->context;
    cst_box_split split = open_case(context);
    for (int rule = 0; rule < 4; rule++) { /* of cst_box_rule from WBF on */
        char path[512];
        cst_coco_boxes *expected = NULL;
        cst_coco_boxes *found = NULL;
        (void)snprintf(path, sizeof path, DATA "fusion.%s.json", files[rule]);
        assert_int_equal(cst_coco_read_boxes(context, &expected, path, 0, split.coco, true),
                         CST_OK);
        assert_int_equal(cst_suppress(context, split.coco,
                                      (const cst_coco_boxes *const *)split.boxes, MEMBERS,
                                      (cst_box_rule)(CST_BOX_RULE_WBF + rule), NULL, &found),
                         CST_OK);
        same_boxes(found, expected);
        cst_coco_boxes_free(context, expected);
        cst_coco_boxes_free(context, found);
    }
    cst_box_split_close(context, &split);
}

static const cst_cluster_options PLAIN = {.iou = 0.55, .max_boxes = 100};

static void clusters_and_targets_equal_numpy(void **state) {
    cst_context *context = ((fixture *)*state)->context;
    cst_box_split split = open_case(context);
    CST_SCOPE(scope);
    cst_box_rows rows;
    cst_coco_boxes *expected = NULL;
    cst_coco_boxes *fused = NULL;
    float means[FUSION_ROWS];
    int32_t targets[FUSION_ROWS];
    int64_t taken[FUSION_ROWS];
    for (int threads = 1; threads <= 4; threads += 3) {
        assert_int_equal(cst_context_set_threads(context, threads), CST_OK);
        assert_int_equal(cst_box_rows_make(context, scope, &split, &PLAIN, NULL, NULL, &rows),
                         CST_OK);
        assert_int_equal(rows.clusters.rows, FUSION_ROWS);
        assert_int_equal(
            cst_coco_read_boxes(context, &expected, DATA "fusion.rows.json", 0, split.coco, true),
            CST_OK);
        assert_int_equal(
            cst_cluster_targets(context, &rows.clusters, split.coco, 0.5, targets, taken), CST_OK);
        for (int64_t i = 0; i < FUSION_ROWS; i++)
            means[i] = (float)cst_cluster_mean(&rows.clusters, i);
        assert_int_equal(
            cst_cluster_boxes(context, &rows.clusters, split.coco, NULL, means, 1, &fused), CST_OK);
        for (int64_t i = 0; i < FUSION_ROWS; i++) {
            cst_coco_box box = fused->box[i];
            assert_true(fabs(box.x - expected->box[i].x) < 1e-7);
            assert_true(fabs(box.h - expected->box[i].h) < 1e-7);
            assert_true(fabs(cst_cluster_mean(&rows.clusters, i) - expected->box[i].score) < 1e-9);
            assert_int_equal(box.image, expected->box[i].image);
            assert_int_equal(targets[i], FUSION_TARGETS[i]);
            assert_int_equal(taken[i] >= 0, targets[i] == 1);
            for (int k = 0; k < MEMBERS; k++) {
                assert_true(fabs((double)rows.data[k][2 * i + 1] - FUSION_SCORES[i][k]) < 1e-6);
                assert_true(rows.data[k][2 * i] == 1 - rows.data[k][2 * i + 1]);
            }
        }
        cst_coco_boxes_free(context, expected);
        cst_coco_boxes_free(context, fused);
    }
    cst_box_split_close(context, &split);
}

static void clusters_heed_their_options(void **state) {
    cst_context *context = ((fixture *)*state)->context;
    cst_box_split split = open_case(context);
    CST_SCOPE(scope);
    cst_box_rows rows;
    bool uses[MEMBERS] = {false, true, true};
    bool images[16] = {false};
    images[3] = true;
    cst_cluster_options few = {.iou = 0.55, .min_score = 0.3, .max_boxes = 2};
    assert_int_equal(cst_box_rows_make(context, scope, &split, &few, uses, images, &rows), CST_OK);
    assert_true(rows.clusters.rows > 0);
    int of_member[MEMBERS][2] = {{0}};
    for (int64_t r = 0; r < rows.clusters.rows; r++) {
        assert_int_equal(rows.clusters.image[r], 3);
        for (int64_t i = rows.clusters.first[r]; i < rows.clusters.first[r + 1]; i++) {
            assert_true(rows.clusters.box[i].score >= 0.3);
            of_member[rows.clusters.box[i].member][rows.clusters.category[r]]++;
        }
    }
    assert_int_equal(of_member[0][0] + of_member[0][1], 0);
    for (int k = 1; k < MEMBERS; k++)
        assert_true(of_member[k][0] <= 2 && of_member[k][1] <= 2);
    cst_box_split_close(context, &split);
}

/* ---- a pool ---- */

static void put_pool(fixture *f, const char *name, const char *annotations, const char *third) {
    char text[4096];
    (void)snprintf(text, sizeof text,
                   "{\"corestack_pool\": 1, \"task\": \"detection\",\n"
                   " \"splits\": {\"oof\": {\"annotations\": \"%s\"}, \"test\": {\"annotations\": "
                   "\"%s\"}},\n \"models\": [\n"
                   "  {\"name\": \"a\", \"flops\": 1, \"predictions\": {\"oof\": \"" DATA
                   "fusion.0.json\", \"test\": \"" DATA "fusion.0.json\"}},\n"
                   "  {\"name\": \"b\", \"flops\": 2, \"predictions\": {\"oof\": \"" DATA
                   "fusion.1.json\", \"test\": \"" DATA "fusion.1.json\"}},\n"
                   "  {\"name\": \"%s\", \"flops\": 3, \"predictions\": {\"oof\": \"" DATA
                   "fusion.2.json\", \"test\": \"" DATA "fusion.2.json\"}}]}\n",
                   annotations, annotations, third);
    put_text(f, name, text);
}

static cst_pool *open_pool(fixture *f, const char *name) {
    cst_pool *pool = NULL;
    cst_pool_config config = {.outside = 1};
    if (cst_pool_open(f->context, &pool, at(f, name), &config) != CST_OK)
        fail_msg("%s", cst_last_error(f->context));
    return pool;
}

static cst_options *every_member(cst_context *context) {
    cst_options *options = NULL;
    assert_int_equal(cst_options_create(context, &options), CST_OK);
    assert_int_equal(cst_options_set(context, options, "select.direction", "none"), CST_OK);
    return options;
}

static char *slurp(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    rewind(file);
    char *text = calloc((size_t)size + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
    assert_int_equal(fclose(file), 0);
    return text;
}

static double number_of(const cst_report *report, const char *object, const char *key) {
    const json_t *root = cst_report_root((cst_report *)(uintptr_t)report);
    return json_number_value(json_object_get(object ? json_object_get(root, object) : root, key));
}

static void a_pool_is_fitted_saved_and_predicted(void **state) {
    fixture *f = *state;
    cst_context *context = f->context;
    char out[2][600];
    char saved[600];
    char *texts[2];
    put_pool(f, "pool.json", DATA "fusion.gt.json", "c");
    cst_pool *pool = open_pool(f, "pool.json");
    cst_options *options = every_member(context);
    for (int i = 0; i < 2; i++) {
        cst_model *model = NULL;
        cst_model *again = NULL;
        cst_report *report = NULL;
        cst_report *scores = NULL;
        int64_t images = 0;
        int64_t detections = 0;
        assert_int_equal(cst_context_set_threads(context, i ? 3 : 1), CST_OK);
        if (cst_fit(context, pool, "oof", options, &model, &report) != CST_OK)
            fail_msg("%s", cst_last_error(context));
        assert_int_equal(cst_model_task(model), CST_TASK_DETECTION);
        assert_true(number_of(report, "oof", "AP") > 0.1);
        assert_true(number_of(report, "oof", "AP") <= number_of(report, "oof", "AP50"));
        assert_int_equal((int)number_of(report, NULL, "images"), 10);
        (void)snprintf(saved, sizeof saved, "%s", at(f, "m.cstack"));
        assert_int_equal(cst_model_save(context, model, saved), CST_OK);
        assert_int_equal(cst_model_load(context, &again, saved), CST_OK);
        (void)snprintf(out[i], sizeof out[i], "%s", at(f, i ? "1.json" : "0.json"));
        assert_int_equal(cst_model_predict_detections(context, again, pool, "test", out[i], 0, 0,
                                                      &images, &detections),
                         CST_OK);
        assert_int_equal(images, 10);
        assert_int_equal(detections, FUSION_ROWS);
        texts[i] = slurp(out[i]);
        /* The figures of the model are those of the file that it writes. */
        const cst_evaluate_options asked = {.baselines = 1, .resamples = 50};
        assert_int_equal(cst_evaluate_stack(context, again, pool, &asked, &scores), CST_OK);
        double ap = number_of(scores, NULL, "AP");
        cst_report_free(context, scores);
        assert_int_equal(
            cst_evaluate_detections(context, out[i], DATA "fusion.gt.json", 0, 0, &scores), CST_OK);
        assert_true(fabs(ap - number_of(scores, NULL, "AP")) < 1e-12);
        cst_report_free(context, scores);
        cst_report_free(context, report);
        cst_model_free(context, model);
        cst_model_free(context, again);
    }
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
    cst_options_free(context, options);
    cst_pool_free(context, pool);
}

static void models_refuse_what_they_do_not_know(void **state) {
    fixture *f = *state;
    cst_context *context = f->context;
    cst_model *model = NULL;
    char out[600];
    put_pool(f, "pool.json", DATA "fusion.gt.json", "c");
    put_pool(f, "other.json", DATA "fusion.gt.json", "d");
    put_pool(f, "kinds.json", DATA "random.gt.json", "c");
    cst_pool *pool = open_pool(f, "pool.json");
    cst_options *options = every_member(context);
    assert_int_equal(cst_fit(context, pool, "oof", options, &model, NULL), CST_OK);
    (void)snprintf(out, sizeof out, "%s", at(f, "out.json"));
    cst_pool *other = open_pool(f, "other.json");
    expect_error(f,
                 cst_model_predict_detections(context, model, other, "test", out, 0, 0, NULL, NULL),
                 CST_ERROR_MISMATCH, "member 'c'", NULL);
    expect_error(f,
                 cst_model_predict_detections(context, model, pool, "val", out, 0, 0, NULL, NULL),
                 CST_ERROR_ARGUMENT, "no split 'val'", NULL);
    /* Its detections are of categories that these annotations do not have. */
    cst_pool *kinds = open_pool(f, "kinds.json");
    expect_error(f,
                 cst_model_predict_detections(context, model, kinds, "test", out, 0, 0, NULL, NULL),
                 CST_ERROR_INPUT, "category_id", NULL);
    assert_int_equal(access(out, F_OK), -1);
    float *probabilities = NULL;
    int64_t rows = 0;
    assert_int_not_equal(
        cst_model_predict_pool(context, model, pool, "test", &probabilities, &rows), CST_OK);

    cst_fusion *fusion = model->fusion;
    model->fusion = NULL;
    expect_error(f, cst_model_save(context, model, at(f, "m.cstack")), CST_ERROR_ARGUMENT, "FUSE",
                 NULL);
    model->fusion = fusion;
    fusion->weights[0] = -1;
    expect_error(f, cst_model_save(context, model, at(f, "m.cstack")), CST_ERROR_ARGUMENT,
                 "negative", NULL);
    fusion->weights[0] = 1;
    fusion->category_id[0] = fusion->category_id[1];
    expect_error(f, cst_model_save(context, model, at(f, "m.cstack")), CST_ERROR_ARGUMENT, "ascend",
                 NULL);
    cst_model_free(context, model);
    cst_options_free(context, options);
    cst_pool_free(context, pool);
    cst_pool_free(context, other);
    cst_pool_free(context, kinds);
}

/* Boxes for images of a fold do not change with what is true there; those of other folds do. */
static void nested_boxes_do_not_know_their_truth(void **state) {
    fixture *f = *state;
    cst_context *context = f->context;
    put_pool(f, "pool.json", DATA "fusion.gt.json", "c");
    cst_pool *pool = open_pool(f, "pool.json");
    cst_box_split split;
    CST_SCOPE(scope);
    cst_box_training training;
    cst_detect_method method;
    cst_coco_boxes *before = NULL;
    cst_coco_boxes *after = NULL;
    const char *const folds = "folds.count=4";
    cst_options *options = NULL;
    const char *settings[] = {"select.direction=none"};
    assert_int_equal(cst_detect_method_parse(context, "default", 0, settings, 1, &method), CST_OK);
    assert_int_equal(cst_method_options(context, "default", 0, &folds, 1, &options), CST_OK);
    assert_int_equal(cst_box_training_open(context, scope, &pool, "oof", options, NULL, false,
                                           &split, &training),
                     CST_OK);
    cst_options_free(context, options);
    for (int64_t i = 0; i < training.source.view.rows; i++)
        assert_int_equal(training.source.folds[i],
                         training.image_folds[training.rows.clusters.image[training.index[i]]]);
    assert_int_equal(cst_detect_nested(context, &method, &training, 0, &before), CST_OK);
    for (int64_t g = 0; g < split.coco->count; g++)
        if (training.image_folds[split.coco->box[g].image] == 0)
            split.coco->box[g].x += 1000;
    assert_int_equal(cst_detect_nested(context, &method, &training, 0, &after), CST_OK);
    assert_int_equal(before->count, after->count);
    int64_t others = 0;
    for (int64_t i = 0; i < before->count; i++) {
        bool same = memcmp(&before->box[i], &after->box[i], sizeof before->box[i]) == 0;
        if (training.image_folds[before->box[i].image] == 0)
            assert_true(same);
        else
            others += !same;
    }
    assert_true(others > 0);
    cst_coco_boxes_free(context, before);
    cst_coco_boxes_free(context, after);
    cst_box_split_close(context, &split);
    cst_pool_free(context, pool);
}

/* A member whose edges are twice as far off weighs a quarter. */
static void boxes_weigh_by_their_measured_error(void **state) {
    enum { IMAGES = 200 };
    fixture *f = *state;
    cst_context *context = f->context;
    cst_coco_true truth[IMAGES];
    cst_cluster_box box[2 * IMAGES];
    int64_t first[IMAGES + 1];
    int64_t taken[IMAGES];
    int32_t image[IMAGES];
    int32_t category[IMAGES] = {0};
    int32_t folds[IMAGES] = {0};
    double weights[2];
    const bool uses[2] = {true, true};
    for (int i = 0; i < IMAGES; i++) {
        double error = i % 2 ? 1 : -1;
        truth[i] = (cst_coco_true){.x = 10, .y = 10, .w = 100, .h = 50, .image = i};
        box[2 * i] = (cst_cluster_box){10 + error, 10, 100 - error, 50, 0.9, 0};
        box[2 * i + 1] = (cst_cluster_box){10 + 2 * error, 10, 100 - 2 * error, 50, 0.4, 1};
        first[i] = 2 * (int64_t)i;
        taken[i] = i;
        image[i] = i;
    }
    first[IMAGES] = 2 * IMAGES;
    cst_coco coco = {.images = IMAGES, .categories = 1, .count = IMAGES, .box = truth};
    cst_box_split split = {.coco = &coco, .members = 2};
    cst_box_clusters clusters = {.members = 2,
                                 .images = IMAGES,
                                 .categories = 1,
                                 .rows = IMAGES,
                                 .image = image,
                                 .category = category,
                                 .first = first,
                                 .box = box};
    cst_box_training training = {.split = &split,
                                 .rows = {.clusters = clusters, .members = 2},
                                 .taken = taken,
                                 .image_folds = folds};
    assert_int_equal(
        cst_box_weights_fit(context, &training, -1, CST_BOX_WEIGHTS_PRECISION, uses, NULL, weights),
        CST_OK);
    assert_true(fabs(weights[0] / weights[1] - 4) < 1e-9);
    /* The mean squared error of the edges: a hundredth of the width on one of four. */
    assert_true(fabs(weights[0] - 4 / (0.01 * 0.01)) < 1e-6 * weights[0]);
    static const float scores[IMAGES] = {0};
    cst_coco_boxes *fused = NULL;
    assert_int_equal(cst_cluster_boxes(context, &clusters, &coco, weights, scores, 1, &fused),
                     CST_OK);
    assert_true(fabs(fused->box[0].x - (10 - (0.9 * 4 + 0.4 * 2) / (0.9 * 4 + 0.4))) < 1e-9);
    cst_coco_boxes_free(context, fused);
}

static void a_comparison_ranks_by_ap(void **state) {
    static const char *const methods[] = {"best-single", "average", "wbf",   "nms",
                                          "soft-nms",    "ridge",   "paper", "default"};
    enum { METHODS = sizeof methods / sizeof methods[0] };
    fixture *f = *state;
    cst_context *context = f->context;
    cst_report *report = NULL;
    put_pool(f, "pool.json", DATA "fusion.gt.json", "c");
    cst_pool *pool = open_pool(f, "pool.json");
    for (int nested = 0; nested < 2; nested++) {
        cst_compare_options options = {.split = nested ? "oof" : "test",
                                       .methods = methods,
                                       .method_count = METHODS,
                                       .resamples = 40};
        if (cst_compare(context, pool, &options, &report) != CST_OK)
            fail_msg("%s", cst_last_error(context));
        const json_t *rows = json_object_get(cst_report_root(report), "rows");
        assert_int_equal(json_array_size(rows), METHODS);
        for (size_t m = 0; m < METHODS; m++) {
            const json_t *row = json_array_get(rows, m);
            double ap = json_number_value(json_object_get(row, "AP"));
            const json_t *interval = json_object_get(row, "AP_ci");
            assert_string_equal(json_string_value(json_object_get(row, "method")), methods[m]);
            assert_true(ap > 0 && ap < 1);
            assert_true(json_number_value(json_array_get(interval, 0)) <
                        json_number_value(json_array_get(interval, 1)));
            assert_int_equal(json_object_get(row, "difference") == NULL, m == METHODS - 1);
        }
        char *text = NULL;
        assert_int_equal(cst_report_text(context, report, 0, &text), CST_OK);
        assert_non_null(strstr(text, "soft-nms"));
        cst_free(context, text);
        cst_report_free(context, report);
    }
    cst_compare_options unknown = {.methods = (const char *const[]){"wbm"}, .method_count = 1};
    expect_error(f, cst_compare(context, pool, &unknown, &report), CST_ERROR_ARGUMENT, "wbm",
                 "soft-nms-linear", NULL);
    cst_pool_free(context, pool);
}

int suite_fusion(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fusion_without_a_fit_equals_numpy, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(clusters_and_targets_equal_numpy, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(clusters_heed_their_options, files_setup, files_teardown),
        cmocka_unit_test_setup_teardown(a_pool_is_fitted_saved_and_predicted, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(models_refuse_what_they_do_not_know, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(nested_boxes_do_not_know_their_truth, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(boxes_weigh_by_their_measured_error, files_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(a_comparison_ranks_by_ap, files_setup, files_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
