/*
 * What the fuzz targets share: a context that watches over memory, files for readers that take
 * paths, checks of what a failing call leaves behind. Each fuzz/NAME.c is one target for libFuzzer,
 * AFL++ and the replay of stored inputs. docs/reliability.md, "Fuzzing".
 */
#ifndef CST_FUZZ_H
#define CST_FUZZ_H

#include "core/base.h"

#include <stddef.h>
#include <stdint.h>

/* The target: gets any bytes, returns 0, and aborts where a promise is broken. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#ifdef CST_FUZZ_REPAIR_FIRST /* AFL++: support.c repairs a copy and calls the target */
#define LLVMFuzzerTestOneInput fuzz_target
int fuzz_target(const uint8_t *data, size_t size);
#endif

/* A target may have one: makes checksums and lengths fit after a mutation, so that what lies behind
 * them is reached. Bytes are changed in place; `size` is at most `room`; returns the new size. */
size_t fuzz_repair(uint8_t *data, size_t size, size_t room);

/* The engine's mutator (libFuzzer only). */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

/* ---- the context ---- */

/* Memory that a call may hold whatever the input: buffers and tables of fixed size. */
#define FUZZ_FLOOR ((size_t)4 << 20)

/* A context of one thread whose allocations, all together, may not exceed FUZZ_FLOOR and `factor`
 * times `size`, the bytes of the input. */
cst_context *fuzz_begin(size_t size, size_t factor);
/* Frees it; aborts where anything that was allocated with it is still there. */
void fuzz_end(cst_context *context);

/* Aborts unless a failure is one that a hostile file may cause (not CST_ERROR_INTERNAL, nor
 * CST_ERROR_ARGUMENT unless `argument`), with a message of one line of UTF-8 in which nothing
 * controls a terminal or turns the direction of text. Returns whether the call succeeded. */
bool fuzz_good(cst_context *context, cst_status status, bool argument);

/* Aborts with the text when a promise does not hold. */
#define FUZZ_CHECK(held, promise) ((held) ? (void)0 : fuzz_broken(__FILE__, __LINE__, promise))
_Noreturn void fuzz_broken(const char *file, int line, const char *promise);

/* ---- files ---- */

/* A folder of this process alone, in memory where the system has such; gone at exit. */
const char *fuzz_folder(void);
/* Writes a file of that folder ("a.npy", "maps/a.npy") and returns its path, in one of four buffers
 * that take turns. */
const char *fuzz_file(const char *name, const void *data, size_t size);
/* Removes every file and folder that fuzz_file made. */
void fuzz_clear(void);

/* ---- bytes ---- */

static inline uint32_t fuzz_le(const uint8_t *from, int bytes) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint32_t)from[i] << (8 * i);
    return value;
}

static inline void fuzz_put_le(uint8_t *to, int bytes, uint32_t value) {
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

#endif
