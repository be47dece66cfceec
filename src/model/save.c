/*
 * Writes a fitted stack to a file that appears whole or not at all.
 * After stage S4; the bytes are encode.c's business.
 * docs/model-format.md.
 */
#include "io/output.h"
#include "model/stack.h"

cst_status cst_model_save(cst_context *context, const cst_model *model, const char *path) {
    if (!context || !model || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_save: a model and a path are needed");
    uint8_t *bytes = NULL;
    size_t size = 0;
    cst_output_file *output = NULL;
    cst_status status = cst_stack_encode(context, model, &bytes, &size);
    if (status == CST_OK)
        status = cst_output_open(context, &output, path);
    if (status == CST_OK)
        status = cst_output_write(context, output, bytes, size);
    if (status == CST_OK)
        status = cst_output_commit(context, output);
    else
        cst_output_abort(context, output);
    cst_free(context, bytes);
    return status;
}
