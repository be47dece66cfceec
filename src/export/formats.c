/* The table of formats that models are exported in. */
#include "export/formats.h"

#include <string.h>

#ifndef CST_ONNX
cst_status cst_export_onnx(cst_context *context, const cst_model *model, const cst_export *how,
                           const char *path) {
    (void)model, (void)how, (void)path;
    return cst_fail(context, CST_ERROR_UNSUPPORTED,
                    "this build has no format onnx: install protobuf-c and the definition of ONNX "
                    "(Debian: libprotobuf-c-dev protobuf-c-compiler libonnx-dev), and build "
                    "corestack again");
}
#endif

static const struct {
    const char *name;
    cst_export_fn write;
} FORMATS[] = {{"onnx", cst_export_onnx}, {"c", cst_export_c}, {"wasm", cst_export_wasm}};
enum { COUNT = sizeof FORMATS / sizeof *FORMATS };

const char *cst_export_format(size_t index) {
    return index < COUNT ? FORMATS[index].name : NULL;
}

cst_status cst_model_export(cst_context *context, const cst_model *model, const cst_export *given,
                            const char *path) {
    CST_ENTER(context);
    CST_STRUCT(context, cst_export, how, given);
    size_t f = 0;
    if (!model || !how || !how->format || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_export: model, format and path are required");
    while (f < COUNT && strcmp(FORMATS[f].name, how->format) != 0)
        f++;
    if (f == COUNT)
        return cst_fail(context, CST_ERROR_ARGUMENT, "there is no format '%s' to export models in",
                        how->format);
    if (how->output != CST_OUTPUT_PROBABILITY && how->output != CST_OUTPUT_LOGIT)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "cst_model_export: the output of members is probabilities or logits");
    if (how->output == CST_OUTPUT_LOGIT && model->task == CST_TASK_REGRESSION)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "the model is for regression, and its members' values are not logits");
    if (model->fusion)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "a model for detection fuses boxes, which no format carries: use the "
                        "library or `corestack predict`");
    if (model->task == CST_TASK_TOPK)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "a model for topk reads lists of the likeliest classes, which no format "
                        "carries");
    return cst_why(context, FORMATS[f].write(context, model, how, path));
}
