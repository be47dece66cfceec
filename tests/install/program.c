/*
 * A program from outside: fits a stack on three members' predictions and predicts with it.
 * Compiled against the installed headers and libraries only, as C and as C++.
 */
#include <corestack/fit.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS = 3, ROWS = 600, CLASSES = 2 };
static float data[MEMBERS][ROWS][CLASSES], out[ROWS][CLASSES];
static int32_t labels[ROWS];

int main(void) {
    const float *predictions[MEMBERS] = {&data[0][0][0], &data[1][0][0], &data[2][0][0]};
    const char *names[MEMBERS] = {"one", "two", "three"};
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % CLASSES;
        for (int k = 0; k < MEMBERS; k++) {
            int wrong = (i * 7 + k * 31) % (5 + 2 * k) == 0;
            data[k][i][0] = (labels[i] == 0) != wrong ? 0.8F : 0.3F;
            data[k][i][1] = 1 - data[k][i][0];
        }
    }
    cst_array arrays[MEMBERS];
    for (int k = 0; k < MEMBERS; k++) {
        arrays[k].data = predictions[k];
        arrays[k].type = CST_NUMBER_FLOAT32;
        arrays[k].row_step = sizeof data[k][0];
        arrays[k].column_step = sizeof data[k][0][0];
    }
    cst_pool_arrays given;
    memset(&given, 0, sizeof given);
    given.members = MEMBERS;
    given.rows = ROWS;
    given.classes = CLASSES;
    given.predictions = arrays;
    given.names = names;
    given.labels = labels;
    cst_context *context = NULL;
    cst_pool *pool = NULL;
    cst_options *options = NULL;
    cst_model *model = NULL;
    int failed = 1;
    if (cst_context_create(&context) || cst_options_create(context, &options) ||
        cst_pool_from_arrays(context, &pool, &given) ||
        cst_fit(context, pool, "oof", options, &model, NULL))
        goto cleanup;
    for (int32_t k = 0; k < cst_model_members(model); k++)
        for (int32_t j = 0; j < MEMBERS; j++)
            if (cst_model_member_name(model, k)[1] == names[j][1]) /* n, w, h */
                predictions[k] = &data[j][0][0];
    failed = cst_model_predict(context, model, predictions, ROWS, &out[0][0]) != CST_OK ||
             fabs((double)out[0][0] + (double)out[0][1] - 1) > 1e-6 || out[1][1] < 0.5F;
    printf("corestack %s: %d of %d members kept, p = %.3f\n", cst_version(),
           (int)cst_model_members(model), (int)MEMBERS, (double)out[1][1]);
cleanup:
    if (failed)
        fprintf(stderr, "failed: %s\n", context ? cst_last_error(context) : "no context");
    cst_model_free(context, model);
    cst_pool_free(context, pool);
    cst_options_free(context, options);
    cst_context_free(context);
    return failed;
}
