/*
 * Hashes of contents: XXH3 of 128 bits, for telling whether two files hold the same bytes, and
 * for predictions kept by content. Paper: none.
 */
#ifndef CST_WEIGHTS_HASH_H
#define CST_WEIGHTS_HASH_H

#include "base/base.h"

/* A hash that is being made. */
typedef struct cst_hash cst_hash;

cst_status cst_hash_create(cst_context *context, cst_hash **out);
void cst_hash_free(cst_context *context, cst_hash *hash);
void cst_hash_add(cst_hash *hash, const void *data, size_t bytes);
/* Of what was added so far: upper and lower 64 bits, as xxh128sum prints them one after the other.
 */
void cst_hash_digest(const cst_hash *hash, uint64_t out[2]);

/* Of `bytes` bytes of memory. */
void cst_hash_memory(const void *data, size_t bytes, uint64_t out[2]);
/* Of the bytes of a plain file, which must not be empty. */
cst_status cst_hash_file(cst_context *context, const char *path, uint64_t out[2]);

#endif
