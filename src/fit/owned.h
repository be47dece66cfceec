/* Objects with a free function of their own, which a scope frees. */
#ifndef CST_FIT_OWNED_H
#define CST_FIT_OWNED_H

#include "core/scope.h"

/* Declares how a scope frees a `type`: by type_free. */
#define CST_OWNED(type)                                                                            \
    static inline void type##_release(cst_context *context, void *object) {                        \
        type##_free(context, object);                                                              \
    }

/* The scope frees *object, which may still be empty, or the function returns CST_ERROR_MEMORY. */
#define CST_OWN(context, scope, type, object)                                                      \
    CST_TRY(cst_scope_own(context, scope, type##_release, object))

#endif
