/* Scopes: memory and objects that are freed together, at the end of a block or with an object. */
#pragma once

#include "core/base.h"

/* Zero is an empty scope. One thread at a time. */
typedef struct cst_scope {
    cst_context *root; /* frees what was taken; set by the first of it */
    struct cst_scope_entry *last;
    char *room; /* the rest of a chunk for small arrays */
    size_t left;
} cst_scope;

/* count * size zeroed bytes, 64-byte aligned, that live as long as the scope (a count of 0 gives a
 * valid pointer). NULL with the error recorded on failure. Large arrays count towards the memory
 * budget as those of cst_alloc do. */
void *cst_take(cst_context *context, cst_scope *scope, size_t count, size_t size);

char *cst_take_text(cst_context *context, cst_scope *scope, const char *text);
char *cst_take_format(cst_context *context, cst_scope *scope, const char *format, ...)
    CST_PRINTF(3, 4);

/* A scope that ends with another one, or before. */
cst_status cst_scope_take(cst_context *context, cst_scope *scope, cst_scope **out);

/* release(root context, object) runs when the scope is freed, and at once if this fails. It must
 * not read what was taken after this call: that is freed first. */
typedef void (*cst_release_fn)(cst_context *context, void *object);
cst_status cst_scope_own(cst_context *context, cst_scope *scope, cst_release_fn release,
                         void *object);

/* CST_OWNED(type) declares type_release, which calls type_free; CST_RELEASED names the function. */
#define CST_OWNED(type) CST_RELEASED(type, type##_free)
#define CST_RELEASED(type, function)                                                               \
    static inline void type##_release(cst_context *context, void *object) {                        \
        function(context, object);                                                                 \
    }

/* The scope frees *object, which may still be empty, or the function returns CST_ERROR_MEMORY. */
#define CST_OWN(context, scope, type, object)                                                      \
    CST_TRY(cst_scope_own(context, scope, type##_release, object))

/* Frees everything, the last taken first, and leaves the scope empty. */
void cst_scope_free(cst_scope *scope);

/* Declares `scope`, the address of a scope that ends with the block. */
#define CST_SCOPE(scope)                                                                           \
    __attribute__((cleanup(cst_scope_free))) cst_scope scope##_here = {0};                         \
    cst_scope *const scope = &scope##_here

/* pointer = count zeroed elements, or returns CST_ERROR_MEMORY from the function. */
#define CST_TAKE(context, scope, pointer, count)                                                   \
    do {                                                                                           \
        (pointer) = cst_take(context, scope, (size_t)(count), sizeof *(pointer));                  \
        if (!(pointer))                                                                            \
            return CST_ERROR_MEMORY;                                                               \
    } while (0)

/* Declares the pointer too: CST_NEW(context, scope, double, sums, rows); */
#define CST_NEW(context, scope, type, name, count)                                                 \
    type *name = cst_take(context, scope, (size_t)(count), sizeof *(name));                        \
    if (!(name))                                                                                   \
    return CST_ERROR_MEMORY
