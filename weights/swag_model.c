/* Reads and checks a SWAG file: every parameter must have its mean, variance and deviations. */
#include "weights/swag_model.h"

#include <string.h>

/* Reads digits of a whole number; false for other text and from 10^15 on. */
static bool whole(const char *text, int64_t *out) {
    enum { DIGITS = 15 };
    size_t length = strlen(text);
    int64_t value = 0;
    if (length == 0 || length > DIGITS)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = 10 * value + (*text - '0');
    }
    *out = value;
    return true;
}

static cst_status broken(cst_context *context, const cst_swag *swag, const char *tensor,
                         const char *what) {
    char quoted[CST_QUOTE_CHARS];
    return cst_fail(context, CST_ERROR_FORMAT,
                    "%s: not a complete SWAG file: tensor '%s' %s; fit it again",
                    cst_bytes_name(swag->file->source), cst_quote(quoted, tensor), what);
}

/* The float32 tensor PREFIX + NAME with the mean's shape behind `rank` (0: no axis). */
static cst_status find_part(cst_context *context, const cst_swag *swag, const char *prefix,
                            const cst_swag_tensor *t, int64_t rank, int64_t *out) {
    CST_SCOPE(scope);
    char *name = cst_take_format(context, scope, "%s%s", prefix, t->name);
    if (!name)
        return CST_ERROR_MEMORY;
    *out = cst_safetensors_find(swag->file, name);
    int32_t axes = 0;
    int32_t found = 0;
    int32_t more = rank > 0 ? 1 : 0;
    const int64_t *shape = cst_safetensors_shape(swag->file, t->mean, &axes);
    const int64_t *other = cst_safetensors_shape(swag->file, *out, &found);
    if (*out < 0)
        return broken(context, swag, name, "is missing");
    if (cst_safetensors_dtype(swag->file, *out) != CST_DTYPE_F32)
        return broken(context, swag, name, "does not have dtype F32");
    if (found != axes + more || (more && other[0] != rank) ||
        (axes > 0 && memcmp(shape, other + more, (size_t)axes * sizeof *shape) != 0))
        return broken(context, swag, name, "does not have the shape that the mean requires");
    return CST_OK;
}

static bool begins(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Tensors whose names begin so, in the order of their names. */
static cst_status collect(cst_context *context, cst_swag *swag, const char *prefix, bool mixed) {
    const cst_safetensors *file = swag->file;
    int64_t base = 0;
    for (int64_t i = 0; i < file->count; i++) {
        if (!begins(file->by_name[i].text, prefix))
            continue;
        cst_swag_tensor *t = &swag->tensors[swag->count++];
        *t = (cst_swag_tensor){.name = file->by_name[i].text + strlen(prefix),
                               .mean = file->by_name[i].place,
                               .variance = -1,
                               .deviation = -1,
                               .base = base};
        t->elements = cst_safetensors_elements(file, t->mean);
        if (mixed != cst_dtype_is_mixed(cst_safetensors_dtype(file, t->mean)) ||
            !cst_dtype_is_number(cst_safetensors_dtype(file, t->mean)))
            return broken(context, swag, file->by_name[i].text,
                          "does not have the dtype of the mean");
        if (strcmp(t->name, "__metadata__") == 0)
            return broken(context, swag, file->by_name[i].text, "has a name that is not allowed");
        base += t->elements;
        if (mixed)
            CST_TRY(find_part(context, swag, CST_SWAG_VARIANCE, t, 0, &t->variance));
        if (mixed && swag->rank > 0)
            CST_TRY(find_part(context, swag, CST_SWAG_DEVIATION, t, swag->rank, &t->deviation));
    }
    return CST_OK;
}

/* Whether every tensor belongs to one of the network, and none of those is there twice. */
static cst_status check_all(cst_context *context, const cst_swag *swag) {
    const cst_safetensors *file = swag->file;
    CST_SCOPE(scope);
    CST_NEW(context, scope, bool, used, file->count);
    for (int64_t i = 0; i < swag->count; i++) {
        const cst_swag_tensor *t = &swag->tensors[i];
        used[t->mean] = true;
        if (t->variance >= 0) {
            used[t->variance] = true;
            if (t->deviation >= 0)
                used[t->deviation] = true;
            continue;
        }
        char *mean = cst_take_format(context, scope, CST_SWAG_MEAN "%s", t->name);
        if (!mean)
            return CST_ERROR_MEMORY;
        if (cst_safetensors_find(file, mean) >= 0)
            return broken(context, swag, mean, "is both averaged and copied");
    }
    for (int64_t i = 0; i < file->count; i++)
        if (!used[i])
            return broken(context, swag, cst_safetensors_name(file, i), "belongs to no parameter");
    return CST_OK;
}

static cst_status read_counts(cst_context *context, cst_swag *swag) {
    const char *version = cst_safetensors_metadata(swag->file, CST_SWAG_VERSION);
    const char *count = cst_safetensors_metadata(swag->file, CST_SWAG_COUNT);
    const char *rank = cst_safetensors_metadata(swag->file, CST_SWAG_RANK);
    const char *path = cst_bytes_name(swag->file->source);
    if (!version || !count || !rank)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: not a SWAG file: its metadata lack %s; fit one from checkpoints first",
                        path,
                        !version ? CST_SWAG_VERSION
                        : !count ? CST_SWAG_COUNT
                                 : CST_SWAG_RANK);
    if (strcmp(version, "1") != 0)
        return cst_fail(context, CST_ERROR_UNSUPPORTED,
                        "%s: is a SWAG file of version '%.20s'; only version 1 is supported", path,
                        version);
    if (!whole(count, &swag->checkpoints) || !whole(rank, &swag->rank) || swag->checkpoints < 2 ||
        swag->rank == 1 || swag->rank > swag->checkpoints || swag->rank > CST_SWAG_RANK_MAX)
        return cst_fail(context, CST_ERROR_FORMAT,
                        "%s: its metadata give %.20s checkpoints and rank %.20s, which is "
                        "impossible; fit it again",
                        path, count, rank);
    return CST_OK;
}

CST_RELEASED(cst_safetensors, cst_safetensors_close)

static cst_status open_file(cst_context *context, cst_scope *scope, const char *path,
                            cst_safetensors **out) {
    CST_TRY(cst_safetensors_open(context, out, path));
    CST_OWN(context, scope, cst_safetensors, *out);
    return CST_OK;
}

cst_status cst_swag_open(cst_context *context, cst_scope *scope, cst_swag *out, const char *path) {
    *out = (cst_swag){0};
    CST_TRY(open_file(context, scope, path, &out->file));
    CST_TRY(read_counts(context, out));
    CST_TAKE(context, scope, out->tensors, out->file->count);
    CST_TRY(collect(context, out, CST_SWAG_MEAN, true));
    if (out->count == 0)
        return cst_fail(context, CST_ERROR_FORMAT, "%s: a SWAG file without parameters", path);
    CST_TRY(collect(context, out, CST_SWAG_COPIED, false));
    return check_all(context, out);
}

cst_status cst_swa_count_of(cst_context *context, const cst_safetensors *average, int64_t *out) {
    const char *text = cst_safetensors_metadata(average, CST_SWA_COUNT);
    if (text && whole(text, out) && *out > 0)
        return CST_OK;
    return cst_fail(
        context, CST_ERROR_INPUT,
        "%s: not a running average of checkpoints: its metadata do not give their number (%s); "
        "name an average written by this program, or save it with that entry in its metadata",
        cst_bytes_name(average->source), CST_SWA_COUNT);
}

static cst_status made_of(cst_context *context, const char *path, cst_swag *out) {
    CST_SCOPE(scope);
    CST_TRY(open_file(context, scope, path, &out->file));
    return cst_safetensors_metadata(out->file, CST_SWAG_VERSION)
               ? read_counts(context, out)
               : cst_swa_count_of(context, out->file, &out->checkpoints);
}

cst_status cst_weights_made_of(cst_context *context, const char *path, int64_t *checkpoints,
                               int32_t *rank) {
    CST_ENTER(context);
    if (!path)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "reading what weights were made of: the path is required");
    cst_swag found = {0};
    cst_status status = made_of(context, path, &found);
    if (status == CST_OK && checkpoints)
        *checkpoints = found.checkpoints;
    if (status == CST_OK && rank)
        *rank = (int32_t)found.rank;
    return cst_why(context, status);
}
