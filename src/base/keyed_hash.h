/*
 * A hash of texts under a key that is not the same in two runs: nobody can make a file of names
 * that all fall on one place of a table, which would take time that grows with the square of their
 * number. Under the tables of ids and of files. Paper: see keyed_hash.c.
 */
#ifndef CST_KEYED_HASH_H
#define CST_KEYED_HASH_H

#include <stdint.h>

/* A key from what a file's author does not know: where `memory` and the stack are, and the time in
 * nanoseconds. Results must not depend on it. */
void cst_keyed_hash_key(const void *memory, uint64_t key[2]);

uint64_t cst_keyed_hash(const uint64_t key[2], const char *text);

#endif
