/*
 * Checkpoints and their means: what is averaged, copied and refused, the same bytes for any number
 * of threads.
 */
#include "checkpoints.h"

#include "data/readers/safetensors.h"
#include "weights/checkpoints.h"

#include <inttypes.h>
#include <math.h>

/* ---- means and sums ---- */

/* Every dtype that is averaged, against sums in double precision; integers are copied. */
static void means_of_every_dtype(void **state) {
    fixture *f = *state;
    static const double a[] = {1, -2, 0.25, 1e-3, 0, 3};
    static const double b[] = {2, -2, 0.5, 5e-3, -0.0, 1.0009765625};
    static const double c[] = {4, -2, 0.125, 7e-3, 0, 1};
    static const int64_t shape[] = {2, 3};
    const double *values[] = {a, b, c};
    const char *names[] = {"f16", "bf16", "f32", "f64"};
    const cst_dtype dtypes[] = {CST_DTYPE_F16, CST_DTYPE_BF16, CST_DTYPE_F32, CST_DTYPE_F64};
    const double step[] = {0x1p-11, 0x1p-8, 0x1p-24, 0x1p-53};
    for (int k = 0; k < 3; k++) {
        tensor_file *w = begin(f, numbered(f, "c", k));
        for (int d = 0; d < 4; d++)
            declare(f, w, names[d], dtypes[d], shape, 2);
        declare(f, w, "steps", CST_DTYPE_I64, NULL, 0);
        const int64_t steps = 7;
        give_bytes(f, w, "steps", &steps, sizeof steps);
        for (int d = 3; d >= 0; d--)
            give(f, w, names[d], values[k], 6);
        end(f, w);
    }
    cst_checkpoints *all = open_numbered(f, "c", 3);
    assert_int_equal(f->notices, 0);
    char path[512];
    copy_path(path, at(f, "mean.safetensors"));
    expect_ok(f, cst_mix_mean(f->context, all, path));
    for (int d = 0; d < 4; d++) {
        double got[6];
        values_of(f, path, names[d], got, 6);
        for (int i = 0; i < 6; i++) {
            double sum = 0;
            for (int k = 0; k < 3; k++) {
                double stored[6];
                values_of(f, numbered(f, "c", k), names[d], stored, 6);
                sum += stored[i] / 3;
            }
            assert_true(fabs(got[i] - sum) <= step[d] * fabs(sum) * 1.01 + 1e-9);
        }
    }
    double steps = 0;
    values_of(f, path, "steps", &steps, 1);
    assert_true(steps == 7);
    expect_metadata(f, path, "corestack.kind", "mean");
    expect_metadata(f, path, "corestack.files", "3");
    close_checkpoints(f->context, all);
}

/* The bytes of a tensor, of which there must be `size`. */
static void bytes_of(fixture *f, const char *path, const char *name, unsigned char *out,
                     int64_t size) {
    cst_safetensors *file = NULL;
    int64_t tensor = open_at(f, path, name, &file);
    assert_int_equal(cst_safetensors_bytes(file, tensor), size);
    expect_ok(f, cst_safetensors_read(f->context, file, tensor, 0, size, out));
    cst_safetensors_close(f->context, file);
}

enum { MEANS = 64, TYPES = 3 };
static const char *const MEAN_NAMES[TYPES] = {"F16", "BF16", "F32"};
static const cst_dtype MEAN_TYPES[TYPES] = {CST_DTYPE_F16, CST_DTYPE_BF16, CST_DTYPE_F32};

/* The numbers of the fixture as checkpoints. */
static void make_rows(fixture *f, const char *fixed, int count) {
    unsigned char bytes[TYPES][7 * MEANS * 4];
    for (int d = 0; d < TYPES; d++)
        bytes_of(f, fixed, MEAN_NAMES[d], bytes[d],
                 count * MEANS * cst_dtype_bits(MEAN_TYPES[d]) / 8);
    for (int k = 0; k < count; k++) {
        tensor_file *w = begin(f, numbered(f, "r", k));
        for (int d = 0; d < TYPES; d++)
            declare(f, w, MEAN_NAMES[d], MEAN_TYPES[d], (int64_t[]){MEANS}, 1);
        for (int d = TYPES - 1; d >= 0; d--) {
            int64_t size = MEANS * cst_dtype_bits(MEAN_TYPES[d]) / 8;
            give_bytes(f, w, MEAN_NAMES[d], bytes[d] + k * size, size);
        }
        end(f, w);
    }
}

static void expect_means(fixture *f, const char *path, const char *fixed) {
    for (int d = 0; d < TYPES; d++) {
        unsigned char wanted[MEANS * 4];
        unsigned char got[MEANS * 4];
        char name[16];
        int64_t item = cst_dtype_bits(MEAN_TYPES[d]) / 8;
        (void)snprintf(name, sizeof name, "mean.%s", MEAN_NAMES[d]);
        bytes_of(f, fixed, name, wanted, MEANS * item);
        bytes_of(f, path, MEAN_NAMES[d], got, MEANS * item);
        for (int i = 0; i < MEANS; i++)
            if (memcmp(got + i * item, wanted + i * item, (size_t)item) != 0)
                fail_msg("%s: element %d of %s is not the mean", fixed, i, MEAN_NAMES[d]);
    }
}

/* Means are those of rational arithmetic (tests/oracles/weight_space.py), rounded once, ties to
 * even: as a mean, as an average and one that is continued. */
static void means_are_rounded_once(void **state) {
    fixture *f = *state;
    for (int count = 3; count <= 7; count += 2) {
        char fixed[256];
        char path[512];
        char paths[8][512];
        const char *list[8];
        (void)snprintf(fixed, sizeof fixed, CST_TEST_DATA "/weight_space/means%d.safetensors",
                       count);
        copy_path(path, at(f, "mean.safetensors"));
        make_rows(f, fixed, count);
        cst_checkpoints *all = open_numbered(f, "r", count);
        expect_ok(f, cst_mix_mean(f->context, all, path));
        expect_means(f, path, fixed);
        close_checkpoints(f->context, all);
        for (int k = 0; k < count; k++) {
            copy_path(paths[k], numbered(f, "r", k));
            list[k] = paths[k];
        }
        expect_ok(f, cst_swa_average(f->context, list, count, NULL, path));
        expect_means(f, path, fixed);
        expect_ok(f, cst_swa_average(f->context, list, 1, NULL, path));
        expect_ok(f, cst_swa_average(f->context, list + 1, count - 1, path, path));
        expect_means(f, path, fixed);
    }
}

/* The largest numbers of F64, and zeros of both signs, whichever file has which. */
static void extremes_of_doubles(void **state) {
    fixture *f = *state;
    const double a[] = {1.7e308, -1.7e308, 1.7e308, -0.0, 0.0, -0.0, 5};
    const double b[] = {-1.7e308, 1.7e308, 1.7e308, 0.0, -0.0, -0.0, 7};
    const double *rows[] = {a, b, a};
    for (int k = 0; k < 3; k++) {
        tensor_file *w = begin(f, numbered(f, "x", k));
        declare(f, w, "w", CST_DTYPE_F64, (int64_t[]){7}, 1);
        give(f, w, "w", rows[k], 7);
        end(f, w);
    }
    char path[512];
    double got[7];
    copy_path(path, at(f, "out.safetensors"));
    cst_checkpoints *all = open_numbered(f, "x", 2);
    expect_ok(f, cst_mix_mean(f->context, all, path));
    values_of(f, path, "w", got, 7);
    assert_true(got[0] == 0 && got[1] == 0 && got[2] == 1.7e308 && got[6] == 6);
    assert_true(!signbit(got[3]) && !signbit(got[4]) && got[5] == 0 && signbit(got[5]));
    close_checkpoints(f->context, all);
    all = open_numbered(f, "x", 3);
    expect_ok(f, cst_mix_mean(f->context, all, path));
    values_of(f, path, "w", got, 7);
    assert_true(fabs(got[0] / (1.7e308 / 3) - 1) < 1e-15 &&
                fabs(got[1] / (-1.7e308 / 3) - 1) < 1e-15);
    assert_true(got[2] == 1.7e308 && fabs(got[6] - 17.0 / 3) < 1e-15);
    close_checkpoints(f->context, all);
}

/* A parameter that is not finite is named, and what was there stays. */
static void numbers_that_are_not_finite(void **state) {
    fixture *f = *state;
    const double x[] = {1, 2};
    const double bad[] = {5, NAN};
    make_two(f, numbered(f, "t", 0), x, x);
    make_two(f, numbered(f, "t", 1), bad, x);
    cst_checkpoints *all = open_numbered(f, "t", 2);
    expect_error(f, cst_mix_mean(f->context, all, numbered(f, "t", 0)), CST_ERROR_INPUT,
                 "t1.safetensors: tensor 'a': element 1 is not a number", NULL);
    double got[2];
    values_of(f, numbered(f, "t", 0), "a", got, 2);
    assert_true(got[0] == 1 && got[1] == 2);
    close_checkpoints(f->context, all);
}

/* Files with the same values give those values, to the last bit. */
static void equal_files_stay(void **state) {
    fixture *f = *state;
    const char *names[] = {"f16", "bf16", "f32", "f64"};
    const cst_dtype dtypes[] = {CST_DTYPE_F16, CST_DTYPE_BF16, CST_DTYPE_F32, CST_DTYPE_F64};
    double values[64];
    for (int i = 0; i < 64; i++)
        values[i] = exp(i / 3.0 - 12) * (i % 3 ? 1 / 3.0 : -1 / 7.0);
    values[5] = -0.0;
    values[6] = 0;
    const int64_t shape[] = {64};
    for (int k = 0; k < 7; k++) {
        tensor_file *w = begin(f, numbered(f, "e", k));
        for (int d = 0; d < 4; d++)
            declare(f, w, names[d], dtypes[d], shape, 1);
        for (int d = 3; d >= 0; d--)
            give(f, w, names[d], values, 64);
        end(f, w);
    }
    cst_checkpoints *all = open_numbered(f, "e", 7);
    char path[512];
    copy_path(path, at(f, "same.safetensors"));
    expect_ok(f, cst_mix_mean(f->context, all, path));
    for (int d = 0; d < 4; d++) {
        double got[64];
        double stored[64];
        values_of(f, path, names[d], got, 64);
        values_of(f, numbered(f, "e", 0), names[d], stored, 64);
        assert_memory_equal(got, stored, sizeof got);
    }
    close_checkpoints(f->context, all);
}

/* Larger than a strip, tensors of all sizes: the same bytes for 1, 2 and 5 threads. */
static void same_bytes_for_any_threads(void **state) {
    fixture *f = *state;
    make_large(f, "l", 2);
    cst_checkpoints *all = open_numbered(f, "l", 2);
    static const int threads[] = {1, 2, 5};
    for (int t = 0; t < 3; t++) {
        char path[512];
        char first[512];
        copy_path(first, at(f, "out0.safetensors"));
        copy_path(path, numbered(f, "out", t));
        assert_int_equal(cst_context_set_threads(f->context, threads[t]), CST_OK);
        expect_ok(f, cst_mix_mean(f->context, all, path));
        expect_same_bytes(first, path);
    }
    close_checkpoints(f->context, all);
}

/* ---- files that do not belong together ---- */

static void differences_are_listed(void **state) {
    fixture *f = *state;
    const double x[] = {1, 2, 3, 4};
    const int64_t two[] = {2};
    const int64_t four[] = {2, 2};
    tensor_file *w = begin(f, numbered(f, "d", 0));
    declare(f, w, "a", CST_DTYPE_F32, two, 1);
    declare(f, w, "b", CST_DTYPE_F32, two, 1);
    declare(f, w, "c", CST_DTYPE_F32, two, 1);
    give(f, w, "a", x, 2);
    give(f, w, "b", x, 2);
    give(f, w, "c", x, 2);
    end(f, w);
    w = begin(f, numbered(f, "d", 1));
    declare(f, w, "a", CST_DTYPE_F16, two, 1);
    declare(f, w, "c", CST_DTYPE_F32, four, 2);
    declare(f, w, "d", CST_DTYPE_F32, two, 1);
    give(f, w, "c", x, 4);
    give(f, w, "d", x, 2);
    give(f, w, "a", x, 2);
    end(f, w);
    char first[512];
    char second[512];
    copy_path(first, numbered(f, "d", 0));
    copy_path(second, numbered(f, "d", 1));
    const char *paths[] = {first, second};
    cst_checkpoints *all = NULL;
    expect_error(f, open_checkpoints(f->context, &all, paths, 2), CST_ERROR_MISMATCH,
                 "d1.safetensors: its tensors differ from those of", NULL);
    assert_null(all);
    assert_non_null(strstr(cst_last_error(f->context),
                           "d0.safetensors, 4 differences: 'a' is F16 [2], not F32 [2]; 'b' is "
                           "missing; 'c' is F32 [2, 2], not F32 [2]; 'd' is extra; give "
                           "checkpoints of the same network"));
    assert_null(strchr(cst_last_error(f->context), '\n'));
    w = begin(f, second);
    for (int i = 0; i < 20; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "x%02d", i);
        declare(f, w, name, CST_DTYPE_F32, NULL, 0);
    }
    for (int i = 0; i < 20; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "x%02d", i);
        give(f, w, name, x, 1);
    }
    end(f, w);
    expect_error(f, open_checkpoints(f->context, &all, paths, 2), CST_ERROR_MISMATCH,
                 "23 differences: 'a' is missing; 'b' is missing; 'c' is missing; 'x00' is extra; "
                 "'x01' is extra; ...; give",
                 NULL);
}

static void dtypes_that_are_refused(void **state) {
    fixture *f = *state;
    const int64_t two[] = {2};
    const unsigned char bytes[16] = {0};
    char path[512];
    copy_path(path, at(f, "odd.safetensors"));
    const char *paths[] = {path};
    cst_checkpoints *all = NULL;
    const cst_dtype odd[] = {CST_DTYPE_F8_E4M3, CST_DTYPE_C64};
    for (int i = 0; i < 2; i++) {
        tensor_file *w = begin(f, path);
        declare(f, w, "w", odd[i], two, 1);
        give_bytes(f, w, "w", bytes, 2 * cst_dtype_bits(odd[i]) / 8);
        end(f, w);
        expect_error(f, open_checkpoints(f->context, &all, paths, 1), CST_ERROR_UNSUPPORTED,
                     i ? "tensor 'w' has dtype C64" : "tensor 'w' has dtype F8_E4M3", NULL);
    }
    tensor_file *w = begin(f, path);
    declare(f, w, "w", CST_DTYPE_I32, two, 1);
    give_bytes(f, w, "w", bytes, 8);
    end(f, w);
    expect_error(f, open_checkpoints(f->context, &all, paths, 1), CST_ERROR_INPUT,
                 "nothing to average", NULL);
}

/* ---- what is said ---- */

static void notices_of_statistics_and_integers(void **state) {
    fixture *f = *state;
    const double x[] = {1, 2};
    const int64_t two[] = {2};
    for (int k = 0; k < 2; k++) {
        tensor_file *w = begin(f, numbered(f, "n", k));
        declare(f, w, "bn.running_mean", CST_DTYPE_F32, two, 1);
        declare(f, w, "bn.running_var", CST_DTYPE_F32, two, 1);
        declare(f, w, "bn.num_batches_tracked", CST_DTYPE_I64, NULL, 0);
        declare(f, w, "mask", CST_DTYPE_BOOL, two, 1);
        const int64_t batches = 10 + k;
        const unsigned char mask[] = {0, 1};
        give_bytes(f, w, "bn.num_batches_tracked", &batches, sizeof batches);
        give(f, w, "bn.running_mean", x, 2);
        give(f, w, "bn.running_var", x, 2);
        give_bytes(f, w, "mask", mask, 2);
        end(f, w);
    }
    cst_checkpoints *all = open_numbered(f, "n", 2);
    assert_int_equal(f->notices, 2);
    assert_non_null(strstr(f->said[0], "3 tensors are batch-norm statistics (the first: "
                                       "'bn.num_batches_tracked')"));
    assert_non_null(strstr(f->said[1], "1 integer tensor differs between the files (the "
                                       "first: 'bn.num_batches_tracked' in "));
    char path[512];
    copy_path(path, at(f, "out.safetensors"));
    expect_ok(f, cst_mix_mean(f->context, all, path));
    double batches = 0;
    values_of(f, path, "bn.num_batches_tracked", &batches, 1);
    assert_true(batches == 10);
    close_checkpoints(f->context, all);
    char twice[512];
    copy_path(twice, numbered(f, "n", 0));
    const char *paths[] = {twice, twice};
    expect_ok(f, open_checkpoints(f->context, &all, paths, 2));
    assert_non_null(strstr(f->said[f->notices - 1], "given more than once (files 1 and 2)"));
    close_checkpoints(f->context, all);
}

/* Metadata that all files share are kept; those of the library's own are not. */
static void shared_metadata(void **state) {
    fixture *f = *state;
    const double x[] = {1, 2};
    for (int k = 0; k < 2; k++) {
        tensor_file *w = begin(f, numbered(f, "m", k));
        tensor_file_metadata(w, "format", "pt");
        tensor_file_metadata(w, "seed", k ? "1" : "0");
        tensor_file_metadata(w, "corestack.kind", "old");
        if (k == 0)
            tensor_file_metadata(w, "only", "here");
        declare(f, w, "w", CST_DTYPE_F32, NULL, 0);
        give(f, w, "w", x, 1);
        end(f, w);
    }
    cst_checkpoints *all = open_numbered(f, "m", 2);
    char path[512];
    copy_path(path, at(f, "out.safetensors"));
    expect_ok(f, cst_mix_mean(f->context, all, path));
    expect_metadata(f, path, "format", "pt");
    expect_metadata(f, path, "corestack.kind", "mean");
    expect_metadata(f, path, "seed", NULL);
    expect_metadata(f, path, "only", NULL);
    close_checkpoints(f->context, all);
}

/* Tensors without elements, scalars, and an output that takes the place of an input. */
static void empty_scalar_and_in_place(void **state) {
    fixture *f = *state;
    const double x[] = {3, 5};
    const int64_t none[] = {4, 0};
    for (int k = 0; k < 2; k++) {
        tensor_file *w = begin(f, numbered(f, "s", k));
        declare(f, w, "empty", CST_DTYPE_F32, none, 2);
        declare(f, w, "scalar", CST_DTYPE_F32, NULL, 0);
        declare(f, w, "zero", CST_DTYPE_I8, none, 2);
        give(f, w, "scalar", x + k, 1);
        end(f, w);
    }
    cst_checkpoints *all = open_numbered(f, "s", 2);
    expect_ok(f, cst_mix_mean(f->context, all, numbered(f, "s", 0)));
    double got = 0;
    values_of(f, numbered(f, "s", 0), "scalar", &got, 1);
    assert_true(got == 4);
    close_checkpoints(f->context, all);
}

/* ---- files that change, calls that are stopped ---- */

static void truncated_and_shrinking(void **state) {
    fixture *f = *state;
    make_large(f, "l", 2);
    cst_checkpoints *all = open_numbered(f, "l", 2);
    char path[512];
    copy_path(path, at(f, "out.safetensors"));
    assert_int_equal(truncate(numbered(f, "l", 1), 100000), 0);
    expect_error(f, cst_mix_mean(f->context, all, path), CST_ERROR_IO,
                 "l1.safetensors: ends at byte ", NULL);
    assert_int_equal(access(path, F_OK), -1);
    close_checkpoints(f->context, all);
    char first[512];
    char second[512];
    copy_path(first, numbered(f, "l", 0));
    copy_path(second, numbered(f, "l", 1));
    const char *paths[] = {first, second};
    expect_error(f, open_checkpoints(f->context, &all, paths, 2), CST_ERROR_FORMAT,
                 "l1.safetensors", NULL);
}

static int stop_at_once(void *user, const char *stage, int64_t done, int64_t total) {
    int *calls = user;
    assert_true(done <= total);
    assert_string_equal(stage, "mixing weights");
    return ++*calls == 1;
}

static void can_be_cancelled(void **state) {
    fixture *f = *state;
    make_large(f, "l", 2);
    cst_checkpoints *all = open_numbered(f, "l", 2);
    int calls = 0;
    char path[512];
    copy_path(path, at(f, "out.safetensors"));
    cst_context_set_progress(f->context, stop_at_once, &calls);
    expect_error(f, cst_mix_mean(f->context, all, path), CST_ERROR_CANCELLED, "mixing weights",
                 NULL);
    cst_context_set_progress(f->context, NULL, NULL);
    assert_int_equal(access(path, F_OK), -1);
    close_checkpoints(f->context, all);
}

int suite_checkpoints(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(means_of_every_dtype, weights_setup, files_teardown),
        cmocka_unit_test_setup_teardown(means_are_rounded_once, weights_setup, files_teardown),
        cmocka_unit_test_setup_teardown(extremes_of_doubles, weights_setup, files_teardown),
        cmocka_unit_test_setup_teardown(numbers_that_are_not_finite, weights_setup, files_teardown),
        cmocka_unit_test_setup_teardown(equal_files_stay, weights_setup, files_teardown),
        cmocka_unit_test_setup_teardown(same_bytes_for_any_threads, weights_setup, files_teardown),
        cmocka_unit_test_setup_teardown(differences_are_listed, weights_setup, files_teardown),
        cmocka_unit_test_setup_teardown(dtypes_that_are_refused, weights_setup, files_teardown),
        cmocka_unit_test_setup_teardown(notices_of_statistics_and_integers, weights_setup,
                                        files_teardown),
        cmocka_unit_test_setup_teardown(shared_metadata, weights_setup, files_teardown),
        cmocka_unit_test_setup_teardown(empty_scalar_and_in_place, weights_setup, files_teardown),
        cmocka_unit_test_setup_teardown(truncated_and_shrinking, weights_setup, files_teardown),
        cmocka_unit_test_setup_teardown(can_be_cancelled, weights_setup, files_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
