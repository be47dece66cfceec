/* Checked allocation: zeroed, aligned, with the error recorded. Large arrays count towards the
 * budget of their context, and beyond three eighths of it live in unlinked temporary files that are
 * mapped. docs/architecture.md#memory. */
#define _GNU_SOURCE /* O_TMPFILE, madvise */
#include "core/context.h"
#include "core/retry.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>

enum { ALIGNMENT = 64, COPY_BYTES = 4 << 20, COUNTED_BYTES = 1 << 16, HUGE_FROM = 8 << 20 };

void *cst_default_realloc(void *user, void *pointer, size_t bytes) {
    (void)user;
    if (bytes == 0) {
        free(pointer);
        return NULL;
    }
    return realloc(pointer, bytes);
}

bool cst_size_mul(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

bool cst_size_add(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

/* Asks for memory, which is not touched, instead of looking at limits, for there are several: of
 * addresses (ulimit -v), of data (ulimit -d), of what the system promises in all. */
bool cst_has_room(size_t bytes, bool promised) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (promised ? 0 : MAP_NORESERVE);
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    return room != MAP_FAILED && munmap(room, bytes) == 0;
}

/* ---- large arrays in files that are mapped ---- */

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

/* Counts `bytes` (of a large array) into memory if the sum stays at or below `limit`. */
static bool hold(cst_large *large, size_t bytes, size_t limit) {
    (void)pthread_mutex_lock(&large->lock);
    bool fits = bytes <= limit && large->held <= limit - bytes;
    if (fits)
        large->held += bytes;
    (void)pthread_mutex_unlock(&large->lock);
    return fits;
}

static void release(cst_large *large, size_t bytes) {
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

/* `bytes` zero bytes of a new unlinked file in $TMPDIR or /tmp, all of them reserved on disk. */
static void *map_large(cst_context *context, cst_large *large, size_t bytes) {
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

static void unmap_large(cst_large *large, void *pointer) {
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

void cst_trim(cst_context *context) {
    cst_large *large = &cst_context_root(context)->large;
    size_t limit = cst_context_root(context)->memory;
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

/* ---- arrays ---- */

/* Just before the address that the caller gets. */
typedef struct block_head {
    char *raw;        /* what the allocator gave; NULL for a mapped array */
    size_t held;      /* bytes counted as held by `large`, or 0 */
    cst_large *large; /* who counts it or maps it, or NULL */
} block_head;

static block_head head_of(const void *pointer) {
    block_head head;
    memcpy(&head, (const char *)pointer - sizeof head, sizeof head);
    return head;
}

/* A large array that no longer fits in three eighths of the budget. */
static void *alloc_mapped(cst_context *context, size_t bytes) {
    cst_context *root = cst_context_root(context);
    char *user = map_large(context, &root->large, bytes);
    block_head head = {.large = &root->large};
    if (user)
        memcpy(user - sizeof head, &head, sizeof head);
    return user;
}

/* Asks for pages of 2 MiB: on virtual machines a first touch of a page can take 10 microseconds. */
static char *in_huge_pages(char *raw, size_t bytes) {
#ifdef MADV_HUGEPAGE
    if (raw && bytes >= HUGE_FROM) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        size_t skipped = page - (uintptr_t)raw % page;
        (void)madvise(raw + skipped, (bytes - skipped) / page * page, MADV_HUGEPAGE);
    }
#else
    (void)bytes;
#endif
    return raw;
}

/* Zeroed. The system gives large arrays as zeros, page by page when they are first used: filling
 * one of several GiB here would take seconds in which nobody asks whether to stop. */
static char *alloc_raw(cst_context *context, size_t bytes) {
    if (context->realloc_fn == cst_default_realloc)
        return in_huge_pages(calloc(1, bytes), bytes);
    char *raw = context->realloc_fn(context->realloc_user, NULL, bytes);
    if (raw)
        memset(raw, 0, bytes);
    return raw;
}

/* From how many bytes on an array is large. */
static size_t least_large(const cst_context *root) {
    return root->memory / 32 < root->large.least ? root->memory / 32 : root->large.least;
}

/* least: bytes from which on it is counted; eighths: of the budget that counted arrays in memory
 * may take before this one is mapped. */
static void *allocate(cst_context *context, size_t count, size_t size, size_t least,
                      size_t eighths) {
    size_t bytes = 0;
    size_t padded = 0;
    block_head head = {0};
    if (!cst_size_mul(count, size, &bytes) ||
        !cst_size_add(bytes, ALIGNMENT + sizeof head, &padded) || padded > PTRDIFF_MAX) {
        (void)cst_fail(context, CST_ERROR_MEMORY,
                       "size overflow: %zu elements of %zu bytes do not fit into memory", count,
                       size);
        return NULL;
    }
    /* A caller with an allocator of its own wants every byte from there. */
    cst_context *root = cst_context_root(context);
    if (bytes >= least && context->realloc_fn == cst_default_realloc) {
        cst_trim(context);
        if (!hold(&root->large, bytes, root->memory / 8 * eighths))
            return alloc_mapped(context, bytes);
        head = (block_head){.held = bytes, .large = &root->large};
    }
    head.raw = alloc_raw(context, padded);
    if (!head.raw) {
        if (head.large)
            release(head.large, bytes);
        (void)cst_fail(
            context, CST_ERROR_MEMORY,
            "out of memory: %zu bytes were requested; use fewer rows or members, or more memory",
            bytes);
        return NULL;
    }
    uintptr_t start = (uintptr_t)head.raw + sizeof head;
    uintptr_t aligned = (start + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    char *user = head.raw + (aligned - (uintptr_t)head.raw);
    memcpy(user - sizeof head, &head, sizeof head);
    return user;
}

void *cst_alloc(cst_context *context, size_t count, size_t size) {
    return allocate(context, count, size, least_large(cst_context_root(context)), 3);
}

void *cst_alloc_counted(cst_context *context, size_t count, size_t size) {
    return allocate(context, count, size, COUNTED_BYTES, 3);
}

void *cst_alloc_scattered(cst_context *context, size_t count, size_t size) {
    return allocate(context, count, size, least_large(cst_context_root(context)), 7);
}

void cst_free(cst_context *context, void *pointer) {
    if (!pointer || !context)
        return;
    block_head head = head_of(pointer);
    if (head.large && !head.raw) {
        unmap_large(head.large, pointer);
        return;
    }
    if (head.large)
        release(head.large, head.held);
    context->realloc_fn(context->realloc_user, head.raw, 0);
}

void cst_copy(cst_context *context, void *to, const void *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += COPY_BYTES) {
        size_t left = bytes - at;
        if (bytes > COPY_BYTES)
            cst_trim(context);
        memcpy((char *)to + at, (const char *)from + at, left < COPY_BYTES ? left : COPY_BYTES);
    }
}

void *cst_grow(cst_context *context, void *pointer, size_t old_count, size_t count, size_t size) {
    void *grown = cst_alloc(context, count, size);
    if (!grown)
        return NULL;
    if (pointer) {
        size_t keep = old_count < count ? old_count : count;
        cst_copy(context, grown, pointer, keep * size);
        cst_free(context, pointer);
    }
    return grown;
}

void *cst_grow_list(cst_context *context, void *list, size_t count, size_t size) {
    if (count & (count - 1))
        return list;
    return cst_grow(context, list, count, count ? 2 * count : 1, size);
}

char *cst_strdup(cst_context *context, const char *text) {
    size_t length = strlen(text);
    char *copy = cst_alloc(context, length + 1, 1);
    if (copy)
        memcpy(copy, text, length + 1);
    return copy;
}

char *cst_format(cst_context *context, const char *format, ...) {
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int length = cst_vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : cst_alloc(context, (size_t)length + 1, 1);
    if (text)
        (void)cst_vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

/* ---- growing bytes ---- */

void cst_buffer_add(cst_buffer *buffer, const void *bytes, size_t count) {
    if (buffer->status != CST_OK)
        return;
    if (count >= buffer->room - buffer->used) { /* also the first time, so that there is a NUL */
        size_t room = 2 * (buffer->used + count + 1); /* both are in memory: no overflow */
        char *grown = cst_grow(buffer->context, buffer->bytes, buffer->used, room, 1);
        if (!grown) {
            buffer->status = CST_ERROR_MEMORY;
            return;
        }
        buffer->bytes = grown;
        buffer->room = room;
    }
    memcpy(buffer->bytes + buffer->used, bytes, count);
    buffer->used += count;
    buffer->bytes[buffer->used] = '\0';
}

void cst_buffer_add_text(cst_buffer *buffer, const char *text) {
    cst_buffer_add(buffer, text, strlen(text));
}
