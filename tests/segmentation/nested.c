/*
 * The fits without each fold of a segmentation: which of them scores a case, and that neither it
 * nor the offsets of its label maps know anything of the fold's labels, the shares of the classes
 * included.
 */
#include "io_files.h"

#include "core/la.h"
#include "tasks/segmentation/segmentation.h"

enum { MEMBERS = 2, CLASSES = 3, SIDE = 12, SIDE_SMALL = 4 };

/* ---- a pool ---- */

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (double)(*state >> 33) / 2147483648.0;
}

typedef struct made {
    cst_pool *pool;
    cst_scope scope;
    cst_pixel_sample sample;
    cst_training source;
    cst_segment_settings settings;
    cst_method method;
    int32_t *labels; /* [rows], a copy that tests may change */
    int64_t rows;
} made;

/* Case n is mostly of class 2 where n is `odd`; all maps know the labels somewhat. */
static void write_arrays(fixture *f, int cases, int side, int odd) {
    int rows = cases * side * side;
    int32_t *labels = malloc((size_t)rows * sizeof *labels);
    float *maps = malloc((size_t)rows * CLASSES * sizeof *maps);
    uint64_t state = 5;
    char dict[160];
    assert_non_null(labels);
    assert_non_null(maps);
    for (int i = 0; i < rows; i++) {
        double u = uniform(&state);
        bool rare = i / (side * side) == odd ? u < 0.9 : u < 0.1;
        labels[i] = rare ? 2 : u < 0.6;
    }
    (void)snprintf(dict, sizeof dict,
                   "{'descr': '<i4', 'fortran_order': False, 'shape': (%d, %d, %d), }\n", cases,
                   side, side);
    put_npy(f, "masks.npy", dict, labels, (size_t)rows * sizeof *labels);
    for (int k = 0; k < MEMBERS; k++) {
        for (int i = 0; i < rows; i++) {
            double sum = 0;
            double value[CLASSES];
            for (int c = 0; c < CLASSES; c++)
                sum += value[c] = 0.2 + uniform(&state) + (c == labels[i] ? 0.5 + 0.2 * k : 0);
            for (int c = 0; c < CLASSES; c++)
                maps[i * CLASSES + c] = (float)(value[c] / sum);
        }
        (void)snprintf(dict, sizeof dict,
                       "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, %d, %d), }\n",
                       cases, side, side, CLASSES);
        put_npy(f, k ? "b.npy" : "a.npy", dict, maps, (size_t)rows * CLASSES * sizeof *maps);
    }
    free(labels);
    free(maps);
}

/* key: "folds" or "groups", one number for each case: n % modulus. */
static void open_made(fixture *f, int cases, int side, int odd, const char *key, int modulus,
                      made *m) {
    char text[512];
    int32_t *values = malloc((size_t)cases * sizeof *values);
    assert_non_null(values);
    write_arrays(f, cases, side, odd);
    for (int n = 0; n < cases; n++)
        values[n] = n % modulus;
    (void)snprintf(text, sizeof text,
                   "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,), }\n", cases);
    put_npy(f, "by_case.npy", text, values, (size_t)cases * sizeof *values);
    free(values);
    (void)snprintf(text, sizeof text,
                   "{\"corestack_pool\": 1, \"task\": \"segmentation\", \"classes\": %d,"
                   " \"layout\": \"channels-last\", \"splits\": {\"oof\": {\"labels\": "
                   "\"masks.npy\", \"%s\": \"by_case.npy\"}}, \"models\": ["
                   "{\"name\": \"a\", \"predictions\": {\"oof\": \"a.npy\"}},"
                   "{\"name\": \"b\", \"predictions\": {\"oof\": \"b.npy\"}}]}",
                   CLASSES, key);
    put_text(f, "pool.json", text);
    cst_status status = cst_pool_open(f->context, &m->pool, at(f, "pool.json"), NULL);
    if (status == CST_OK)
        status =
            cst_pixel_sample_make(f->context, &m->scope, m->pool, "oof", &m->settings, &m->sample);
    if (status == CST_OK)
        status = cst_training_open(f->context, m->sample.pool, "oof",
                                   &(cst_fold_plan){.count = m->settings.folds}, m->settings.seed,
                                   &m->source);
    if (status != CST_OK)
        print_error("%s\n", cst_last_error(f->context));
    assert_int_equal(status, CST_OK);
    m->rows = cst_pool_rows(m->pool, "oof");
    m->labels = malloc((size_t)m->rows * sizeof *m->labels);
    assert_non_null(m->labels);
    memcpy(m->labels, cst_pool_labels(m->pool, "oof"), (size_t)m->rows * sizeof *m->labels);
}

static void close_made(fixture *f, made *m) {
    free(m->labels);
    cst_training_close(f->context, &m->source);
    cst_scope_free(&m->scope);
    cst_pool_free(f->context, m->pool);
}

static cst_nesting nesting_of(const made *m) {
    return (cst_nesting){
        &m->method, &m->source, &m->sample, &m->settings, cst_pool_cases(m->pool, "oof"),
        m->labels};
}

/* ---- where a case belongs ---- */

/* Most of 300 cases have no pixel among the 100 that are sampled. */
static void cases_are_scored_without_their_fold(void **state) {
    fixture *f = *state;
    made m = {.settings = {.pixels = 100, .boundary = 1, .folds = 5, .seed = 0}};
    CST_SCOPE(scope);
    cst_fold_fits fits;
    open_made(f, 300, SIDE_SMALL, -1, "folds", 5, &m);
    assert_int_equal(cst_method_parse(f->context, "average", 0, NULL, 0, &m.method), CST_OK);
    cst_nesting nesting = nesting_of(&m);
    assert_int_equal(cst_fold_fits_make(f->context, scope, &nesting, &fits), CST_OK);
    assert_int_equal(fits.count, 5);
    for (int n = 0; n < 300; n++)
        assert_int_equal(fits.fit_of[n], n % 5);
    close_made(f, &m);
}

static void cases_are_scored_without_their_group(void **state) {
    fixture *f = *state;
    made m = {.settings = {.pixels = 100, .boundary = 1, .folds = 5, .seed = 0}};
    CST_SCOPE(scope);
    cst_fold_fits fits;
    int32_t fold_of[40];
    int placed = 0;
    memset(fold_of, -1, sizeof fold_of);
    open_made(f, 300, SIDE_SMALL, -1, "groups", 40, &m);
    assert_int_equal(cst_method_parse(f->context, "average", 0, NULL, 0, &m.method), CST_OK);
    cst_nesting nesting = nesting_of(&m);
    for (int64_t i = 0; i < m.sample.rows; i++)
        fold_of[m.sample.index[i] / (SIDE_SMALL * SIDE_SMALL) % 40] = m.source.folds[i];
    assert_int_equal(cst_fold_fits_make(f->context, scope, &nesting, &fits), CST_OK);
    for (int n = 0; n < 300; n++) {
        assert_true(fits.fit_of[n] >= 0 && fits.fit_of[n] < fits.count);
        if (fold_of[n % 40] >= 0)
            assert_int_equal(fits.fit_of[n], fold_of[n % 40]);
        placed += fold_of[n % 40] > 0;
    }
    assert_true(placed > 100);
    close_made(f, &m);
}

/* ---- labels of a fold ---- */

/* Biases [fold_count][CLASSES] of the fits and their offsets. */
static void run_nested(fixture *f, const made *m, double *biases, double *offsets) {
    CST_SCOPE(scope);
    cst_fold_fits fits;
    double *found = NULL;
    cst_offset_gain gain;
    cst_nesting nesting = nesting_of(m);
    cst_la_enter();
    assert_int_equal(cst_fold_fits_make(f->context, scope, &nesting, &fits), CST_OK);
    assert_int_equal(cst_fold_offsets(f->context, scope, &nesting, &fits, true, &found, &gain),
                     CST_OK);
    cst_la_leave();
    for (int32_t n = 0; n < fits.count; n++)
        memcpy(biases + (ptrdiff_t)n * CLASSES, fits.fits[n].stages.fit.model->learner[0].bias,
               CLASSES * sizeof *biases);
    memcpy(offsets, found, (size_t)(fits.count + 1) * CLASSES * sizeof *offsets);
}

static bool same(const double *a, const double *b) {
    bool equal = true;
    for (int c = 0; c < CLASSES; c++)
        equal = equal && a[c] >= b[c] && a[c] <= b[c];
    return equal;
}

/* Every label of a fold is turned: its own fit and offsets must not move by a bit, and the other
 * folds' must. The first case is mostly of the class that is rare elsewhere. */
static void check_folds_alone(fixture *f, int folds, int blocks) {
    enum { FOLDS_MAX = 7, CASES = 14 };
    made m = {.settings = {.pixels = 1200, .balance = 1, .boundary = 1, .folds = folds, .seed = 1}};
    double biases[2][FOLDS_MAX * CLASSES];
    double offsets[2][(FOLDS_MAX + 1) * CLASSES];
    open_made(f, CASES, SIDE, 0, "folds", folds, &m);
    assert_int_equal(cst_method_parse(f->context, "default", 0, NULL, 0, &m.method), CST_OK);
    run_nested(f, &m, biases[0], offsets[0]);
    int32_t *sampled = (int32_t *)(uintptr_t)m.sample.pool->splits[0].beside.labels;
    for (int32_t fold = 0; fold < folds; fold += folds - 1) {
        for (int64_t i = 0; i < m.rows; i++)
            if (i / (SIDE * SIDE) % folds == fold)
                m.labels[i] = m.labels[i] == 1 ? 0 : 1;
        for (int64_t i = 0; i < m.sample.rows; i++)
            if (m.source.folds[i] == fold)
                sampled[i] = m.labels[m.sample.index[i]];
        run_nested(f, &m, biases[1], offsets[1]);
        bool other_biases = false;
        bool other_offsets = false;
        for (int32_t n = 0; n < folds; n++) {
            const ptrdiff_t at_fold = (ptrdiff_t)n * CLASSES;
            if (n == fold)
                assert_true(same(biases[0] + at_fold, biases[1] + at_fold));
            else
                other_biases |= !same(biases[0] + at_fold, biases[1] + at_fold);
            if (n % blocks == fold % blocks)
                assert_true(same(offsets[0] + at_fold, offsets[1] + at_fold));
            else
                other_offsets |= !same(offsets[0] + at_fold, offsets[1] + at_fold);
        }
        assert_true(other_biases);
        assert_true(other_offsets || folds == 2);
        const int32_t *truth = cst_pool_labels(m.pool, "oof");
        memcpy(m.labels, truth, (size_t)m.rows * sizeof *truth);
        for (int64_t i = 0; i < m.sample.rows; i++)
            sampled[i] = truth[m.sample.index[i]];
    }
    close_made(f, &m);
}

static void no_fold_knows_its_labels(void **state) {
    check_folds_alone(*state, 5, 5);
}

static void nor_does_a_block_of_folds(void **state) {
    check_folds_alone(*state, 7, 5);
}

static void nor_do_two_folds(void **state) {
    check_folds_alone(*state, 2, 2);
}

int suite_nested(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_are_scored_without_their_fold),
        cmocka_unit_test(cases_are_scored_without_their_group),
        cmocka_unit_test(no_fold_knows_its_labels),
        cmocka_unit_test(nor_does_a_block_of_folds),
        cmocka_unit_test(nor_do_two_folds),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
