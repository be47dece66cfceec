/*
 * The rows a model was fitted on: a name, a hash and a sketch in its settings. Between fitting and
 * scoring. docs/model-format.md#sett.
 */
#include "model/fitted_on.h"

#include <inttypes.h>
#include <string.h>

enum { PRINT_CHARS = 48 };

/* "120:9ae16a3b2f90404f": rows and the FNV-1a hash of the labels, by value, so the same anywhere.
 */
static void label_print(const int32_t *labels, int64_t rows, char print[PRINT_CHARS]) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < rows; i++)
        hash = (hash ^ (uint32_t)labels[i]) * UINT64_C(0x100000001b3);
    (void)cst_snprintf(print, PRINT_CHARS, "%" PRId64 ":%016" PRIx64, rows, hash);
}

void cst_target_words(const double *targets, size_t count, int32_t *words) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, &targets[i], sizeof bits);
        uint32_t halves[2] = {(uint32_t)bits, (uint32_t)(bits >> 32)};
        memcpy(words + 2 * i, halves, sizeof halves);
    }
}

cst_status cst_fitted_on_note(cst_context *context, const char *key, const char *split,
                              const int32_t *labels, int64_t rows, const cst_view *kept,
                              char **setting, size_t *count) {
    char print[PRINT_CHARS];
    cst_row_sketch sketch;
    *count = 2;
    label_print(labels, rows, print);
    setting[0] = cst_format(context, "%s=%s", key, split);
    setting[1] = setting[0] ? cst_format(context, "%s.labels=%s", key, print) : NULL;
    if (!setting[0] || !setting[1])
        return CST_ERROR_MEMORY;
    if (!kept)
        return CST_OK;
    cst_status status = cst_row_sketch_of(context, kept, &sketch);
    if (status == CST_OK && !(setting[2] = cst_row_sketch_print(context, key, &sketch)))
        status = CST_ERROR_MEMORY;
    *count += status == CST_OK;
    return status;
}

bool cst_fit_rows_under(const cst_model *model, const char *key, const int32_t *labels,
                        int64_t rows, cst_fit_rows *out) {
    char name[32];
    const char *split = cst_model_value(model, key);
    (void)cst_snprintf(name, sizeof name, "%.16s.labels", key);
    const char *known = cst_model_value(model, name);
    (void)cst_snprintf(name, sizeof name, "%.16s.rows", key);
    const char *sketch = cst_model_value(model, name);
    *out = (cst_fit_rows){.split = split ? split : "oof", .labelled = known != NULL};
    out->same_labels = known != NULL;
    if (known && labels) {
        char print[PRINT_CHARS];
        label_print(labels, rows, print);
        out->same_labels = strcmp(known, print) == 0;
    }
    out->sketched = sketch && cst_row_sketch_read(sketch, &out->sketch);
    return split != NULL;
}

cst_fit_rows cst_fit_rows_of(const cst_model *model, const int32_t *labels, int64_t rows) {
    cst_fit_rows out;
    (void)cst_fit_rows_under(model, CST_FITTED_KEY, labels, rows, &out);
    return out;
}

bool cst_fit_rows_named(const cst_fit_rows *fit, const char *split) {
    return !strcmp(fit->split, split) && (fit->same_labels || !fit->labelled);
}

bool cst_fitted_on(const cst_model *model, const char *split, const int32_t *labels, int64_t rows) {
    cst_fit_rows fit = cst_fit_rows_of(model, labels, rows);
    return cst_fit_rows_named(&fit, split);
}
