/* Formats that models are exported in, one function each, in the table of formats.c. */
#pragma once

#include "model/stack.h"

#include <corestack/formats.h>

/* Writes `path` whole or not at all. The model is of no detection. */
typedef cst_status (*cst_export_fn)(cst_context *context, const cst_model *model,
                                    const cst_export *how, const char *path);

cst_status cst_export_c(cst_context *context, const cst_model *model, const cst_export *how,
                        const char *path);
cst_status cst_export_wasm(cst_context *context, const cst_model *model, const cst_export *how,
                           const char *path);
cst_status cst_export_onnx(cst_context *context, const cst_model *model, const cst_export *how,
                           const char *path);
