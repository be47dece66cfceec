/* The description of a pool: lifetime, lookups, and that files stay in its folder. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "data/readers/manifest.h"
#include "core/utf8.h"
#include "data/files/bytes.h"
#include "data/readers/strings.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 255 };

cst_status cst_manifest_create(cst_context *context, cst_manifest **out, const char *path) {
    *out = cst_alloc(context, 1, sizeof **out);
    if (*out && !((*out)->path = cst_take_text(context, &(*out)->scope, path))) {
        cst_manifest_free(context, *out);
        *out = NULL;
    }
    return *out ? CST_OK : CST_ERROR_MEMORY;
}

void cst_manifest_free(cst_context *context, cst_manifest *manifest) {
    if (!manifest)
        return;
    cst_reference_errors_free(context, &manifest->reference_errors);
    cst_scope_free(&manifest->scope);
    cst_free(context, manifest);
}

/* ---- names ---- */

/* Where `name` is in the list, or belongs. */
static int32_t place_of(const cst_name_list *names, const char *name) {
    int32_t first = 0;
    int32_t end = names->count;
    while (first < end) {
        int32_t middle = first + (end - first) / 2;
        if (strcmp(names->list[middle].name, name) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

static int32_t find(const cst_name_list *names, const char *name) {
    int32_t at = place_of(names, name);
    return at < names->count && strcmp(names->list[at].name, name) == 0 ? names->list[at].place
                                                                        : -1;
}

/* Enters a name whose position is the last one. */
static cst_status enter(cst_context *context, cst_scope *scope, cst_name_list *names,
                        const char *name) {
    int32_t at = place_of(names, name);
    names->list = cst_take_more(context, scope, names->list, names->count, sizeof *names->list);
    if (!names->list)
        return CST_ERROR_MEMORY;
    memmove(names->list + at + 1, names->list + at,
            (size_t)(names->count - at) * sizeof *names->list);
    names->list[at] = (struct cst_name_place){name, names->count++};
    return CST_OK;
}

cst_status cst_manifest_without(cst_context *context, cst_scope *scope, const cst_manifest *whole,
                                const bool *without, cst_manifest *out) {
    *out = *whole;
    out->scope = (cst_scope){0};
    out->member_count = 0;
    out->member_names = (cst_name_list){0};
    CST_TAKE(context, scope, out->members, whole->member_count);
    for (int32_t k = 0; k < whole->member_count; k++) {
        if (without[k])
            continue;
        CST_TRY(enter(context, scope, &out->member_names, whole->members[k].name));
        out->members[out->member_count++] = whole->members[k];
    }
    return CST_OK;
}

int32_t cst_manifest_find_split(const cst_manifest *manifest, const char *name) {
    return find(&manifest->split_names, name);
}

int32_t cst_manifest_find_member(const cst_manifest *manifest, const char *name) {
    return find(&manifest->member_names, name);
}

const char *cst_manifest_name_fault(const char *name) {
    size_t length = strlen(name);
    if (length == 0)
        return "is empty: name it";
    if (length > NAME_MAX_BYTES)
        return "is longer than 255 bytes: shorten it";
    size_t at = 0;
    for (size_t bytes = 1; at < length && bytes > 0; at += bytes)
        bytes = cst_utf8_length((const uint8_t *)name + at, length - at);
    if (at < length)
        return "is not valid UTF-8 (is it Latin-1, as older programs write?): rename it, or save "
               "the file as UTF-8";
    if (cst_utf8_name((const uint8_t *)name, length) < length)
        return "has control characters or bidirectional formatting characters: rename it";
    return NULL;
}

bool cst_manifest_is_name(const char *name) {
    return !cst_manifest_name_fault(name);
}

static cst_status check_name(cst_context *context, const cst_manifest *manifest, const char *what,
                             const char *name) {
    char quoted[CST_QUOTE_CHARS];
    if (cst_manifest_is_name(name))
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT, "%s: the %s name '%s' %s", manifest->path, what,
                    cst_quote(quoted, name), cst_manifest_name_fault(name));
}

/* Every member has a place for each split. */
static cst_status check_count(cst_context *context, const cst_manifest *manifest, int64_t splits,
                              int64_t members) {
    if (splits <= CST_MANIFEST_SPLITS_MAX && members <= CST_MANIFEST_MEMBERS_MAX &&
        splits * members <= CST_MANIFEST_FILES_MAX)
        return CST_OK;
    return cst_fail(context, CST_ERROR_LIMIT,
                    "%s: more than %d splits, %d models or %d prediction files (splits times "
                    "models); split it into several pools",
                    manifest->path, CST_MANIFEST_SPLITS_MAX, CST_MANIFEST_MEMBERS_MAX,
                    CST_MANIFEST_FILES_MAX);
}

cst_status cst_manifest_add_split(cst_context *context, cst_manifest *manifest, const char *name,
                                  int32_t *out) {
    *out = cst_manifest_find_split(manifest, name);
    if (*out >= 0)
        return CST_OK;
    CST_TRY(check_name(context, manifest, "split", name));
    CST_TRY(check_count(context, manifest, manifest->split_count + 1, manifest->member_count));
    cst_manifest_split *splits = cst_take_more(context, &manifest->scope, manifest->splits,
                                               manifest->split_count, sizeof *splits);
    char *copy = cst_take_text(context, &manifest->scope, name);
    if (!splits || !copy)
        return CST_ERROR_MEMORY;
    manifest->splits = splits;
    splits[manifest->split_count] = (cst_manifest_split){.name = copy};
    CST_TRY(enter(context, &manifest->scope, &manifest->split_names, copy));
    *out = manifest->split_count++;
    return CST_OK;
}

/* A longer copy of paths [count], the last of which is that of `like`. */
static char **with_path(cst_context *context, cst_scope *scope, char *const *paths, size_t count,
                        int32_t like) {
    char **out = cst_take(context, scope, count + 1, sizeof *out);
    if (out) {
        memcpy(out, paths, count * sizeof *out);
        out[count] = paths[like];
    }
    return out;
}

cst_status cst_manifest_with_split(cst_context *context, cst_scope *scope,
                                   const cst_manifest *manifest, int32_t like, char *name,
                                   cst_manifest *out) {
    size_t count = (size_t)manifest->split_count;
    const cst_name_list *names = &manifest->split_names;
    *out = *manifest;
    CST_TAKE(context, scope, out->splits, count + 1);
    CST_TAKE(context, scope, out->members, manifest->member_count);
    CST_TAKE(context, scope, out->split_names.list, 2 * count);
    memcpy(out->splits, manifest->splits, count * sizeof *out->splits);
    memcpy(out->split_names.list, names->list, count * sizeof *names->list);
    out->splits[count] = manifest->splits[like];
    out->splits[count].name = name;
    CST_TRY(enter(context, scope, &out->split_names, name));
    out->split_count++;
    for (int32_t k = 0; k < manifest->member_count; k++) {
        cst_manifest_member *to = &out->members[k];
        *to = manifest->members[k];
        to->paths = with_path(context, scope, to->paths, count, like);
        to->ids = with_path(context, scope, to->ids, count, like);
        if (!to->paths || !to->ids)
            return CST_ERROR_MEMORY;
    }
    return CST_OK;
}

/* ---- members ---- */

cst_status cst_manifest_add_member(cst_context *context, cst_manifest *manifest, const char *name,
                                   int32_t *out) {
    *out = cst_manifest_find_member(manifest, name);
    if (*out >= 0)
        return CST_OK;
    CST_TRY(check_name(context, manifest, "model", name));
    CST_TRY(check_count(context, manifest, manifest->split_count, manifest->member_count + 1));
    cst_manifest_member *members = cst_take_more(context, &manifest->scope, manifest->members,
                                                 manifest->member_count, sizeof *members);
    if (!members)
        return CST_ERROR_MEMORY;
    manifest->members = members;
    cst_manifest_member *member = &members[manifest->member_count];
    *member =
        (cst_manifest_member){.flops = NAN, .params = NAN, .latency_ms = NAN, .memory_bytes = NAN};
    CST_TAKE(context, &manifest->scope, member->paths, manifest->split_count);
    CST_TAKE(context, &manifest->scope, member->ids, manifest->split_count);
    member->name = cst_take_text(context, &manifest->scope, name);
    if (!member->name)
        return CST_ERROR_MEMORY;
    CST_TRY(enter(context, &manifest->scope, &manifest->member_names, member->name));
    *out = manifest->member_count++;
    return CST_OK;
}

/* Whether `path` is inside `folder`, as written. */
static bool is_inside(const char *folder, const char *path) {
    size_t length = strlen(folder);
    if (strncmp(folder, path, length) != 0)
        return false;
    return path[length] == '/' || (length > 0 && folder[length - 1] == '/');
}

/* The real path (malloc) of the nearest existing part of `path`, found by halving, so that a
 * missing file behind a link is refused too. */
static char *nearest_real_path(char *path) {
    char *real = realpath(path, NULL);
    if (real || errno != ENOENT)
        return real;
    size_t there = 0; /* the part of this length exists, or is empty */
    size_t missing = strlen(path);
    for (;;) {
        size_t middle = there + (missing - there) / 2;
        size_t slash = middle;
        while (slash > there && path[slash] != '/')
            slash--;
        if (slash == there)
            for (slash = middle + 1; slash < missing && path[slash] != '/';)
                slash++;
        if (slash >= missing)
            break;
        path[slash] = '\0';
        char *part = realpath(path, NULL);
        path[slash] = '/';
        if (!part && errno != ENOENT) {
            free(real);
            return NULL;
        }
        if (part) {
            free(real);
            real = part;
            there = slash;
        } else {
            missing = slash;
        }
    }
    return real ? real : realpath(*path == '/' ? "/" : ".", NULL);
}

cst_status cst_manifest_stay_in(cst_context *context, cst_manifest *manifest, const char *folder) {
    char *real = realpath(folder, NULL);
    if (!real)
        return cst_fail(context, CST_ERROR_IO, "%s: cannot find its folder: %s", manifest->path,
                        strerror(errno));
    manifest->folder = cst_take_text(context, &manifest->scope, real);
    free(real);
    return manifest->folder ? CST_OK : CST_ERROR_MEMORY;
}

cst_status cst_manifest_allow(cst_context *context, cst_manifest *manifest, const char *path) {
    if (manifest->given_count == CST_MANIFEST_GIVEN_MAX)
        return cst_fail(context, CST_ERROR_INTERNAL, "%s: too many paths", path);
    char *copy = cst_take_text(context, &manifest->scope, path);
    manifest->given[manifest->given_count] = copy;
    manifest->given_count += copy != NULL;
    return copy ? CST_OK : CST_ERROR_MEMORY;
}

/* Whether the caller named `path`, or a folder above it that it is written from. */
static bool is_given(const cst_manifest *manifest, const char *path) {
    for (int32_t i = 0; i < manifest->given_count; i++)
        if (strcmp(manifest->given[i], path) == 0 || is_inside(manifest->given[i], path))
            return true;
    return false;
}

static cst_status check_inside(cst_context *context, const cst_manifest *manifest, const char *path,
                               const char *real) {
    if (strcmp(real, manifest->folder) == 0 || is_inside(manifest->folder, real))
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: is outside the folder of %s (it leads to %s); move the file into the "
                    "folder, or allow files outside "
                    "it (--allow-outside)",
                    path, manifest->path, real);
}

static cst_status confine(cst_context *context, const cst_manifest *manifest, const char *path) {
    CST_SCOPE(scope);
    char *copy = cst_take_text(context, scope, path);
    if (!copy)
        return CST_ERROR_MEMORY;
    size_t member = cst_path_member(copy);
    if (member)
        copy[member] = '\0';
    char *real = nearest_real_path(copy);
    cst_status status =
        real ? check_inside(context, manifest, path, real)
             : cst_fail(context, CST_ERROR_IO, "%s: not found: %s", path, strerror(errno));
    free(real);
    /* Something may be called "x.npz#y" as a whole, and not every reader looks into archives. */
    errno = 0;
    real = status == CST_OK && member ? realpath(path, NULL) : NULL;
    if (real)
        status = check_inside(context, manifest, path, real);
    else if (errno == ENOMEM)
        status = cst_fail(context, CST_ERROR_MEMORY, "out of memory");
    free(real);
    return status;
}

cst_status cst_manifest_confine(cst_context *context, const cst_manifest *manifest,
                                const char *path) {
    if (!manifest->folder || is_given(manifest, path))
        return CST_OK;
    const cst_file_parts *parts = cst_manifest_parts(manifest, path);
    CST_TRY(parts ? CST_OK : confine(context, manifest, path));
    for (int64_t k = 0; parts && k < parts->count; k++) {
        CST_TRY(cst_poll_reading(context));
        CST_TRY(confine(context, manifest, parts->paths[k]));
    }
    return CST_OK;
}

/* ---- files that follow one another ---- */

const cst_file_parts *cst_manifest_parts(const cst_manifest *manifest, const char *path) {
    int32_t place = find(&manifest->part_names, path);
    return place < 0 ? NULL : manifest->parts[place];
}

static bool same_files(const cst_file_parts *a, const cst_file_parts *b) {
    bool same = a->count == b->count;
    for (int64_t k = 0; same && k < a->count; k++)
        same = strcmp(a->paths[k], b->paths[k]) == 0;
    return same;
}

cst_status cst_manifest_add_parts(cst_context *context, cst_manifest *manifest,
                                  cst_file_parts *parts, const char *folder, char **name) {
    const int32_t count = manifest->part_names.count;
    const cst_file_parts *known = NULL;
    for (int other = 1; other == 1 || (known && !same_files(known, parts)); other++) {
        char number[32] = "";
        if (other > 1)
            (void)cst_snprintf(number, sizeof number, ", list %d", other);
        *name = folder && other == 1
                    ? cst_take_text(context, &manifest->scope, folder)
                    : cst_take_format(context, &manifest->scope, "%s and %lld more part%s%s",
                                      parts->paths[0], (long long)parts->count - 1,
                                      parts->count > 2 ? "s" : "", number);
        if (!*name)
            return CST_ERROR_MEMORY;
        known = cst_manifest_parts(manifest, *name);
    }
    if (manifest->parts_files + parts->count > CST_MANIFEST_FILES_MAX)
        return cst_fail(context, CST_ERROR_LIMIT, "%s: more than %d parts", manifest->path,
                        CST_MANIFEST_FILES_MAX);
    if (known)
        return CST_OK;
    cst_file_parts **list = (cst_file_parts **)cst_take_more(
        context, &manifest->scope, (void *)manifest->parts, count, sizeof *list);
    if (!list)
        return CST_ERROR_MEMORY;
    manifest->parts = list;
    CST_TAKE(context, &manifest->scope, list[count], 1);
    *list[count] = *parts;
    list[count]->name = *name;
    manifest->parts_files += parts->count;
    return enter(context, &manifest->scope, &manifest->part_names, *name);
}
