/* Checked allocation: zeroed, aligned, with the error recorded; large arrays count towards the
 * budget of their context (large.h). */
#include "core/buffer.h"
#include "core/context.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, COPY_BYTES = 4 << 20, COUNTED_BYTES = 1 << 16 };

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
    char *user = cst_large_map(context, &root->large, bytes);
    block_head head = {.large = &root->large};
    if (user)
        memcpy(user - sizeof head, &head, sizeof head);
    return user;
}

/* Zeroed. The system gives large arrays as zeros, page by page when they are first used: filling
 * one of several GiB here would take seconds in which nobody asks whether to stop. */
static char *alloc_raw(cst_context *context, size_t bytes) {
    if (context->realloc_fn == cst_default_realloc)
        return calloc(1, bytes);
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
        if (!cst_large_hold(&root->large, bytes, root->memory / 8 * eighths))
            return alloc_mapped(context, bytes);
        head = (block_head){.held = bytes, .large = &root->large};
    }
    head.raw = alloc_raw(context, padded);
    if (!head.raw) {
        if (head.large)
            cst_large_release(head.large, bytes);
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
        cst_large_unmap(head.large, pointer);
        return;
    }
    if (head.large)
        cst_large_release(head.large, head.held);
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
