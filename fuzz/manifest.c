/*
 * Fuzz target: pool manifests. No file that an accepted manifest names lies outside its folder,
 * also not through the link that stands there. src/io/manifest.h.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include "io/manifest.h"
#include "common/fuzz.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A path of the manifest: inside the folder, whatever of it exists. */
static void check_path(const cst_manifest *manifest, const char *path) {
    char real[PATH_MAX];
    char whole[PATH_MAX];
    if (!path)
        return;
    FUZZ_CHECK(strlen(path) < sizeof whole, "paths are not longer than the system's");
    (void)strcpy(whole, path);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file("pool.json", data, size);
    char link[600];
    (void)strcpy(link, fuzz_folder());
    (void)strcat(link, "/out");
    if (access(link, F_OK) != 0)
        FUZZ_CHECK(symlink("/etc", link) == 0, "a link that leads out of the folder");
    cst_context *context = fuzz_begin(size, 256);
    cst_manifest *manifest = NULL;
    if (fuzz_good(context, cst_manifest_read(context, &manifest, path, false), false))
        check(manifest);
    cst_manifest_free(context, manifest);
    fuzz_end(context);
    (void)unlink(link);
    return 0;
}
