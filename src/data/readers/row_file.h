/* Predictions, labels and ids whatever the file they are in: npy, npz, safetensors or delimited
 * text. The pool reads through this. Paper: the rows of P_oof and y. */
#pragma once

#include "data/readers/file_parts.h"
#include "data/readers/npy.h"
#include "data/readers/table.h"

enum { CST_WHERE_CHARS = 96 };

/* A matrix of numbers, read row by row from the top. */
typedef struct cst_row_file {
    const char *path;
    cst_npy *npy;      /* or */
    cst_table *table;  /* ... */
    int64_t row_count; /* -1: delimited text that was not scanned yet */
    int64_t width;
    int64_t next;   /* row that cst_row_file_read gives next */
    int64_t *lines; /* [lines_room] of the block read last, delimited text only */
    int64_t lines_room;
    cst_scope *scope;    /* of lines */
    cst_row_parts parts; /* of several files: where they begin, of delimited text once it is
                            scanned; first is NULL before that and for one file */
} cst_row_file;

/* Opens and looks at the header and the first rows only; of the scope, which closes it. ask: of a
 * table, NULL for all columns but the ids. */
cst_status cst_row_file_open(cst_context *context, cst_scope *scope, cst_row_file **out,
                             const cst_row_source *source, const cst_table_ask *ask);

/* Shape as "(100, 10)"; "(?, 10)" for text that was not scanned. Returns `buffer`. */
const char *cst_row_file_shape_text(const cst_row_file *rows, char buffer[CST_NPY_SHAPE_CHARS]);
int cst_row_file_dims(const cst_row_file *rows);

/* Whether the file has an id column of its own. */
bool cst_row_file_has_ids(const cst_row_file *rows);

/* How many rows a file should have, because another has so many. */
typedef struct cst_row_claim {
    int64_t rows;      /* -1: nothing says so */
    const char *where; /* the other file */
} cst_row_claim;

/* Rows that a file may have beyond the claim and still be read on, so that the message can say
 * which of them is one too many. */
enum { CST_CLAIM_SLACK = 1 << 20 };

/* Whether a file of `rows` rows is refused before its rows are read; says so. */
cst_status cst_row_claim_check(cst_context *context, const char *path, int64_t rows,
                               const cst_row_claim *claim);

/* What the header of an array says is its length along `axis`; -1 for delimited text, which has no
 * header, and for an array without such an axis. */
cst_status cst_row_claim_read(cst_context *context, const cst_row_source *source, int axis,
                              int64_t *rows);

/* Counts the rows of delimited text and collects its ids: *ids is NULL where it has none. Nothing
 * to do for npy. claim: of the rows, or NULL. */
cst_status cst_row_file_scan(cst_context *context, cst_scope *scope, cst_row_file *rows,
                             const cst_row_claim *claim, cst_strings **ids);
/* From the first row on again. */
cst_status cst_row_file_rewind(cst_context *context, cst_row_file *rows);

/* The next `count` rows as [count][width]; they must exist. */
cst_status cst_row_file_read(cst_context *context, cst_row_file *rows, int64_t count, double *out);

/* The file that has row `row`: the part, or `path` where there is one file. rows may be NULL. */
const char *cst_row_file_part(const cst_row_file *rows, const char *path, int64_t row);
/* "row 17, column 3" (for text also the line) of a place in the block read last; `column` -1 leaves
 * it out. Of several files, the row in cst_row_file_part. Returns `buffer`. */
const char *cst_row_file_where(const cst_row_file *rows, int64_t first, int64_t i, int64_t column,
                               char buffer[CST_WHERE_CHARS]);

/* Text as an integer ("3", "3.0"); false where it is something else. */
bool cst_text_integer(const char *text, int64_t *out);

/* One value per sample: labels, folds or groups. */
typedef struct cst_column {
    int64_t count;
    int64_t *numbers;    /* where every value is an integer, else NULL */
    cst_strings *texts;  /* otherwise */
    cst_strings *ids;    /* the file's own id column, or NULL */
    cst_row_parts parts; /* as of cst_row_file */
} cst_column;

/* ask: its use is COLUMN, or IDS, which stay texts. claim: of the rows, or NULL. What the user
 * should know of the choice of the column is a notice. */
cst_status cst_column_read(cst_context *context, cst_scope *scope, cst_column *out,
                           const cst_row_source *source, const cst_table_ask *ask,
                           const cst_row_claim *claim);

/* A file of sample ids: integers or strings. id_column: name of the column of a table, or NULL. */
cst_status cst_ids_read(cst_context *context, cst_scope *scope, cst_strings **out,
                        const cst_row_source *source, const char *id_column,
                        const cst_row_claim *claim);

/* Opens arrays. */
cst_status cst_npy_open_source(cst_context *context, cst_scope *scope, cst_npy **out,
                               const cst_row_source *source);
