/* Loss-aware selection: members that may go without a clear loss. docs/method.md. */
#pragma once

#include "data/pool/costs.h"
#include "method/loglinear/loglinear.h"

typedef enum cst_select_direction {
    CST_SELECT_FORWARD,  /* from the empty set, the member that lowers the loss most joins */
    CST_SELECT_BACKWARD, /* from all, the member whose removal costs least leaves */
    CST_SELECT_BOTH /* both paths; at each size the set with the lower loss on the rows fitted to */
} cst_select_direction;

/* A smaller allowed size with less held-out loss by 3 standard errors goes first. */
typedef enum cst_select_rule {
    CST_SELECT_BEST,         /* the size with the least held-out loss */
    CST_SELECT_ONE_SE,       /* the smallest size within one paired standard error of it */
    CST_SELECT_TOLERANCE,    /* the smallest size within a relative tolerance of it */
    CST_SELECT_NON_INFERIOR, /* the smallest size whose excess over all members, plus 3 standard
                               errors, is below the tolerance, else the largest allowed one. With
                               limits on cost: within a thousandth of the best allowed one */
    CST_SELECT_DISTIL        /* the smallest size whose pool, fitted to the predictions of the blend
                                of all members, is within the tolerance of the pool of all */
} cst_select_rule;

struct cst_select_options;
struct cst_selection;
struct cst_front;

/* Selects from `members` [count] of a view by a score that its rows do not have. */
typedef struct cst_chooser {
    cst_status (*choose)(cst_context *context, const void *user, const int32_t *members,
                         int32_t count, const struct cst_select_options *options,
                         struct cst_selection *out, struct cst_front *front);
    const void *user;
    const char *loss; /* in notices */
} cst_chooser;

typedef struct cst_select_options {
    const cst_chooser *chooser; /* NULL: by the loss of the rows */
    cst_select_direction direction;
    cst_select_rule rule;
    double tolerance;     /* relative to the held-out NLL of the reference */
    int32_t cap_count;    /* at most this many members; 0: no cap */
    cst_limits limits;    /* on the costs of a set */
    cst_costs costs;      /* of the view's members; finite where they are limited */
    const float *targets; /* of CST_SELECT_DISTIL: [rows][classes], probabilities to be like */
    double prior;         /* precision of the log-linear weights during selection, total scale */
    cst_compact_options compact; /* which classes and rows are looked at; all zero: every one */
    bool nonnegative;            /* weights at or above 0 */
    const double *tilt;          /* of paths by CST_SELECT_DISTIL: as of cst_loglinear_options */
    const double *worth; /* [members]: what a rise of the loss, or a gain, is divided by; NULL: 1 */
} cst_select_options;

typedef struct cst_select_step {
    int32_t size;
    int32_t *members;   /* [size], ascending positions in the view: the path on all rows */
    double loss;        /* held-out mean NLL, each fold with its own path of this size; by
                           CST_SELECT_DISTIL mean cross-entropy with the targets */
    double excess;      /* loss minus the least loss on the path */
    double excess_se;   /* paired standard error of that difference */
    double against_all; /* loss minus the loss of all members; by CST_SELECT_DISTIL of the labels */
    double against_all_se;
    double cost[CST_COST_COUNT]; /* of the members; NaN where not known */
    bool allowed;                /* within every cap */
} cst_select_step;

typedef struct cst_selection {
    cst_scope scope;
    int32_t members;       /* K of the view */
    int64_t rows;          /* rows that were looked at */
    cst_select_step *path; /* [members]: sizes 1..K */
    int32_t chosen;        /* index into path */
    int32_t best;          /* index of the least held-out loss */
    bool distilled;        /* by CST_SELECT_DISTIL */
    const char *by;        /* what the losses are, where a chooser says so; static */
} cst_selection;

/* Of the front of held-out loss against cost: sets that no cheaper set has a lower loss than. */
typedef struct cst_front_point {
    int32_t size;
    int32_t *members; /* [size], ascending */
    double loss;      /* mean over the rows, each by the fit of the set without its fold */
    double cost[CST_COST_COUNT]; /* NaN where not known */
    bool best[CST_COST_COUNT];   /* on the front against this cost */
    bool chosen;
} cst_front_point;

/* Ascending loss; the chosen set is there even where it is not the best at its cost. */
typedef struct cst_front {
    cst_scope scope;
    int32_t count;
    cst_front_point *point; /* [count] */
} cst_front;

/* Paths inside every fold and on all rows, and a size. CST_ERROR_INPUT without an allowed one.
 * front: also the front around the selection's sets; NULL: not wanted. Free both also after a
 * failure. */
cst_status cst_select(cst_context *context, const cst_view *view, const int32_t *folds,
                      int32_t fold_count, const cst_select_options *options, cst_selection *out,
                      cst_front *front);

/* The path and the choice from held-out losses, for whoever computes them: total [K + K*K], sums
 * over `rows` rows of the loss at each size and of the products of the losses at two sizes; sets
 * [K][size], copied. out->members is set already, out->path is made. */
cst_status cst_selection_finish(cst_context *context, const cst_select_options *options,
                                const double *total, int64_t rows, int32_t *const *sets,
                                cst_selection *out);
/* Paths that a distillation follows, what a rise of the loss is divided by on one of them (worth:
 * [members]), and the choice among them: of two selections the one whose set takes less of the
 * members and of their cost together, of capped ones the one of less loss, is left in *out. */
int cst_distil_paths(const cst_select_options *options, int32_t members);
void cst_distil_worth(const cst_select_options *options, int32_t members, int path, double *worth);
void cst_distil_keep(cst_context *context, const cst_select_options *options, cst_selection *found,
                     cst_selection *out);
void cst_selection_free(cst_context *context, cst_selection *selection);
void cst_front_free(cst_context *context, cst_front *front);
