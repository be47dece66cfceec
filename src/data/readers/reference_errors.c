/* Errors of a reference on each kind of corruption. See the header. */
#include "data/readers/reference_errors.h"

#include "data/files/bytes.h"
#include "data/readers/json_room.h"
#include "data/readers/strings.h"

#include <math.h>
#include <string.h>

enum { KINDS_MAX = 10000, FILE_MAX = 1 << 20, WHY_CHARS = 512 };

/* Mean top-1 errors on ImageNet-C and the clean error: github.com/hendrycks/robustness. */
static const struct {
    const char *kind;
    double error;
} ALEXNET[] = {
    {"gaussian_noise", 0.886428},
    {"shot_noise", 0.894468},
    {"impulse_noise", 0.922640},
    {"defocus_blur", 0.819880},
    {"glass_blur", 0.826268},
    {"motion_blur", 0.785948},
    {"zoom_blur", 0.798360},
    {"snow", 0.866816},
    {"frost", 0.826572},
    {"fog", 0.819324},
    {"brightness", 0.564592},
    {"contrast", 0.853204},
    {"elastic_transform", 0.646056},
    {"pixelate", 0.717840},
    {"jpeg_compression", 0.606500},
    {"speckle_noise", 0.845388},
    {"gaussian_blur", 0.787108},
    {"spatter", 0.717512},
    {"saturate", 0.658248},
    {"clean", 0.435},
    {"elastic", 0.646056},
    {"jpeg", 0.606500}, /* the same two under their short names */
};

enum { ALEXNET_COUNT = sizeof ALEXNET / sizeof ALEXNET[0] };

static cst_status wrong(cst_context *context, const char *where, const char *kind) {
    char quoted[CST_QUOTE_CHARS];
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: the reference error of '%s' must be a fraction greater than 0 and at most "
                    "1, or a list of fractions, one per severity starting with the lowest",
                    where, cst_quote(quoted, kind));
}

static bool is_error(const json_t *value) {
    double error = json_is_number(value) ? json_number_value(value) : -1;
    return error > 0 && error <= 1;
}

static cst_status read_kind(cst_context *context, const char *where, cst_scope *scope,
                            const char *kind, const json_t *value, cst_reference_error *out) {
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count == 0 || count > KINDS_MAX)
        return wrong(context, where, kind);
    out->kind = cst_take_text(context, scope, kind);
    if (!out->kind)
        return CST_ERROR_MEMORY;
    CST_NEW(context, scope, double, errors, count);
    out->errors = errors;
    out->count = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        if (!is_error(item))
            return wrong(context, where, kind);
        errors[i] = json_number_value(item);
    }
    return CST_OK;
}

cst_status cst_reference_errors_parse(cst_context *context, const char *where, const json_t *object,
                                      cst_reference_errors *out) {
    *out = (cst_reference_errors){.clean = NAN};
    size_t count = json_object_size(object);
    if (count == 0 || count > KINDS_MAX)
        return cst_fail(
            context, CST_ERROR_INPUT,
            "%s: reference errors must be an object with an error for each kind of corruption",
            where);
    CST_TAKE(context, &out->scope, out->kinds, count);
    out->source = cst_take_text(context, &out->scope, where);
    if (!out->source)
        return CST_ERROR_MEMORY;
    const char *kind = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)object, kind, value) {
        if (strcmp(kind, "clean") != 0)
            CST_TRY(read_kind(context, where, &out->scope, kind, value, &out->kinds[out->count++]));
        else if (is_error(value))
            out->clean = json_number_value(value);
        else
            return wrong(context, where, kind);
    }
    return CST_OK;
}

static cst_status alexnet(cst_context *context, cst_reference_errors *out) {
    out->published = true;
    out->source = "AlexNet on ImageNet-C (Hendrycks and Dietterich 2019)";
    CST_TAKE(context, &out->scope, out->kinds, ALEXNET_COUNT);
    for (int i = 0; i < ALEXNET_COUNT; i++) {
        if (strcmp(ALEXNET[i].kind, "clean") == 0) {
            out->clean = ALEXNET[i].error;
            continue;
        }
        cst_reference_error *kind = &out->kinds[out->count++];
        *kind = (cst_reference_error){ALEXNET[i].kind, 1, &ALEXNET[i].error};
    }
    return CST_OK;
}

/* The JSON of a file; *root is the caller's. */
static cst_status load_json(cst_context *context, const char *path, json_t **root) {
    CST_SCOPE(scope);
    cst_bytes *source = NULL;
    const unsigned char *text = NULL;
    char why[WHY_CHARS];
    json_error_t error;
    cst_status status = cst_bytes_open(context, &source, path, 0);
    if (status != CST_OK) {
        (void)cst_snprintf(why, sizeof why, "%s", cst_last_error(context));
        return cst_fail(context, status, "%s; give a file of reference errors or the name alexnet",
                        why);
    }
    CST_TRY(cst_scope_own(context, scope, cst_bytes_close, source));
    size_t size = (size_t)cst_bytes_size(source);
    if (size > FILE_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: has %zu bytes; the limit for reference errors is %d", path, size,
                        FILE_MAX);
    CST_TRY(cst_bytes_slurp(context, source, &text));
    CST_TRY(cst_json_parse(context, path, text, size, root, &error));
    if (*root)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: not valid JSON with reference errors (line %d: %s); give a file or the "
                    "name alexnet",
                    path, error.line, error.text);
}

cst_status cst_reference_errors_read(cst_context *context, const char *path,
                                     cst_reference_errors *out) {
    *out = (cst_reference_errors){.clean = NAN};
    if (strcmp(path, "alexnet") == 0)
        return alexnet(context, out);
    json_t *root = NULL;
    cst_status status = load_json(context, path, &root);
    CST_THEN(cst_reference_errors_parse(context, path, root, out));
    json_decref(root);
    return status;
}

void cst_reference_errors_free(cst_context *context, cst_reference_errors *reference) {
    (void)context;
    cst_scope_free(&reference->scope);
    *reference = (cst_reference_errors){.clean = NAN};
}

const cst_reference_error *cst_reference_errors_find(const cst_reference_errors *reference,
                                                     const char *kind) {
    for (int32_t i = 0; kind && i < reference->count; i++)
        if (strcmp(reference->kinds[i].kind, kind) == 0)
            return &reference->kinds[i];
    return NULL;
}
