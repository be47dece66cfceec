/* Errors of a reference on each kind of corruption. See the header. */
#include "data/readers/reference_errors.h"

#include "data/readers/json_room.h"
#include "data/readers/strings.h"

#include <math.h>
#include <string.h>

enum { KINDS_MAX = 10000, FILE_MAX = 1 << 20, WHY_CHARS = 512 };

/* Mean top-1 errors on ImageNet-C and the clean error: github.com/hendrycks/robustness. */
static const cst_reference_error ALEXNET[] = {
    {"gaussian_noise", 1, (const double[]){0.886428}},
    {"shot_noise", 1, (const double[]){0.894468}},
    {"impulse_noise", 1, (const double[]){0.922640}},
    {"defocus_blur", 1, (const double[]){0.819880}},
    {"glass_blur", 1, (const double[]){0.826268}},
    {"motion_blur", 1, (const double[]){0.785948}},
    {"zoom_blur", 1, (const double[]){0.798360}},
    {"snow", 1, (const double[]){0.866816}},
    {"frost", 1, (const double[]){0.826572}},
    {"fog", 1, (const double[]){0.819324}},
    {"brightness", 1, (const double[]){0.564592}},
    {"contrast", 1, (const double[]){0.853204}},
    {"elastic_transform", 1, (const double[]){0.646056}},
    {"pixelate", 1, (const double[]){0.717840}},
    {"jpeg_compression", 1, (const double[]){0.606500}},
    {"speckle_noise", 1, (const double[]){0.845388}},
    {"gaussian_blur", 1, (const double[]){0.787108}},
    {"spatter", 1, (const double[]){0.717512}},
    {"saturate", 1, (const double[]){0.658248}},
    {"elastic", 1, (const double[]){0.646056}},
    {"jpeg", 1, (const double[]){0.606500}}, /* the same two under their short names */
};

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
    CST_NEW(context, &out->scope, cst_reference_error, kinds, count);
    out->kinds = kinds;
    out->source = cst_take_text(context, &out->scope, where);
    if (!out->source)
        return CST_ERROR_MEMORY;
    const char *kind = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)object, kind, value) {
        if (strcmp(kind, "clean") != 0)
            CST_TRY(read_kind(context, where, &out->scope, kind, value, &kinds[out->count++]));
        else if (is_error(value))
            out->clean = json_number_value(value);
        else
            return wrong(context, where, kind);
    }
    return CST_OK;
}

/* The JSON of a file; *root is the caller's. */
static cst_status load_json(cst_context *context, const char *path, json_t **root) {
    char why[WHY_CHARS];
    json_error_t error;
    cst_status status = cst_json_read(context, path, FILE_MAX, root, &error);
    if (status == CST_ERROR_IO || status == CST_ERROR_INPUT) {
        (void)cst_snprintf(why, sizeof why, "%s", cst_last_error(context));
        return cst_fail(context, status, "%s; give a file of reference errors or the name alexnet",
                        why);
    }
    if (status != CST_OK || *root)
        return status;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: not valid JSON with reference errors (line %d: %s); give a file or the "
                    "name alexnet",
                    path, error.line, error.text);
}

cst_status cst_reference_errors_read(cst_context *context, const char *path,
                                     cst_reference_errors *out) {
    *out = (cst_reference_errors){.clean = NAN};
    json_t *root = NULL;
    if (strcmp(path, "alexnet") == 0) {
        *out = (cst_reference_errors){.source =
                                          "AlexNet on ImageNet-C (Hendrycks and Dietterich 2019)",
                                      .count = sizeof ALEXNET / sizeof *ALEXNET,
                                      .kinds = ALEXNET,
                                      .published = true,
                                      .clean = 0.435};
        return CST_OK;
    }
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
