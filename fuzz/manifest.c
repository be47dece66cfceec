/*
 * Fuzz target: pool manifests. No file that an accepted manifest names lies outside its folder,
 * also not through the links that stand there, whose names look like those of archives and their
 * arrays. src/data/readers/manifest.h.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include "data/readers/manifest.h"
#include "common/fuzz.h"
#include "data/files/bytes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first `part` bytes of a path: inside the folder, whatever of it exists. */
static void check_part(const cst_manifest *manifest, const char *path, size_t part) {
    char real[PATH_MAX];
    char whole[PATH_MAX];
    FUZZ_CHECK(part < sizeof whole, "paths are not longer than the system's");
    memcpy(whole, path, part);
    whole[part] = '\0';
    /* The longest part that exists: what is missing below it cannot lead elsewhere. */
    while (!realpath(whole, real)) {
        char *slash = strrchr(whole, '/');
        FUZZ_CHECK(slash && slash != whole, "the folder exists");
        *slash = '\0';
    }
    size_t length = strlen(manifest->folder);
    FUZZ_CHECK(strncmp(real, manifest->folder, length) == 0 &&
                   (real[length] == '/' || real[length] == '\0'),
               "files stay in the manifest's folder");
}

/* A path of the manifest, and the archive in it. */
static void check_path(const cst_manifest *manifest, const char *path) {
    if (!path)
        return;
    const cst_file_parts *parts = cst_manifest_parts(manifest, path);
    for (int64_t k = 0; parts && k < parts->count; k++)
        check_part(manifest, parts->paths[k], strlen(parts->paths[k]));
    if (parts)
        return;
    check_part(manifest, path, strlen(path));
    if (cst_path_member(path))
        check_part(manifest, path, cst_path_member(path));
}

static void check(const cst_manifest *m) {
    for (int32_t s = 0; s < m->split_count; s++) {
        const cst_manifest_split *split = &m->splits[s];
        FUZZ_CHECK(split->name && cst_manifest_find_split(m, split->name) == s, "splits by name");
        check_path(m, split->labels);
        check_path(m, split->ids);
        check_path(m, split->folds);
        check_path(m, split->groups);
        check_path(m, split->weights);
        check_path(m, split->annotations);
        FUZZ_CHECK(split->condition_count >= 0 &&
                       (split->condition_count == 0 || split->conditions),
                   "conditions");
    }
    for (int32_t k = 0; k < m->member_count; k++) {
        const cst_manifest_member *member = &m->members[k];
        FUZZ_CHECK(member->name && cst_manifest_find_member(m, member->name) == k,
                   "members by name");
        for (int32_t s = 0; s < m->split_count; s++) {
            check_path(m, member->paths[s]);
            check_path(m, member->ids[s]);
        }
    }
    check_path(m, m->training_counts_file);
    FUZZ_CHECK(m->classes >= 0 && m->outputs >= 0 && m->member_count >= 1 && m->split_count >= 1,
               "counts");
}

/* Ways out of the folder, one of each kind, and one that stays inside. */
static const char *const LINKS[][2] = {
    {"out", "/etc"}, {"out.npz#", "/etc"}, {"out.npz", "/etc/passwd"}, {"in", "in.npz#"}};
enum { LINK_COUNT = sizeof LINKS / sizeof LINKS[0] };

static const char *link_path(int link, char path[PATH_MAX]) {
    (void)snprintf(path, PATH_MAX, "%s/%s", fuzz_folder(), LINKS[link][0]);
    return path;
}

static void remove_links(void) {
    char path[PATH_MAX];
    for (int i = 0; i < LINK_COUNT; i++)
        (void)unlink(link_path(i, path));
}

static void make_links(void) {
    static bool made;
    char path[PATH_MAX];
    for (int i = 0; !made && i < LINK_COUNT; i++)
        FUZZ_CHECK(symlink(LINKS[i][1], link_path(i, path)) == 0, "a link");
    if (!made)
        (void)atexit(remove_links); /* before the folder, which was made earlier */
    made = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file("pool.json", data, size);
    (void)fuzz_file("in.npz#/x.npy", "", 0);
    make_links();
    cst_context *context = fuzz_begin(size, 256);
    cst_manifest *manifest = NULL;
    if (fuzz_good(context, cst_manifest_read_as(context, &manifest, path, false, NULL), false))
        check(manifest);
    cst_manifest_free(context, manifest);
    fuzz_end(context);
    return 0;
}
