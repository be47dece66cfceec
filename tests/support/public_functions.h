/*
 * Every public function, from a table that the build makes out of the headers
 * (tests/faults/public_functions.awk): what holds for all of them is tested for all of them, new
 * ones too.
 */
#ifndef PUBLIC_FUNCTIONS_H
#define PUBLIC_FUNCTIONS_H

#include <corestack/context.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct public_function {
    const char *name;
    const char *kinds; /* one letter a parameter: public_functions.awk */
    bool has_status;
    /* NULL and 0 everywhere, but the context, and `handle` in the place'th parameter. CST_OK where
     * the function gives no status. */
    cst_status (*call)(cst_context *context, void *handle, int place);
} public_function;

#include "public_functions_table.h"

enum { PUBLIC_COUNT = sizeof PUBLIC / sizeof PUBLIC[0] };

#endif
