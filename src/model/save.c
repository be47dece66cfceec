/* Model files, written whole or not at all; sections.c has the bytes. */
#include "data/files/output.h"
#include "model/stack.h"

cst_status cst_model_save(cst_context *context, const cst_model *model, const char *path) {
    CST_ENTER(context);
    if (!model || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT, "cst_model_save: model and path are required");
    uint8_t *bytes = NULL;
    size_t size = 0;
    cst_output_file *output = NULL;
    cst_status status = cst_stack_encode(context, model, &bytes, &size);
    CST_THEN(cst_output_open(context, &output, path));
    CST_THEN(cst_output_write(context, output, bytes, size));
    status = cst_output_end(context, output, status);
    cst_free(context, bytes);
    return cst_why(context, status);
}

cst_status cst_model_save_memory(cst_context *context, const cst_model *model, void **bytes,
                                 size_t *size) {
    CST_CLEAR(bytes);
    CST_CLEAR(size);
    CST_ENTER(context);
    if (!model || !bytes || !size)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_save_memory: model, bytes and size are required");
    uint8_t *encoded = NULL;
    size_t count = 0;
    cst_status status = cst_stack_encode(context, model, &encoded, &count);
    if (status != CST_OK)
        return cst_why(context, status);
    *bytes = encoded;
    *size = count;
    return CST_OK;
}
