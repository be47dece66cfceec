/*
 * Predicts one sample at a time, as a service does. A predictor allocates its memory once; the
 * calls after that allocate nothing and take no lock. Each thread of a service has one predictor.
 *
 *     cc serve_one.c -o serve_one $(pkg-config --cflags --libs corestack)
 *     ./serve_one model.cstack digits/pool.json 5
 */
#include <corestack/more.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    cst_context *context = NULL;
    cst_model *model = NULL;
    cst_predictor *predictor = NULL;
    cst_pool *pool = NULL;
    float *numbers = NULL;
    const float **members = NULL;
    const char *error = NULL;
    int failed = 1;

    if (argc != 4) {
        fprintf(stderr, "usage: serve_one MODEL POOL SAMPLES\n");
        return 1;
    }
    if (cst_context_create(&context) != CST_OK)
        return 1;

    /* Once, when the service starts. */
    if (cst_model_load(context, &model, argv[1]) != CST_OK ||
        cst_predictor_create(context, &predictor, model) != CST_OK)
        goto cleanup;
    int64_t count = cst_model_members(model);
    int64_t classes = cst_model_classes(model);

    /* In a service, the members' probabilities come from networks that have just run. Here they
     * come from the split "test" of a pool. */
    if (cst_pool_open(context, &pool, argv[2], NULL) != CST_OK ||
        cst_pool_load(context, pool, "test") != CST_OK)
        goto cleanup;
    numbers = malloc(((size_t)count + 1) * (size_t)classes * sizeof *numbers);
    members = malloc((size_t)count * sizeof *members);
    if (!numbers || !members) {
        error = "out of memory";
        goto cleanup;
    }
    float *out = numbers + (size_t)count * (size_t)classes; /* [classes], the result */

    for (int64_t sample = 0; sample < atoll(argv[3]); sample++) {
        /* members[k]: the probabilities [classes] of the model's member k for this sample. */
        for (int32_t k = 0; k < count; k++) {
            float *row = numbers + (size_t)k * (size_t)classes;
            int32_t at = cst_pool_member_index(pool, cst_model_member_name(model, k));
            if (at < 0) {
                error = "the pool lacks a member of the model";
                goto cleanup;
            }
            if (cst_pool_read(context, pool, "test", at, sample, 1, row) != CST_OK)
                goto cleanup;
            members[k] = row;
        }
        /* The request. Errors of a predictor are its own, so that threads do not share them. */
        if (cst_predictor_predict(predictor, members, 1, out) != CST_OK) {
            error = cst_predictor_error(predictor);
            goto cleanup;
        }
        int32_t best = 0;
        for (int32_t c = 1; c < classes; c++)
            if (out[c] > out[best])
                best = c;
        printf("sample %lld: class %d, probability %.2f\n", (long long)sample, (int)best,
               (double)out[best]);
    }
    failed = 0;

cleanup:
    if (failed)
        fprintf(stderr, "serve_one: %s\n", error ? error : cst_last_error(context));
    free(members);
    free(numbers);
    cst_pool_free(context, pool);
    cst_predictor_free(context, predictor);
    cst_model_free(context, model);
    cst_context_free(context);
    return failed;
}
