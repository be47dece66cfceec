/* What the name of a column says: ids, labels, folds, predictions, or the class that a column is
 * for. Under the tables. */
#pragma once

#include "data/readers/strings.h"

/* What a column is for, as far as its name tells. */
typedef enum cst_column_hint {
    CST_COLUMN_UNKNOWN,
    CST_COLUMN_ID,         /* id, sample_id, image_id, row_id */
    CST_COLUMN_ID_LIKELY,  /* ends in the word id, or uuid, key, index: ids if no two are equal */
    CST_COLUMN_ID_TEXT,    /* name, file, image: ids if they are text */
    CST_COLUMN_INDEX,      /* the index that a data frame writes: nameless, or "Unnamed: 0" */
    CST_COLUMN_TRUTH,      /* y, label, target, ... */
    CST_COLUMN_FOLD,       /* fold, split, ... */
    CST_COLUMN_GROUP,      /* group, ... */
    CST_COLUMN_WEIGHT,     /* weight, sample_weight, ... */
    CST_COLUMN_DOMAIN,     /* domain, ... */
    CST_COLUMN_PREDICTION, /* y_pred, prediction, proba, ... */
} cst_column_hint;

cst_column_hint cst_column_hint_of(const char *name);
/* What columns of this kind hold, for messages: "folds". */
const char *cst_column_noun(cst_column_hint hint);

/* Whether a text is one of the words of a list that are divided by spaces. */
bool cst_word_in(const char *text, const char *list);

/* Whether two names are the same whatever their case. */
bool cst_column_same(const char *a, const char *b);

/* Bytes at the beginning, or at the end, that all names have. */
size_t cst_column_shared(const cst_strings *names, bool at_end);

/* The names of columns [count] less what says only that they are predictions ("p_cat" and "p_dog",
 * "class_0" and "class_1", "cat_proba" and "dog_proba"), where all have the same. */
cst_status cst_column_plain_names(cst_context *context, cst_scope *scope, const cst_strings *names,
                                  cst_strings **out);
/* The same less any beginning and end that all have, up to the mark between two words: "resnet_cat"
 * and "resnet_dog" are cat and dog. */
cst_status cst_column_bare_names(cst_context *context, cst_scope *scope, const cst_strings *names,
                                 cst_strings **out);

/* Where the names are the numbers from `first` on, each once, in any order: places[i] is that of
 * name i less `first`. */
bool cst_column_numbers(const cst_strings *names, int64_t first, int32_t *places);

/* The names as "a, b, c", cut where they are many. Returns `buffer`. */
enum { CST_LISTED_CHARS = 240 };
const char *cst_column_list(const cst_strings *names, char buffer[CST_LISTED_CHARS]);
