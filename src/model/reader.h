/*
 * Bytes of a model file, read one value after another: every count is held against the bytes that
 * are left before memory is taken. Used by decode.c. docs/model-format.md.
 */
#ifndef CST_MODEL_READER_H
#define CST_MODEL_READER_H

#include "model/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads at `at`, never beyond `end`. After a failure every call gives 0 or NULL and `status` says
 * why. */
typedef struct cst_reader {
    cst_context *context;
    const char *name; /* opens every message */
    const uint8_t *bytes;
    size_t at;
    size_t end;
    cst_status status;
    cst_box_rule rule; /* of section RULE, for FUSE */
    bool mapped;       /* section CALI was there: LEAR may have its maps of scores */
} cst_reader;

/* Fails with "NAME: byte AT: ...", unless something failed before. */
CST_PRINTF(3, 4) void cst_reader_refuse(cst_reader *r, size_t at, const char *format, ...);

/* The next `count` bytes, or NULL. */
const uint8_t *cst_reader_take(cst_reader *r, size_t count);

/* Little-endian, from any address. */
uint32_t cst_load_u32(const uint8_t *from);
uint64_t cst_load_u64(const uint8_t *from);

uint32_t cst_reader_u32(cst_reader *r);

/* A count or code from `least` to `most`. */
int32_t cst_reader_int(cst_reader *r, const char *what, int32_t least, int32_t most);

/* A count of seven bits in each byte, the low ones first, from 0 to `most`. In confusion_get.c. */
int32_t cst_reader_count(cst_reader *r, const char *what, int32_t most);
uint32_t cst_reader_count_u32(cst_reader *r, const char *what, uint32_t most);

/* A double from `least` to `most`, which are finite; NaN and infinities are refused. */
double cst_reader_f64(cst_reader *r, const char *what, double least, double most);

/* [count] numbers from -bound to bound, owned by the caller. */
double *cst_reader_f64s(cst_reader *r, size_t count, const char *what, double bound);
float *cst_reader_f32s(cst_reader *r, size_t count, const char *what, double bound);

/* A name of one byte or more, UTF-8 without control characters, owned by the caller. */
char *cst_reader_string(cst_reader *r, const char *what, size_t index);

/* Refuses a string that occurs twice among strings [count]. */
void cst_reader_different(cst_reader *r, size_t at, char *const *strings, size_t count,
                          const char *what);

/* Sections ABSE and ABSP, in refits_get.c. */
void cst_refits_get(cst_reader *r, cst_model *model);
void cst_refits_get_packed(cst_reader *r, cst_model *model);
/* Sections NOVE and NOVI, in novelty_get.c. */
void cst_novelty_get(cst_reader *r, cst_model *model);
void cst_cases_get(cst_reader *r, cst_model *model);
/* Section CONF, in confusion_get.c. */
void cst_confusion_get(cst_reader *r, cst_model *model);
/* Section MONI, in watch_get.c. */
void cst_watch_get(cst_reader *r, cst_model *model);

/* Section LEAN, in lean_get.c. */
void cst_lean_get(cst_reader *r, cst_model *model);

/* Room for `count` pointers or structs of which each takes `least` bytes of the file or more. */
void *cst_reader_room(cst_reader *r, size_t count, size_t size, size_t least, const char *what);

/* Section ADPT, into model->adapted. In adapted_read.c. */
void cst_adapted_get(cst_reader *r, cst_model *model);

#endif
