/* Rounds of greedy selection: draws among ties, rounding, the cut at the first minimum.
 * docs/method.md#s4-blend; Caruana et al. (2004). */
#include "method/blend/greedy.h"

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
    bool rounding = false;
    CST_SCOPE(scope);
    CST_NEW(context, scope, double, loss, members);
    CST_NEW(context, scope, bool, used, members);
    CST_NEW(context, scope, int32_t, tied, members);
    CST_NEW(context, scope, mersenne, random, 1);
    mersenne_seed(random, seed);
    if (members == 1)
        rounds = 1;
    for (int32_t i = 0; i < rounds; i++) {
        CST_TRY(losses(context, user, i, i > 0 ? out->order[i - 1] : -1, rounding, loss));
        int32_t best = choose(loss, used, members, random, tied);
        if (i == 0)
            rounding = loss[best] > ROUNDING_FROM;
        out->order[i] = best;
        out->loss[i] = cst_greedy_rounded(loss[best], rounding);
        used[best] = true;
    }
    cut(out, rounds, members);
    return CST_OK;
}

cst_status cst_greedy_run(cst_context *context, int32_t members, int32_t rounds, uint32_t seed,
                          double work, cst_greedy_losses_fn losses, void *user, cst_greedy *out) {
    int threads = cst_context_threads(context);
    CST_TAKE(context, &out->scope, out->order, rounds);
    CST_TAKE(context, &out->scope, out->loss, rounds);
    CST_TAKE(context, &out->scope, out->weights, members);
    if (work < SHARED_FROM)
        CST_TRY(cst_context_set_threads(context, 1));
    cst_status status = run_rounds(context, members, rounds, seed, losses, user, out);
    (void)cst_context_set_threads(context, threads); /* was valid before */
    return status;
}
