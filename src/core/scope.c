/* Scopes. Small arrays share chunks; large ones are allocated one by one. */
#include "core/scope.h"

#include "core/context.h"

#include <string.h>

enum { ALIGNMENT = 64, FIRST_CHUNK = 1024, CHUNK = 8192, SMALL = 1024 };

#if defined(__SANITIZE_ADDRESS__)
#define EVERY_ARRAY_ALONE
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EVERY_ARRAY_ALONE
#endif
#endif

/* In front of an array of its own, or alone for an object. */
typedef struct cst_scope_entry {
    struct cst_scope_entry *next;
    cst_release_fn release; /* NULL: only memory */
    void *object;
} cst_scope_entry;

_Static_assert(sizeof(cst_scope_entry) <= ALIGNMENT, "an entry is in front of aligned memory");

/* An entry with `bytes` zeroed bytes after it. */
static cst_scope_entry *add_entry(cst_context *context, cst_scope *scope, size_t bytes) {
    size_t padded = 0;
    cst_scope_entry *entry =
        cst_alloc(context, cst_size_add(bytes, ALIGNMENT, &padded) ? padded : SIZE_MAX, 1);
    if (!entry)
        return NULL;
    entry->next = scope->last;
    scope->last = entry;
    scope->root = cst_context_root(context);
    return entry;
}

void *cst_take(cst_context *context, cst_scope *scope, size_t count, size_t size) {
    size_t bytes = 0;
    if (!cst_size_mul(count, size, &bytes))
        return cst_alloc(context, count, size); /* records the error */
    bool small = bytes <= SMALL;
#ifdef EVERY_ARRAY_ALONE
    small = false; /* so that an overflow is seen */
#endif
    if (!small) {
        cst_scope_entry *entry = add_entry(context, scope, bytes);
        return entry ? (char *)entry + ALIGNMENT : NULL;
    }
    bytes = bytes > 0 ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    if (bytes > scope->left) {
        size_t chunk = scope->last ? CHUNK : FIRST_CHUNK;
        cst_scope_entry *entry = add_entry(context, scope, chunk);
        if (!entry)
            return NULL;
        scope->room = (char *)entry + ALIGNMENT;
        scope->left = chunk;
    }
    void *taken = scope->room;
    scope->room += bytes;
    scope->left -= bytes;
    return taken;
}

char *cst_take_text(cst_context *context, cst_scope *scope, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = cst_take(context, scope, bytes, 1);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

char *cst_take_format(cst_context *context, cst_scope *scope, const char *format, ...) {
    va_list args;
    va_list again;
    va_start(args, format);
    va_copy(again, args);
    int length = cst_vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : cst_take(context, scope, (size_t)length + 1, 1);
    if (text)
        (void)cst_vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

cst_status cst_scope_own(cst_context *context, cst_scope *scope, cst_release_fn release,
                         void *object) {
    cst_scope_entry *entry = add_entry(context, scope, 0);
    if (!entry) {
        release(context, object);
        return CST_ERROR_MEMORY;
    }
    entry->release = release;
    entry->object = object;
    return CST_OK;
}

static void release_scope(cst_context *context, void *scope) {
    (void)context;
    cst_scope_free(scope);
}

cst_status cst_scope_take(cst_context *context, cst_scope *scope, cst_scope **out) {
    CST_TAKE(context, scope, *out, 1);
    return cst_scope_own(context, scope, release_scope, *out);
}

void cst_scope_free(cst_scope *scope) {
    while (scope->last) {
        cst_scope_entry *entry = scope->last;
        scope->last = entry->next;
        if (entry->release)
            entry->release(scope->root, entry->object);
        cst_free(scope->root, entry);
    }
    *scope = (cst_scope){0};
}
