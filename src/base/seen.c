/*
 * The table of files that a call has opened, by the hash of their paths. Part of the context.
 * Paper: none.
 */
#include "base/seen.h"

#include "base/context.h"
#include "base/keyed_hash.h"

enum { ROOM_AT_FIRST = 64 };

/* One path. What a file is called is not kept: its hash of 64 bits says enough. */
struct cst_seen_file {
    uint64_t path; /* hash, never 0; 0: the place is free */
    uint64_t device;
    uint64_t inode;
    int64_t size;
    struct timespec written;
    struct timespec changed;
    uint64_t links;
    uint32_t mode;
    uint32_t user;
    uint32_t group;
    bool known; /* else the path was forgotten */
};

static uint64_t hash_path(const cst_seen *seen, const char *path) {
    uint64_t hash = cst_keyed_hash(seen->key, path);
    return hash ? hash : 1;
}

static bool same_time(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool cst_seen_unchanged(const struct stat *before, const struct stat *now) {
    return before->st_size == now->st_size && same_time(&before->st_mtim, &now->st_mtim);
}

/* Whether something other than its bytes, which is of no matter here, changed the file's inode: a
 * hard link, as backups make them, or other rights or owners. */
static bool is_explained(const cst_seen_file *file, const struct stat *info) {
    return file->links != (uint64_t)info->st_nlink || file->mode != (uint32_t)info->st_mode ||
           file->user != (uint32_t)info->st_uid || file->group != (uint32_t)info->st_gid;
}

/* The change of the inode counts as well where nothing explains it: unlike the time of the last
 * writing, nobody can set it back. */
static bool is_same(const cst_seen_file *file, const struct stat *info) {
    return file->device == (uint64_t)info->st_dev && file->inode == (uint64_t)info->st_ino &&
           file->size == (int64_t)info->st_size && same_time(&file->written, &info->st_mtim) &&
           (same_time(&file->changed, &info->st_ctim) || is_explained(file, info));
}

static cst_seen_file describe(uint64_t path, const struct stat *info) {
    return (cst_seen_file){.path = path,
                           .device = (uint64_t)info->st_dev,
                           .inode = (uint64_t)info->st_ino,
                           .size = (int64_t)info->st_size,
                           .written = info->st_mtim,
                           .changed = info->st_ctim,
                           .links = (uint64_t)info->st_nlink,
                           .mode = (uint32_t)info->st_mode,
                           .user = (uint32_t)info->st_uid,
                           .group = (uint32_t)info->st_gid,
                           .known = true};
}

/* The path's place in a table that has a free one: its own, or where it belongs. */
static cst_seen_file *place_of(cst_seen_file *files, size_t room, uint64_t path) {
    size_t at = (size_t)path & (room - 1);
    while (files[at].path != 0 && files[at].path != path)
        at = (at + 1) & (room - 1);
    return &files[at];
}

/* Keeps at least half of the table free. */
static cst_status make_room(cst_context *context, cst_seen *seen) {
    if (2 * (seen->count + 1) <= seen->room)
        return CST_OK;
    if (seen->room == 0)
        cst_keyed_hash_key(seen, seen->key);
    size_t room = seen->room ? 2 * seen->room : ROOM_AT_FIRST;
    cst_seen_file *files = cst_alloc(context, room, sizeof *files);
    if (!files)
        return CST_ERROR_MEMORY;
    for (size_t i = 0; i < seen->room; i++)
        if (seen->files[i].path != 0)
            *place_of(files, room, seen->files[i].path) = seen->files[i];
    cst_free(context, seen->files);
    seen->files = files;
    seen->room = room;
    return CST_OK;
}

cst_status cst_seen_refuse(cst_context *context, const char *path) {
    return cst_fail(context, CST_ERROR_IO,
                    "%s: the file was replaced or changed while it was being read; run the command "
                    "again when nothing writes to it",
                    path);
}

cst_status cst_seen_check(cst_context *context, const char *path, const struct stat *info) {
    cst_seen *seen = &cst_context_told(context)->seen;
    cst_context *root = cst_context_root(context);
    bool same = true;
    if (root->depth == 0) /* no call is at work, which could have seen anything */
        return CST_OK;
    (void)pthread_mutex_lock(&root->seen_lock);
    cst_status status = make_room(context, seen);
    if (status == CST_OK) {
        uint64_t hash = hash_path(seen, path);
        cst_seen_file *file = place_of(seen->files, seen->room, hash);
        seen->count += file->path == 0;
        same = !file->known || is_same(file, info);
        if (same)
            *file = describe(hash, info);
    }
    (void)pthread_mutex_unlock(&root->seen_lock);
    return same ? status : cst_seen_refuse(context, path);
}

void cst_seen_forget(cst_context *context, const char *path) {
    cst_seen *seen = &cst_context_told(context)->seen;
    cst_context *root = cst_context_root(context);
    (void)pthread_mutex_lock(&root->seen_lock);
    if (seen->room > 0)
        place_of(seen->files, seen->room, hash_path(seen, path))->known = false;
    (void)pthread_mutex_unlock(&root->seen_lock);
}

void cst_seen_clear(cst_context *context, cst_seen *seen) {
    cst_free(context, seen->files);
    *seen = (cst_seen){0};
}
