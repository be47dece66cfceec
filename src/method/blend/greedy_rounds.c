/*
 * The rounds of greedy selection, apart from the loss: draws among ties, rounding, the cut at the
 * first minimum. A blend rule of stage S4 and several baselines. docs/method.md#s4-blend; Caruana
 * et al. (2004).
 */
#include "method/blend/greedy_rounds.h"

#include <math.h>

static const double ROUNDING_FROM = 1e-4; /* losses are rounded if the first best exceeds this */

/* Cells read in a round from which on threads share it: below, starting them costs more. */
static const double SHARED_FROM = 8e6;

/* ---- NumPy's legacy generator, for the draws among ties ---- */

typedef struct mersenne {
    uint32_t state[624];
    int next;
} mersenne;

static void mersenne_seed(mersenne *m, uint32_t seed) {
    m->state[0] = seed;
    for (uint32_t i = 1; i < 624; i++)
        m->state[i] = 1812433253U * (m->state[i - 1] ^ m->state[i - 1] >> 30) + i;
    m->next = 624;
}

static uint32_t mersenne_next(mersenne *m) {
    if (m->next == 624) {
        for (int i = 0; i < 624; i++) {
            uint32_t y = (m->state[i] & 0x80000000U) | (m->state[(i + 1) % 624] & 0x7fffffffU);
            m->state[i] = m->state[(i + 397) % 624] ^ y >> 1 ^ (y & 1U ? 0x9908b0dfU : 0U);
        }
        m->next = 0;
    }
    uint32_t y = m->state[m->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680U;
    y ^= y << 15 & 0xefc60000U;
    return y ^ y >> 18;
}

/* RandomState.randint(0, count): bits masked, too large ones drawn again, none drawn for one. */
static int32_t mersenne_below(mersenne *m, int32_t count) {
    uint32_t most = (uint32_t)count - 1;
    if (most == 0)
        return 0;
    uint32_t mask = most;
    for (int shift = 1; shift < 32; shift *= 2)
        mask |= mask >> shift;
    uint32_t draw = 0;
    do {
        draw = mersenne_next(m) & mask;
    } while (draw > most);
    return (int32_t)draw;
}

/* ---- selection ---- */

double cst_greedy_rounded(double loss, bool rounding) {
    return rounding ? rint(loss * 1e6) / 1e6 : loss;
}

/* The member with the least loss; ties go to members already used, then to the draw. */
static int32_t choose(const double *loss, const bool *used, int32_t members, mersenne *random,
                      int32_t *tied) {
    double least = INFINITY;
    for (int32_t k = 0; k < members; k++)
        least = fmin(least, loss[k]);
    int32_t count = 0;
    bool any_used = false;
    for (int32_t k = 0; k < members; k++) {
        if (fabs(loss[k] - least) > CST_GREEDY_TIE * fabs(least))
            continue;
        tied[count++] = k;
        any_used = any_used || used[k];
    }
    if (count > 1 && any_used) {
        int32_t kept = 0;
        for (int32_t j = 0; j < count; j++)
            if (used[tied[j]])
                tied[kept++] = tied[j];
        count = kept;
    }
    return tied[mersenne_below(random, count)];
}

static void cut(cst_greedy *out, int32_t rounds, int32_t members) {
    int32_t best = 0;
    for (int32_t i = 1; i < rounds; i++)
        if (out->loss[i] < out->loss[best])
            best = i;
    out->rounds = best + 1;
    for (int32_t i = 0; i < out->rounds; i++)
        out->weights[out->order[i]] += 1;
    for (int32_t k = 0; k < members; k++)
        out->weights[k] /= (double)out->rounds;
}

static cst_status run_rounds(cst_context *context, int32_t members, int32_t rounds, uint32_t seed,
                             cst_greedy_losses_fn losses, void *user, cst_greedy *out) {
    cst_status status = CST_OK;
    bool rounding = false;
    double *loss = cst_alloc(context, (size_t)members, sizeof *loss);
    bool *used = cst_alloc(context, (size_t)members, sizeof *used);
    int32_t *tied = cst_alloc(context, (size_t)members, sizeof *tied);
    mersenne *random = cst_alloc(context, 1, sizeof *random);
    if (!loss || !used || !tied || !random) {
        status = CST_ERROR_MEMORY;
        goto cleanup;
    }
    mersenne_seed(random, seed);
    if (members == 1)
        rounds = 1;
    for (int32_t i = 0; i < rounds; i++) {
        status = losses(context, user, i, i > 0 ? out->order[i - 1] : -1, rounding, loss);
        if (status != CST_OK)
            goto cleanup;
        int32_t best = choose(loss, used, members, random, tied);
        if (i == 0)
            rounding = loss[best] > ROUNDING_FROM;
        out->order[i] = best;
        out->loss[i] = cst_greedy_rounded(loss[best], rounding);
        used[best] = true;
    }
    cut(out, rounds, members);
cleanup:
    cst_free(context, loss);
    cst_free(context, used);
    cst_free(context, tied);
    cst_free(context, random);
    return status;
}

cst_status cst_greedy_check(cst_context *context, const cst_view *view, int32_t rounds) {
    if (rounds < 1 || view->members < 1)
        return cst_fail(context, CST_ERROR_ARGUMENT,
                        "greedy selection over %d members in %d rounds: both must be at least 1",
                        view->members, rounds);
    if (view->rows < 1 || !view->labels)
        return cst_fail(context, CST_ERROR_INPUT, "greedy selection needs labelled rows");
    return CST_OK;
}

cst_status cst_greedy_run(cst_context *context, const cst_view *view, int32_t rounds, uint32_t seed,
                          double work, cst_greedy_losses_fn losses, void *user, cst_greedy *out) {
    int threads = cst_context_threads(context);
    *out = (cst_greedy){0};
    out->order = cst_alloc(context, (size_t)rounds, sizeof *out->order);
    out->loss = cst_alloc(context, (size_t)rounds, sizeof *out->loss);
    out->weights = cst_alloc(context, (size_t)view->members, sizeof *out->weights);
    cst_status status = out->order && out->loss && out->weights ? CST_OK : CST_ERROR_MEMORY;
    if (status == CST_OK && work < SHARED_FROM)
        status = cst_context_set_threads(context, 1);
    CST_THEN(run_rounds(context, view->members, rounds, seed, losses, user, out));
    (void)cst_context_set_threads(context, threads); /* was valid before */
    if (status != CST_OK)
        cst_greedy_free(context, out);
    return status;
}

void cst_greedy_free(cst_context *context, cst_greedy *greedy) {
    cst_free(context, greedy->order);
    cst_free(context, greedy->loss);
    cst_free(context, greedy->weights);
    *greedy = (cst_greedy){0};
}
