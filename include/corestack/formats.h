/* Fitted models for programs without this library. docs/serving.md#onnx. Visibility of functions is
 * in export.h. */
#ifndef CORESTACK_FORMATS_H
#define CORESTACK_FORMATS_H

#include <corestack/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is written. Zero-initialise, then set the fields that should differ from the default. */
typedef struct cst_export {
    size_t struct_size; /* sizeof(cst_export), or 0 for the fields of version 0.1 */
    const char *format; /* a name that cst_export_format gives */
    cst_output output;  /* what members' numbers are that come in: probabilities or logits */
    const char *name;   /* c: what the names of its functions begin with; NULL: "stack" */
} cst_export;

/* Returns the name of format `index`, such as "onnx"; NULL beyond. Static. */
CST_API const char *cst_export_format(size_t index);

/* Writes the model to `path` in a format of other programs. What the format cannot carry is refused
 * (CST_ERROR_UNSUPPORTED) where predictions depend on it, and a notice where they do not. wasm: a
 * folder, new or empty. */
CST_API cst_status cst_model_export(cst_context *context, const cst_model *model,
                                    const cst_export *how, const char *path);

#ifdef __cplusplus
}
#endif
#endif
