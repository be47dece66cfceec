/* Opens checkpoints with the same tensors. Notices name what a mean of them does not make right. */
#include "weights/checkpoints.h"

#include <string.h>
#include <sys/stat.h>

bool cst_dtype_is_mixed(cst_dtype dtype) {
    return dtype == CST_DTYPE_F64 || dtype == CST_DTYPE_F32 || dtype == CST_DTYPE_F16 ||
           dtype == CST_DTYPE_BF16;
}

/* Differences in a message, bytes of integers compared at a time. */
enum { SHOWN = 5, TEXT_CHARS = 1100, SHAPE_CHARS = 80, CHUNK_BYTES = 1 << 18 };

typedef struct differences {
    int64_t count;
    size_t used;
    char text[TEXT_CHARS];
} differences;

static void CST_PRINTF(2, 3) differ(differences *d, const char *format, ...) {
    if (d->count++ >= SHOWN || d->used >= sizeof d->text - 1)
        return;
    va_list args;
    va_start(args, format);
    size_t room = sizeof d->text - d->used;
    int length = cst_vsnprintf(d->text + d->used, room, format, args);
    va_end(args);
    d->used += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
}

/* "F32 [10, 512]" */
static const char *shape_text(const cst_safetensors *file, int64_t tensor, char out[SHAPE_CHARS]) {
    int32_t axes = 0;
    const int64_t *shape = cst_safetensors_shape(file, tensor, &axes);
    int used =
        cst_snprintf(out, SHAPE_CHARS, "%s [", cst_dtype_name(cst_safetensors_dtype(file, tensor)));
    for (int32_t a = 0; a < axes && used > 0 && used < SHAPE_CHARS - 24; a++)
        used += cst_snprintf(out + used, (size_t)(SHAPE_CHARS - used), "%s%lld", a ? ", " : "",
                             (long long)shape[a]);
    if (used > 0 && used < SHAPE_CHARS)
        (void)cst_snprintf(out + used, (size_t)(SHAPE_CHARS - used),
                           used < SHAPE_CHARS - 24 ? "]" : "...");
    return out;
}

static bool same_kind(const cst_safetensors *a, int64_t i, const cst_safetensors *b, int64_t j) {
    int32_t axes = 0;
    int32_t other = 0;
    const int64_t *shape = cst_safetensors_shape(a, i, &axes);
    const int64_t *shape_of_other = cst_safetensors_shape(b, j, &other);
    return cst_safetensors_dtype(a, i) == cst_safetensors_dtype(b, j) && axes == other &&
           (axes == 0 || memcmp(shape, shape_of_other, (size_t)axes * sizeof *shape) == 0);
}

static cst_status compare(cst_context *context, const cst_safetensors *first,
                          const cst_safetensors *other) {
    differences d = {0};
    char name[CST_QUOTE_CHARS];
    char ours[SHAPE_CHARS];
    char theirs[SHAPE_CHARS];
    int64_t i = 0;
    int64_t j = 0;
    while (i < first->count || j < other->count) {
        const char *separator = d.count ? "; " : "";
        int order = i == first->count   ? 1
                    : j == other->count ? -1
                                        : strcmp(first->by_name[i].text, other->by_name[j].text);
        if (order < 0)
            differ(&d, "%s'%s' is missing", separator, cst_quote(name, first->by_name[i].text));
        else if (order > 0)
            differ(&d, "%s'%s' is extra", separator, cst_quote(name, other->by_name[j].text));
        else if (!same_kind(first, first->by_name[i].place, other, other->by_name[j].place))
            differ(&d, "%s'%s' is %s, not %s", separator, cst_quote(name, first->by_name[i].text),
                   shape_text(other, other->by_name[j].place, theirs),
                   shape_text(first, first->by_name[i].place, ours));
        i += order <= 0;
        j += order >= 0;
    }
    if (d.count == 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_MISMATCH,
                    "%.300s: its tensors differ from those of %.300s, %lld difference%s: %s%s; "
                    "give checkpoints of the same network",
                    cst_bytes_name(other->source), cst_bytes_name(first->source),
                    (long long)d.count, d.count == 1 ? "" : "s", d.text,
                    d.count > SHOWN ? "; ..." : "");
}

/* Whether the last part of a name is that of a batch-norm statistic in PyTorch or Keras. */
static bool is_statistic(const char *name) {
    static const char *const words[] = {"running_mean", "running_var", "num_batches_tracked",
                                        "moving_mean", "moving_variance"};
    const char *last = name;
    for (const char *p = name; *p; p++)
        if (*p == '.' || *p == '/')
            last = p + 1;
    size_t length = strcspn(last, ":"); /* "moving_mean:0" */
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        if (strlen(words[w]) == length && memcmp(words[w], last, length) == 0)
            return true;
    return false;
}

static void say_statistics(cst_context *context, const cst_checkpoints *c) {
    char quoted[CST_QUOTE_CHARS];
    int64_t found = 0;
    int64_t first = 0;
    for (int64_t p = c->total - 1; p >= 0; p--)
        if (is_statistic(cst_checkpoints_name(c, p))) {
            first = p;
            found++;
        }
    if (found > 0)
        cst_notice(context,
                   "%lld tensor%s %s batch-norm statistics (the first: '%s'), which do not fit "
                   "mixed weights: recompute them by passing training data through the mixed "
                   "network before it predicts",
                   (long long)found, found == 1 ? "" : "s", found == 1 ? "is" : "are",
                   cst_quote(quoted, cst_checkpoints_name(c, first)));
}

static cst_status say_twice(cst_context *context, const cst_checkpoints *c) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, struct stat, files, c->count);
    bool said = false;
    for (int32_t k = 0; k < c->count && !said; k++) {
        if (stat(cst_checkpoints_path(c, k), &files[k]) != 0)
            memset(&files[k], 0, sizeof files[k]); /* it is open; only its name is gone */
        for (int32_t j = 0; j < k && !said && files[k].st_ino != 0; j++) {
            said = files[j].st_dev == files[k].st_dev && files[j].st_ino == files[k].st_ino;
            if (said)
                cst_notice(context,
                           "%s is given more than once (files %d and %d), and counts that often",
                           cst_checkpoints_path(c, k), (int)j + 1, (int)k + 1);
        }
    }
    return CST_OK;
}

/* Whether a tensor differs in a file from the first. Chunks: two times CHUNK_BYTES. */
static cst_status differs(cst_context *context, const cst_checkpoints *c, int64_t place,
                          int32_t file, unsigned char *chunks, bool *out) {
    int64_t ours = cst_checkpoints_tensor(c, 0, place);
    int64_t theirs = cst_checkpoints_tensor(c, file, place);
    int64_t bytes = cst_safetensors_bytes(c->files[0], ours);
    *out = false;
    for (int64_t at = 0; !*out && at < bytes; at += CHUNK_BYTES) {
        int64_t part = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        unsigned char *other = chunks + CHUNK_BYTES;
        CST_TRY(cst_poll(context));
        CST_TRY(cst_safetensors_read(context, c->files[0], ours, at, part, chunks));
        CST_TRY(cst_safetensors_read(context, c->files[file], theirs, at, part, other));
        *out = memcmp(chunks, other, (size_t)part) != 0;
    }
    return CST_OK;
}

static cst_status has_infinite(cst_context *context, const cst_checkpoints *c, int64_t place,
                               bool *out) {
    enum { NUMBERS = CHUNK_BYTES / 8 };
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, values, NUMBERS);
    CST_NEW(context, scope, unsigned char, raw, CHUNK_BYTES);
    for (int64_t at = 0; !*out && at < c->elements[place]; at += NUMBERS) {
        int64_t part = c->elements[place] - at < NUMBERS ? c->elements[place] - at : NUMBERS;
        CST_TRY(cst_weights_read(context, c->files[0], cst_checkpoints_tensor(c, 0, place), at,
                                 part, raw, values));
        *out = cst_weights_bad(values, part, CST_DTYPE_F64) >= 0;
    }
    return CST_OK;
}

/* Copies tensors with numbers that are not finite (masks) and equal in several files. */
static cst_status keep_constants(cst_context *context, cst_checkpoints *c) {
    CST_SCOPE(scope);
    CST_NEW(context, scope, unsigned char, chunks, 2 * CHUNK_BYTES);
    for (int64_t p = 0; c->count > 1 && p < c->total; p++) {
        bool other = !c->mixed[p];
        bool infinite = false;
        for (int32_t k = 1; !other && k < c->count; k++)
            CST_TRY(differs(context, c, p, k, chunks, &other));
        if (!other)
            CST_TRY(has_infinite(context, c, p, &infinite));
        c->mixed[p] = c->mixed[p] && !infinite;
    }
    return CST_OK;
}

static cst_status say_integers(cst_context *context, const cst_checkpoints *c) {
    int64_t found = 0;
    int64_t first = 0;
    int32_t file = 0;
    CST_SCOPE(scope);
    CST_NEW(context, scope, unsigned char, chunks, 2 * CHUNK_BYTES);
    for (int64_t p = 0; p < c->total; p++) {
        bool other = false;
        for (int32_t k = 1; !c->mixed[p] && !other && k < c->count; k++) {
            CST_TRY(differs(context, c, p, k, chunks, &other));
            if (other && found++ == 0) {
                first = p;
                file = k;
            }
        }
    }
    char quoted[CST_QUOTE_CHARS];
    if (found > 0)
        cst_notice(context,
                   "%lld integer tensor%s differ%s between the files (the first: '%s' in %s): "
                   "those of %s are kept",
                   (long long)found, found == 1 ? "" : "s", found == 1 ? "s" : "",
                   cst_quote(quoted, cst_checkpoints_name(c, first)), cst_checkpoints_path(c, file),
                   cst_checkpoints_path(c, 0));
    return CST_OK;
}

/* Notices of what a mean does not make right. */
static cst_status say(cst_context *context, const cst_checkpoints *c) {
    say_statistics(context, c);
    CST_TRY(say_twice(context, c));
    return say_integers(context, c);
}

/* Sorts the tensors of the first file into those that are mixed and those that are copied. */
static cst_status sort_tensors(cst_context *context, cst_scope *scope, cst_checkpoints *c) {
    const cst_safetensors *first = c->files[0];
    char quoted[CST_QUOTE_CHARS];
    int64_t mixed = 0;
    c->total = cst_safetensors_count(first);
    CST_TAKE(context, scope, c->mixed, c->total);
    CST_TAKE(context, scope, c->elements, c->total);
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

/* The first bytes [4] of a file that is no safetensors file; zeros where unreadable. */
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

/* Advice for a folder or list of shards, or another program's file; else CST_OK. */
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

CST_RELEASED(cst_safetensors, cst_safetensors_close)

cst_status cst_checkpoints_open(cst_context *context, cst_scope *scope, cst_checkpoints *c,
                                const char *const *paths, int32_t count) {
    *c = (cst_checkpoints){0};
    for (int32_t k = 0; k < count; k++)
        if (!paths[k])
            return cst_fail(context, CST_ERROR_ARGUMENT,
                            "opening checkpoints: path %d of %d is missing", (int)k + 1,
                            (int)count);
    CST_TAKE(context, scope, c->files, count);
    for (int32_t k = 0; k < count; k++) {
        CST_TRY(cst_poll(context));
        cst_status status = cst_safetensors_open(context, &c->files[k], paths[k]);
        if (status == CST_ERROR_FORMAT || status == CST_ERROR_LIMIT || status == CST_ERROR_IO)
            CST_TRY(explain_other(context, paths[k]));
        CST_TRY(status);
        CST_OWN(context, scope, cst_safetensors, c->files[k]);
        c->count = k + 1;
        CST_TRY(refuse_swag(context, c->files[k]));
        CST_TRY(k > 0 ? compare(context, c->files[0], c->files[k])
                      : sort_tensors(context, scope, c));
    }
    CST_TRY(keep_constants(context, c));
    return count > 1 ? say(context, c) : CST_OK;
}
