/* Input of a fit or an inspection: a labelled split's view, folds and costs. Stage S0. */
#pragma once

#include "core/base.h"
#include "core/scope.h"
#include "data/checks/checks.h"
#include "data/pool/costs.h"
#include "data/pool/pool.h"

#include <corestack/pool.h>

typedef struct cst_training {
    cst_view view; /* every member, the rows that count */
    cst_counted counted;
    cst_counted kept;     /* of a fit that leaves out rows with wrong labels: the others, which are
                             the view's; else empty */
    const uint8_t *wrong; /* [rows of the split of the view]: rows that presets of a comparison
                             leave out; NULL: none */
    const float **data;   /* [members] */
    int32_t *folds;       /* [rows], 0..fold_count-1 */
    int32_t fold_count;
    bool folds_given; /* by the pool */
    int64_t *time;   /* [rows]: folds in time, how many rows are not later than the row; NULL: folds
                        that are left out in turn. The first of folds in time is only fitted on */
    int64_t gap;     /* rows before a fold that its fit leaves out */
    double *flops;   /* [members], NaN where unknown */
    double *latency; /* [members], NaN where unknown */
    double *params;  /* [members], NaN where unknown */
    cst_member_ensemble *ensembles; /* [members]: tags */
    double seconds_read;
    bool taught;     /* cst_training_teach was called */
    cst_scope scope; /* of the arrays */
} cst_training;

/* Loads the split and prepares folds: in time by the plan, else the pool's (checked), else grouped,
 * else stratified ones from the seed. A split without labels or with conditions cannot be fitted
 * on. */
cst_status cst_training_open(cst_context *context, cst_pool *pool, const char *split,
                             const cst_fold_plan *plan, uint64_t seed, cst_training *out);
/* CST_ERROR_UNSUPPORTED where the options ask for folds in time, which are of rows. */
cst_status cst_training_no_time(cst_context *context, const cst_options *options, const char *task);

/* Where folds come from, as reports say it. */
static inline const char *cst_training_folds_source(const cst_training *source) {
    return source->time ? "time" : source->folds_given ? "pool" : "made";
}
/* The first fold that is scored. */
static inline int32_t cst_training_first(const cst_training *source) {
    return source->time ? 1 : 0;
}
/* Of folds in time, the rows of the source that nested predictions are scored on; out is to be
 * closed. */
cst_status cst_training_scored(cst_context *context, const cst_pool *pool, const char *split,
                               const cst_training *source, cst_counted *out);
/* Takes the others out of nested predictions [rows][width]. */
void cst_training_pack(const cst_training *source, size_t width, float *rows);
/* CST_ERROR_INPUT, naming the member, where a cost that is limited is not known for every member or
 * the cheapest member exceeds the limit. */
cst_status cst_training_check_costs(cst_context *context, const cst_pool *pool,
                                    const cst_training *source, const cst_limits *limits);

/* What its members cost, borrowed. */
cst_costs cst_training_costs(const cst_training *source);

/* FLOPs of the members that `uses` [members] over those of all; NaN unless every member's are
 * known.
 */
double cst_training_flops_rel(const cst_training *source, const bool *uses);

/* Takes flops, latency, params and ensembles of a pool's members from a scope; likewise of members
 * [count] of `all` (NULL: the first ones). */
cst_status cst_training_read_costs(cst_context *context, cst_scope *scope, const cst_pool *pool,
                                   cst_training *out);
cst_status cst_training_take_costs(cst_context *context, cst_scope *scope, const cst_training *all,
                                   const int32_t *members, int32_t count, cst_training *out);

/* Where a member's model of a fold did not know a class that others knew, takes the probability of
 * the class from these in the rows of that fold. Adds a finding of each such fold. */
cst_status cst_training_teach(cst_context *context, cst_pool *pool, const char *split,
                              uint64_t seed, cst_training *source, cst_findings *findings);

/* Leaves out the rows marked in `wrong` [rows], which were among those that count; the others keep
 * their folds. */
cst_status cst_training_leave_out(cst_context *context, cst_pool *pool, const char *split,
                                  const uint8_t *wrong, cst_training *source);
/* A training without the rows in source->wrong, which it borrows. Not to be closed. */
cst_status cst_training_right(cst_context *context, cst_scope *scope, const cst_training *source,
                              cst_training *out);

/* What the checks know of the rows that the pool does not say; all NULL or 0: nothing. */
typedef struct cst_training_hints {
    const char *split; /* its name for the user; NULL: that of the training */
    const cst_check_order_of *orders;
    int32_t order_count;
    const cst_findings *findings; /* of checks that the caller made instead of these; NULL: none */
} cst_training_hints;

/* Checks the rows and members (data/checks). hints: may be NULL. Free findings with
 * cst_findings_free, also after a failure. */
cst_status cst_training_find(cst_context *context, const cst_pool *pool, const char *split,
                             const cst_training *source, const cst_training_hints *hints,
                             cst_findings *findings);
/* The same with a notice for each finding, and CST_ERROR_INPUT where no honest fit is possible. */
cst_status cst_training_check(cst_context *context, const cst_pool *pool, const char *split,
                              const cst_training *source, const cst_training_hints *hints,
                              cst_findings *findings);

void cst_training_close(cst_context *context, cst_training *source);

/* A training of some members of another, `all`, which it borrows rows and folds from and which has
 * to outlive it. members: [count] positions in `all`. Not to be closed. */
cst_status cst_training_part(cst_context *context, cst_scope *scope, const cst_training *all,
                             const int32_t *members, int32_t count, cst_training *out);

/* The rows of a training, divided by one fold. */
typedef struct cst_fold_rows {
    int32_t fold;
    cst_training inside; /* rows outside the fold, with folds of their own; the rest is borrowed */
    cst_view held;       /* rows in the fold */
} cst_fold_rows;

/* seed: of folds inside where the others cannot be renumbered. Lives as long as the scope. */
cst_status cst_fold_rows_make(cst_context *context, cst_scope *scope, const cst_training *source,
                              int32_t fold, uint64_t seed, cst_fold_rows *out);

/* Some rows of a view, with their folds. */
typedef struct cst_some_rows {
    cst_view view;
    const int32_t *folds;    /* [view.rows] */
    const int64_t *position; /* [view.rows] in the whole, ascending; NULL: every row */
    int32_t fold_count;      /* where somebody asks */
} cst_some_rows;

/* position: [count], which has to outlive them. */
cst_status cst_some_rows_take(cst_context *context, cst_scope *scope, const cst_view *view,
                              const int32_t *folds, const int64_t *position, int64_t count,
                              cst_some_rows *out);

/* About `most` of the rows, spread evenly over each fold; all where there are no more. */
cst_status cst_some_rows_thin(cst_context *context, cst_scope *scope, const cst_some_rows *rows,
                              int64_t most, cst_some_rows *out);

/* What a function writes for each held row of a fold. */
typedef struct cst_fold_result {
    float *rows; /* [rows of the source][width] */
    size_t width;
} cst_fold_result;

/* Calls `fn` for every fold, in parallel. results: [count], everything that `fn` writes, or none;
 * with them, each rank may run folds of its own. */
typedef cst_status (*cst_fold_fn)(cst_context *worker, void *user, const cst_fold_rows *rows);
cst_status cst_nested_run(cst_context *context, const cst_training *source, uint64_t seed,
                          cst_fold_fn fn, void *user, const cst_fold_result *results,
                          int32_t count);

/* Puts the rows of a fold, from [held rows][width], at their places in to [rows][width]. */
void cst_fold_scatter(const int32_t *folds, int64_t rows, int32_t fold, size_t width,
                      const float *from, float *to);
