/*
 * One table that holds several members: ids, labels, folds, groups and weights next to a column for
 * each member, or several for each. When a pool is opened. docs/pool.md.
 */
#ifndef CST_POOL_WIDE_H
#define CST_POOL_WIDE_H

#include "data/pool/state.h"

/* Describes the members of the table at `path` in `manifest`, whose one split exists, where it
 * holds several; else *wide is false and nothing is added. Labels etc. that the manifest names
 * already stay. *said: what each column is, the caller's; NULL where it is no such table. */
cst_status cst_wide_describe(cst_context *context, cst_manifest *manifest, const char *path,
                             const cst_pool_config *config, bool *wide, char **said);

#endif
