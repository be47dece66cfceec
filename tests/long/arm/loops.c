/*
 * Exponentials, logarithms and the loops of prediction on fixed numbers, as bytes on standard
 * output. arm.sh runs it on this processor and as 64-bit ARM.
 */
#include "core/wide.h"
#include "model/kernels.h"

#include <math.h>
#include <stdio.h>

enum { COUNT = 4099, ROW = 67 };

/* Uniform in [0, 1), by a linear congruential generator (Knuth's MMIX constants). */
static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (double)(*state >> 11) * 0x1p-53;
}

static void put(const void *numbers, size_t size, size_t count) {
    (void)fwrite(numbers, size, count, stdout);
}

int main(void) {
    static double x[COUNT];
    static float y[COUNT];
    uint64_t state = 1;
    for (int log_too = 0; log_too < 2; log_too++) {
        for (int i = 0; i < COUNT; i++) {
            double u = uniform(&state);
            x[i] = log_too ? ldexp(1 + u, i % 2098 - 1074) : -745 + 1454.7 * u;
            y[i] = (float)(log_too ? ldexp(1 + 0.999 * u, i % 277 - 149) : -103 + 191 * u);
        }
        (log_too ? cst_log_f64 : cst_exp_f64)(COUNT, x, x);
        (log_too ? cst_log_f32 : cst_exp_f32)(COUNT, y, y);
        put(x, sizeof *x, COUNT);
        put(y, sizeof *y, COUNT);
    }
    for (int32_t count = 1; count <= ROW; count++) {
        float p[ROW];
        double z[ROW] = {0};
        double columns[3 * ROW];
        for (int32_t i = 0; i < count; i++)
            p[i] = (float)uniform(&state);
        for (int i = 0; i < 3 * ROW; i++)
            columns[i] = uniform(&state) - 0.5;
        cst_add_mixed_logs(p, count, 1e-3, count, 0.7, z);
        cst_add_scaled_f32(p, count, -1.25, z);
        cst_add_scaled_f64(columns, count, 3.5, z);
        cst_add_columns(columns, 3, count % 7, count, columns + ROW, z);
        cst_softmax(count, z);
        put(z, sizeof *z, (size_t)count);
        cst_row_check check = cst_check_row(p, count);
        put(&check.sum, sizeof check.sum, 1);
    }
    return 0;
}
