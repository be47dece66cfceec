/*
 * Two ranks with own rows that read the very same files on one machine, whose rows would count
 * twice. When a split is loaded. Paper: none.
 */
#include "comm/sockets.h"
#include "pool/own.h"

#include <string.h>
#include <sys/stat.h>

static void identify(const char *path, cst_own_file *out) {
    struct stat file;
    if (path && stat(path, &file) == 0)
        *out = (cst_own_file){(uint64_t)file.st_dev, (uint64_t)file.st_ino};
}

void cst_own_identify(const cst_pool *pool, int32_t split, cst_own_files *out) {
    const cst_manifest *m = pool->manifest;
    *out = (cst_own_files){.kernel = ""};
    cst_kernel(out->kernel, sizeof out->kernel);
    if (m->member_count < 1 || !m->members[0].paths[split])
        return; /* arrays */
    identify(m->path, &out->manifest);
    identify(pool->own->splits[split].local->labels_path, &out->labels);
}

static bool is_same(const cst_own_file *a, const cst_own_file *b) {
    return a->inode != 0 && a->inode == b->inode && a->device == b->device;
}

cst_status cst_own_once(cst_context *context, const cst_pool *pool, int32_t split,
                        const cst_own_files *mine, const cst_own_files *other, int rank) {
    bool manifest = is_same(&mine->manifest, &other->manifest);
    if ((!manifest && !is_same(&mine->labels, &other->labels)) ||
        strcmp(mine->kernel, other->kernel) != 0)
        return CST_OK;
    return cst_fail(context, CST_ERROR_INPUT,
                    "%s: rank %d on the same machine reads the same file, so its rows would count "
                    "twice; give each rank files of its own, for example in 'part-{rank}'",
                    manifest ? pool->manifest->path : pool->own->splits[split].local->labels_path,
                    rank);
}
