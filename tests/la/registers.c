/*
 * The same bytes with every set of registers: loops of prediction, exponentials and logarithms,
 * half precision, and whole fits. The linker puts a function of this file in the place of the one
 * that asks the processor (tests/CMakeLists.txt).
 */
#include "io_files.h"

#include "core/wide.h"
#include "data/readers/npy.h"
#include "model/kernels.h"
#include "random_case.h"

/* Sets of registers to compare: as many as cst_registers names, cut to what the processor has. */
enum { SETS = CST_REGISTERS_AVX512 + 1 };
static cst_registers widest; /* no wider ones, whatever the processor has */

/* Names that the linker's --wrap gives. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c) */
cst_registers __real_cst_wide_registers(void);
cst_registers __wrap_cst_wide_registers(void);
cst_registers __wrap_cst_wide_registers(void) {
    cst_registers real = __real_cst_wide_registers();
    return real < widest ? real : widest;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c) */

static void same_floats(const float *a, const float *b, size_t count) {
    assert_memory_equal(a, b, count * sizeof *a);
}

static void same_doubles(const double *a, const double *b, size_t count) {
    assert_memory_equal(a, b, count * sizeof *a);
}

enum { MAX = 67 };

/* Everything of model/kernels.h on `count` numbers, into out [7 * MOST]. */
static void run_kernels(int32_t count, const float *p, const double *x, double *out) {
    memset(out, 0, 7 * MAX * sizeof *out);
    cst_add_mixed_logs(p, count, 1e-3, count, 0.7, out);
    memcpy(out + MAX, x, (size_t)count * sizeof *out);
    cst_softmax(count, out + MAX);
    cst_add_scaled_f32(p, count, -1.25, out + 2 * MAX);
    cst_add_scaled_f64(x, count, 3.5, out + 3 * MAX);
    cst_add_columns(x, 3, (int32_t)(count % 7), count, x + MAX, out + 4 * MAX);
    cst_row_check check = cst_check_row(p, count);
    out[5 * MAX] = check.sum;
    out[5 * MAX + 1] = check.outside;
    out[5 * MAX + 2] = check.beyond;
}

static void loops_of_prediction(void **state) {
    (void)state;
    cst_rng rng;
    cst_rng_init(&rng, 1, CST_STREAM_TEST, 0);
    for (int32_t count = 1; count <= MAX; count++)
        for (int round = 0; round < 20; round++) {
            float p[MAX];
            double x[2 * MAX];
            double out[SETS][7 * MAX];
            for (int i = 0; i < MAX; i++)
                p[i] = (float)pow(cst_rng_uniform(&rng), 1 + round);
            if (round > 15)
                p[count / 2] = round % 2 ? -0.5F : NAN;
            for (int i = 0; i < 2 * MAX; i++)
                x[i] = pow(3, round - 10) * cst_rng_normal(&rng);
            for (int i = 0; i < SETS; i++) {
                widest = (cst_registers)i;
                run_kernels(count, p, x, out[i]);
            }
            /* NaN is NaN, with whatever sign an operation leaves */
            for (int i = 0; i < SETS; i++)
                for (int k = 0; k < 7 * MAX; k++)
                    if (isnan(out[i][k]))
                        out[i][k] = NAN;
            for (int i = 1; i < SETS; i++)
                same_doubles(out[0], out[i], 7 * MAX);
        }
}

static void exponentials_and_logarithms(void **state) {
    enum { COUNT = 100003 };
    (void)state;
    cst_rng rng;
    double *x = allocate(COUNT, sizeof *x);
    float *y = allocate(COUNT, sizeof *y);
    double *wide = allocate((size_t)SETS * COUNT, sizeof *wide);
    float *narrow = allocate((size_t)SETS * COUNT, sizeof *narrow);
    cst_rng_init(&rng, 2, CST_STREAM_TEST, 0);
    for (int part = 0; part < 2; part++) {
        for (size_t i = 0; i < COUNT; i++) {
            double u = cst_rng_uniform(&rng);
            x[i] = part ? ldexp(1 + u, (int)(i % 2098) - 1074) : -745 + 1454.7 * u;
            y[i] = (float)(part ? ldexp(1 + 0.999 * u, (int)(i % 277) - 149) : -103 + 191 * u);
        }
        for (int i = 0; i < SETS; i++) {
            widest = (cst_registers)i;
            (part ? cst_log_f64 : cst_exp_f64)(COUNT, x, wide + (size_t)i * COUNT);
            (part ? cst_log_f32 : cst_exp_f32)(COUNT, y, narrow + (size_t)i * COUNT);
        }
        for (size_t i = 1; i < SETS; i++) {
            same_doubles(wide, wide + i * COUNT, COUNT);
            same_floats(narrow, narrow + i * COUNT, COUNT);
        }
    }
    free(x);
    free(y);
    free(wide);
    free(narrow);
}

/* Every number of half precision, in rows that are no multiple of a register. */
static void half_precision_numbers(void **state) {
    enum { HALVES = 0x10000, WIDTH = 13, ROWS = HALVES / WIDTH };
    fixture *f = *state;
    static uint16_t bits[HALVES];
    static float out[SETS][HALVES];
    char dict[96];
    for (int i = 0; i < HALVES; i++)
        bits[i] = (uint16_t)i;
    (void)snprintf(dict, sizeof dict, "{'descr': '<f2', 'fortran_order': False, 'shape': (%d, %d)}",
                   ROWS, WIDTH);
    put_npy(f, "h.npy", dict, bits, (size_t)ROWS * WIDTH * 2);
    for (int i = 0; i < SETS; i++) {
        cst_npy *npy = NULL;
        widest = (cst_registers)i;
        expect_ok(f, cst_npy_open(f->context, &f->scope, &npy, at(f, "h.npy"), 0));
        expect_ok(f, cst_npy_read_rows_f32(f->context, npy, 0, ROWS, out[i]));
        cst_scope_free(&f->scope);
        for (size_t k = 0; k < (size_t)ROWS * WIDTH; k++)
            if (isnan(out[i][k]))
                out[i][k] = -1;
    }
    for (int i = 1; i < SETS; i++)
        same_floats(out[0], out[i], (size_t)ROWS * WIDTH);
    assert_true(out[0][0x3c00] == 1 && out[0][0x0001] == 0x1p-24F && out[0][0x7c00] == INFINITY);
}

/* The bytes of a fitted model and of what it predicts for the rows it was fitted on. */
static void *fit_and_predict(pool_case *c, const char *preset, size_t *size) {
    cst_context *context = NULL;
    cst_options *options = NULL;
    cst_pool *pool = NULL;
    cst_model *model = NULL;
    float *predicted = NULL;
    float *variance = NULL;
    int64_t rows = 0;
    void *bytes = NULL;
    unsigned char *all = NULL;
    assert_int_equal(cst_context_create(&context), CST_OK);
    assert_int_equal(make_pool(context, c, &pool), CST_OK);
    assert_int_equal(cst_options_create(context, &options), CST_OK);
    assert_int_equal(cst_options_preset(context, options, preset), CST_OK);
    cst_status status = cst_fit(context, pool, "oof", options, &model, NULL);
    if (status == CST_OK) {
        assert_int_equal(cst_model_save_memory(context, model, &bytes, size), CST_OK);
        status = c->task == CST_TASK_REGRESSION
                     ? cst_model_predict_values_pool(context, model, pool, "oof", &predicted,
                                                     &variance, &rows)
                     : cst_model_predict_pool(context, model, pool, "oof", &predicted, &rows);
        assert_int_equal(status, CST_OK);
        size_t more = (size_t)rows * (size_t)c->classes * sizeof *predicted;
        all = allocate(*size + 2 * more, 1);
        memcpy(all, bytes, *size);
        memcpy(all + *size, predicted, more);
        if (variance)
            memcpy(all + *size + more, variance, more);
        *size += 2 * more;
    } else { /* a pool that cannot be fitted: the message is to be the same */
        *size = strlen(cst_last_error(context));
        all = allocate(*size + 1, 1);
        memcpy(all, cst_last_error(context), *size);
    }
    cst_free(context, bytes);
    cst_free(context, predicted);
    cst_free(context, variance);
    cst_model_free(context, model);
    cst_options_free(context, options);
    cst_pool_free(context, pool);
    cst_context_free(context);
    return all;
}

static void fits(void **state) {
    static const char *const presets[] = {"default", "compact", "best", "paper", "prototype"};
    (void)state;
    cst_rng rng;
    cst_rng_init(&rng, 3, CST_STREAM_TEST, 0);
    for (int i = 0; i < 18; i++) {
        pool_case c = i % 3 == 2 ? random_values(&rng) : random_classes(&rng);
        const char *preset = presets[i / 3 % 5];
        size_t size[SETS] = {0};
        void *bytes[SETS];
        for (int k = 0; k < SETS; k++) {
            widest = (cst_registers)k;
            bytes[k] = fit_and_predict(&c, preset, &size[k]);
        }
        for (int k = 1; k < SETS; k++)
            if (size[0] != size[k] || memcmp(bytes[0], bytes[k], size[0]) != 0)
                fail_msg("pool %d, preset %s, registers %d: %zu and %zu bytes, which differ", i,
                         preset, k, size[0], size[k]);
        for (int k = 0; k < SETS; k++)
            free(bytes[k]);
        free_case(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_of_prediction),
        cmocka_unit_test(exponentials_and_logarithms),
        cmocka_unit_test_setup_teardown(half_precision_numbers, files_setup, files_teardown),
        cmocka_unit_test(fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
