/* Parts in a manifest: a list of files or a folder, of its splits and models. */
#include "data/readers/cases.h"
#include "data/readers/manifest_json.h"

static bool has_rows(const cst_manifest_reader *r) {
    cst_task task = r->manifest->task;
    return task == CST_TASK_CLASSIFICATION || task == CST_TASK_REGRESSION;
}

/* Takes the parts; if there is only one, *out is its path. */
static cst_status settle(const cst_manifest_reader *r, cst_file_parts *parts, const char *folder,
                         char **out) {
    cst_status status = CST_OK;
    if (parts->count > 1)
        return cst_manifest_add_parts(r->context, r->manifest, parts, folder, out);
    *out = cst_strdup(r->context, parts->paths[0]);
    status = *out ? CST_OK : CST_ERROR_MEMORY;
    cst_file_parts_clear(r->context, parts);
    return status;
}

/* The files in the folder *out, which becomes what stands for them. */
static cst_status read_folder(const cst_manifest_reader *r, char **out) {
    cst_file_parts parts = {0};
    char *folder = *out;
    *out = NULL;
    cst_status status = cst_file_parts_list(r->context, folder, &parts);
    for (int64_t k = 0; status == CST_OK && k < parts.count; k++)
        status = cst_manifest_confine(r->context, r->manifest, parts.paths[k]);
    if (status == CST_OK)
        status = settle(r, &parts, folder, out);
    else
        cst_file_parts_clear(r->context, &parts);
    cst_free(r->context, folder);
    return status;
}

static cst_status read_list(const cst_manifest_reader *r, const char *place, const char *key,
                            const json_t *list, char **out) {
    size_t count = json_array_size(list);
    cst_file_parts parts = {0};
    if (!has_rows(r))
        return cst_fail(r->context, CST_ERROR_INPUT,
                        "%s: %s.%s is a list of files, which pools of task '%s' do not support; "
                        "give one file or folder",
                        r->path, place, key, cst_task_name(r->manifest->task));
    if (count == 0 || count > CST_PARTS_MAX)
        return cst_manifest_wrong(r, place, key, "a file name, or a list of 1 to 1048576 of them");
    parts.paths = cst_alloc(r->context, count, sizeof *parts.paths);
    cst_status status = parts.paths ? CST_OK : CST_ERROR_MEMORY;
    for (size_t k = 0; status == CST_OK && k < count; k++) {
        char at[CST_MANIFEST_PLACE_CHARS + 64];
        (void)cst_snprintf(at, sizeof at, "%s[%zu]", key, k);
        status = cst_manifest_resolve(r, place, at, json_array_get(list, k), &parts.paths[k]);
        parts.count += parts.paths[k] != NULL;
    }
    if (status == CST_OK) {
        char at[2 * CST_MANIFEST_PLACE_CHARS + 64];
        (void)cst_snprintf(at, sizeof at, "%s.%s", place, key);
        char *where = cst_format(r->context, "%s: %s", r->path, at);
        status = where ? cst_file_parts_check(r->context, where, &parts) : CST_ERROR_MEMORY;
        cst_free(r->context, where);
    }
    if (status == CST_OK)
        return settle(r, &parts, NULL, out);
    cst_file_parts_clear(r->context, &parts);
    return status;
}

cst_status cst_manifest_resolve_rows(const cst_manifest_reader *r, const char *place,
                                     const char *key, const json_t *value, char **out) {
    *out = NULL;
    if (json_is_array(value))
        return read_list(r, place, key, value, out);
    cst_status status = cst_manifest_resolve(r, place, key, value, out);
    return status == CST_OK && has_rows(r) && cst_is_folder(*out) ? read_folder(r, out) : status;
}

cst_status cst_manifest_read_rows(const cst_manifest_reader *r, const char *place,
                                  const json_t *object, const char *key, char **out) {
    const json_t *value = json_object_get(object, key);
    return value ? cst_manifest_resolve_rows(r, place, key, value, out) : CST_OK;
}
