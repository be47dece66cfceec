/* Checks of a pool before a fit. A finding is a notice, or an error where no honest fit is
 * possible. docs/method.md#checks. */
#pragma once

#include "data/pool/pool.h"

typedef struct cst_finding {
    const char *kind; /* static: "labels", "order", "classes", "chance", "leak", ... */
    bool fatal;       /* no honest fit is possible */
    bool quiet;       /* for who looks at the pool: no notice of a fit */
    int32_t *members; /* [count] positions in the pool */
    int32_t count;
    char *text;
} cst_finding;

typedef struct cst_findings {
    cst_scope scope;
    cst_finding *list;
    size_t count;
} cst_findings;

/* Adds a finding about members [count] (positions in the pool); kind is static. */
cst_status cst_findings_add(cst_context *context, cst_findings *findings, const char *kind,
                            bool fatal, const int32_t *members, int32_t count, const char *format,
                            ...) CST_PRINTF(7, 8);

/* Notices of findings that are not quiet; then the first fatal one as CST_ERROR_INPUT. */
cst_status cst_findings_tell(cst_context *context, const cst_findings *findings);

/* The notice that members [count] take no part in a fit. */
void cst_findings_tell_left_out(cst_context *context, const cst_pool *pool, const int32_t *members,
                                int32_t count);

bool cst_findings_fatal(const cst_findings *findings);

void cst_findings_free(cst_context *context, cst_findings *findings);

/* "'a'", "'a' and 'b'", "'a', 'b' and 3 more" of members [count], cut to `size`. pool: NULL for a
 * file alone. */
const char *cst_names_of(const cst_pool *pool, const int32_t *members, int32_t count, char *text,
                         size_t size);
/* "class 3", or "class 'cat'" where the pool names its classes. */
const char *cst_class_of(const cst_pool *pool, int32_t c, char *text, size_t size);

/* Another order of the rows of a view that a member or the labels may be in. */
typedef struct cst_check_order_of {
    const char *words;     /* "transposed" */
    const int32_t *labels; /* [rows of the view]: the label that belongs to the prediction of each
                              then, or -1 */
} cst_check_order_of;

typedef struct cst_check_source {
    const cst_pool *pool;
    const char *split;
    const cst_view *view;   /* with labels or targets */
    const int32_t *members; /* [members of the view]: positions in the pool; NULL: all members */
    const int64_t *rows;    /* [rows]: the row of the split that each is; NULL: the same */
    const int32_t *folds;   /* [rows]; NULL: those of a pool without folds */
    const int64_t *groups;  /* [rows], or NULL */
    const cst_check_order_of *orders; /* NULL: those of a table (rows shifted, reversed) */
    int32_t order_count;
    bool shares;  /* of scored rows: classes without a row are told too */
    bool taught;  /* cst_check_unknown was called */
    bool guessed; /* labels are those of the members' average: only orders are told */
} cst_check_source;

/* Checks up to 20,000 evenly spread rows. Free the findings also after a failure. */
cst_status cst_check_run(cst_context *context, const cst_check_source *source,
                         cst_findings *findings);
/* Of members that list their likeliest classes, instead. */
cst_status cst_check_lists(cst_context *context, const cst_check_source *source,
                           cst_findings *findings);
/* Checks labelled rows that are only scored: notices. Labels that are no class are unknown. */
cst_status cst_check_scored(cst_context *context, const cst_check_source *source);
/* Tells findings as those notices. split: "oof", NULL: not named. */
void cst_check_tell(cst_context *context, const char *split, const cst_findings *findings);

/* A part of cst_check_run: members whose model of a fold did not know a class of its rows. lacks
 * (or NULL): [members][folds][classes], 1 where some member knows it. */
cst_status cst_check_unknown(cst_context *context, const cst_check_source *source, uint8_t *lacks,
                             cst_findings *findings);

/* Groups whose rows are in several folds. */
typedef struct cst_split_groups {
    int64_t groups;
    int64_t split;      /* of these */
    int64_t rows;       /* of the split ones */
    int64_t example[2]; /* two rows of one group in different folds */
} cst_split_groups;

/* groups: of row i groups[index[i]]; index NULL: groups[i]. folds: [rows]. */
cst_status cst_split_groups_of(cst_context *context, const int64_t *groups, const int64_t *index,
                               const int32_t *folds, int64_t rows, cst_split_groups *out);
