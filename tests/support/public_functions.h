/*
 * Every public function, in a table that the build generates from the headers
 * (tests/faults/public_functions.awk), so that a rule for all functions is tested on new ones too.
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
    /* With NULL and 0 for all but the context; CST_OK if the function has no status. */
    cst_status (*call)(cst_context *context);
} public_function;

#include "public_functions_table.h"

enum { PUBLIC_COUNT = sizeof PUBLIC / sizeof PUBLIC[0] };

#endif
