/* Opens an array: npy, a member of an archive, or a tensor of a safetensors file. */
#include "data/readers/npy.h"
#include "data/readers/npy_header.h"
#include "data/readers/safetensors.h"

/* The array `usual` (NULL: none) of the archive `path`, where it has one, else what `path` names.
 */
static cst_status open_source(cst_context *context, cst_bytes **out, const char *path,
                              const char *usual, uint64_t zip_limit) {
    if (!usual)
        return cst_bytes_open(context, out, path, zip_limit);
    char *inner = cst_format(context, "%s#%s", path, usual);
    cst_status status = inner ? cst_bytes_open(context, out, inner, zip_limit) : CST_ERROR_MEMORY;
    cst_free(context, inner);
    return status == CST_ERROR_INPUT ? cst_bytes_open(context, out, path, zip_limit) : status;
}

cst_status cst_npy_open_usual(cst_context *context, cst_npy **out, const char *path,
                              const char *usual, uint64_t zip_limit) {
    *out = NULL;
    cst_npy *npy = cst_alloc(context, 1, sizeof *npy);
    if (!npy)
        return CST_ERROR_MEMORY;
    npy->row_axes = 1;
    cst_status status = CST_OK;
    if (cst_path_is_safetensors(path))
        status = cst_safetensors_as_npy(context, npy, path);
    else
        status = open_source(context, &npy->source, path, usual, zip_limit);
    if (status == CST_OK && !cst_path_is_safetensors(path))
        status = cst_npy_read_header(context, npy);
    if (status != CST_OK) {
        cst_npy_close(context, npy);
        return status;
    }
    *out = npy;
    return CST_OK;
}

cst_status cst_npy_open(cst_context *context, cst_npy **out, const char *path, uint64_t zip_limit) {
    return cst_npy_open_usual(context, out, path, NULL, zip_limit);
}
