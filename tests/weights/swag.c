/*
 * Running averages and SWAG against NumPy (tests/oracles/weight_space.py): means, variances,
 * deviations and draws; the draws' distribution; the same bytes for any number of threads; files
 * that are none. Paper: Related Work (weight-space fusion).
 */
#include "checkpoints.h"
#include "data/readers/safetensors.h"

#include <corestack/report.h>
#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

#define SERIES CST_TEST_DATA "/weight_space/"

enum { STEPS = 6, RANK = 3 };
static const uint64_t SEED = 0x123456789ABCu;
static const char *const STEP_PATHS[STEPS] = {
    SERIES "step0.safetensors", SERIES "step1.safetensors", SERIES "step2.safetensors",
    SERIES "step3.safetensors", SERIES "step4.safetensors", SERIES "step5.safetensors"};

/* ---- comparing files ---- */

/* Two files with the same header to the byte and numbers as far apart as `relative` allows; 16-bit
 * floats and integers not at all. */
static void expect_like(fixture *f, const char *path, const char *expected, double relative) {
    cst_safetensors *ours = NULL;
    cst_safetensors *theirs = NULL;
    expect_ok(f, cst_safetensors_open(f->context, &ours, path));
    expect_ok(f, cst_safetensors_open(f->context, &theirs, expected));
    size_t size = 0;
    size_t other = 0;
    unsigned char *x = contents(path, &size);
    unsigned char *y = contents(expected, &other);
    assert_int_equal(size, other);
    assert_memory_equal(x, y, (size_t)ours->data_offset); /* the header */
    for (int64_t t = 0; t < cst_safetensors_count(ours); t++) {
        enum { MAX = 128 };
        double a[MAX];
        double b[MAX];
        int64_t count = cst_safetensors_elements(ours, t);
        cst_dtype dtype = cst_safetensors_dtype(ours, t);
        assert_true(count <= MAX);
        double limit = dtype == CST_DTYPE_F64 || dtype == CST_DTYPE_F32 ? relative : 0;
        expect_ok(f, cst_safetensors_read_f64(f->context, ours, t, 0, count, a));
        expect_ok(f, cst_safetensors_read_f64(f->context, theirs, t, 0, count, b));
        for (int64_t i = 0; i < count; i++)
            if (!(fabs(a[i] - b[i]) <= limit * fabs(b[i])))
                fail_msg("%s: %s[%d] is %.17g, NumPy has %.17g", path,
                         cst_safetensors_name(ours, t), (int)i, a[i], b[i]);
    }
    free(x);
    free(y);
    cst_safetensors_close(f->context, ours);
    cst_safetensors_close(f->context, theirs);
}

/* ---- against NumPy ---- */

static void averages(void **state) {
    fixture *f = *state;
    char four[512];
    char six[512];
    char continued[512];
    copy_path(four, at(f, "four.safetensors"));
    copy_path(six, at(f, "six.safetensors"));
    copy_path(continued, at(f, "continued.safetensors"));
    expect_ok(f, cst_swa_average(f->context, STEP_PATHS, 4, NULL, four));
    expect_like(f, four, SERIES "swa4.safetensors", 1e-7);
    expect_ok(f, cst_swa_average(f->context, STEP_PATHS, STEPS, NULL, six));
    expect_like(f, six, SERIES "swa6.safetensors", 1e-7);
    /* The average of four rounded to its dtype, then two more. */
    expect_ok(f, cst_swa_average(f->context, STEP_PATHS + 4, 2, four, continued));
    const char *names[] = {"conv.weight", "far", "conv.bias", "Zeta"};
    const int64_t counts[] = {30, 4, 5, 7};
    const double step[] = {0x1p-23, 0x1p-52, 0x1p-10, 0x1p-7};
    for (int t = 0; t < 4; t++) {
        double a[30];
        double b[30];
        values_of(f, continued, names[t], a, counts[t]);
        values_of(f, six, names[t], b, counts[t]);
        for (int64_t i = 0; i < counts[t]; i++)
            assert_true(fabs(a[i] - b[i]) <= step[t] * fabs(b[i]));
    }
    expect_metadata(f, continued, "corestack.swa.count", "6");
    /* In its own place. */
    expect_ok(f, cst_swa_average(f->context, STEP_PATHS + 4, 2, four, four));
    expect_same_bytes(four, continued);
    expect_error(f, cst_swa_average(f->context, STEP_PATHS, 1, STEP_PATHS[1], six), CST_ERROR_INPUT,
                 "step1.safetensors: not a running average", NULL);
}

static void fitted(void **state) {
    fixture *f = *state;
    char path[512];
    copy_path(path, at(f, "swag.safetensors"));
    expect_ok(f, cst_swag_fit(f->context, STEP_PATHS, STEPS, RANK, path));
    expect_like(f, path, SERIES "swag.safetensors", 2e-7);
    double variance[4];
    values_of(f, path, "variance.constant", variance, 3);
    assert_true(variance[0] == (double)1e-30f);
    values_of(f, path, "variance.far", variance, 4);
    assert_true(variance[0] > 1e-8 && variance[0] < 1e-5);
}

/* How many checkpoints, and columns; a distribution is not taken for a checkpoint. */
static void made_of(void **state) {
    fixture *f = *state;
    char path[512];
    copy_path(path, at(f, "out"));
    int64_t checkpoints = 0;
    int32_t rank = -1;
    expect_ok(f, cst_weights_made_of(f->context, SERIES "swag.safetensors", &checkpoints, &rank));
    assert_int_equal(checkpoints, STEPS);
    assert_int_equal(rank, RANK);
    expect_ok(f, cst_weights_made_of(f->context, SERIES "swa4.safetensors", &checkpoints, &rank));
    assert_int_equal(checkpoints, 4);
    assert_int_equal(rank, 0);
    expect_error(f, cst_weights_made_of(f->context, STEP_PATHS[0], &checkpoints, NULL),
                 CST_ERROR_INPUT, "step0.safetensors: not a running average", NULL);
    const char *paths[] = {SERIES "swag.safetensors", SERIES "swag.safetensors"};
    static const char words[] = "swag.safetensors: is a distribution over weights (SWAG), not a "
                                "checkpoint";
    expect_error(f, cst_swa_average(f->context, paths, 2, NULL, path), CST_ERROR_INPUT, words,
                 NULL);
    expect_error(f, cst_swag_fit(f->context, paths, 2, 0, path), CST_ERROR_INPUT, words, NULL);
    paths[0] = STEP_PATHS[0];
    expect_error(f, cst_swag_fit(f->context, paths, 2, 0, path), CST_ERROR_INPUT, words, NULL);
    assert_int_equal(access(path, F_OK), -1);
}

static const char *sample_path(fixture *f, const char *folder, int number) {
    (void)snprintf(f->path, sizeof f->path, "%.400s/sample_%02d.safetensors", folder, number);
    return f->path;
}

static void samples(void **state) {
    fixture *f = *state;
    const int32_t ranks[] = {RANK, 2, 0};
    for (int r = 0; r < 3; r++) {
        char folder[512];
        char name[64];
        (void)snprintf(name, sizeof name, "samples%d", r);
        copy_path(folder, at(f, name));
        expect_ok(f, cst_swag_sample(f->context, SERIES "swag.safetensors", 3, 0.5, SEED,
                                     r == 0 ? -1 : ranks[r], folder));
        for (int k = 0; k < 3; k++) {
            char expected[512];
            (void)snprintf(expected, sizeof expected, SERIES "rank%d_%02d.safetensors",
                           (int)ranks[r], k);
            expect_like(f, sample_path(f, folder, k), expected, 3e-7);
        }
    }
}

/* Scale 0 gives the mean; more samples begin with the same ones, and their names have a third
 * digit; nothing of a checkpoint is lost. */
static void scale_and_count(void **state) {
    fixture *f = *state;
    char few[512];
    char many[512];
    char zero[512];
    copy_path(few, at(f, "few"));
    copy_path(many, at(f, "many"));
    copy_path(zero, at(f, "zero"));
    const char *model = SERIES "swag.safetensors";
    expect_ok(f, cst_swag_sample(f->context, model, 2, 0.5, 1, -1, few));
    expect_ok(f, cst_swag_sample(f->context, model, 101, 0.5, 1, -1, many));
    for (int k = 0; k < 2; k++) {
        char path[600];
        (void)snprintf(path, sizeof path, "%s/sample_%03d.safetensors", many, k);
        expect_same_bytes(sample_path(f, few, k), path);
    }
    DIR *folder = opendir(many);
    int files = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        files += entry->d_name[0] != '.';
    assert_int_equal(closedir(folder), 0);
    assert_int_equal(files, 101);
    expect_ok(f, cst_swag_sample(f->context, model, 1, 0, 1, 0, zero));
    double drawn[30];
    double mean[30];
    values_of(f, sample_path(f, zero, 0), "conv.weight", drawn, 30);
    values_of(f, model, "mean.conv.weight", mean, 30);
    assert_memory_equal(drawn, mean, sizeof mean);
    expect_error(f, cst_swag_sample(f->context, model, 1, 0.5, 1, -1, many), CST_ERROR_IO,
                 "already exists", NULL);
}

/* ---- the distribution of draws ---- */

/* Mean, variances and covariances of samples of a small network against the closed form
 * scale (diag(variance) + D D' / (rank - 1)), within five standard errors. */
static void covariance_of_samples(void **state) {
    fixture *f = *state;
    enum { PARAMETERS = 8, SAMPLES = 160 }; /* "scalar" and "Zeta" */
    char folder[512];
    copy_path(folder, at(f, "draws"));
    const char *model = SERIES "swag.safetensors";
    double mean[PARAMETERS];
    double variance[PARAMETERS];
    double deviation[RANK][PARAMETERS];
    double flat[RANK * 7];
    values_of(f, model, "mean.Zeta", mean, 7);
    values_of(f, model, "mean.scalar", mean + 7, 1);
    values_of(f, model, "variance.Zeta", variance, 7);
    values_of(f, model, "variance.scalar", variance + 7, 1);
    values_of(f, model, "deviation.Zeta", flat, RANK * 7);
    for (int r = 0; r < RANK; r++)
        for (int i = 0; i < 7; i++)
            deviation[r][i] = flat[r * 7 + i];
    values_of(f, model, "deviation.scalar", flat, RANK);
    for (int r = 0; r < RANK; r++)
        deviation[r][7] = flat[r];
    static double drawn[SAMPLES][PARAMETERS];
    expect_ok(f, cst_swag_sample(f->context, model, SAMPLES, 0.5, 42, -1, folder));
    for (int s = 0; s < SAMPLES; s++) {
        char path[600];
        (void)snprintf(path, sizeof path, "%s/sample_%03d.safetensors", folder, s);
        values_of(f, path, "Zeta", drawn[s], 7);
        values_of(f, path, "scalar", drawn[s] + 7, 1);
    }
    double expected[PARAMETERS][PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++)
        for (int j = 0; j < PARAMETERS; j++) {
            expected[i][j] = i == j ? 0.5 * variance[i] : 0;
            for (int r = 0; r < RANK; r++)
                expected[i][j] += 0.5 * deviation[r][i] * deviation[r][j] / (RANK - 1);
        }
    for (int i = 0; i < PARAMETERS; i++) {
        double sum = 0;
        for (int s = 0; s < SAMPLES; s++)
            sum += drawn[s][i] - mean[i];
        /* BF16's own rounding, 2^-9 of some 4, is no part of the distribution. */
        assert_true(fabs(sum / SAMPLES) < 5 * sqrt(expected[i][i] / SAMPLES) + 1e-3);
        for (int j = 0; j <= i; j++) {
            double product = 0;
            for (int s = 0; s < SAMPLES; s++)
                product += (drawn[s][i] - mean[i]) * (drawn[s][j] - mean[j]);
            double error =
                sqrt((expected[i][i] * expected[j][j] + expected[i][j] * expected[i][j]) / SAMPLES);
            assert_true(fabs(product / SAMPLES - expected[i][j]) < 5 * error + 1e-3);
        }
    }
}

/* A model with no variance but that of its columns, each of which moves one parameter: what is
 * drawn has the variance scale d^2 / (rank - 1), told from d^2 / rank by eight standard errors, and
 * columns have draws of their own. */
static void columns_share_by_rank_less_one(void **state) {
    fixture *f = *state;
    enum { K = 3, SAMPLES = 400 };
    const double zeros[K] = {0};
    const double columns[K * K] = {2, 0, 0, 0, 2, 0, 0, 0, 2};
    char model[512];
    char folder[512];
    copy_path(model, at(f, "columns.safetensors"));
    copy_path(folder, at(f, "moved"));
    tensor_file *w = begin(f, model);
    tensor_file_metadata(w, "corestack.swag.version", "1");
    tensor_file_metadata(w, "corestack.swag.count", "3");
    tensor_file_metadata(w, "corestack.swag.rank", "3");
    declare(f, w, "mean.w", CST_DTYPE_F64, (int64_t[]){K}, 1);
    declare(f, w, "variance.w", CST_DTYPE_F32, (int64_t[]){K}, 1);
    declare(f, w, "deviation.w", CST_DTYPE_F32, (int64_t[]){K, K}, 2);
    give(f, w, "mean.w", zeros, K);
    give(f, w, "deviation.w", columns, (int64_t)K * K);
    give(f, w, "variance.w", zeros, K);
    end(f, w);
    expect_ok(f, cst_swag_sample(f->context, model, SAMPLES, 0.5, 7, -1, folder));
    double squares = 0;
    double products[K] = {0};
    for (int s = 0; s < SAMPLES; s++) {
        char path[600];
        double x[K];
        (void)snprintf(path, sizeof path, "%s/sample_%03d.safetensors", folder, s);
        values_of(f, path, "w", x, K);
        for (int i = 0; i < K; i++) {
            squares += x[i] * x[i];
            products[i] += x[i] * x[(i + 1) % K];
        }
    }
    double variance = 0.5 * 2 * 2 / (K - 1);
    double error = variance * sqrt(2.0 / (K * SAMPLES));
    assert_true(8 * error < variance - 0.5 * 2 * 2 / K);
    assert_true(fabs(squares / (K * SAMPLES) - variance) < 4 * error);
    for (int i = 0; i < K; i++)
        assert_true(fabs(products[i] / SAMPLES) < 4 * variance / sqrt(SAMPLES));
}

/* A large tensor of mean 0 and variance 1: what is drawn is standard normal, and neither
 * neighbours nor samples are alike. */
static void draws_are_normal(void **state) {
    fixture *f = *state;
    enum { COUNT = 600001 }; /* more than two strips, odd */
    static double values[2][COUNT];
    const int64_t shape[] = {COUNT};
    const char *names[] = {"a", "b"};
    char paths[2][512];
    const char *list[2];
    for (int k = 0; k < 2; k++) { /* +1 and -1: mean 0, variance 1 */
        for (int i = 0; i < COUNT; i++)
            values[0][i] = k ? 1 : -1;
        copy_path(paths[k], at(f, names[k]));
        list[k] = paths[k];
        tensor_file *w = begin(f, paths[k]);
        declare(f, w, "odd", CST_DTYPE_F64, NULL, 0);
        declare(f, w, "w", CST_DTYPE_F64, shape, 1);
        give(f, w, "odd", values[0], 1);
        give(f, w, "w", values[0], COUNT);
        end(f, w);
    }
    char model[512];
    char folder[512];
    copy_path(model, at(f, "model.safetensors"));
    copy_path(folder, at(f, "draws"));
    expect_ok(f, cst_swag_fit(f->context, list, 2, 0, model));
    expect_ok(f, cst_swag_sample(f->context, model, 2, 1, 3, 0, folder));
    values_of(f, sample_path(f, folder, 0), "w", values[0], COUNT);
    values_of(f, sample_path(f, folder, 1), "w", values[1], COUNT);
    double moments[4] = {0};
    double neighbours = 0;
    double across = 0;
    for (int i = 0; i < COUNT; i++) {
        double z = values[0][i];
        moments[0] += z;
        moments[1] += z * z;
        moments[2] += z * z * z;
        moments[3] += z * z * z * z;
        neighbours += i ? z * values[0][i - 1] : 0;
        across += z * values[1][i];
    }
    double root = sqrt(COUNT); /* variances of the moments: 1, 2, 15, 96 */
    assert_true(fabs(moments[0] / root) < 5);
    assert_true(fabs((moments[1] - COUNT) / root) < 5 * sqrt(2));
    assert_true(fabs(moments[2] / root) < 5 * sqrt(15));
    assert_true(fabs((moments[3] - 3.0 * COUNT) / root) < 5 * sqrt(96));
    assert_true(fabs(neighbours / root) < 5);
    assert_true(fabs(across / root) < 5);
}

/* ---- threads, stopping ---- */

static void same_bytes_for_any_threads(void **state) {
    fixture *f = *state;
    char paths[3][512];
    const char *list[3];
    make_large(f, "l", 3);
    for (int k = 0; k < 3; k++) {
        copy_path(paths[k], numbered(f, "l", k));
        list[k] = paths[k];
    }
    static const int threads[] = {1, 2, 5};
    char names[3][3][512]; /* average, model, samples */
    for (int t = 0; t < 3; t++) {
        for (int p = 0; p < 3; p++) {
            char name[32];
            (void)snprintf(name, sizeof name,
                           p == 0   ? "swa%d"
                           : p == 1 ? "swag%d"
                                    : "samples%d",
                           t);
            copy_path(names[t][p], at(f, name));
        }
        assert_int_equal(cst_context_set_threads(f->context, threads[t]), CST_OK);
        expect_ok(f, cst_swa_average(f->context, list, 3, NULL, names[t][0]));
        expect_ok(f, cst_swag_fit(f->context, list, 3, 2, names[t][1]));
        expect_ok(f, cst_swag_sample(f->context, names[t][1], 2, 0.5, 9, -1, names[t][2]));
        expect_same_bytes(names[0][0], names[t][0]);
        expect_same_bytes(names[0][1], names[t][1]);
        for (int k = 0; k < 2; k++) {
            char first[600];
            (void)snprintf(first, sizeof first, "%s/sample_%02d.safetensors", names[0][2], k);
            expect_same_bytes(first, sample_path(f, names[t][2], k));
        }
    }
}

typedef struct stopping {
    int calls;
    int stop_at;
    char stage[64];
} stopping;

static int stop(void *user, const char *stage, int64_t done, int64_t total) {
    stopping *s = user;
    assert_true(done <= total);
    (void)snprintf(s->stage, sizeof s->stage, "%s", stage);
    return ++s->calls >= s->stop_at;
}

static void can_be_cancelled(void **state) {
    fixture *f = *state;
    char path[512];
    copy_path(path, at(f, "out"));
    stopping s = {.stop_at = 1};
    cst_context_set_progress(f->context, stop, &s);
    expect_error(f, cst_swag_fit(f->context, STEP_PATHS, STEPS, RANK, path), CST_ERROR_CANCELLED,
                 "fitting SWAG", NULL);
    assert_int_equal(access(path, F_OK), -1);
    expect_error(f, cst_swag_sample(f->context, SERIES "swag.safetensors", 20, 0.5, 1, -1, path),
                 CST_ERROR_CANCELLED, "drawing samples", NULL);
    assert_int_equal(access(path, F_OK), -1);
    expect_error(f, cst_swa_average(f->context, STEP_PATHS, STEPS, NULL, path), CST_ERROR_CANCELLED,
                 "mixing weights", NULL);
    assert_int_equal(access(path, F_OK), -1);
    cst_context_set_progress(f->context, NULL, NULL);
}

/* ---- what is refused ---- */

static void arguments(void **state) {
    fixture *f = *state;
    char path[512];
    copy_path(path, at(f, "out"));
    const char *model = SERIES "swag.safetensors";
    expect_error(f, cst_swag_fit(f->context, STEP_PATHS, 1, 0, path), CST_ERROR_ARGUMENT,
                 "at least two", NULL);
    expect_error(f, cst_swag_fit(f->context, STEP_PATHS, 3, 1, path), CST_ERROR_ARGUMENT, "rank",
                 NULL);
    expect_error(f, cst_swag_fit(f->context, STEP_PATHS, 3, -1, path), CST_ERROR_ARGUMENT, "rank",
                 NULL);
    expect_error(f, cst_swag_sample(f->context, model, 0, 0.5, 1, -1, path), CST_ERROR_ARGUMENT,
                 "1 to 100000", NULL);
    expect_error(f, cst_swag_sample(f->context, model, 1, -0.5, 1, -1, path), CST_ERROR_ARGUMENT,
                 "scale", NULL);
    expect_error(f, cst_swag_sample(f->context, model, 1, NAN, 1, -1, path), CST_ERROR_ARGUMENT,
                 "scale", NULL);
    expect_error(f, cst_swag_sample(f->context, model, 1, 0.5, 1, 1, path), CST_ERROR_ARGUMENT,
                 "rank", NULL);
    expect_error(f, cst_swag_sample(f->context, model, 1, 0.5, 1, 4, path), CST_ERROR_ARGUMENT,
                 "4 columns of deviations were requested, but it has 3", NULL);
    expect_error(f, cst_swag_sample(f->context, STEP_PATHS[0], 1, 0.5, 1, -1, path),
                 CST_ERROR_FORMAT, "not a SWAG file", NULL);
    expect_error(f, cst_swag_fit(f->context, STEP_PATHS, 3, 2, "/dev/null"), CST_ERROR_UNSUPPORTED,
                 "/dev/null: is a pipe or device", NULL);
    expect_ok(f, cst_swag_fit(f->context, STEP_PATHS, 3, 20, path));
    assert_non_null(strstr(f->said[f->notices - 1], "a rank of 20 needs that many checkpoints"));
    expect_metadata(f, path, "corestack.swag.rank", "3");
}

/* A number that is not finite, and statistics beyond float32. */
static void numbers_that_are_refused(void **state) {
    fixture *f = *state;
    const double x[] = {1, 2};
    const double bad[] = {1, -INFINITY};
    make_two(f, numbered(f, "b", 0), x, x);
    make_two(f, numbered(f, "b", 1), x, bad);
    char paths[2][512];
    copy_path(paths[0], numbered(f, "b", 0));
    copy_path(paths[1], numbered(f, "b", 1));
    const char *list[] = {paths[0], paths[1]};
    char out[512];
    copy_path(out, at(f, "out"));
    expect_error(f, cst_swag_fit(f->context, list, 2, 2, out), CST_ERROR_INPUT,
                 "b1.safetensors: tensor 'b': element 1 is infinite", NULL);
    const double far[] = {1, 3e20};
    make_two(f, numbered(f, "b", 1), x, far);
    expect_error(f, cst_swag_fit(f->context, list, 2, 0, out), CST_ERROR_INPUT,
                 "tensor 'b': the variance of element 1 exceeds the range of F32, in which it is "
                 "stored: the checkpoints are too far apart; leave out",
                 NULL);
    /* F64 whose distance, or its square, is beyond F32 or even F64; what is wrong is not the dtype.
     */
    const double huge[] = {1e30, 1e39, 1.7e308};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            const double value = k ? -huge[i] : huge[i];
            tensor_file *w = begin(f, paths[k]);
            declare(f, w, "w", CST_DTYPE_F64, NULL, 0);
            give(f, w, "w", &value, 1);
            end(f, w);
        }
        expect_error(f, cst_swag_fit(f->context, list, 2, 0, out), CST_ERROR_INPUT,
                     "tensor 'w': the variance of element 0 exceeds the range of F32", NULL);
        assert_null(strstr(cst_last_error(f->context), "wider"));
        expect_error(f, cst_swag_fit(f->context, list, 2, 2, out), CST_ERROR_INPUT,
                     i == 0 ? "the variance of element 0 exceeds"
                            : "the deviation of element 0 exceeds the range of F32, in which it is "
                              "stored: the checkpoints are too far apart; leave out those of a",
                     NULL);
    }
    assert_int_equal(access(out, F_OK), -1);
}

/* A SWAG file of one parameter "w" [2] and what is wrong with it. */
typedef struct hostile {
    const char *version;
    const char *count;
    const char *rank;
    const char *names[4];
    cst_dtype dtypes[4];
    int64_t shapes[4][2];
    int axes[4];
    double value; /* of every element */
    cst_status status;
    const char *words;
} hostile;

#define F32 CST_DTYPE_F32
#define MEAN_VARIANCE                                                                              \
    {"mean.w", "variance.w"}, {                                                                    \
        F32, F32                                                                                   \
    }
static const hostile HOSTILE[] = {
    {"2", "5", "0", MEAN_VARIANCE, {{2}, {2}}, {1, 1}, 1, CST_ERROR_UNSUPPORTED, "version '2'"},
    {"1", "1", "0", MEAN_VARIANCE, {{2}, {2}}, {1, 1}, 1, CST_ERROR_FORMAT, "1 checkpoints"},
    {"1", "5", "9", MEAN_VARIANCE, {{2}, {2}}, {1, 1}, 1, CST_ERROR_FORMAT, "rank 9"},
    {"1", "5", "1", MEAN_VARIANCE, {{2}, {2}}, {1, 1}, 1, CST_ERROR_FORMAT, "rank 1"},
    {"1", "5", "-2", MEAN_VARIANCE, {{2}, {2}}, {1, 1}, 1, CST_ERROR_FORMAT, "rank -2"},
    {"1",
     "99999999999999999999",
     "0",
     MEAN_VARIANCE,
     {{2}, {2}},
     {1, 1},
     1,
     CST_ERROR_FORMAT,
     "9999 checkpoints"},
    {"1", "9000", "5000", MEAN_VARIANCE, {{2}, {2}}, {1, 1}, 1, CST_ERROR_FORMAT, "rank 5000,"},
    {"1",
     "5",
     "0",
     {"mean.__metadata__", "variance.__metadata__"},
     {F32, F32},
     {{2}, {2}},
     {1, 1},
     1,
     CST_ERROR_FORMAT,
     "has a name that is not allowed"},
    {"1", "5", "", MEAN_VARIANCE, {{2}, {2}}, {1, 1}, 1, CST_ERROR_FORMAT, "rank ,"},
    {"1",
     "5",
     NULL,
     MEAN_VARIANCE,
     {{2}, {2}},
     {1, 1},
     1,
     CST_ERROR_FORMAT,
     "lack corestack.swag.rank"},
    {"1",
     "5",
     "0",
     {"mean.w"},
     {F32},
     {{2}},
     {1},
     1,
     CST_ERROR_FORMAT,
     "tensor 'variance.w' is missing"},
    {"1",
     "5",
     "2",
     MEAN_VARIANCE,
     {{2}, {2}},
     {1, 1},
     1,
     CST_ERROR_FORMAT,
     "tensor 'deviation.w' is missing"},
    {"1",
     "5",
     "0",
     {"mean.w", "variance.w"},
     {F32, CST_DTYPE_F64},
     {{2}, {2}},
     {1, 1},
     1,
     CST_ERROR_FORMAT,
     "tensor 'variance.w' does not have dtype F32"},
    {"1",
     "5",
     "0",
     MEAN_VARIANCE,
     {{2}, {3}},
     {1, 1},
     1,
     CST_ERROR_FORMAT,
     "tensor 'variance.w' does not have the shape"},
    {"1",
     "5",
     "2",
     {"mean.w", "variance.w", "deviation.w"},
     {F32, F32, F32},
     {{2}, {2}, {3, 2}},
     {1, 1, 2},
     1,
     CST_ERROR_FORMAT,
     "tensor 'deviation.w' does not have the shape"},
    {"1",
     "5",
     "2",
     {"mean.w", "variance.w", "deviation.w"},
     {F32, F32, F32},
     {{2}, {2}, {2}},
     {1, 1, 1},
     1,
     CST_ERROR_FORMAT,
     "tensor 'deviation.w' does not have the shape"},
    {"1",
     "5",
     "0",
     {"mean.w", "variance.w", "deviation.w"},
     {F32, F32, F32},
     {{2}, {2}, {2, 2}},
     {1, 1, 2},
     1,
     CST_ERROR_FORMAT,
     "tensor 'deviation.w' belongs to no parameter"},
    {"1",
     "5",
     "0",
     {"mean.w", "variance.w", "stray"},
     {F32, F32, F32},
     {{2}, {2}, {2}},
     {1, 1, 1},
     1,
     CST_ERROR_FORMAT,
     "tensor 'stray' belongs to no parameter"},
    {"1",
     "5",
     "0",
     {"mean.w", "variance.w", "copied.w"},
     {F32, F32, CST_DTYPE_U8},
     {{2}, {2}, {2}},
     {1, 1, 1},
     1,
     CST_ERROR_FORMAT,
     "tensor 'mean.w' is both averaged and"},
    {"1",
     "5",
     "0",
     {"mean.w", "variance.w", "copied.x"},
     {F32, F32, F32},
     {{2}, {2}, {2}},
     {1, 1, 1},
     1,
     CST_ERROR_FORMAT,
     "tensor 'copied.x' does not have the dtype"},
    {"1",
     "5",
     "0",
     {"mean.w", "variance.w"},
     {CST_DTYPE_I32, F32},
     {{2}, {2}},
     {1, 1},
     1,
     CST_ERROR_FORMAT,
     "tensor 'mean.w' does not have the dtype"},
    {"1", "5", "0", {"w"}, {F32}, {{2}}, {1}, 1, CST_ERROR_FORMAT, "without parameters"},
    {"1",
     "5",
     "0",
     MEAN_VARIANCE,
     {{2}, {2}},
     {1, 1},
     -1,
     CST_ERROR_FORMAT,
     "tensor 'variance.w': element 0 is a negative variance"},
    {"1",
     "5",
     "0",
     MEAN_VARIANCE,
     {{2}, {2}},
     {1, 1},
     NAN,
     CST_ERROR_FORMAT,
     "tensor 'mean.w': element 0 is not finite"},
    {"1",
     "5",
     "0",
     {"mean.w", "variance.w"},
     {CST_DTYPE_F16, F32},
     {{2}, {2}},
     {1, 1},
     65000,
     CST_ERROR_NUMERIC,
     "exceeds the range of F16"},
};

static void make_hostile(fixture *f, const hostile *h, const char *path) {
    tensor_file *w = begin(f, path);
    const char *keys[] = {"corestack.swag.version", "corestack.swag.count", "corestack.swag.rank"};
    const char *texts[] = {h->version, h->count, h->rank};
    for (int i = 0; i < 3; i++)
        if (texts[i])
            tensor_file_metadata(w, keys[i], texts[i]);
    for (int t = 0; t < 4 && h->names[t]; t++)
        declare(f, w, h->names[t], h->dtypes[t], h->shapes[t], h->axes[t]);
    for (int t = 0; t < w->count; t++) {
        const double values[8] = {h->value, h->value, h->value, h->value,
                                  h->value, h->value, h->value, h->value};
        const unsigned char zero[32] = {0};
        int64_t count = h->shapes[t][0] * (h->axes[t] > 1 ? h->shapes[t][1] : 1);
        if (h->dtypes[t] == CST_DTYPE_I32 || h->dtypes[t] == CST_DTYPE_U8)
            give_bytes(f, w, h->names[t], zero, count * cst_dtype_bits(h->dtypes[t]) / 8);
        else
            give(f, w, h->names[t], values, count);
    }
    end(f, w);
}

static void hostile_files(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < sizeof HOSTILE / sizeof *HOSTILE; i++) {
        char path[512];
        char folder[512];
        copy_path(path, at(f, "hostile.safetensors"));
        copy_path(folder, at(f, "out"));
        make_hostile(f, &HOSTILE[i], path);
        /* Some seed draws a number beyond F16 for one of two elements. */
        expect_error(f, cst_swag_sample(f->context, path, 30, 1, 1, -1, folder), HOSTILE[i].status,
                     HOSTILE[i].words, NULL);
        assert_int_equal(access(folder, F_OK), -1);
    }
    size_t size = 0;
    unsigned char *bytes = contents(SERIES "swag.safetensors", &size);
    for (size_t cut = 8; cut < size; cut += size / 7) {
        FILE *file = fopen(at(f, "cut.safetensors"), "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, cut, file), cut);
        assert_int_equal(fclose(file), 0);
        char path[512];
        copy_path(path, at(f, "cut.safetensors"));
        expect_error(f, cst_swag_sample(f->context, path, 1, 1, 1, -1, at(f, "out")),
                     CST_ERROR_FORMAT, "cut.safetensors", NULL);
    }
    free(bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, weights_setup, files_teardown)

int suite_swag(void) {
    const struct CMUnitTest tests[] = {
        TEST(averages),
        TEST(fitted),
        TEST(made_of),
        TEST(samples),
        TEST(scale_and_count),
        TEST(covariance_of_samples),
        TEST(columns_share_by_rank_less_one),
        TEST(draws_are_normal),
        TEST(same_bytes_for_any_threads),
        TEST(can_be_cancelled),
        TEST(arguments),
        TEST(numbers_that_are_refused),
        TEST(hostile_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
