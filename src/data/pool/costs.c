/* Costs of members and of sets, and the limits on them. Stages S0, S1 and selection. */
#include "data/pool/costs.h"

#include <math.h>

static const struct {
    const char *name;
    const char *key;
    const char *option;
} COSTS[CST_COST_COUNT] = {
    [CST_COST_FLOPS] = {"FLOPs", "flops", "keep.max_flops"},
    [CST_COST_LATENCY] = {"latency", "latency_ms", "keep.max_latency"},
    [CST_COST_PARAMS] = {"parameters", "params", "keep.max_params"},
};

/* 1.1 + 2.2 is above 3.3 in binary. */
static const double ROUNDING = 1e-9;

const char *cst_cost_key(cst_cost cost) {
    return COSTS[cost].key;
}

const char *cst_cost_option(cst_cost cost) {
    return COSTS[cost].option;
}

bool cst_limited(const cst_limits *limits) {
    for (int c = 0; c < CST_COST_COUNT; c++)
        if (limits->most[c] > 0)
            return true;
    return false;
}

double cst_cost_of(const cst_costs *costs, bool parallel, cst_cost cost, const int32_t *members,
                   int32_t count) {
    const double *of = costs->of[cost];
    double total = 0;
    if (!of)
        return NAN;
    for (int32_t j = 0; j < count; j++) {
        double mine = of[members[j]];
        if (!parallel || cost != CST_COST_LATENCY || isnan(mine))
            total += mine;
        else if (mine > total)
            total = mine;
    }
    return total;
}

bool cst_cost_known(const cst_costs *costs, cst_cost cost, int32_t members) {
    for (int32_t k = 0; costs->of[cost] && k < members; k++)
        if (isnan(costs->of[cost][k]))
            return false;
    return costs->of[cost] != NULL;
}

bool cst_within(double total, double most) {
    return total <= most * (1 + ROUNDING);
}

bool cst_costs_within(const cst_costs *costs, const cst_limits *limits, const int32_t *members,
                      int32_t count) {
    for (int c = 0; c < CST_COST_COUNT; c++)
        if (limits->most[c] > 0 &&
            !cst_within(cst_cost_of(costs, limits->parallel, (cst_cost)c, members, count),
                        limits->most[c]))
            return false;
    return true;
}

bool cst_costs_less(const cst_costs *costs, int32_t a, int32_t b) {
    for (int c = 0; c < CST_COST_COUNT; c++)
        if (costs->of[c] && costs->of[c][a] < costs->of[c][b]) /* not with NaN */
            return true;
    return false;
}

bool cst_cheaper(const cst_costs *costs, int32_t a, int32_t b) {
    return cst_costs_less(costs, a, b) && !cst_costs_less(costs, b, a);
}

cst_status cst_costs_too_dear(cst_context *context, const cst_costs *costs,
                              const cst_limits *limits, const int32_t *members, int32_t count) {
    for (int c = 0; c < CST_COST_COUNT; c++) {
        double most = limits->most[c];
        double least = INFINITY;
        for (int32_t j = 0; most > 0 && j < count; j++)
            least = fmin(least, costs->of[c][members[j]]);
        if (most > 0 && !cst_within(least, most))
            return cst_fail(
                context, CST_ERROR_INPUT,
                "no member fits under the %s limit of %g: the cheapest has %g; raise the limit",
                COSTS[c].name, most, least);
    }
    return cst_fail(context, CST_ERROR_INPUT,
                    "no member is within all limits on FLOPs, latency and parameters; raise one of "
                    "them");
}

void cst_costs_part(const cst_costs *costs, const int32_t *members, int32_t count, double *values,
                    cst_costs *out) {
    *out = (cst_costs){{NULL}};
    for (int c = 0; c < CST_COST_COUNT; c++) {
        if (!costs->of[c])
            continue;
        double *to = values + (size_t)c * (size_t)count;
        for (int32_t j = 0; j < count; j++)
            to[j] = costs->of[c][members[j]];
        out->of[c] = to;
    }
}
