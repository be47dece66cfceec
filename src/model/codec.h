/* Bytes of model and state files: each call of a codec writes a value, or reads and checks it,
 * trusting nothing. docs/model-format.md. */
#pragma once

#include "model/stack.h"

/* ---- layout and bounds of a model file ---- */

/* As in PNG: a byte that is not ASCII, a name, and line ends that a transfer as text would spoil.
 */
#define CST_MODEL_MAGIC "\211CST\r\n\032\n"

enum {
    CST_MODEL_VERSION = 1,
    CST_MODEL_MAGIC_BYTES = 8,
    CST_MODEL_HEADER_BYTES = 24,  /* magic, version, number of sections, total length */
    CST_MODEL_SECTION_BYTES = 16, /* tag, flags, length of the payload */
    CST_MODEL_CHECKSUM_BYTES = 4,
    CST_MODEL_REQUIRED = 1 /* section flag: who does not know the tag must not use the model */
};

/* Bounds beyond which a file is taken as damaged or hostile rather than large. */
static const size_t CST_MODEL_BYTES_MAX = (size_t)1 << 30;
static const int32_t CST_MODEL_CLASSES_MAX = 1 << 24;
static const int32_t CST_MODEL_MEMBERS_MAX = 1 << 20;
/* Of members times classes, and of meta-learners times classes. */
static const int64_t CST_MODEL_CELLS_MAX = (int64_t)1 << 27;
/* A file can say in a few bytes that it has many classes, and prediction takes memory for each of
 * them. For one sample (cst_stack_sample_bytes) it may take this many bytes, and this many times
 * the size of the file; a thread takes no more than CHUNK_BYTES (predict.c) or one sample. */
static const size_t CST_MODEL_SAMPLE_BYTES = (size_t)128 << 20;
static const size_t CST_MODEL_SAMPLE_RATIO = 8;
static const int32_t CST_MODEL_HIDDEN_MAX = 1 << 16;
static const double CST_MODEL_TARGET_MAX = 1e300;     /* location and scale of an output */
static const size_t CST_MODEL_TITLE_MAX = 64;         /* bytes of a meta-learner's name */
static const double CST_MODEL_COEFFICIENT_MAX = 1e30; /* scores stay finite */
static const double CST_MODEL_REFIT_MAX = 1e30;       /* sums of products stay finite */
static const double CST_MODEL_GATE_MAX = 1e12;        /* two layers of floats stay finite */
static const double CST_MODEL_MIX_MIN = 1e-12;        /* logarithms stay finite */
static const double CST_MODEL_BLEND_TOLERANCE = 1e-9;
static const double CST_MODEL_MIXTURE_TOLERANCE = 1e-6; /* of the weights of a mixture */
static const double CST_MODEL_SLOPE_MAX = 1e12; /* calibration maps and networks stay finite */

/* Reads at `at`, never beyond `end`; or writes to `to` if that is set. After a failure every call
 * does nothing, or reads 0 or NULL, and `status` says why. Writing checks only that arrays are
 * there: what is written is read again before it is kept. */
typedef struct cst_codec {
    cst_context *context;
    cst_buffer *to;   /* NULL: reading */
    const char *name; /* opens every message */
    const uint8_t *bytes;
    size_t at;
    size_t end;
    cst_status status;
    cst_scope *scope;  /* where memory for what is read comes from */
    cst_box_rule rule; /* of section RULE, for FUSE */
    bool mapped;       /* section CALI was there: LEAR may have its maps of scores */
} cst_codec;

static inline bool cst_codec_reads(const cst_codec *c) {
    return !c->to && c->status == CST_OK;
}

/* Fails with "NAME: byte AT: ...", unless something failed before or this is writing. */
CST_PRINTF(3, 4) void cst_refuse(cst_codec *c, size_t at, const char *format, ...);

/* Refuses `count` of something of which each takes `least` bytes, if so many are not left. */
void cst_codec_expect(cst_codec *c, size_t count, size_t least, const char *what);

/* Memory for what is read; NULL after a failure. */
void *cst_codec_alloc(cst_codec *c, size_t count, size_t size);

/* The next `count` bytes when reading, or NULL. */
const uint8_t *cst_codec_take(cst_codec *c, size_t count);

/* Little-endian, from any address. */
uint32_t cst_load_u32(const uint8_t *from);
uint64_t cst_load_u64(const uint8_t *from);
/* The low `bytes` bytes. */
void cst_put_word(cst_buffer *to, uint64_t value, int bytes);

/* ---- values: given ones are written, and returned; else what was read is ---- */

uint32_t cst_code_u32(cst_codec *c, uint32_t value);
uint64_t cst_code_u64(cst_codec *c, uint64_t value);

/* A count or code from `least` to `most`. */
int32_t cst_code_int(cst_codec *c, int32_t value, const char *what, int32_t least, int32_t most);

/* A count of seven bits in each byte, the low ones first, from 0 to `most`. */
uint32_t cst_code_count(cst_codec *c, uint32_t value, const char *what, uint32_t most);

/* A count of eight bytes, from 0 to `most`. */
int64_t cst_code_long(cst_codec *c, int64_t value, const char *what, int64_t most);

/* For a field that only reading changes. */
#define CST_CODE_FIELD(c, field, value)                                                            \
    do {                                                                                           \
        __typeof__(field) coded_ = (__typeof__(field))(value);                                     \
        if (!(c)->to)                                                                              \
            (field) = coded_;                                                                      \
    } while (0)
#define CST_CODE_INT(c, field, what, least, most)                                                  \
    CST_CODE_FIELD(c, field, cst_code_int(c, (int32_t)(field), what, least, most))
#define CST_CODE_COUNT(c, field, what, most)                                                       \
    CST_CODE_FIELD(c, field, cst_code_count(c, (uint32_t)(field), what, (uint32_t)(most)))
#define CST_CODE_LONG(c, field, what, most)                                                        \
    CST_CODE_FIELD(c, field, cst_code_long(c, (int64_t)(field), what, most))

/* ---- numbers and text in place ---- */

/* Numbers [count] from `least` to `most`, which are finite; NaN and infinities are refused. */
void cst_code_f64s(cst_codec *c, double *values, size_t count, const char *what, double least,
                   double most);
void cst_code_f32s(cst_codec *c, float *values, size_t count, const char *what, double bound);

static inline void cst_code_f64(cst_codec *c, double *value, const char *what, double least,
                                double most) {
    cst_code_f64s(c, value, 1, what, least, most);
}

/* The lower triangle of a symmetric matrix [size][size], with a diagonal of 0 or more. */
void cst_code_symmetric(cst_codec *c, double *matrix, size_t size, const char *what, double bound);

/* Reading allocates: numbers from -bound to bound, or text of one byte or more, UTF-8 without
 * control characters. */
void cst_code_new_f64s(cst_codec *c, double **values, size_t count, const char *what, double bound);
void cst_code_new_f32s(cst_codec *c, float **values, size_t count, const char *what, double bound);
void cst_code_string(cst_codec *c, char **text, const char *what, size_t index);

/* Strings [count]. */
void cst_code_strings(cst_codec *c, char **strings, size_t count, const char *what);

/* Refuses a string that occurs twice among strings [count]; only what is before the first of the
 * characters `until` counts. */
void cst_codec_different(cst_codec *c, size_t at, char *const *strings, size_t count,
                         const char *until, const char *what);

/* Names [count] of different members, none of which is one of the model's. */
void cst_code_others(cst_codec *c, const cst_model *model, char **names, int32_t count);

/* Whether an array is there: for reading it is made, of `count` elements of which each takes
 * `least` bytes of the file or more. */
#define CST_CODE_ROOM(c, array, count, least, what)                                                \
    ((c)->to ? cst_codec_given(c, array, count)                                                    \
             : (cst_codec_expect(c, count, least, what),                                           \
                ((array) = cst_codec_alloc(c, count, sizeof *(array))) != NULL))

/* False, and writing fails, if an array of the model is not there. */
bool cst_codec_given(cst_codec *c, const void *array, size_t count);

/* ---- sections of the reference for shifts (shift/sections.c) ---- */

void cst_code_novelty(cst_codec *c, cst_model *model);
void cst_code_cases(cst_codec *c, cst_model *model);
void cst_code_confusion(cst_codec *c, cst_model *model);
void cst_code_mixing(cst_codec *c, cst_model *model);
void cst_code_gauge(cst_codec *c, cst_model *model);

/* What the fit found (history.c), which the library for prediction alone skips. */
void cst_code_history(cst_codec *c, cst_model *model);

/* CRC-32C (Castagnoli, reflected, polynomial 0x1EDC6F41, initial value and final exclusive-or all
 * ones), as in RFC 3720, appendix B.4: it detects every flipped byte. */
uint32_t cst_crc32c(const uint8_t *bytes, size_t size);
