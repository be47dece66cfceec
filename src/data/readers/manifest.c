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
    *out = NULL;
    cst_manifest *manifest = cst_alloc(context, 1, sizeof *manifest);
    if (!manifest)
        return CST_ERROR_MEMORY;
    manifest->path = cst_strdup(context, path);
    if (!manifest->path) {
        cst_manifest_free(context, manifest);
        return CST_ERROR_MEMORY;
    }
    *out = manifest;
    return CST_OK;
}

static void free_list(cst_context *context, char **list, int32_t count) {
    for (int32_t i = 0; list && i < count; i++)
        cst_free(context, list[i]);
    cst_free(context, list);
}

static void free_split(cst_context *context, cst_manifest_split *split) {
    cst_free(context, split->name);
    cst_free(context, split->labels);
    cst_free(context, split->ids);
    cst_free(context, split->folds);
    cst_free(context, split->groups);
    cst_free(context, split->weights);
    cst_free(context, split->domains);
    cst_free(context, split->clean);
    cst_free(context, split->domain);
    cst_free(context, split->annotations);
    for (int32_t i = 0; i < split->condition_count; i++) {
        cst_free(context, split->conditions[i].shift);
        cst_free(context, split->conditions[i].kind);
    }
    cst_free(context, split->conditions);
}

void cst_manifest_free(cst_context *context, cst_manifest *manifest) {
    if (!manifest)
        return;
    for (int32_t k = 0; k < manifest->member_count; k++) {
        cst_manifest_member *member = &manifest->members[k];
        cst_free(context, member->name);
        cst_free(context, member->family);
        cst_free(context, member->ensemble_of);
        free_list(context, member->paths, manifest->split_count);
        free_list(context, member->ids, manifest->split_count);
    }
    for (int32_t s = 0; s < manifest->split_count; s++)
        free_split(context, &manifest->splits[s]);
    free_list(context, manifest->class_names, manifest->classes);
    free_list(context, manifest->output_names, manifest->outputs);
    cst_reference_errors_free(context, &manifest->reference_errors);
    cst_free(context, manifest->training_counts);
    cst_free(context, manifest->training_counts_file);
    cst_free(context, manifest->splits);
    cst_free(context, manifest->split_order);
    cst_free(context, manifest->member_order);
    cst_free(context, manifest->members);
    for (size_t i = 0; i < manifest->parts_count; i++) {
        cst_file_parts_clear(context, manifest->parts[i]);
        cst_free(context, manifest->parts[i]);
    }
    cst_free(context, (void *)manifest->parts);
    for (int32_t i = 0; i < manifest->given_count; i++)
        cst_free(context, manifest->given[i]);
    cst_free(context, manifest->own_labels);
    cst_free(context, manifest->folder);
    cst_free(context, manifest->path);
    cst_free(context, manifest);
}

static const char *split_name(const cst_manifest *manifest, int32_t split) {
    return manifest->splits[split].name;
}

static const char *member_name(const cst_manifest *manifest, int32_t member) {
    return manifest->members[member].name;
}

typedef const char *name_fn(const cst_manifest *manifest, int32_t position);

/* The place in order[count], positions by name, of `name`, or where it belongs. */
static int32_t place_of(const cst_manifest *manifest, name_fn *name_at, const int32_t *order,
                        int32_t count, const char *name) {
    int32_t first = 0;
    while (first < count) {
        int32_t middle = first + (count - first) / 2;
        if (strcmp(name_at(manifest, order[middle]), name) < 0)
            first = middle + 1;
        else
            count = middle;
    }
    return first;
}

static int32_t find(const cst_manifest *manifest, name_fn *name_at, const int32_t *order,
                    int32_t count, const char *name) {
    int32_t place = place_of(manifest, name_at, order, count, name);
    return place < count && strcmp(name_at(manifest, order[place]), name) == 0 ? order[place] : -1;
}

/* Enters position `count`, whose name is there already, into order[count], which has room. */
static void enter(const cst_manifest *manifest, name_fn *name_at, int32_t *order, int32_t count) {
    int32_t place = place_of(manifest, name_at, order, count, name_at(manifest, count));
    memmove(order + place + 1, order + place, (size_t)(count - place) * sizeof *order);
    order[place] = count;
}

int32_t cst_manifest_find_split(const cst_manifest *manifest, const char *name) {
    return find(manifest, split_name, manifest->split_order, manifest->split_count, name);
}

int32_t cst_manifest_find_member(const cst_manifest *manifest, const char *name) {
    return find(manifest, member_name, manifest->member_order, manifest->member_count, name);
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
    size_t count = (size_t)manifest->split_count;
    cst_manifest_split *splits = cst_grow_list(context, manifest->splits, count, sizeof *splits);
    if (!splits)
        return CST_ERROR_MEMORY;
    manifest->splits = splits;
    int32_t *order = cst_grow_list(context, manifest->split_order, count, sizeof *order);
    if (!order)
        return CST_ERROR_MEMORY;
    manifest->split_order = order;
    splits[count] = (cst_manifest_split){.name = cst_strdup(context, name)};
    if (!splits[count].name)
        return CST_ERROR_MEMORY;
    enter(manifest, split_name, order, manifest->split_count);
    *out = manifest->split_count++;
    return CST_OK;
}

/* ---- one split more ---- */

cst_status cst_manifest_with_split(cst_context *context, const cst_manifest *manifest, int32_t like,
                                   char *name, cst_manifest *out) {
    size_t splits = (size_t)manifest->split_count;
    *out = *manifest;
    out->splits = cst_alloc(context, splits + 1, sizeof *out->splits);
    out->split_order = cst_alloc(context, splits + 1, sizeof *out->split_order);
    out->members = cst_alloc(context, (size_t)manifest->member_count, sizeof *out->members);
    if (!out->splits || !out->split_order || !out->members)
        return CST_ERROR_MEMORY;
    memcpy(out->splits, manifest->splits, splits * sizeof *out->splits);
    memcpy(out->split_order, manifest->split_order, splits * sizeof *out->split_order);
    out->splits[splits] = manifest->splits[like];
    out->splits[splits].name = name;
    enter(out, split_name, out->split_order, manifest->split_count);
    out->split_count++;
    for (int32_t k = 0; k < manifest->member_count; k++) {
        const cst_manifest_member *from = &manifest->members[k];
        cst_manifest_member *to = &out->members[k];
        *to = *from;
        to->paths = cst_alloc(context, splits + 1, sizeof *to->paths);
        to->ids = cst_alloc(context, splits + 1, sizeof *to->ids);
        if (!to->paths || !to->ids)
            return CST_ERROR_MEMORY;
        memcpy(to->paths, from->paths, splits * sizeof *to->paths);
        memcpy(to->ids, from->ids, splits * sizeof *to->ids);
        to->paths[splits] = from->paths[like];
        to->ids[splits] = from->ids[like];
    }
    return CST_OK;
}

void cst_manifest_without_split(cst_context *context, cst_manifest *manifest) {
    for (int32_t k = 0; manifest->members && k < manifest->member_count; k++) {
        cst_free(context, manifest->members[k].paths);
        cst_free(context, manifest->members[k].ids);
    }
    cst_free(context, manifest->members);
    cst_free(context, manifest->splits);
    cst_free(context, manifest->split_order);
    *manifest = (cst_manifest){0};
}

/* ---- members ---- */

cst_status cst_manifest_add_member(cst_context *context, cst_manifest *manifest, const char *name,
                                   int32_t *out) {
    *out = cst_manifest_find_member(manifest, name);
    if (*out >= 0)
        return CST_OK;
    cst_status status = check_name(context, manifest, "model", name);
    CST_THEN(check_count(context, manifest, manifest->split_count, manifest->member_count + 1));
    if (status != CST_OK)
        return status;
    size_t count = (size_t)manifest->member_count;
    cst_manifest_member *members =
        cst_grow_list(context, manifest->members, count, sizeof *members);
    if (!members)
        return CST_ERROR_MEMORY;
    manifest->members = members;
    int32_t *order = cst_grow_list(context, manifest->member_order, count, sizeof *order);
    if (!order)
        return CST_ERROR_MEMORY;
    manifest->member_order = order;
    cst_manifest_member *member = &members[count];
    *member =
        (cst_manifest_member){.flops = NAN, .params = NAN, .latency_ms = NAN, .memory_bytes = NAN};
    member->name = cst_strdup(context, name);
    member->paths = cst_alloc(context, (size_t)manifest->split_count, sizeof *member->paths);
    member->ids = cst_alloc(context, (size_t)manifest->split_count, sizeof *member->ids);
    if (!member->name || !member->paths || !member->ids) {
        cst_free(context, member->paths);
        cst_free(context, member->ids);
        cst_free(context, member->name);
        return CST_ERROR_MEMORY;
    }
    enter(manifest, member_name, order, manifest->member_count);
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
    manifest->folder = cst_strdup(context, real);
    free(real);
    return manifest->folder ? CST_OK : CST_ERROR_MEMORY;
}

cst_status cst_manifest_allow(cst_context *context, cst_manifest *manifest, const char *path) {
    if (manifest->given_count == CST_MANIFEST_GIVEN_MAX)
        return cst_fail(context, CST_ERROR_INTERNAL, "%s: too many paths", path);
    char *copy = cst_strdup(context, path);
    if (!copy)
        return CST_ERROR_MEMORY;
    manifest->given[manifest->given_count++] = copy;
    return CST_OK;
}

/* Whether the caller named `path`, or a folder above it that it is written from. */
static bool is_given(const cst_manifest *manifest, const char *path) {
    for (int32_t i = 0; i < manifest->given_count; i++)
        if (strcmp(manifest->given[i], path) == 0 || is_inside(manifest->given[i], path))
            return true;
    return false;
}

/* Whether `real`, which `path` leads to, is in the manifest's folder. */
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

/* Confines one file. */
static cst_status confine(cst_context *context, const cst_manifest *manifest, const char *path) {
    char *copy = cst_strdup(context, path);
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
    cst_free(context, copy);
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

/* The place of `name`, or where it belongs. */
static size_t place_of_parts(const cst_manifest *manifest, const char *name) {
    size_t first = 0;
    size_t count = manifest->parts_count;
    while (first < count) {
        size_t middle = first + (count - first) / 2;
        if (strcmp(manifest->parts[middle]->name, name) < 0)
            first = middle + 1;
        else
            count = middle;
    }
    return first;
}

const cst_file_parts *cst_manifest_parts(const cst_manifest *manifest, const char *path) {
    size_t place = manifest->parts_count > 0 ? place_of_parts(manifest, path) : 0;
    return place < manifest->parts_count && strcmp(manifest->parts[place]->name, path) == 0
               ? manifest->parts[place]
               : NULL;
}

static bool same_files(const cst_file_parts *a, const cst_file_parts *b) {
    bool same = a->count == b->count;
    for (int64_t k = 0; same && k < a->count; k++)
        same = strcmp(a->paths[k], b->paths[k]) == 0;
    return same;
}

/* A name that no other list has: *known is the list where it is there already. */
static cst_status name_parts(cst_context *context, const cst_manifest *manifest,
                             cst_file_parts *parts, const char *folder,
                             const cst_file_parts **known) {
    for (int other = 1;; other++) {
        char number[32] = "";
        if (other > 1)
            (void)cst_snprintf(number, sizeof number, ", list %d", other);
        parts->name =
            folder && other == 1
                ? cst_strdup(context, folder)
                : cst_format(context, "%s and %lld more part%s%s", parts->paths[0],
                             (long long)parts->count - 1, parts->count > 2 ? "s" : "", number);
        if (!parts->name)
            return CST_ERROR_MEMORY;
        *known = cst_manifest_parts(manifest, parts->name);
        if (!*known || same_files(*known, parts))
            return CST_OK;
        cst_free(context, parts->name);
        parts->name = NULL;
    }
}

cst_status cst_manifest_add_parts(cst_context *context, cst_manifest *manifest,
                                  cst_file_parts *parts, const char *folder, char **name) {
    const cst_file_parts *known = NULL;
    *name = NULL;
    cst_status status = name_parts(context, manifest, parts, folder, &known);
    if (status == CST_OK && manifest->parts_files + parts->count > CST_MANIFEST_FILES_MAX)
        status = cst_fail(context, CST_ERROR_LIMIT, "%s: more than %d parts", manifest->path,
                          CST_MANIFEST_FILES_MAX);
    if (status == CST_OK) {
        *name = cst_strdup(context, parts->name);
        status = *name ? CST_OK : CST_ERROR_MEMORY;
    }
    cst_file_parts *kept = NULL;
    cst_file_parts **list = NULL;
    if (status == CST_OK && !known) {
        kept = cst_alloc(context, 1, sizeof *kept);
        list = (cst_file_parts **)cst_grow_list(context, (void *)manifest->parts,
                                                manifest->parts_count, sizeof *list);
        manifest->parts = list ? list : manifest->parts;
        status = kept && list ? CST_OK : CST_ERROR_MEMORY;
    }
    if (status != CST_OK || known) {
        cst_free(context, kept);
        cst_file_parts_clear(context, parts);
        return status;
    }
    size_t place = place_of_parts(manifest, parts->name);
    memmove((void *)(list + place + 1), (void *)(list + place),
            (manifest->parts_count - place) * sizeof *list);
    *kept = *parts;
    *parts = (cst_file_parts){0};
    list[place] = kept;
    manifest->parts_count++;
    manifest->parts_files += kept->count;
    return CST_OK;
}
