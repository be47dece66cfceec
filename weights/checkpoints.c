/* Opens checkpoints that belong together: all files have the tensors of the first. */
#include "weights/checkpoints.h"

#include <string.h>
#include <sys/stat.h>

bool cst_dtype_is_mixed(cst_dtype dtype) {
    return dtype == CST_DTYPE_F64 || dtype == CST_DTYPE_F32 || dtype == CST_DTYPE_F16 ||
           dtype == CST_DTYPE_BF16;
}

/* Sorts the tensors of the first file into those that are mixed and those that are copied. */
static cst_status sort_tensors(cst_context *context, cst_checkpoints *c) {
    const cst_safetensors *first = c->files[0];
    char quoted[CST_QUOTE_CHARS];
    int64_t mixed = 0;
    c->total = cst_safetensors_count(first);
    c->mixed = cst_alloc(context, (size_t)c->total, sizeof *c->mixed);
    c->elements = cst_alloc(context, (size_t)c->total, sizeof *c->elements);
    if (!c->mixed || !c->elements)
        return CST_ERROR_MEMORY;
    for (int64_t p = 0; p < c->total; p++) {
        cst_dtype dtype = cst_checkpoints_dtype(c, p);
        c->mixed[p] = cst_dtype_is_mixed(dtype);
        c->elements[p] = cst_safetensors_elements(first, cst_checkpoints_tensor(c, 0, p));
        if (!c->mixed[p] && !cst_dtype_is_number(dtype))
            return cst_fail(context, CST_ERROR_UNSUPPORTED,
                            "%s: tensor '%s' has dtype %s, which cannot be averaged; save it as "
                            "F32, F16 or BF16",
                            cst_checkpoints_path(c, 0),
                            cst_quote(quoted, cst_checkpoints_name(c, p)), cst_dtype_name(dtype));
        mixed += c->mixed[p];
    }
    if (mixed == 0)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: none of its %lld tensors has dtype F64, F32, F16 or BF16; there is "
                        "nothing to average",
                        cst_checkpoints_path(c, 0), (long long)c->total);
    return CST_OK;
}

static cst_status refuse_swag(cst_context *context, const cst_safetensors *file) {
    const char *kind = cst_safetensors_metadata(file, "corestack.kind");
    if (!kind || strcmp(kind, "swag") != 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: is a distribution over weights (SWAG), not a checkpoint; draw networks "
                    "from it (swag sample) and give those",
                    cst_bytes_name(file->source));
}

/* What a file that is no safetensors file begins with, [4]; zeros where it cannot be read. */
static void look(cst_context *context, const char *path, unsigned char begin[4]) {
    cst_bytes *source = NULL;
    memset(begin, 0, 4);
    if (cst_bytes_open_file(context, &source, path) == CST_OK && cst_bytes_size(source) >= 4)
        (void)cst_bytes_read(context, source, 0, begin, 4);
    cst_bytes_close(context, source);
}

static bool is_named(const char *path, const char *const *ends) {
    for (; *ends; ends++)
        if (cst_path_ends(path, *ends))
            return true;
    return false;
}

/* How to make one safetensors file of a folder or list of shards, or of another program's file;
 * CST_OK: it is none of these. */
static cst_status explain_other(cst_context *context, const char *path) {
    static const char *const torch[] = {".pt", ".pth", ".bin", ".ckpt", NULL};
    static const char *const keras[] = {".h5", ".hdf5", ".keras", NULL};
    struct stat info;
    unsigned char begin[4] = {0};
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    const char *slash = strrchr(path, '/');
    size_t length = folder ? strlen(path) : slash ? (size_t)(slash - path) : 0;
    if (!folder)
        look(context, path, begin);
    bool is_keras = memcmp(begin, "\x89HDF", 4) == 0 || is_named(path, keras);
    bool is_torch = memcmp(begin, "PK\3\4", 4) == 0 || begin[0] == 0x80 || is_named(path, torch);
    if (folder || begin[0] == '{')
        return cst_fail(
            context, CST_ERROR_FORMAT,
            "%s: is %s, but each network must be one safetensors file. Merge its shards: python3 "
            "-c \"import glob; from safetensors.torch import load_file, save_file; t = {}; "
            "[t.update(load_file(f)) for f in glob.glob('%.*s/*.safetensors')]; save_file(t, "
            "'merged.safetensors')\"",
            path, folder ? "a folder" : "a list of shards", length ? (int)length : 1,
            length ? path : ".");
    if (is_keras)
        return cst_fail(
            context, CST_ERROR_FORMAT,
            "%s: is a Keras file, and weights are read from safetensors. Convert it in Python: "
            "model = keras.models.load_model('%s'); safetensors.numpy.save_file({w.path: w.numpy() "
            "for w in model.weights}, 'converted.safetensors')",
            path, path);
    if (is_torch)
        return cst_fail(
            context, CST_ERROR_FORMAT,
            "%s: is a PyTorch file, and weights are read from safetensors. Convert it: python3 -c "
            "\"import torch; from safetensors.torch import save_file; s = torch.load('%s', "
            "map_location='cpu', weights_only=True); s = s.get('state_dict', s); save_file({k: "
            "v.clone().contiguous() for k, v in s.items()}, 'converted.safetensors')\"",
            path, path);
    return CST_OK;
}

static cst_status open_all(cst_context *context, cst_checkpoints *c, const char *const *paths,
                           int32_t count) {
    c->files = cst_alloc(context, (size_t)count, sizeof *c->files);
    if (!c->files)
        return CST_ERROR_MEMORY;
    cst_status status = CST_OK;
    for (int32_t k = 0; status == CST_OK && k < count; k++) {
        status = cst_poll(context);
        CST_THEN(cst_safetensors_open(context, &c->files[k], paths[k]));
        if (status == CST_ERROR_FORMAT || status == CST_ERROR_LIMIT || status == CST_ERROR_IO) {
            cst_status other = explain_other(context, paths[k]);
            return other == CST_OK ? status : other;
        }
        if (status == CST_OK)
            c->count = k + 1;
        CST_THEN(refuse_swag(context, c->files[k]));
        if (status == CST_OK && k > 0)
            status = cst_checkpoints_compare(context, c->files[0], c->files[k]);
        else if (status == CST_OK)
            status = sort_tensors(context, c);
    }
    return status;
}

cst_status cst_checkpoints_open(cst_context *context, cst_checkpoints **out,
                                const char *const *paths, int32_t count) {
    *out = NULL;
    for (int32_t k = 0; k < count; k++)
        if (!paths[k])
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "opening checkpoints: path %d of %d is missing", (int)k + 1,
                            (int)count);
    cst_checkpoints *c = cst_alloc(context, 1, sizeof *c);
    if (!c)
        return cst_why(context, CST_ERROR_MEMORY);
    cst_status status = open_all(context, c, paths, count);
    CST_THEN(cst_checkpoints_keep_constants(context, c));
    CST_THEN(cst_checkpoints_say(context, c));
    if (status != CST_OK) {
        cst_checkpoints_close(context, c);
        return status;
    }
    *out = c;
    return CST_OK;
}

void cst_checkpoints_close(cst_context *context, cst_checkpoints *checkpoints) {
    if (!checkpoints)
        return;
    for (int32_t k = 0; k < checkpoints->count; k++)
        cst_safetensors_close(context, checkpoints->files[k]);
    cst_free(context, checkpoints->files);
    cst_free(context, checkpoints->mixed);
    cst_free(context, checkpoints->elements);
    cst_free(context, checkpoints);
}
