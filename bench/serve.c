/* Times predictions of made-up rows for the table of docs/serving.md (bench/serving.sh):
 * microseconds for a call of one row, and for a row in calls of 4,096. */
#define _POSIX_C_SOURCE 200809L
#include <corestack/predict.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 4096, REPEATS = 7 };

static double now(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void fill(float *rows, int64_t count, int64_t classes, int values) {
    for (int64_t i = 0; i < count; i++, rows += classes) {
        float sum = 0;
        for (int64_t c = 0; c < classes; c++)
            sum += rows[c] = (float)(rand() % 1000 + 1) / 1000;
        for (int64_t c = 0; !values && c < classes; c++)
            rows[c] /= sum;
    }
}

int main(int argc, char **argv) {
    cst_context *context = NULL;
    cst_model *model = NULL;
    cst_predictor *predictor = NULL;
    if (argc != 2 || cst_context_create(&context) != CST_OK)
        return 2;
    if (cst_model_load(context, &model, argv[1]) != CST_OK ||
        cst_predictor_create(context, &predictor, model) != CST_OK) {
        fprintf(stderr, "%s\n", cst_last_error(context));
        return 1;
    }
    int64_t members = cst_model_members(model);
    int64_t classes = cst_model_classes(model);
    float *rows = malloc((size_t)((members + 1) * ROWS * classes) * sizeof *rows);
    const float **at = malloc((size_t)members * sizeof *at);
    if (!rows || !at)
        return 2;
    fill(rows, members * ROWS, classes, cst_model_task(model) == CST_TASK_REGRESSION);
    float *out = rows + members * ROWS * classes;
    for (int64_t size = 1; size <= ROWS; size *= ROWS) {
        double best = 1e30;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            double start = now();
            for (int64_t i = 0; i < ROWS; i += size) {
                for (int64_t k = 0; k < members; k++)
                    at[k] = rows + (k * ROWS + i) * classes;
                if (cst_predictor_predict(predictor, at, size, out) != CST_OK)
                    return 1;
            }
            double each = (now() - start) / ROWS;
            best = each < best ? each : best;
        }
        printf(" | %.2f", best);
    }
    printf(" |\n");
    cst_predictor_free(context, predictor);
    cst_model_free(context, model);
    cst_context_free(context);
    free(rows);
    free(at);
    return 0;
}
