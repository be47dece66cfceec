/* pool.json to a cst_manifest: unknown keys, doubled keys and wrong types are errors. */
#include "core/scope.h"
#include "data/files/bytes.h"
#include "data/readers/json_room.h"
#include "data/readers/manifest_json.h"
#include "data/readers/strings.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

enum { MANIFEST_BYTES_MAX = 1 << 26, CLASSES_MAX = 1 << 24 };

static cst_status read_head(const cst_manifest_reader *r, const json_t *root) {
    CST_TRY(cst_manifest_check_keys(r, "", root, CST_MANIFEST_TOP));
    const json_t *version = json_object_get(root, "corestack_pool");
    if (!version)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: not a pool manifest: the key corestack_pool (1) is missing", r->path);
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        return cst_manifest_wrong(r, "", "corestack_pool", "1, the only version so far");
    return CST_OK;
}

static cst_status read_output(const cst_manifest_reader *r, const json_t *root) {
    const json_t *output = json_object_get(root, "output");
    if (!output)
        return CST_OK;
    const char *word = json_is_string(output) ? json_string_value(output) : "";
    if (strcmp(word, "probability") != 0 && strcmp(word, "logit") != 0)
        return cst_manifest_wrong(r, "", "output", "\"probability\" or \"logit\"");
    r->manifest->output_given = true;
    r->manifest->logits = strcmp(word, "logit") == 0;
    return CST_OK;
}

/* A list of different names, of classes or outputs (`key`), into *names [*count]. */
static cst_status read_names(const cst_manifest_reader *r, const char *key, const json_t *list,
                             char ***names, int32_t *count) {
    size_t length = json_array_size(list);
    cst_strings *table;
    cst_id_index *index;
    int64_t twice[2];
    CST_SCOPE(scope);
    CST_TAKE(r->context, &r->manifest->scope, *names, length);
    *count = (int32_t)length;
    CST_TRY(cst_strings_take(r->context, scope, &table));
    for (size_t c = 0; c < length; c++) {
        const json_t *name = json_array_get(list, c);
        if (!cst_manifest_is_text(name))
            return cst_fail(r->context, CST_ERROR_INPUT,
                            "%s: %s[%zu] must be a non-empty name without control characters or "
                            "bidirectional formatting characters",
                            r->path, key, c);
        const char *text = json_string_value(name);
        (*names)[c] = cst_take_text(r->context, &r->manifest->scope, text);
        if (!(*names)[c])
            return CST_ERROR_MEMORY;
        CST_TRY(cst_strings_put(r->context, table, text));
    }
    char quoted[CST_QUOTE_CHARS];
    CST_TRY(cst_id_index_build(r->context, scope, &index, table, key, twice));
    if (twice[0] < 0)
        return CST_OK;
    return cst_fail(r->context, CST_ERROR_INPUT,
                    "%s: %s[%" PRId64 "] and %s[%" PRId64 "] are both '%s'; names must be unique",
                    r->path, key, twice[0], key, twice[1],
                    cst_quote(quoted, cst_strings_at(table, twice[0])));
}

/* Names, or a count of at least `least`, of classes or outputs; nothing where the key is missing.
 */
static cst_status read_count(const cst_manifest_reader *r, const json_t *root, const char *key,
                             int32_t least, char ***names, int32_t *count) {
    const json_t *value = json_object_get(root, key);
    if (!value)
        return CST_OK;
    json_int_t number = json_is_array(value)     ? (json_int_t)json_array_size(value)
                        : json_is_integer(value) ? json_integer_value(value)
                                                 : -1;
    if (number == -1)
        return cst_manifest_wrong(r, "", key, "a list of names or a number");
    if (number < least || number > CLASSES_MAX)
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s: %" PRId64 " %s; it must be between %d and %d", r->path, key,
                        (int64_t)number, key, least, CLASSES_MAX);
    if (json_is_array(value))
        return read_names(r, key, value, names, count);
    *count = (int32_t)number;
    return CST_OK;
}

static cst_status read_task(const cst_manifest_reader *r, const json_t *root) {
    const json_t *task = json_object_get(root, "task");
    const char *word = json_is_string(task) ? json_string_value(task) : "";
    if (!task && r->task)
        r->manifest->task = *r->task;
    if (!task)
        return CST_OK;
    for (int i = CST_TASK_CLASSIFICATION; i <= CST_TASK_DETECTION; i++)
        if (strcmp(word, cst_task_name((cst_task)i)) == 0) {
            r->manifest->task = (cst_task)i;
            r->manifest->task_given = true;
            return !r->task || *r->task == r->manifest->task
                       ? CST_OK
                       : cst_fail(r->context, CST_ERROR_INPUT,
                                  "%s: its task is %s, but %s was requested", r->path, word,
                                  cst_task_name(*r->task));
        }
    return cst_manifest_wrong(
        r, "", "task", "\"classification\", \"regression\", \"segmentation\" or \"detection\"");
}

static cst_status read_segmentation(const cst_manifest_reader *r, const json_t *root) {
    const json_t *layout = json_object_get(root, "layout");
    const json_t *ignore = json_object_get(root, "ignore");
    const char *word = json_is_string(layout) ? json_string_value(layout) : "";
    if (layout && strcmp(word, "channels-last") == 0)
        r->manifest->layout = CST_LAYOUT_CHANNELS_LAST;
    else if (layout && strcmp(word, "channels-first") == 0)
        r->manifest->layout = CST_LAYOUT_CHANNELS_FIRST;
    else if (layout)
        return cst_manifest_wrong(r, "", "layout", "\"channels-last\" or \"channels-first\"");
    if (!ignore)
        return CST_OK;
    json_int_t label = json_is_integer(ignore) ? json_integer_value(ignore) : INT64_MAX;
    if (label < INT32_MIN || label > INT32_MAX)
        return cst_manifest_wrong(r, "", "ignore", "the label of pixels to ignore, a whole number");
    r->manifest->ignore_given = true;
    r->manifest->ignore = (int32_t)label;
    return CST_OK;
}

/* training_counts: a list of whole numbers, or a file. */
static cst_status read_training_counts(const cst_manifest_reader *r, const json_t *root) {
    const json_t *list = json_object_get(root, "training_counts");
    cst_manifest *m = r->manifest;
    if (!list)
        return CST_OK;
    if (json_is_string(list))
        return cst_manifest_resolve(r, "the manifest", "training_counts", list,
                                    &m->training_counts_file);
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > CLASSES_MAX)
        return cst_manifest_wrong(r, "", "training_counts",
                                  "a list of counts, one per class, or a file");
    CST_TAKE(r->context, &m->scope, m->training_counts, count);
    m->training_count_classes = (int32_t)count;
    for (size_t c = 0; c < count; c++) {
        const json_t *item = json_array_get(list, c);
        m->training_counts[c] = json_is_integer(item) ? json_integer_value(item) : -1;
        if (m->training_counts[c] < 0)
            return cst_fail(r->context, CST_ERROR_INPUT,
                            "%s: training_counts[%zu] must be a whole number, 0 or more", r->path,
                            c);
    }
    return CST_OK;
}

static cst_status read_reference_errors(const cst_manifest_reader *r, const json_t *root) {
    const json_t *object = json_object_get(root, "reference_errors");
    if (!object)
        return CST_OK;
    CST_SCOPE(scope);
    const char *where = cst_take_format(r->context, scope, "%s: reference_errors", r->path);
    if (!where)
        return CST_ERROR_MEMORY;
    CST_TRY(cst_reference_errors_parse(r->context, where, object, &r->manifest->reference_errors));
    /* where the pool lies says nothing of the figures */
    r->manifest->reference_errors.source = "the manifest";
    return CST_OK;
}

static cst_status parse(cst_context *context, const char *path, json_t **root) {
    CST_SCOPE(scope);
    cst_bytes *source = NULL;
    const unsigned char *text = NULL;
    json_error_t error;
    char quoted[CST_QUOTE_CHARS];
    CST_TRY(cst_bytes_open(context, &source, path, 0));
    CST_TRY(cst_scope_own(context, scope, cst_bytes_close, source));
    if (cst_bytes_size(source) > MANIFEST_BYTES_MAX)
        return cst_fail(context, CST_ERROR_LIMIT,
                        "%s: the manifest has %" PRIu64 " bytes; the limit is %d", path,
                        cst_bytes_size(source), MANIFEST_BYTES_MAX);
    CST_TRY(cst_bytes_slurp(context, source, &text));
    CST_TRY(cst_json_parse(context, path, text, (size_t)cst_bytes_size(source), root, &error));
    if (*root)
        return CST_OK;
    return cst_fail(context, CST_ERROR_FORMAT, "%s: line %d, column %d (byte %d): %s", path,
                    error.line, error.column, error.position, cst_quote(quoted, error.text));
}

static cst_status read_all(const cst_manifest_reader *r, const json_t *root) {
    CST_SCOPE(scope);
    const char *folder = cst_take_format(r->context, scope, "%.*s", r->folder ? (int)r->folder : 1,
                                         r->folder ? r->path : ".");
    if (!folder)
        return CST_ERROR_MEMORY;
    if (!r->outside)
        CST_TRY(cst_manifest_stay_in(r->context, r->manifest, folder));
    CST_TRY(read_head(r, root));
    CST_TRY(read_task(r, root));
    CST_TRY(cst_manifest_check_task_keys(r, "", root, CST_MANIFEST_TOP));
    CST_TRY(read_output(r, root));
    CST_TRY(read_segmentation(r, root));
    CST_TRY(read_count(r, root, "outputs", 1, &r->manifest->output_names, &r->manifest->outputs));
    CST_TRY(read_count(r, root, "classes", r->manifest->task == CST_TASK_DETECTION ? 1 : 2,
                       &r->manifest->class_names, &r->manifest->classes));
    CST_TRY(read_training_counts(r, root));
    CST_TRY(read_reference_errors(r, root));
    CST_TRY(cst_manifest_read_splits(r, root));
    return cst_manifest_read_models(r, root);
}

cst_status cst_manifest_read_as(cst_context *context, cst_manifest **out, const char *path,
                                bool outside, const cst_task *task) {
    json_t *root = NULL;
    const char *slash = strrchr(path, '/');
    cst_manifest_reader r = {.context = context,
                             .path = path,
                             .folder = slash ? (size_t)(slash - path) + 1 : 0,
                             .outside = outside,
                             .task = task};
    cst_status status = parse(context, path, &root);
    CST_THEN(cst_manifest_create(context, &r.manifest, path));
    CST_THEN(read_all(&r, root));
    json_decref(root);
    if (status != CST_OK) {
        cst_manifest_free(context, r.manifest);
        r.manifest = NULL;
    }
    *out = r.manifest;
    return status;
}
