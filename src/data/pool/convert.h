/* Rows as they are in files and arrays to float32 probabilities, with the checks that catch what is
 * not probabilities. Between the readers and a pool's members. docs/method.md#s0-rows-folds-ids. */
#pragma once

#include "data/pool/view.h"
#include "data/readers/row_file.h"

struct cst_cases;
struct cst_pool_split;

typedef struct cst_convert {
    const char *where;             /* file or member, for messages */
    const cst_row_file *rows;      /* to name the line and the part; NULL for memory */
    const struct cst_cases *cases; /* of a segmentation, to name the pixel; else NULL */
    int32_t classes;
    int32_t width;     /* values of a row: classes, or 1 (class 1 of two) */
    bool values;       /* a regression: numbers pass as they are, if they are finite */
    int32_t listed_of; /* top-k: how many classes there are, of which a row lists some; else 0 */
    bool listed_rest;  /* and says what the others have, which may else be NaN */
    bool independent;  /* with `values`: each is a probability by itself, or its logit */
    bool logits;
    double
        rounding; /* what a row's sum may be off by because of the file's type: cst_npy_rounding */
    const int32_t *column_class; /* class of each column of the file; NULL: the same */
    const double *block_wide;    /* the rows of the block as they are in the file, for messages: */
    const float *block_narrow;   /* ... [block_rows][width] in one form, or none */
    int64_t block_rows;
    int64_t like_probabilities; /* rows so far that look like probabilities, of logits */
    int64_t like_percentages;   /* the same of percentages */
    double high;                /* the largest value so far, of logits in one column */
    int64_t total;              /* rows so far */
    bool own;                   /* not of a member: no option says more of it */
    bool missing;               /* a row of NaN alone is one that the member did not predict */
    bool absent;                /* the last row was such a row: its output is uniform, or 0 */
    double normaliser;          /* log sum exp of the row's logits; of one value z, of 0 and z */
} cst_convert;

/* Before the rows of a block are converted: those that follow from row `first` on, [rows][width] in
 * one of both forms, or neither. The first block of logits must have no column of ids. */
cst_status cst_convert_block(cst_context *context, cst_convert *convert, int64_t first,
                             int64_t rows, const double *wide, const float *narrow);
/* One row: `values` [width], which may be overwritten, to `out` [classes]. `first` and `i` say
 * which row of the block it is. */
cst_status cst_convert_row(cst_context *context, cst_convert *convert, int64_t first, int64_t i,
                           double *values, float *out);
/* The same for values that are float32 in the file and stay as they are. wide: [width] scratch. */
cst_status cst_convert_row_f32(cst_context *context, cst_convert *convert, int64_t first, int64_t i,
                               const float *values, double *wide, float *out);
/* The same of rows first..first+count-1, which follow one another in `values` and `out`. */
cst_status cst_convert_rows_f32(cst_context *context, cst_convert *convert, int64_t first,
                                int64_t count, const float *values, double *wide, float *out);
/* A row of top-k, in topk.c: values [width] are classes, their logarithms and that of the rest. */
cst_status cst_topk_convert(cst_context *context, cst_convert *convert, int64_t first, int64_t i,
                            double *values, float *out);
/* Whether there was a logit that no model gives, or logits of several classes. */
bool cst_convert_saturated(const cst_convert *convert);
/* After the last row. */
cst_status cst_convert_finish(cst_context *context, const cst_convert *convert);

/* ---- likely causes of rows that are no probabilities, in cause.c ---- */

enum { CST_CAUSE_CHARS = 320 };

/* What the numbers most likely are, and what to do. row: the one that is wrong, [width]. */
const char *cst_cause(const cst_convert *convert, const double *row, char out[CST_CAUSE_CHARS]);
/* Whether one column is of another kind, ids or labels; says which, and what to do. */
bool cst_cause_of_columns(const cst_convert *convert, char out[CST_CAUSE_CHARS]);
/* The same where a row does not sum to 1 although its values are in [0, 1]; NULL: nothing more is
 * known. */
const char *cst_cause_of_sum(const cst_convert *convert, double sum);

/* ---- blocks of rows, in pieces.c ---- */

/* Where rows come from: `read`, or `fetch` and `element`. */
typedef struct cst_pieces {
    cst_convert convert; /* as it is before the first row */
    bool narrow;         /* the values are float32 exactly */
    const void *source;
    /* Rows first..first+count-1, [count][width], into the one of both that is used. */
    cst_status (*read)(cst_context *context, const void *source, int64_t first, int64_t count,
                       float *narrow, double *wide);
    /* The same as elements, which `element` says how to decode. */
    cst_status (*fetch)(cst_context *context, const void *source, int64_t first, int64_t count,
                        unsigned char *raw);
    const cst_npy *element;
    /* The float32 of a row where they are usable in place; NULL where they never are. */
    const float *(*plain)(const void *source, int64_t row);
    /* The row of the split that a row is; NULL: the same. */
    int64_t (*place)(const void *source, int64_t row);
    const struct cst_pool_split *split; /* whose rows these are, where some may be absent */
} cst_pieces;

/* Where they go; each may be NULL. */
typedef struct cst_pieces_out {
    float *memory; /* rows of the split from `from` on, [classes] each; else: */
    int64_t from;
    const cst_store_entry *entry;
    uint8_t *present; /* [rows of the split]: 1 is put for rows that the member predicted, else 0 */
    double *normalisers; /* [rows of the split] */
} cst_pieces_out;

/* Converts rows first..first+count-1; `convert` begins as that of the pieces and counts them. */
cst_status cst_pieces_run(cst_context *context, const cst_pieces *pieces, cst_convert *convert,
                          int64_t first, int64_t count, const cst_pieces_out *to);
/* Such rows into out [count][classes]. Any number of threads may read. */
cst_status cst_pieces_read(cst_context *context, const cst_pieces *pieces, int64_t first,
                           int64_t count, float *out);
/* All `rows` rows, ending with what only the whole of them can show to be wrong. */
cst_status cst_pieces_all(cst_context *context, const cst_pieces *pieces, int64_t rows,
                          const cst_pieces_out *to);

/* A store's entry that converts rows on every read, of a source that outlives it. Checks as below.
 */
cst_status cst_pieces_keep(cst_context *context, cst_scope *scope, const cst_pieces *pieces,
                           int64_t first, int64_t count, cst_convert *looked, cst_store_entry *out);
/* A store's entry that converts an open npy on every read: one that streams, whose rows are in the
 * split's order, and which must outlive it. Checks rows first..first+count-1; `looked` has then
 * counted them, for cst_convert_finish. */
cst_status cst_pieces_entry(cst_context *context, cst_scope *scope, const cst_convert *convert,
                            int64_t first, int64_t count, cst_convert *looked,
                            cst_store_entry *out);
