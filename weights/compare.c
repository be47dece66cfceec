/* Compares the tensors of checkpoints, and reports what a mean of them does not make right. */
#include "weights/numbers.h"

#include <string.h>
#include <sys/stat.h>

/* Differences in a message, bytes of integers compared at a time. */
enum { SHOWN = 5, TEXT_CHARS = 1100, SHAPE_CHARS = 80, CHUNK_BYTES = 1 << 18 };

/* ---- the same tensors ---- */

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

cst_status cst_checkpoints_compare(cst_context *context, const cst_safetensors *first,
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

/* ---- notices ---- */

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
    struct stat *files = cst_alloc(context, (size_t)c->count, sizeof *files);
    if (!files)
        return CST_ERROR_MEMORY;
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
    cst_free(context, files);
    return CST_OK;
}

/* Whether the tensor at a place holds other bytes in a file than in the first. Chunks: two times
 * CHUNK_BYTES. */
static cst_status differs(cst_context *context, const cst_checkpoints *c, int64_t place,
                          int32_t file, unsigned char *chunks, bool *out) {
    int64_t ours = cst_checkpoints_tensor(c, 0, place);
    int64_t theirs = cst_checkpoints_tensor(c, file, place);
    int64_t bytes = cst_safetensors_bytes(c->files[0], ours);
    cst_status status = CST_OK;
    *out = false;
    for (int64_t at = 0; status == CST_OK && !*out && at < bytes; at += CHUNK_BYTES) {
        int64_t part = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        status = cst_poll(context);
        CST_THEN(cst_safetensors_read(context, c->files[0], ours, at, part, chunks));
        CST_THEN(
            cst_safetensors_read(context, c->files[file], theirs, at, part, chunks + CHUNK_BYTES));
        if (status == CST_OK)
            *out = memcmp(chunks, chunks + CHUNK_BYTES, (size_t)part) != 0;
    }
    return status;
}

/* Whether a tensor of the first file has a number that is not finite. */
static cst_status has_infinite(cst_context *context, const cst_checkpoints *c, int64_t place,
                               bool *out) {
    enum { NUMBERS = CHUNK_BYTES / 8 };
    double *values = cst_alloc(context, NUMBERS, sizeof *values);
    unsigned char *raw = cst_alloc(context, NUMBERS, sizeof *values);
    cst_status status = values && raw ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t at = 0; status == CST_OK && !*out && at < c->elements[place]; at += NUMBERS) {
        int64_t part = c->elements[place] - at < NUMBERS ? c->elements[place] - at : NUMBERS;
        status = cst_weights_read(context, c->files[0], cst_checkpoints_tensor(c, 0, place), at,
                                  part, raw, values);
        *out = status == CST_OK && cst_weights_bad(values, part, CST_DTYPE_F64) >= 0;
    }
    cst_free(context, values);
    cst_free(context, raw);
    return status;
}

cst_status cst_checkpoints_keep_constants(cst_context *context, cst_checkpoints *c) {
    unsigned char *chunks = cst_alloc(context, 2, CHUNK_BYTES);
    cst_status status = chunks ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t p = 0; status == CST_OK && c->count > 1 && p < c->total; p++) {
        bool other = !c->mixed[p];
        bool infinite = false;
        for (int32_t k = 1; status == CST_OK && !other && k < c->count; k++)
            status = differs(context, c, p, k, chunks, &other);
        if (status == CST_OK && !other)
            status = has_infinite(context, c, p, &infinite);
        c->mixed[p] = c->mixed[p] && !infinite;
    }
    cst_free(context, chunks);
    return status;
}

static cst_status say_integers(cst_context *context, const cst_checkpoints *c) {
    unsigned char *chunks = cst_alloc(context, 2, CHUNK_BYTES);
    int64_t found = 0;
    int64_t first = 0;
    int32_t file = 0;
    cst_status status = chunks ? CST_OK : CST_ERROR_MEMORY;
    for (int64_t p = 0; status == CST_OK && p < c->total; p++) {
        bool other = false;
        for (int32_t k = 1; status == CST_OK && !c->mixed[p] && !other && k < c->count; k++) {
            status = differs(context, c, p, k, chunks, &other);
            if (other && found++ == 0) {
                first = p;
                file = k;
            }
        }
    }
    cst_free(context, chunks);
    char quoted[CST_QUOTE_CHARS];
    if (status == CST_OK && found > 0)
        cst_notice(context,
                   "%lld integer tensor%s differ%s between the files (the first: '%s' in %s): "
                   "those of %s are kept",
                   (long long)found, found == 1 ? "" : "s", found == 1 ? "s" : "",
                   cst_quote(quoted, cst_checkpoints_name(c, first)), cst_checkpoints_path(c, file),
                   cst_checkpoints_path(c, 0));
    return status;
}

cst_status cst_checkpoints_say(cst_context *context, const cst_checkpoints *c) {
    if (c->count == 1)
        return CST_OK;
    say_statistics(context, c);
    cst_status status = say_twice(context, c);
    return status == CST_OK ? say_integers(context, c) : status;
}
