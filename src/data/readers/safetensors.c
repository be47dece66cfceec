/* Reads safetensors files: tensors by number or name, ranges of them as stored or as floats. */
#include "data/readers/safetensors.h"

#include <inttypes.h>
#include <string.h>

/* Bytes that are read and converted at a time. */
enum { CHUNK_BYTES = 1 << 18, NAMES_SHOWN = 8 };

static const bool SWAPPED = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

/* Takes the source, also on failure. */
static cst_status open_source(cst_context *context, cst_safetensors **out, cst_bytes *source) {
    cst_safetensors *file = cst_alloc(context, 1, sizeof *file);
    if (!file) {
        cst_bytes_close(context, source);
        return CST_ERROR_MEMORY;
    }
    file->source = source;
    cst_status status = cst_safetensors_read_header(context, file);
    if (status != CST_OK)
        cst_safetensors_close(context, file);
    else
        *out = file;
    return status;
}

cst_status cst_safetensors_open(cst_context *context, cst_safetensors **out, const char *path) {
    cst_bytes *source = NULL;
    CST_CLEAR(out);
    CST_ENTER(context);
    if (!out || !path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "opening a safetensors file: path and file are required");
    cst_status status = cst_bytes_open_file(context, &source, path);
    return cst_why(context, status == CST_OK ? open_source(context, out, source) : status);
}

void cst_safetensors_close(cst_context *context, cst_safetensors *file) {
    if (!context || !file)
        return;
    cst_bytes_close(context, file->source);
    cst_scope_free(&file->scope);
    cst_free(context, file);
}

static const cst_tensor *tensor_at(const cst_safetensors *file, int64_t tensor) {
    return file && tensor >= 0 && tensor < file->count ? &file->tensors[tensor] : NULL;
}

int64_t cst_safetensors_count(const cst_safetensors *file) {
    return file ? file->count : 0;
}

const char *cst_safetensors_name(const cst_safetensors *file, int64_t tensor) {
    const cst_tensor *t = tensor_at(file, tensor);
    return t ? t->name : NULL;
}

cst_dtype cst_safetensors_dtype(const cst_safetensors *file, int64_t tensor) {
    const cst_tensor *t = tensor_at(file, tensor);
    return t ? t->dtype : CST_DTYPE_FORCE_INT;
}

const int64_t *cst_safetensors_shape(const cst_safetensors *file, int64_t tensor, int32_t *axes) {
    const cst_tensor *t = tensor_at(file, tensor);
    if (axes)
        *axes = t ? t->axes : 0;
    return t && axes ? t->shape : NULL;
}

int64_t cst_safetensors_elements(const cst_safetensors *file, int64_t tensor) {
    const cst_tensor *t = tensor_at(file, tensor);
    return t ? t->elements : -1;
}

int64_t cst_safetensors_bytes(const cst_safetensors *file, int64_t tensor) {
    const cst_tensor *t = tensor_at(file, tensor);
    return t ? (int64_t)(t->end - t->begin) : -1;
}

int64_t cst_safetensors_metadata_count(const cst_safetensors *file) {
    return file ? file->metadata_count : 0;
}

const char *cst_safetensors_metadata_key(const cst_safetensors *file, int64_t index) {
    return file && index >= 0 && index < file->metadata_count ? file->metadata[index].key : NULL;
}

const char *cst_safetensors_metadata_value(const cst_safetensors *file, int64_t index) {
    return file && index >= 0 && index < file->metadata_count ? file->metadata[index].value : NULL;
}

const char *cst_safetensors_metadata(const cst_safetensors *file, const char *key) {
    for (int64_t i = 0; file && key && i < file->metadata_count; i++)
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
    return NULL;
}

/* The tensor, if first..first+count-1 of its `whole` parts exist and `out` is there for them. */
static cst_status check_range(cst_context *context, const cst_safetensors *file, int64_t tensor,
                              int64_t first, int64_t count, const void *out, bool bytes) {
    const cst_tensor *t = tensor_at(file, tensor);
    char quoted[CST_QUOTE_CHARS];
    if (!file || (!out && count > 0))
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "reading a tensor: file and data are required");
    if (!t)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: there is no tensor %" PRId64 " of %" PRId64,
                        cst_bytes_name(file->source), tensor, file->count);
    int64_t whole = bytes ? (int64_t)(t->end - t->begin) : t->elements;
    if (first < 0 || count < 0 || first > whole || count > whole - first)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "%s: tensor '%s': %s %" PRId64 " and the %" PRId64
                        " from there on are not all among its %" PRId64,
                        cst_bytes_name(file->source), cst_quote(quoted, t->name),
                        bytes ? "byte" : "element", first, count, whole);
    return CST_OK;
}

static cst_status read_bytes(cst_context *context, const cst_safetensors *file, int64_t tensor,
                             int64_t first, int64_t count, void *out) {
    const cst_tensor *t = &file->tensors[tensor];
    uint64_t start = file->data_offset + t->begin + (uint64_t)first;
    char quoted[CST_QUOTE_CHARS];
    CST_TRY(cst_bytes_read(context, file->source, start, out, (size_t)count));
    int64_t bad = t->dtype == CST_DTYPE_BOOL ? cst_npy_bad_bool(out, count) : -1;
    if (bad < 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_FORMAT,
                    "%s: byte %" PRIu64 ": tensor '%s' is BOOL, and its element %" PRId64
                    " is %d, not 0 or 1",
                    cst_bytes_name(file->source), start + (uint64_t)bad, cst_quote(quoted, t->name),
                    first + bad, ((const unsigned char *)out)[bad]);
}

cst_status cst_safetensors_read(cst_context *context, const cst_safetensors *file, int64_t tensor,
                                int64_t first, int64_t count, void *out) {
    CST_ENTER(context);
    cst_status status = check_range(context, file, tensor, first, count, out, true);
    if (status != CST_OK || count == 0)
        return status;
    return cst_why(context, read_bytes(context, file, tensor, first, count, out));
}

bool cst_dtype_element(cst_dtype dtype, cst_npy *out) {
    const char *name = cst_dtype_name(dtype);
    int32_t bits = cst_dtype_bits(dtype);
    *out = (cst_npy){.item = (size_t)bits / 8, .swapped = SWAPPED, .row_axes = 1};
    if (!name || *name == 'C' || (*name == 'F' && bits < 16))
        return false;
    out->kind = *name == 'U'     ? CST_NPY_UINT
                : *name == 'I'   ? CST_NPY_INT
                : *name == 'F'   ? CST_NPY_FLOAT
                : name[1] == 'F' ? CST_NPY_BFLOAT
                                 : CST_NPY_BOOL;
    return true;
}

int cst_dtype_is_number(cst_dtype dtype) {
    cst_npy element;
    return cst_dtype_element(dtype, &element);
}

static cst_status no_number(cst_context *context, const char *where, const char *name,
                            cst_dtype dtype) {
    char quoted[CST_QUOTE_CHARS];
    return cst_fail(
        context, CST_ERROR_UNSUPPORTED,
        "%s: tensor '%s' has dtype %s, which is not supported; save it as F32, F16 or BF16", where,
        cst_quote(quoted, name), cst_dtype_name(dtype));
}

/* To narrow [count] or wide [count], whichever is not NULL. */
static cst_status read_numbers(cst_context *context, const cst_safetensors *file, int64_t tensor,
                               int64_t first, int64_t count, float *narrow, double *wide) {
    CST_SCOPE(scope);
    cst_npy element;
    const cst_tensor *t = &file->tensors[tensor];
    if (!cst_dtype_element(t->dtype, &element))
        return no_number(context, cst_bytes_name(file->source), t->name, t->dtype);
    int64_t item = (int64_t)element.item;
    int64_t piece = CHUNK_BYTES / item < count ? CHUNK_BYTES / item : count;
    CST_NEW(context, scope, unsigned char, raw, (piece * item));
    for (int64_t at = 0; at < count; at += piece) {
        int64_t part = count - at < piece ? count - at : piece;
        CST_TRY(read_bytes(context, file, tensor, (first + at) * item, part * item, raw));
        if (narrow)
            cst_npy_decode_f32(&element, raw, (size_t)part, narrow + at);
        else
            cst_npy_decode_f64(&element, raw, (size_t)part, wide + at);
    }
    return CST_OK;
}

cst_status cst_safetensors_read_f32(cst_context *context, const cst_safetensors *file,
                                    int64_t tensor, int64_t first, int64_t count, float *out) {
    CST_ENTER(context);
    CST_TRY(check_range(context, file, tensor, first, count, out, false));
    return cst_why(context, read_numbers(context, file, tensor, first, count, out, NULL));
}

cst_status cst_safetensors_read_f64(cst_context *context, const cst_safetensors *file,
                                    int64_t tensor, int64_t first, int64_t count, double *out) {
    CST_ENTER(context);
    CST_TRY(check_range(context, file, tensor, first, count, out, false));
    return cst_why(context, read_numbers(context, file, tensor, first, count, NULL, out));
}

cst_status cst_safetensors_map(cst_context *context, cst_safetensors *file, int64_t tensor,
                               const void **out) {
    const unsigned char *bytes = NULL;
    CST_CLEAR(out);
    CST_ENTER(context);
    cst_status status = check_range(context, file, tensor, 0, 0, out, true);
    if (status != CST_OK)
        return status;
    if (!out)
        return cst_fail(context, CST_ERROR_ARGUMENT, "mapping a tensor: the address is required");
    status = cst_bytes_map(context, file->source, &bytes);
    if (status == CST_OK)
        *out = bytes + file->data_offset + file->tensors[tensor].begin;
    return cst_why(context, status);
}

static const char *list_names(const cst_safetensors *file, char *text, size_t room) {
    size_t used = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < file->count && i <= NAMES_SHOWN && used < room; i++) {
        char quoted[CST_QUOTE_CHARS];
        const char *name = i < NAMES_SHOWN ? cst_safetensors_name(file, i) : "...";
        int wrote =
            cst_snprintf(text + used, room - used, "%s%s", i ? ", " : "", cst_quote(quoted, name));
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return text;
}

static cst_status choose(cst_context *context, const cst_safetensors *file, const char *path,
                         int64_t *out) {
    size_t separator = cst_path_member(path);
    char list[(CST_QUOTE_CHARS + 2) * (NAMES_SHOWN + 1)];
    char quoted[CST_QUOTE_CHARS];
    *out = separator ? cst_safetensors_find(file, path + separator + 1) : 0;
    if (file->count == 0)
        return cst_fail(context, CST_ERROR_INPUT, "%s: the file has no tensors", path);
    if (!separator && file->count > 1)
        return cst_fail(context, CST_ERROR_INPUT,
                        "%s: has %" PRId64 " tensors (%s); choose one with FILE.safetensors#NAME",
                        path, file->count, list_names(file, list, sizeof list));
    if (*out < 0)
        return cst_fail(context, CST_ERROR_INPUT, "%.*s: has no tensor '%s'; it holds %s",
                        (int)separator, path, cst_quote(quoted, path + separator + 1),
                        list_names(file, list, sizeof list));
    return CST_OK;
}

CST_RELEASED(cst_safetensors, cst_safetensors_close)

/* Opens the file or takes this call's earlier header (*out, without a source). */
static cst_status find_table(cst_context *context, cst_scope *scope, const char *file,
                             const char *path, cst_bytes **source, const cst_safetensors **out) {
    cst_safetensors *made = NULL;
    cst_bytes *taken = NULL;
    struct stat info;
    int fd = -1;
    *out = cst_call_file_find(context, file, cst_safetensors_release, &fd, &info);
    if (*out)
        return cst_bytes_of_descriptor(context, source, path, fd, &info);
    CST_TRY(cst_bytes_open(context, &taken, path, 0));
    CST_TRY(open_source(context, &made, taken));
    *source = taken;
    made->source = NULL;
    *out = made;
    size_t bytes =
        2 * (size_t)made->data_offset + (size_t)made->count * (sizeof *made->tensors + 128);
    if (cst_call_file_add(context, file, cst_bytes_descriptor(taken), cst_bytes_info(taken), made,
                          bytes, cst_safetensors_release))
        return CST_OK;
    return cst_scope_own(context, scope, cst_safetensors_release, made);
}

/* The array that a tensor is; it keeps its source. */
static cst_status describe(cst_context *context, const cst_safetensors *file, const char *path,
                           int64_t tensor, cst_npy *npy) {
    const cst_tensor *t = &file->tensors[tensor];
    cst_bytes *source = npy->source;
    bool number = cst_dtype_element(t->dtype, npy);
    npy->source = source;
    if (!number)
        return no_number(context, path, t->name, t->dtype);
    if (t->axes > CST_NPY_DIMS)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: has %d axes; prediction arrays have at most %d", path, (int)t->axes,
                        CST_NPY_DIMS);
    npy->dims = t->axes;
    memcpy(npy->shape, t->shape, (size_t)t->axes * sizeof *npy->shape);
    npy->data_offset = file->data_offset + t->begin;
    (void)cst_snprintf(npy->descr, sizeof npy->descr, "%s", cst_dtype_name(t->dtype));
    return CST_OK;
}

cst_status cst_safetensors_as_npy(cst_context *context, cst_npy *npy, const char *path) {
    CST_SCOPE(scope);
    const cst_safetensors *file = NULL;
    int64_t tensor = 0;
    size_t separator = cst_path_member(path);
    char *name = cst_take_text(context, scope, path);
    if (!name)
        return CST_ERROR_MEMORY;
    if (separator)
        name[separator] = '\0';
    CST_TRY(find_table(context, scope, name, path, &npy->source, &file));
    CST_TRY(choose(context, file, path, &tensor));
    return describe(context, file, path, tensor, npy);
}
