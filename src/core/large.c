/* Large arrays in mapped temporary files. Behind cst_alloc. */
#define _GNU_SOURCE /* O_TMPFILE, madvise */
#include "core/large.h"

#include "core/retry.h"

#include <errno.h>
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Microseconds between two looks at the resident size: at least, at most, and the bytes that a
 * process can map in one (64 KiB a fault, some microseconds each, on several threads). */
static const int64_t LOOK_LEAST = 200;
static const int64_t LOOK_MOST = 5000;
static const size_t MAPPED_A_MICROSECOND = 50000;
/* Microseconds between two times that the C library gives back what it keeps of freed arrays. */
static const int64_t GIVE_BACK = 50000;

/* At the beginning of a mapping; the array follows at HEAD_BYTES, which keeps it aligned. */
struct cst_mapping {
    cst_mapping *before;
    cst_mapping *after;
    size_t bytes; /* of the whole mapping */
};

enum { HEAD_BYTES = 4096 };

void cst_large_init(cst_large *large) {
    *large = (cst_large){.least = CST_LARGE_BYTES};
    (void)pthread_mutex_init(&large->lock, NULL);
}

void cst_large_destroy(cst_large *large) {
    (void)pthread_mutex_destroy(&large->lock);
}

bool cst_large_hold(cst_large *large, size_t bytes, size_t limit) {
    (void)pthread_mutex_lock(&large->lock);
    bool fits = bytes <= limit && large->held <= limit - bytes;
    if (fits)
        large->held += bytes;
    (void)pthread_mutex_unlock(&large->lock);
    return fits;
}

void cst_large_release(cst_large *large, size_t bytes) {
    (void)pthread_mutex_lock(&large->lock);
    large->held -= bytes;
    (void)pthread_mutex_unlock(&large->lock);
}

/* A file without a name where the system has such: else a program that is killed between making and
 * removing the name would leave it. -1 with errno set where there is none. */
static int open_temporary(const char *folder, char *name) {
    int file = -1;
#ifdef O_TMPFILE
    file = cst_open_file(folder, O_RDWR | O_TMPFILE | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0)
        return file;
#endif
    file = cst_make_new_file(name);
    if (file >= 0) {
        (void)cst_remove_file(name);
        (void)fcntl(file, F_SETFD, FD_CLOEXEC);
    }
    return file;
}

cst_status cst_temporary_file(cst_context *context, size_t bytes, int *fd) {
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder)
        folder = "/tmp";
    *fd = -1;
    char *path = cst_format(context, "%s/corestack.XXXXXX", folder);
    if (!path)
        return CST_ERROR_MEMORY;
    int file = open_temporary(folder, path);
    int reason = file >= 0 ? cst_reserve(file, (off_t)bytes) : errno;
    cst_free(context, path);
    if (file < 0 || reason != 0) {
        if (file >= 0)
            (void)close(file);
        return cst_fail(context, CST_ERROR_IO,
                        "%s: cannot create a temporary file of %zu bytes: %s; set TMPDIR to a "
                        "folder with enough space, or give more memory",
                        folder, bytes, strerror(reason));
    }
    *fd = file;
    return CST_OK;
}

void *cst_large_map(cst_context *context, cst_large *large, size_t bytes) {
    size_t whole = 0;
    int fd = -1;
    if (!cst_size_add(bytes, HEAD_BYTES, &whole) || whole > PTRDIFF_MAX) {
        (void)cst_fail(context, CST_ERROR_MEMORY, "a size overflows: %zu bytes", bytes);
        return NULL;
    }
    if (cst_temporary_file(context, whole, &fd) != CST_OK)
        return NULL;
    char *start = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int reason = errno;
    (void)close(fd);
    if (start == MAP_FAILED) {
        (void)cst_fail(context, CST_ERROR_MEMORY, "cannot map %zu bytes: %s", whole,
                       strerror(reason));
        return NULL;
    }
    cst_mapping *map = (void *)start;
    map->bytes = whole;
    map->before = NULL;
    (void)pthread_mutex_lock(&large->lock);
    map->after = large->maps;
    if (large->maps)
        large->maps->before = map;
    large->maps = map;
    large->mapped += whole;
    (void)pthread_mutex_unlock(&large->lock);
    return start + HEAD_BYTES;
}

void cst_large_unmap(cst_large *large, void *pointer) {
    cst_mapping *map = (void *)((char *)pointer - HEAD_BYTES);
    (void)pthread_mutex_lock(&large->lock);
    if (map->before)
        map->before->after = map->after;
    else
        large->maps = map->after;
    if (map->after)
        map->after->before = map->before;
    large->mapped -= map->bytes;
    (void)pthread_mutex_unlock(&large->lock);
    (void)munmap(map, map->bytes);
}

/* Resident bytes of the process; 0 where the system does not say. */
static size_t resident(void) {
    char text[128];
    const char *second =
        cst_read_text("/proc/self/statm", text, sizeof text) ? strchr(text, ' ') : NULL;
    long page = sysconf(_SC_PAGESIZE);
    return second && page > 0 ? (size_t)strtoull(second, NULL, 10) * (size_t)page : 0;
}

void cst_large_trim(cst_large *large, size_t limit) {
    int64_t now = (int64_t)(cst_seconds() * 1e6);
    if (now < __atomic_load_n(&large->next_look, __ATOMIC_RELAXED))
        return;
    /* Waits for a thread that is looking: going on would map what it takes out. */
    (void)pthread_mutex_lock(&large->lock);
    if (now < __atomic_load_n(&large->next_look, __ATOMIC_RELAXED)) {
        (void)pthread_mutex_unlock(&large->lock);
        return;
    }
    size_t most = limit / 4 * 3, size = resident();
    bool full = size > most;
    for (cst_mapping *map = large->maps; full && map; map = map->after)
        (void)madvise((char *)map + HEAD_BYTES, map->bytes - HEAD_BYTES, MADV_DONTNEED);
    size_t room = size < limit ? limit - size : 0;
    int64_t wait = (int64_t)(room / MAPPED_A_MICROSECOND);
    wait = wait < LOOK_LEAST ? LOOK_LEAST : wait > LOOK_MOST ? LOOK_MOST : wait;
    __atomic_store_n(&large->next_look, now + wait, __ATOMIC_RELAXED);
#ifdef __GLIBC__
    bool give = full && now - large->given > GIVE_BACK && resident() > most;
    if (give)
        large->given = now;
    (void)pthread_mutex_unlock(&large->lock);
    if (give)
        (void)malloc_trim(0);
#else
    (void)pthread_mutex_unlock(&large->lock);
#endif
}
