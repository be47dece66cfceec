/* Documents as one HTML file: the page that report/ builds, with the documents in it as JSON.
 * docs/report.md. */
#include "report/report.h"

#include <math.h>
#include <string.h>

/* Pieces of text, the last NULL: before and after the data. */
#include "report/page_template.h"

/* Whether this is what a model knows of its fit. */
static bool is_fit(const json_t *value) {
    return json_object_get(value, "models_in") != NULL;
}

/* Left out: what is measured and differs from run to run, long lists that the page has no place
 * for, and the fit within another document, which becomes one of its own. */
static bool is_left_out(const char *key, const json_t *value) {
    static const char *const keys[] = {
        "seconds", "seconds_scored", "peak_rss_bytes", "modified", "pearson",       "eigenvalues",
        "discs",   "regularised",    "stability",      "spectral", "ece_definition"};
    const json_t *first = json_array_get(value, 0);
    if (strcmp(key, "fit") == 0)
        return is_fit(value);
    if (json_is_array(value) && (strcmp(key, "weights") == 0 || strcmp(key, "members") == 0))
        return !json_is_object(first);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

/* The part of a symmetric matrix above its diagonal, row by row, in ten-thousandths. */
static json_t *pack(const json_t *matrix) {
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < json_array_size(matrix); i++)
        for (size_t j = i + 1; j < json_array_size(matrix); j++) {
            const json_t *cell = json_array_get(json_array_get(matrix, i), j);
            failed |= json_array_append_new(
                list, json_is_number(cell)
                          ? json_integer((json_int_t)lround(1e4 * json_number_value(cell)))
                          : json_null());
        }
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

/* A copy of an object without what is left out. Lists of objects are a level of their own. */
static json_t *shorten(json_t *value) {
    json_t *copy = json_is_object(value) ? json_object() : json_array();
    const char *key;
    json_t *child;
    size_t index;
    int failed = 0;
    if (!json_is_object(value) && !json_is_object(json_array_get(value, 0))) {
        json_decref(copy);
        return json_incref(value);
    }
    json_array_foreach(value, index, child) {
        json_t *item = shorten(child);
        bool batch = json_object_get(child, "evidence_alone") != NULL;
        if (batch && index + 1 < json_array_size(value)) { /* the drift of its last batch stays */
            (void)json_object_del(item, "members");
            (void)json_object_del(item, "stack");
        }
        failed |= json_array_append_new(copy, item) != 0;
    }
    json_object_foreach(value, key, child) {
        if (is_left_out(key, child))
            continue;
        bool matrix = strcmp(key, "cka") == 0 && json_is_array(child);
        failed |= json_object_set_new(copy, matrix ? "cka_packed" : key,
                                      matrix ? pack(child) : shorten(child)) != 0;
    }
    if (failed) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

static cst_status put_documents(cst_context *context, const cst_report *const *reports,
                                int64_t count, char **out) {
    json_t *root = json_object();
    int failed = json_object_set_new(root, "corestack", json_string(cst_version()));
    for (int64_t i = 0; i < count; i++) {
        json_t *command = json_object_get(reports[i]->root, "command");
        failed |= json_object_set_new(root, json_string_value(command), shorten(reports[i]->root));
    }
    for (int64_t i = 0; i < count; i++) {
        json_t *fit = json_object_get(reports[i]->root, "fit");
        if (is_fit(fit) && !json_object_get(root, "fit"))
            failed |= json_object_set_new(root, "fit", shorten(fit));
    }
    cst_status status =
        failed ? cst_fail(context, CST_ERROR_MEMORY, "out of memory while writing the page")
               : cst_report_dump(context, root, true, out);
    json_decref(root);
    return status;
}

cst_status cst_report_html(cst_context *context, const cst_report *const *reports, int64_t count,
                           char **out) {
    cst_buffer page = {.context = context};
    char *data = NULL;
    *out = NULL;
    CST_TRY(put_documents(context, reports, count, &data));
    for (const char *const *piece = BEFORE; *piece; piece++)
        cst_buffer_add_text(&page, *piece);
    cst_buffer_add_text(&page, data);
    for (const char *const *piece = AFTER; *piece; piece++)
        cst_buffer_add_text(&page, *piece);
    cst_free(context, data);
    if (page.status != CST_OK)
        cst_free(context, page.bytes);
    *out = page.status == CST_OK ? page.bytes : NULL;
    return page.status;
}
