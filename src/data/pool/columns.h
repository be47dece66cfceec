/*
 * What the columns of a pool's files are: how many classes or outputs, their names, and which
 * column of each file is which. Shared by the files of src/pool. docs/method.md#s0-rows-folds-ids.
 */
#ifndef CST_POOL_COLUMNS_H
#define CST_POOL_COLUMNS_H

#include "data/pool/state.h"

/* Finds how many classes or outputs there are, and what they are called, where a manifest does not
 * say it: in the files of members and labels. After cst_pool_create. */
cst_status cst_pool_find_columns(cst_context *context, cst_pool *pool);

/* What is asked of a table of predictions or targets. The pool must outlive it. */
void cst_pool_ask(const cst_pool *pool, cst_table_use use, cst_table_ask *ask);
/* The same of labels that are one column. */
void cst_pool_ask_labels(const cst_pool *pool, cst_table_ask *ask);

/* What is said of the files of a split: one notice for all files of which the same is true. */
typedef struct cst_file_count {
    char path[256]; /* of the first */
    int32_t files;
} cst_file_count;

typedef struct cst_file_notes {
    char *said; /* of the choice of columns in the first file */
    cst_file_count chosen;
    cst_file_count folds;     /* with a column of folds that is not read */
    cst_file_count reordered; /* whose columns are in another order than the classes */
    cst_file_count nameless;  /* without names, where other files have them */
} cst_file_notes;

/* Notes what is to say of an open file of a member. */
cst_status cst_pool_note_file(cst_context *context, const cst_pool *pool, const cst_row_file *rows,
                              cst_file_notes *notes);
/* Says it, and empties the notes. */
void cst_pool_say_notes(cst_context *context, const cst_pool *pool, const cst_pool_split *split,
                        cst_file_notes *notes);

/* In truth.c: compares labels that a member's table holds with those of the split. rows: scanned,
 * at its first row. places: row of the split of each row; NULL: the same. */
cst_status cst_pool_check_truth(cst_context *context, const cst_pool *pool,
                                const cst_pool_split *split, const cst_row_file *rows,
                                const int64_t *places);

#endif
