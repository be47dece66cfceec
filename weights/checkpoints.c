/*
 * Opening checkpoints that belong together: all files have the tensors of the first. The first step
 * of every method over weights. Paper: Related Work (weight-space fusion).
 */
#include "weights/checkpoints.h"

#include <string.h>

bool cst_dtype_is_mixed(cst_dtype dtype) {
    return dtype == CST_DTYPE_F64 || dtype == CST_DTYPE_F32 || dtype == CST_DTYPE_F16 ||
           dtype == CST_DTYPE_BF16;
}

/* Whether a dtype is copied. */
static bool is_integer(cst_dtype dtype) {
    return cst_dtype_is_number(dtype) && !cst_dtype_is_mixed(dtype);
}

/* Numbers the tensors of the first file that are mixed. */
static cst_status number(cst_context *context, cst_checkpoints *c) {
    const cst_safetensors *first = c->files[0];
    char quoted[CST_QUOTE_CHARS];
    c->total = cst_safetensors_count(first);
    c->mixed = cst_alloc(context, (size_t)c->total, sizeof *c->mixed);
    c->mixed_at = cst_alloc(context, (size_t)c->total, sizeof *c->mixed_at);
    if (!c->mixed || !c->mixed_at)
        return CST_ERROR_MEMORY;
    for (int64_t p = 0; p < c->total; p++) {
        int64_t tensor = cst_checkpoints_tensor(c, 0, p);
        cst_dtype dtype = cst_safetensors_dtype(first, tensor);
        if (!cst_dtype_is_mixed(dtype) && !is_integer(dtype))
            return cst_fail(context, CST_ERROR_UNSUPPORTED,
                            "%s: tensor '%s' has dtype %s, which cannot be averaged; save it as "
                            "F32, F16 or BF16",
                            cst_checkpoints_path(c, 0),
                            cst_quote(quoted, cst_checkpoints_name(c, p)), cst_dtype_name(dtype));
        c->mixed[p] = -1;
        if (cst_dtype_is_mixed(dtype)) {
            c->mixed_at[c->mixed_count] = p;
            c->mixed[p] = c->mixed_count++;
            c->parameters += cst_safetensors_elements(first, tensor);
        }
    }
    if (c->mixed_count == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: none of its %lld tensors has dtype F64, F32, F16 or BF16; there is "
                        "nothing to average",
                        cst_checkpoints_path(c, 0), (long long)c->total);
    return CST_OK;
}

/* A distribution over weights has a mean, a variance and deviations for each parameter: another
 * network. */
static cst_status refuse_swag(cst_context *context, const cst_safetensors *file) {
    const char *kind = cst_safetensors_metadata(file, "corestack.kind");
    if (!kind || strcmp(kind, "swag") != 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: is a distribution over weights (SWAG), not a checkpoint; draw networks "
                    "from it (swag sample) and give those",
                    cst_bytes_name(file->source));
}

static cst_status open_all(cst_context *context, cst_checkpoints *c, const char *const *paths,
                           int32_t count) {
    c->files = cst_alloc(context, (size_t)count, sizeof *c->files);
    if (!c->files)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < count; k++) {
        status = cst_poll(context);
        CST_TRY(cst_safetensors_open(context, &c->files[k], paths[k]));
        if (status == CST_OK)
            c->count = k + 1;
        CST_TRY(refuse_swag(context, c->files[k]));
        if (status == CST_OK && k > 0)
            status = cst_checkpoints_compare(context, c->files[0], c->files[k]);
        else if (status == CST_OK)
            status = number(context, c);
    }
    return status;
}

cst_status cst_checkpoints_open(cst_context *context, cst_checkpoints **out,
                                const char *const *paths, int32_t count) {
    if (out)
        *out = NULL;
    CST_ENTER(context);
    if (!out || !paths || count < 1)
        return cst_fail(
            context, CST_ERROR_ARGUMENT,
            "opening checkpoints: at least one path, and the checkpoints, are required");
    for (int32_t k = 0; k < count; k++)
        if (!paths[k])
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "opening checkpoints: path %d of %d is missing", (int)k + 1,
                            (int)count);
    cst_checkpoints *c = cst_alloc(context, 1, sizeof *c);
    if (!c)
        return cst_why(context, CST_ERROR_MEMORY);
    cst_status status = open_all(context, c, paths, count);
    CST_TRY(cst_checkpoints_say(context, c));
    if (status != CST_OK) {
        cst_checkpoints_close(context, c);
        return cst_why(context, status);
    }
    *out = c;
    return CST_OK;
}

void cst_checkpoints_close(cst_context *context, cst_checkpoints *checkpoints) {
    if (!context || !checkpoints)
        return;
    for (int32_t k = 0; k < checkpoints->count; k++)
        cst_safetensors_close(context, checkpoints->files[k]);
    cst_free(context, checkpoints->files);
    cst_free(context, checkpoints->mixed);
    cst_free(context, checkpoints->mixed_at);
    cst_free(context, checkpoints);
}

int32_t cst_checkpoints_count(const cst_checkpoints *checkpoints) {
    return checkpoints ? checkpoints->count : 0;
}

const char *cst_checkpoints_path(const cst_checkpoints *checkpoints, int32_t file) {
    if (file < 0 || file >= cst_checkpoints_count(checkpoints))
        return NULL;
    return cst_checkpoint_name(checkpoints, file);
}

int64_t cst_checkpoints_tensors(const cst_checkpoints *checkpoints) {
    return checkpoints ? checkpoints->mixed_count : 0;
}

const char *cst_checkpoints_tensor_name(const cst_checkpoints *checkpoints, int64_t tensor) {
    if (tensor < 0 || tensor >= cst_checkpoints_tensors(checkpoints))
        return NULL;
    return cst_checkpoints_name(checkpoints, checkpoints->mixed_at[tensor]);
}

int64_t cst_checkpoints_tensor_elements(const cst_checkpoints *checkpoints, int64_t tensor) {
    if (tensor < 0 || tensor >= cst_checkpoints_tensors(checkpoints))
        return -1;
    int64_t place = checkpoints->mixed_at[tensor];
    return cst_safetensors_elements(checkpoints->files[0],
                                    cst_checkpoints_tensor(checkpoints, 0, place));
}

int64_t cst_checkpoints_parameters(const cst_checkpoints *checkpoints) {
    return checkpoints ? checkpoints->parameters : 0;
}

int64_t cst_checkpoints_copied(const cst_checkpoints *checkpoints) {
    return checkpoints ? checkpoints->total - checkpoints->mixed_count : 0;
}
