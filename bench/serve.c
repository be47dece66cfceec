/* Times predictions of made-up rows for the table of docs/serving.md (bench/serving.sh):
 * microseconds for a call of one row, and for a row in calls of 4,096. */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 4096, REPEATS = 7 };

static double now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* ---- what is timed: a library, or the file of `corestack export --format c` (EXPORTED) ---- */

#ifdef EXPORTED
int stack_predict(const float *const *members, int64_t rows, float *out);

static int64_t members = EXPORTED, classes = 10;

static int open_model(const char *path) {
    (void)path;
    return 0;
}
static int predict(const float *const *rows, int64_t count, float *out) {
    return stack_predict(rows, count, out);
}
static void close_model(void) {
}
#else
#include <corestack/predict.h>

static cst_context *context;
static cst_model *model;
static cst_predictor *predictor;
static int64_t members, classes;

static int open_model(const char *path) {
    if (cst_context_create(&context) != CST_OK || cst_model_load(context, &model, path) != CST_OK ||
        cst_predictor_create(context, &predictor, model) != CST_OK)
        return 1;
    members = cst_model_members(model);
    classes = cst_model_classes(model);
    return 0;
}
static int predict(const float *const *rows, int64_t count, float *out) {
    return cst_predictor_predict(predictor, rows, count, out) != CST_OK;
}
static void close_model(void) {
    cst_predictor_free(context, predictor);
    cst_model_free(context, model);
    cst_context_free(context);
}
#endif

/* Probabilities. */
static void fill(float *rows, int64_t count) {
    for (int64_t i = 0; i < count; i++, rows += classes) {
        float sum = 0;
        for (int64_t c = 0; c < classes; c++)
            sum += rows[c] = (float)(rand() % 1000 + 1) / 1000;
        for (int64_t c = 0; c < classes; c++)
            rows[c] /= sum;
    }
}

int main(int argc, char **argv) {
    if (argc != 2 || open_model(argv[1]) != 0)
        return 2;
    float *rows = (float *)malloc((size_t)((members + 1) * ROWS * classes) * sizeof *rows);
    const float **at = (const float **)malloc((size_t)members * sizeof *at);
    if (!rows || !at)
        return 2;
    fill(rows, members * ROWS);
    float *out = rows + members * ROWS * classes;
    for (int64_t size = 1; size <= ROWS; size *= ROWS) {
        double best = 1e30;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            double start = now();
            for (int64_t i = 0; i < ROWS; i += size) {
                for (int64_t k = 0; k < members; k++)
                    at[k] = rows + (k * ROWS + i) * classes;
                if (predict(at, size, out) != 0)
                    return 1;
            }
            double each = (now() - start) / ROWS;
            best = each < best ? each : best;
        }
        printf(" | %.2f", best);
    }
    printf(" |\n");
    close_model();
    free(rows);
    free(at);
    return 0;
}
