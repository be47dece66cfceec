/*
 * Predicts a whole split of a pool with a fitted model and writes the probabilities to a file.
 *
 *     cc predict_batch.c -o predict_batch $(pkg-config --cflags --libs corestack)
 *     ./predict_batch model.cstack digits/pool.json test predictions.npy
 */
#include <corestack/files.h>
#include <corestack/more.h>

#include <stdio.h>

/* The class with the largest probability. */
static int32_t best_class(const float *probabilities, int64_t classes) {
    int32_t best = 0;
    for (int32_t c = 1; c < classes; c++)
        if (probabilities[c] > probabilities[best])
            best = c;
    return best;
}

int main(int argc, char **argv) {
    cst_context *context = NULL;
    cst_model *model = NULL;
    cst_pool *pool = NULL;
    float *probabilities = NULL;
    int64_t rows = 0;
    int failed = 1;

    if (argc != 5) {
        fprintf(stderr, "usage: predict_batch MODEL POOL SPLIT OUTPUT.npy\n");
        return 1;
    }
    const char *split = argv[3];
    if (cst_context_create(&context) != CST_OK)
        return 1;
    if (cst_model_load(context, &model, argv[1]) != CST_OK ||
        cst_pool_open(context, &pool, argv[2], NULL) != CST_OK)
        goto cleanup;

    /* Reads the members that the model needs, matched by name, and predicts on all cores. The
     * result has the shape [rows][classes]. */
    if (cst_model_predict_pool(context, model, pool, split, &probabilities, &rows) != CST_OK)
        goto cleanup;
    int64_t classes = cst_model_classes(model);

    /* The output file appears only when all of it has been written. */
    if (cst_write_predictions(context, argv[4], probabilities, rows, classes) != CST_OK)
        goto cleanup;
    printf("%lld samples, %d classes\n", (long long)rows, (int)classes);

    /* Labels are optional in a pool. */
    const int32_t *labels = cst_pool_labels(pool, split);
    if (labels) {
        int64_t correct = 0;
        for (int64_t i = 0; i < rows; i++)
            correct += best_class(probabilities + i * classes, classes) == labels[i];
        printf("accuracy %.1f %%\n", 100 * (double)correct / (double)rows);
    }
    failed = 0;

cleanup:
    if (failed)
        fprintf(stderr, "predict_batch: %s\n", cst_last_error(context));
    cst_free(context, probabilities); /* arrays from the library are freed with cst_free */
    cst_pool_free(context, pool);
    cst_model_free(context, model);
    cst_context_free(context);
    return failed;
}
