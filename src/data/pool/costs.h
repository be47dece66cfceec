/* What predictions of members cost and the limits on the total of a set: FLOPs, latency,
 * parameters. Stages S0, S1 and selection. The paper has a limit on FLOPs only. */
#pragma once

#include "core/base.h"

typedef enum cst_cost {
    CST_COST_FLOPS,
    CST_COST_LATENCY, /* milliseconds */
    CST_COST_PARAMS,
    CST_COST_COUNT
} cst_cost;

/* Each [members], NaN where it is not known; NULL where no member's is. */
typedef struct cst_costs {
    const double *of[CST_COST_COUNT];
} cst_costs;

typedef struct cst_limits {
    double most[CST_COST_COUNT]; /* of a whole set; 0: no limit */
    bool parallel;               /* the latency of a set is that of its slowest member */
} cst_limits;

/* Whether any limit is set. */
bool cst_limited(const cst_limits *limits);

/* Cost of a set: the sum, of the latency of parallel members the largest. NaN where a member's is
 * not known. */
double cst_cost_of(const cst_costs *costs, bool parallel, cst_cost cost, const int32_t *members,
                   int32_t count);

/* Whether a cost is known of all `members` members. */
bool cst_cost_known(const cst_costs *costs, cst_cost cost, int32_t members);

/* Whether a total is within a limit, up to the rounding of a sum. */
bool cst_within(double total, double most);

/* Whether a set is within every limit. */
bool cst_costs_within(const cst_costs *costs, const cst_limits *limits, const int32_t *members,
                      int32_t count);

/* Whether `a` costs less than `b` in some way; and besides more in none. Of costs known of both. */
bool cst_costs_less(const cst_costs *costs, int32_t a, int32_t b);
bool cst_cheaper(const cst_costs *costs, int32_t a, int32_t b);

/* CST_ERROR_INPUT: no member of `members` [count] is within the limits; names the least that a
 * limit would have to be. */
cst_status cst_costs_too_dear(cst_context *context, const cst_costs *costs,
                              const cst_limits *limits, const int32_t *members, int32_t count);

/* The costs of some members, into values [CST_COST_COUNT][count], which *out refers to. */
void cst_costs_part(const cst_costs *costs, const int32_t *members, int32_t count, double *values,
                    cst_costs *out);

/* "FLOPs", "latency", "parameters"; the manifest's key; the option of the limit. */
const char *cst_cost_key(cst_cost cost);
const char *cst_cost_option(cst_cost cost);
