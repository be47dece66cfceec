/*
 * Numbers of checkpoints: reading them, and finding the one that is not finite. Under every method
 * over weights. Paper: none.
 */
#include "weights/mix.h"

#include <math.h>
#include <string.h>

cst_status cst_weights_read(cst_context *context, const cst_checkpoints *checkpoints, int32_t file,
                            int64_t place, int64_t first, int64_t count, unsigned char *raw,
                            double *out) {
    const cst_safetensors *from = checkpoints->files[file];
    int64_t tensor = cst_checkpoints_tensor(checkpoints, file, place);
    cst_npy element;
    if (!cst_dtype_element(cst_safetensors_dtype(from, tensor), &element))
        return cst_fail(context, CST_ERROR_INTERNAL, "a tensor that cannot be averaged is read");
    int64_t item = (int64_t)element.item;
    cst_status status =
        cst_safetensors_read(context, from, tensor, first * item, count * item, raw);
    if (status == CST_OK)
        cst_npy_decode_f64(&element, raw, (size_t)count, out);
    return status;
}

double cst_dtype_beyond(cst_dtype dtype) {
    switch (dtype) {
    case CST_DTYPE_F16:
        return 65520;
    case CST_DTYPE_BF16:
        return 0x1.ffp127;
    case CST_DTYPE_F32:
        return 0x1.ffffffp127;
    default:
        return INFINITY;
    }
}

int64_t cst_weights_bad(const double *values, int64_t count, cst_dtype dtype) {
    double beyond = cst_dtype_beyond(dtype);
    int64_t good = 0; /* counted to the end: a loop without an exit runs on several at a time */
    for (int64_t i = 0; i < count; i++)
        good += fabs(values[i]) < beyond;
    for (int64_t i = 0; good < count && i < count; i++)
        if (!(fabs(values[i]) < beyond))
            return i;
    return -1;
}

cst_status cst_weights_blame(cst_context *context, const cst_checkpoints *checkpoints,
                             const double *use, int64_t place, int64_t first, int64_t count,
                             unsigned char *raw, double *values) {
    char quoted[CST_QUOTE_CHARS];
    const char *name = cst_quote(quoted, cst_checkpoints_name(checkpoints, place));
    for (int32_t k = 0; k < checkpoints->count; k++) {
        if (use && use[k] == 0)
            continue;
        cst_status status =
            cst_weights_read(context, checkpoints, k, place, first, count, raw, values);
        if (status != CST_OK)
            return status;
        int64_t at = cst_weights_bad(values, count, CST_DTYPE_F64);
        if (at >= 0)
            return cst_fail(context, CST_ERROR_INPUT,
                            "%s: tensor '%s': element %lld is %s; a network that diverged cannot "
                            "be averaged, so leave the file out",
                            cst_checkpoints_path(checkpoints, k), name, (long long)(first + at),
                            isnan(values[at]) ? "not a number" : "infinite");
    }
    return CST_OK;
}
