/* Tables of delimited text: what each column is for, decided once for predictions, labels and ids.
 * Between the record reader and the pool. */
#pragma once

#include "data/readers/sheet.h"

typedef enum cst_table_use {
    CST_TABLE_MATRIX,      /* numbers: every column but the ids */
    CST_TABLE_PREDICTIONS, /* numbers of a member: columns of labels, folds etc. are left out */
    CST_TABLE_TARGETS,     /* numbers to predict: columns of folds etc. are left out */
    CST_TABLE_COLUMN,      /* one value per sample: labels, folds, groups */
    CST_TABLE_IDS          /* one id per sample */
} cst_table_use;

/* What is asked of a table; all zero is a matrix. */
typedef struct cst_table_ask {
    cst_table_use use;
    cst_column_hint kind; /* COLUMN: what the column is for */
    bool gaps; /* COLUMN of labels: one may be missing, and is -1 or no text; else: a missing number
                  is NaN */
    const char *const *wanted; /* COLUMN: further names of it (NULL-terminated), or NULL */
    const char *id_column;     /* name, or number from 1, of the ids; NULL: found by the rules */
    const char *column;        /* the same of the value; not read where the path names one */
    const char *truth; /* PREDICTIONS: the column of labels, whatever its name says; or NULL */
    bool one;          /* PREDICTIONS, TARGETS: one column is expected, and several are an
                          error that names them */
    const cst_strings
        *names; /* columns of these names are the values where all are there; or NULL */
} cst_table_ask;

/* How a column is kept. */
typedef struct cst_kept_column {
    int32_t place;      /* among the columns of numbers; -1: texts */
    cst_strings *texts; /* [rows] */
    bool numeric;       /* the texts are numbers */
    bool gaps;          /* some are missing: numbers are NaN, texts empty */
} cst_kept_column;

/* A table of one file that several members, labels etc. are columns of: looked at once, and parsed
 * once for all of them. */
typedef struct cst_shared_table {
    struct cst_shared_table *next;
    const char *path; /* without "#column" */
    uint64_t zip_limit;
    cst_sheet sheet;
    bool parsed;
    bool wrong;      /* it was tried to parse it */
    cst_scope scope; /* of what follows */
    int64_t rows;
    int64_t rows_of_block;
    int32_t width;       /* columns of numbers */
    cst_kept_column *of; /* [columns] */
    double **blocks;     /* [block_count] -> [width][rows_of_block] */
    int64_t **lines;     /* [block_count] -> [rows_of_block] */
    size_t block_count;
} cst_shared_table;

/* Looks at the table that "file.csv#column" names, unless *list has it; of the scope. It is not
 * there where it has no header, or cannot be read. */
cst_status cst_shared_add(cst_context *context, cst_scope *scope, cst_shared_table **list,
                          const char *path, uint64_t zip_limit);
/* That of "file.csv#column", or NULL. */
cst_shared_table *cst_shared_find(cst_shared_table *list, const char *path);
/* Parses the whole table, unless it is. Nothing is parsed, and its columns are read one by one as
 * those of other tables are, where something is wrong in it. */
cst_status cst_shared_parse(cst_context *context, cst_shared_table *table);
/* Frees what was parsed. */
void cst_shared_forget(cst_shared_table *table);

/* What the columns of a file are. A first row that is not numeric is a header, and so are the
 * column numbers 0, 1, 2, ... The id column is found by name (id, sample_id, image_id, row_id, a
 * name that ends in the word id), nameless and first, or is the first one that is not numeric. */
typedef struct cst_table {
    cst_csv *csv;             /* stands before the first row of data; NULL: */
    cst_shared_table *parsed; /* of these columns */
    bool header;
    int32_t columns;
    int32_t id_column;        /* -1: none */
    int32_t width;            /* columns of values */
    int32_t *values;          /* [width] */
    const cst_strings *names; /* of all columns where there is a header, else NULL */
    cst_strings *value_names; /* [width] where there is a header, else NULL; of "file.csv#model" the
                                 part that follows the model's name */
    int32_t truth_column;     /* PREDICTIONS: labels that are left out; -1: none */
    int32_t fold_column;      /* PREDICTIONS: folds that are left out; -1: none */
    const char
        *said; /* what the user should know of the choice, without the file's name; or NULL */
} cst_table;

/* "file.csv#column" names the column of the values, or the member of which "column:class" are the
 * columns. Parts must have the same header, or none; "#column" is that of the first. ask: NULL for
 * a matrix. The scope closes it. */
cst_status cst_table_open(cst_context *context, cst_scope *scope, cst_table **out,
                          const cst_row_source *source, const cst_table_ask *ask);
/* Back to the first row of data. */
cst_status cst_table_rewind(cst_context *context, cst_table *table);

/* The line of a row of a parsed table, and values [count][width] of the rows from `first` on. */
static inline int64_t cst_shared_line(const cst_shared_table *table, int64_t row) {
    return table->lines[row / table->rows_of_block][row % table->rows_of_block];
}
void cst_shared_read(const cst_table *table, int64_t first, int64_t count, double *out);

/* Whether one file or several, which must agree, are delimited text: by their names, else by what
 * they begin with. A format that cannot be read is an error that says what to do. */
cst_status cst_is_text_source(cst_context *context, const cst_row_source *source, bool *text);
