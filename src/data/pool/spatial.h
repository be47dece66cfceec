/* The spatial side of a segmentation pool: which rows are the pixels of which case. Rows are in the
 * order case, depth, height, width, so that maps with the classes last are rows as they lie.
 * docs/segmentation.md#files. */
#pragma once

#include "data/pool/state.h"
#include "data/readers/cases.h"

/* As a pool's `ignore`: every label counts. */
#define CST_NOTHING_IGNORED INT32_MIN

/* The cases (images or volumes) of a split. */
typedef struct cst_cases {
    int64_t count;
    bool volumes;              /* the files have an axis for depth */
    bool uniform;              /* all of one shape */
    const cst_strings *names;  /* NULL where they come from one array and have numbers */
    const char *where;         /* the file or folder that says so, for messages */
    const int64_t (*shape)[3]; /* [count]: depth (1 for an image), height, width */
    const int64_t *first;      /* [count + 1]: rows of case i are first[i] .. first[i + 1] - 1 */
    const int32_t *folds;      /* [count], or NULL */
    const int64_t *groups;     /* [count], or NULL */
} cst_cases;

/* The cases of a loaded split of a segmentation pool, or NULL. */
const cst_cases *cst_pool_cases(const cst_pool *pool, const char *split);

/* The case that has row `row` of the split. */
int64_t cst_case_of(const cst_cases *cases, int64_t row);

/* Name of a case, written to `buffer` where it has a number only. */
enum { CST_CASE_CHARS = 256 };
const char *cst_case_name(const cst_cases *cases, int64_t index, char buffer[CST_CASE_CHARS]);

/* "row 3, column 7" of a pixel of a case of that shape, with the slice of a volume. */
const char *cst_pixel_in_case(const int64_t shape[3], int64_t pixel, char buffer[CST_WHERE_CHARS]);

/* "case x, row 3, column 7, class 2" of a row of the split, with the slice of a volume; without the
 * class for `value` < 0. */
const char *cst_pixel_where(const cst_cases *cases, int64_t row, int64_t value,
                            char buffer[CST_WHERE_CHARS]);

/* Looks at the sizes of a split's masks alone; cst_pool_describe may read them later. */
cst_status cst_masks_survey(cst_context *context, cst_pool *pool, int32_t split);

/* The names that the split's ids give `count` cases of the array at `path`; NULL without ids. */
cst_status cst_cases_read_names(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                const cst_manifest_split *spec, const char *path, int64_t count,
                                cst_strings **out);

/* Refuses ids beside the folder at `path`, whose files name the cases. */
cst_status cst_cases_refuse_ids(cst_context *context, const cst_manifest_split *spec,
                                const char *path);

/* Reads folds and groups of the split's cases, which have one entry for each. */
cst_status cst_cases_read_beside(cst_context *context, const cst_pool *pool, int32_t split);

/* Fails where the split has masks and none of their pixels counts: nothing to fit on or to score.
 * Predictions need no labels. */
cst_status cst_cases_check_counted(cst_context *context, const cst_pool *pool, const char *split);

/* Refuses an array of no pixels, whatever number of cases it claims, before its cases are counted
 * out. */
cst_status cst_cases_check_axes(cst_context *context, const cst_npy *npy);

/* Makes `count` cases of the given shapes those of the split; names: theirs, or NULL: numbers. */
cst_status cst_cases_adopt(cst_context *context, cst_pool *pool, int32_t split, const char *where,
                           int64_t count, const int64_t (*shapes)[3], bool volumes,
                           const cst_strings *names);

/* Looks at the headers of members that are to be loaded: their cases are those of the split, which
 * the first of them settles where there are no masks. */
cst_status cst_maps_survey(cst_context *context, cst_pool *pool, int32_t split,
                           const int32_t *members, int32_t count);

/* Loads a member's maps, into memory or, with `stream`, behind the split's store. */
cst_status cst_maps_load(cst_context *context, cst_pool *pool, int32_t split, int32_t member,
                         bool stream);
