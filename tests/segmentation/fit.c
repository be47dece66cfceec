/*
 * Sampling of pixels, the correction of the prior, intervals over cases, offsets for label maps,
 * the public calls. Sizes and halves against NumPy, the rest against another way to the same
 * numbers.
 */
#include "io_files.h"

#include "confusion.h"
#include "data/pool/pool.h"
#include "data/readers/npy.h"
#include "tasks/segmentation/segmentation.h"

#include "check.h"
#include "data/segmentation.h"

#include <math.h>

enum { C = map_classes, PIXELS = map_height * map_width };

static void sizes_are_numpys(void **state) {
    const fixture *f = *state;
    for (int row = 0; row < size_rows; row++) {
        const double *given = size_given + (ptrdiff_t)row * (size_classes + 2);
        int64_t counts[size_classes];
        int64_t sizes[size_classes];
        int64_t all = 0;
        int64_t sum = 0;
        for (int c = 0; c < size_classes; c++)
            all += counts[c] = (int64_t)given[c];
        int64_t wanted = (int64_t)given[size_classes];
        assert_int_equal(cst_sample_sizes(f->context, counts, size_classes, wanted,
                                          given[size_classes + 1], sizes),
                         CST_OK);
        for (int c = 0; c < size_classes; c++) {
            sum += sizes[c];
            assert_true(sizes[c] >= 0 && sizes[c] <= counts[c]);
            assert_close((double)sizes[c], size_expected[row * size_classes + c], 1 + 1e-6);
        }
        assert_int_equal(sum, wanted < all ? wanted : all);
    }
}

static void halves_are_numpys(void **state) {
    (void)state;
    for (int i = 0; i < half_count; i++) {
        float value = 0;
        memcpy(&value, &half_given[i], sizeof value);
        if (cst_half_of(value) != half_expected[i])
            print_error("%.9g: %04x instead of %04x\n", (double)value, cst_half_of(value),
                        half_expected[i]);
        assert_int_equal(cst_half_of(value), half_expected[i]);
    }
    assert_int_equal(cst_half_of(NAN) & 0x7e00, 0x7e00);
}

/* ---- a pool of the fixture's maps ---- */

static void write_pool(fixture *f) {
    char dict[128];
    (void)snprintf(dict, sizeof dict,
                   "{'descr': '<i4', 'fortran_order': False, 'shape': (%d, %d, %d), }\n",
                   map_images, map_height, map_width);
    put_npy(f, "masks.npy", dict, map_labels, sizeof map_labels);
    (void)snprintf(dict, sizeof dict,
                   "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, %d, %d), }\n",
                   map_images, map_height, map_width, C);
    put_npy(f, "a.npy", dict, map_probabilities, sizeof map_probabilities);
    put_npy(f, "b.npy", dict, map_probabilities, sizeof map_probabilities);
    put_text(f, "pool.json",
             "{\"corestack_pool\": 1, \"task\": \"segmentation\", \"classes\": 5,"
             " \"splits\": {\"oof\": {\"labels\": \"masks.npy\"}}, \"models\": ["
             "{\"name\": \"a\", \"predictions\": {\"oof\": \"a.npy\"}},"
             "{\"name\": \"b\", \"predictions\": {\"oof\": \"b.npy\"}}]}");
}

static cst_pool *open_pool(fixture *f) {
    cst_pool *pool = NULL;
    write_pool(f);
    cst_status status = cst_pool_open(f->context, &pool, at(f, "pool.json"), NULL);
    if (status == CST_OK)
        status = cst_pool_load(f->context, pool, "oof");
    if (status != CST_OK)
        print_error("%s\n", cst_last_error(f->context));
    assert_int_equal(status, CST_OK);
    return pool;
}

static void rows_are_pixels(void **state) {
    fixture *f = *state;
    cst_pool *pool = open_pool(f);
    const cst_cases *cases = cst_pool_cases(pool, "oof");
    float row[C];
    assert_int_equal(cst_pool_rows(pool, "oof"), map_images * PIXELS);
    assert_int_equal(cases->count, map_images);
    assert_int_equal(cases->first[2], 2 * PIXELS);
    for (int i = 0; i < map_images * PIXELS; i += 7) {
        assert_int_equal(cst_pool_read(f->context, pool, "oof", 0, i, 1, row), CST_OK);
        for (int c = 0; c < C; c++)
            assert_close((double)row[c], (double)map_probabilities[i * C + c], 1e-6);
        assert_int_equal(cst_pool_labels(pool, "oof")[i],
                         map_labels[i] == 255 ? -1 : map_labels[i]);
    }
    cst_pool_free(f->context, pool);
}

static cst_status load_test(fixture *f, cst_pool **pool, const char *split, const char *file) {
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"corestack_pool\": 1, \"task\": \"segmentation\", \"classes\": 5, "
                   "\"splits\": {\"test\": {%s}}, \"models\": [{\"name\": \"a\", "
                   "\"predictions\": {\"test\": \"%s\"}}]}",
                   split, file);
    put_text(f, "pool.json", text);
    cst_pool_free(f->context, *pool);
    *pool = NULL;
    expect_ok(f, cst_pool_open(f->context, pool, at(f, "pool.json"), NULL));
    return cst_pool_load(f->context, *pool, "test");
}

/* What stands beside the cases is read where there are no masks, too. */
static void cases_without_masks_have_names_and_groups(void **state) {
    fixture *f = *state;
    cst_pool *pool = NULL;
    char text[64 * map_images] = "";
    char name[CST_CASE_CHARS];
    write_pool(f);
    for (int i = 0; i < map_images; i++)
        (void)sprintf(text + strlen(text), "c%03d\n", i);
    put_text(f, "ids.csv", text);
    put_text(f, "few.csv", "a\nb\n");
    (void)strcpy(text, "id,group\n");
    for (int i = map_images - 1; i >= 0; i--)
        (void)sprintf(text + strlen(text), "c%03d,%d\n", i, 10 * i);
    put_text(f, "groups.csv", text);
    expect_ok(f, load_test(f, &pool, "\"ids\": \"ids.csv\", \"groups\": \"groups.csv\"", "a.npy"));
    const cst_cases *cases = cst_pool_cases(pool, "test");
    assert_string_equal(cst_case_name(cases, 2, name), "c002");
    assert_int_equal(cases->groups[2], 20);
    expect_error(f, load_test(f, &pool, "\"folds\": \"gone.npy\"", "a.npy"), CST_ERROR_IO,
                 "gone.npy", NULL);
    expect_error(f, load_test(f, &pool, "\"ids\": \"few.csv\"", "a.npy"), CST_ERROR_MISMATCH,
                 "few.csv: has 2 ids, but ", "a.npy", NULL);
    assert_int_equal(mkdir(at(f, "maps"), 0700), 0);
    put_text(f, "maps/c.npy", "");
    expect_error(f, load_test(f, &pool, "\"ids\": \"ids.csv\"", "maps"), CST_ERROR_INPUT,
                 "ids.csv: ids are for the cases of an array", "maps are named by their files",
                 NULL);
    cst_pool_free(f->context, pool);
}

/* Each pixel that counts is drawn as often as its class says, and no other ever. */
static void pixels_have_equal_chances(void **state) {
    fixture *f = *state;
    enum { SEEDS = 600, ALL = map_images * PIXELS };
    static int32_t drawn[ALL];
    cst_pool *pool = open_pool(f);
    const int32_t *labels = cst_pool_labels(pool, "oof");
    double chance[C] = {0};
    for (int seed = 0; seed < SEEDS; seed++) {
        cst_segment_settings settings = {
            .pixels = 300, .balance = 0.5, .boundary = 1, .seed = (uint64_t)seed};
        CST_SCOPE(scope);
        cst_pixel_sample sample;
        assert_int_equal(cst_pixel_sample_make(f->context, scope, pool, "oof", &settings, &sample),
                         CST_OK);
        assert_int_equal(sample.rows, 300);
        const int32_t *own = cst_pool_labels(sample.pool, "oof");
        const int64_t *groups = cst_pool_groups(sample.pool, "oof");
        for (int i = 0; i < 300; i++) {
            int64_t at = sample.index[i];
            assert_true(i == 0 || at > sample.index[i - 1]);
            assert_int_equal(own[i], labels[at]);
            assert_int_equal(groups[i], at / PIXELS);
            drawn[at]++;
        }
        for (int c = 0; c < C; c++)
            if (sample.prior[c] > 0)
                chance[c] = sample.share[c] * 300 / (sample.prior[c] * (double)sample.counted);
    }
    double squares = 0;
    int counted = 0;
    for (int i = 0; i < ALL; i++) {
        if (labels[i] < 0) {
            assert_int_equal(drawn[i], 0);
            continue;
        }
        double p = chance[labels[i]];
        double z = (drawn[i] - SEEDS * p) / sqrt(SEEDS * p * (1 - p));
        assert_true(fabs(z) < 5);
        squares += z * z;
        counted++;
    }
    assert_close(squares / counted, 1, 0.15);
    cst_pool_free(f->context, pool);
}

/* Corrected biases give what Bayes' rule gives for the other prior. */
static void prior_is_corrected_exactly(void **state) {
    fixture *f = *state;
    cst_pool *pool = open_pool(f);
    cst_segment_settings settings = {.pixels = 400, .balance = 1, .boundary = 1, .seed = 3};
    CST_SCOPE(scope);
    cst_pixel_sample sample;
    cst_options *options = NULL;
    cst_model *model = NULL;
    assert_int_equal(cst_pixel_sample_make(f->context, scope, pool, "oof", &settings, &sample),
                     CST_OK);
    assert_int_equal(cst_options_create(f->context, &options), CST_OK);
    assert_int_equal(cst_options_set(f->context, options, "folds.count", "3"), CST_OK);
    assert_int_equal(cst_options_set(f->context, options, "meta.learners", "log-linear"), CST_OK);
    assert_int_equal(cst_fit(f->context, sample.pool, "oof", options, &model, NULL), CST_OK);
    cst_options_free(f->context, options);
    const float *members[2] = {map_probabilities, map_probabilities};
    static float before[PIXELS * C];
    static float after[PIXELS * C];
    assert_int_equal(cst_model_predict(f->context, model, members, PIXELS, before), CST_OK);
    assert_int_equal(cst_prior_correct(f->context, sample.prior, sample.share, &settings, model),
                     CST_OK);
    assert_int_equal(cst_model_predict(f->context, model, members, PIXELS, after), CST_OK);
    double moved = 0;
    for (int i = 0; i < PIXELS; i++) {
        double expected[C];
        double sum = 0;
        for (int c = 0; c < C; c++) {
            double ratio = sample.share[c] > 0 ? sample.prior[c] / sample.share[c] : 1;
            sum += expected[c] = (double)before[i * C + c] * ratio;
        }
        for (int c = 0; c < C; c++) {
            assert_close((double)after[i * C + c], expected[c] / sum, 2e-6);
            moved = fmax(moved, fabs((double)after[i * C + c] - (double)before[i * C + c]));
        }
    }
    assert_true(moved > 0.01);
    settings.balance = 0; /* nothing to undo */
    double bias = model->learner[0].bias[0];
    assert_int_equal(cst_prior_correct(f->context, sample.prior, sample.share, &settings, model),
                     CST_OK);
    assert_true(model->learner[0].bias[0] >= bias && model->learner[0].bias[0] <= bias);
    settings.balance = 1;
    model->learner[0].biases = 0;
    assert_int_equal(cst_prior_correct(f->context, sample.prior, sample.share, &settings, model),
                     CST_ERROR_UNSUPPORTED);
    model->learner[0].biases = C;
    cst_model_free(f->context, model);
    cst_pool_free(f->context, pool);
}

/* ---- intervals ---- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(double *sorted, int count, double level) {
    double at = level * (count - 1);
    int below = (int)at;
    return sorted[below] +
           (at - below) * (sorted[below + 1 < count ? below + 1 : below] - sorted[below]);
}

/* Confusion matrices of two methods for each case: the fixture's predictions, and worse ones. */
static void fill_cases(int64_t confusion[2][map_images][C * C], cst_map_scores scores[2],
                       cst_context *context) {
    for (int m = 0; m < 2; m++) {
        scores[m] =
            (cst_map_scores){.cases = map_images, .classes = C, .width = cst_tally_width(C)};
        scores[m].tallies = cst_alloc(context, map_images * scores[m].width, sizeof(double));
        scores[m].total = cst_alloc(context, scores[m].width, sizeof(double));
        for (int n = 0; n < map_images; n++)
            for (int i = 0; i < PIXELS; i++) {
                int32_t label = map_labels[n * PIXELS + i];
                int32_t guess = map_predicted[n * PIXELS + i];
                if (label == 255)
                    continue;
                guess = m == 1 && i % (n + 3) == 0 ? 0 : guess;
                confusion[m][n][label * C + guess]++;
                cst_tally_labels(scores[m].tallies + (size_t)n * scores[m].width, C, &guess, &label,
                                 1, NULL);
                cst_tally_labels(scores[m].total, C, &guess, &label, 1, NULL);
            }
    }
}

static void intervals_are_of_resampled_cases(void **state) {
    const fixture *f = *state;
    enum { RESAMPLES = 400, SEED = 11 };
    static int64_t confusion[2][map_images][C * C];
    static double values[3][RESAMPLES];
    cst_map_scores scores[2];
    fill_cases(confusion, scores, f->context);
    int beyond = 0;
    for (int r = 0; r < RESAMPLES; r++) {
        cst_rng rng;
        int64_t sum[2][C * C] = {{0}};
        cst_rng_init(&rng, SEED, CST_STREAM_BOOTSTRAP, (uint32_t)r);
        for (int n = 0; n < map_images; n++) {
            uint64_t drawn = ((uint64_t)cst_rng_u32(&rng) * map_images) >> 32;
            for (int m = 0; m < 2; m++)
                for (int i = 0; i < C * C; i++)
                    sum[m][i] += confusion[m][drawn][i];
        }
        for (int m = 0; m < 2; m++) {
            values[m][r] = scores_of_confusion(sum[m], C, NULL, NULL, NULL).miou;
        }
        values[2][r] = values[1][r] - values[0][r];
        beyond += values[2][r] >= 0;
    }
    const void *both[2] = {&scores[0], &scores[1]};
    const cst_compare_options options = {.seed = SEED};
    const cst_evaluation e = {.options = &options};
    cst_interval interval[2 * CST_MAP_SCORES];
    cst_interval difference[2 * CST_MAP_SCORES];
    double p[2 * CST_MAP_SCORES];
    cst_intervals found = {.interval = interval, .difference = difference, .p = p};
    assert_int_equal(cst_map_bootstrap(f->context, &e, both, 2, 0, RESAMPLES, &found), CST_OK);
    for (int k = 0; k < 3; k++) {
        const cst_interval *one =
            k == 2 ? &difference[CST_MAP_SCORES] : &interval[k * CST_MAP_SCORES];
        qsort(values[k], RESAMPLES, sizeof(double), ascending);
        assert_close(one->low, percentile(values[k], RESAMPLES, 0.025), 1e-14);
        assert_close(one->high, percentile(values[k], RESAMPLES, 0.975), 1e-14);
    }
    assert_close(p[CST_MAP_SCORES], fmax(2.0 * beyond / RESAMPLES, 2.0 / RESAMPLES), 1e-15);
    assert_true(isnan(p[0]) && isnan(interval[CST_MAP_SCORES + 5].low));
    for (int m = 0; m < 2; m++) {
        cst_free(f->context, scores[m].tallies);
        cst_free(f->context, scores[m].total);
    }
}

/* ---- offsets ---- */

static double miou_with(const double *offsets, const int32_t *labels, int count) {
    static int32_t predicted[map_images * PIXELS];
    int64_t confusion[C * C] = {0};
    cst_decide_rows(map_probabilities, count, C, offsets, predicted);
    for (int i = 0; i < count; i++)
        if (labels[i] >= 0)
            confusion[labels[i] * C + predicted[i]]++;
    return scores_of_confusion(confusion, C, NULL, NULL, NULL).miou;
}

/* No single step of an offset raises the mIoU further, and together they have raised it. */
static void offsets_are_a_local_best(void **state) {
    const fixture *f = *state;
    static float kept[map_images * PIXELS * C];
    static int32_t labels[map_images * PIXELS];
    int rows = 0;
    double prior[C] = {0};
    double offsets[C];
    for (int i = 0; i < map_images * PIXELS; i++) {
        if (map_labels[i] == 255)
            continue;
        memcpy(kept + (size_t)rows * C, map_probabilities + (size_t)i * C, C * sizeof(float));
        labels[rows++] = map_labels[i];
        prior[map_labels[i]] += 1;
    }
    for (int c = 0; c < C; c++)
        prior[c] /= rows;
    assert_int_equal(cst_offsets_choose(f->context, kept, labels, rows, C, prior, prior, offsets),
                     CST_OK);
    static int32_t all[map_images * PIXELS];
    for (int i = 0; i < map_images * PIXELS; i++)
        all[i] = map_labels[i] == 255 ? -1 : map_labels[i];
    double plain = miou_with(NULL, all, map_images * PIXELS);
    double best = miou_with(offsets, all, map_images * PIXELS);
    assert_true(best > plain);
    int32_t largest = 0;
    for (int c = 1; c < C; c++)
        largest = prior[c] > prior[largest] ? c : largest;
    assert_close(offsets[largest], 0, 0);
    for (int c = 0; c < C; c++)
        for (int k = 0; c != largest && k < 4; k++) {
            static const double steps[] = {-0.25, -0.1, 0.1, 0.25};
            double moved[C];
            memcpy(moved, offsets, sizeof moved);
            moved[c] += steps[k];
            assert_true(miou_with(moved, all, map_images * PIXELS) <= best + 1e-9);
        }
}

static void offsets_stay_in_the_model(void **state) {
    fixture *f = *state;
    cst_pool *pool = open_pool(f);
    cst_options *options = NULL;
    cst_model *model = NULL;
    cst_model *again = NULL;
    double *offsets = NULL;
    CST_SCOPE(scope);
    assert_int_equal(cst_options_create(f->context, &options), CST_OK);
    assert_int_equal(cst_options_set(f->context, options, "folds.count", "3"), CST_OK);
    assert_int_equal(cst_options_set(f->context, options, "segment.decision", "miou"), CST_OK);
    assert_int_equal(cst_fit(f->context, pool, "oof", options, &model, NULL), CST_OK);
    assert_int_equal(cst_model_task(model), CST_TASK_SEGMENTATION);
    assert_int_equal(cst_model_save(f->context, model, at(f, "m.cstack")), CST_OK);
    assert_int_equal(cst_model_load(f->context, &again, at(f, "m.cstack")), CST_OK);
    assert_int_equal(cst_model_task(again), CST_TASK_SEGMENTATION);
    assert_int_equal(cst_offsets_load(f->context, scope, again, &offsets), CST_OK);
    assert_non_null(offsets);
    for (size_t i = 0; i < again->settings; i++) { /* a number too few */
        char *comma = strncmp(again->setting[i], "segment.offsets=", 16) == 0
                          ? strrchr(again->setting[i], ',')
                          : NULL;
        if (comma)
            *comma = '\0';
    }
    assert_int_equal(cst_offsets_load(f->context, scope, again, &offsets), CST_ERROR_FORMAT);
    assert_null(offsets);
    cst_model_free(f->context, model);
    cst_model_free(f->context, again);
    cst_options_free(f->context, options);
    cst_pool_free(f->context, pool);
}

static void null_is_refused(void **state) {
    fixture *f = *state;
    cst_context *context = f->context;
    cst_pool *pool = open_pool(f);
    cst_model *model = NULL;
    cst_report *report = (cst_report *)(uintptr_t)1;
    cst_pool_config config = {0};
    cst_segmentation_scores scores;
    assert_int_equal(
        cst_segmentation_predict(context, model, pool, "oof", CST_MAP_PNG, "x", NULL, NULL),
        CST_ERROR_ARGUMENT);
    assert_int_equal(
        cst_segmentation_evaluate_file(context, "x.npy", &config, NULL, 0, 0, 0, &report),
        CST_ERROR_ARGUMENT);
    assert_null(report);
    assert_int_equal(cst_segmentation_evaluate_file(context, NULL, &config, NULL, 0, 0, 0, NULL),
                     CST_ERROR_ARGUMENT);
    assert_int_equal(
        cst_segmentation_evaluate_labels(NULL, NULL, NULL, 1, 1, 1, 2, 255, 1, &scores, NULL),
        CST_ERROR_ARGUMENT);
    assert_null(cst_pool_cases(NULL, "oof"));
    cst_pool_free(context, pool);
}

int suite_fit(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_numpys),
        cmocka_unit_test(halves_are_numpys),
        cmocka_unit_test(rows_are_pixels),
        cmocka_unit_test(cases_without_masks_have_names_and_groups),
        cmocka_unit_test(pixels_have_equal_chances),
        cmocka_unit_test(prior_is_corrected_exactly),
        cmocka_unit_test(intervals_are_of_resampled_cases),
        cmocka_unit_test(offsets_are_a_local_best),
        cmocka_unit_test(offsets_stay_in_the_model),
        cmocka_unit_test(null_is_refused),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
