/*
 * Fits a stack on a pool of saved predictions and writes the model to a file.
 *
 *     cc fit_and_save.c -o fit_and_save $(pkg-config --cflags --libs corestack)
 *     ./fit_and_save digits/pool.json model.cstack
 */
#include <corestack/corestack.h>

#include <stdio.h>

int main(int argc, char **argv) {
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    cst_options *options = NULL;
    cst_model *model = NULL;
    cst_report *report = NULL;
    double nll = 0;
    int failed = 1;

    if (argc != 3) {
        fprintf(stderr, "usage: fit_and_save POOL MODEL\n");
        return 1;
    }

    /* A context holds the number of threads, the memory budget and the last error message. */
    if (cst_context_create(&context) != CST_OK)
        return 1;

    /* Opening a pool reads its manifest. The predictions are read when they are needed. */
    if (cst_pool_open(context, &pool, argv[1], NULL) != CST_OK)
        goto cleanup;

    /* Options start with the values of the preset "default". */
    if (cst_options_create(context, &options) != CST_OK ||
        cst_options_set(context, options, "folds.count", "5") != CST_OK)
        goto cleanup;

    /* The stack is fitted on out-of-fold predictions, the split "oof". Its scores in the report are
     * of rows that each refit did not see. */
    if (cst_fit(context, pool, "oof", options, &model, &report) != CST_OK ||
        cst_model_save(context, model, argv[2]) != CST_OK ||
        cst_report_get_number(context, report, "oof.nll", &nll) != CST_OK)
        goto cleanup;

    printf("kept %d members, NLL %.4f\n", (int)cst_model_members(model), nll);
    for (int32_t k = 0; k < cst_model_members(model); k++)
        printf("  %s\n", cst_model_member_name(model, k));
    failed = 0;

cleanup:
    if (failed)
        fprintf(stderr, "fit_and_save: %s\n", cst_last_error(context));
    /* Every free function accepts NULL. The context goes last. */
    cst_report_free(context, report);
    cst_model_free(context, model);
    cst_options_free(context, options);
    cst_pool_free(context, pool);
    cst_context_free(context);
    return failed;
}
