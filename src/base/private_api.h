/*
 * Which internal functions libcorestack-weights takes from libcorestack. Paper: none.
 */
#ifndef CST_BASE_PRIVATE_API_H
#define CST_BASE_PRIVATE_API_H

#include <corestack/export.h>

/* Exported under the version node CORESTACK_PRIVATE (cmake/corestack.map.in lists the functions),
 * which programs may not use: such a function may change in any version. */
#define CST_PRIVATE_API CST_API

#endif
