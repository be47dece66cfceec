/* Random numbers from Random123's Philox 4x32-10: seeded, counter-based, the same on every
 * machine. */
#include "core/base.h"

#include <Random123/philox.h>
#include <math.h>

void cst_rng_init(cst_rng *rng, uint64_t seed, cst_stream stream, uint32_t substream) {
    rng->key[0] = (uint32_t)seed;
    rng->key[1] = (uint32_t)(seed >> 32);
    rng->counter[0] = 0;
    rng->counter[1] = 0;
    rng->counter[2] = (uint32_t)stream;
    rng->counter[3] = substream;
    rng->used = 4;
}

uint32_t cst_rng_u32(cst_rng *rng) {
    if (rng->used == 4) {
        philox4x32_ctr_t counter = {
            {rng->counter[0], rng->counter[1], rng->counter[2], rng->counter[3]}};
        philox4x32_key_t key = {{rng->key[0], rng->key[1]}};
        philox4x32_ctr_t block = philox4x32(counter, key);
        for (int i = 0; i < 4; i++)
            rng->buffer[i] = block.v[i];
        rng->used = 0;
        if (++rng->counter[0] == 0)
            ++rng->counter[1];
    }
    return rng->buffer[rng->used++];
}

uint64_t cst_rng_u64(cst_rng *rng) {
    uint64_t high = cst_rng_u32(rng);
    return high << 32 | cst_rng_u32(rng);
}

double cst_rng_uniform(cst_rng *rng) {
    return (double)(cst_rng_u64(rng) >> 11) * 0x1p-53;
}

double cst_rng_normal(cst_rng *rng) {
    double radius = sqrt(-2.0 * log(1.0 - cst_rng_uniform(rng)));
    return radius * cos(6.283185307179586476925286766559 * cst_rng_uniform(rng));
}

int64_t cst_rng_below(cst_rng *rng, int64_t bound) {
    uint64_t range = (uint64_t)bound;
    uint64_t reject = (0 - range) % range; /* 2^64 mod range */
    uint64_t draw = 0;
    do {
        draw = cst_rng_u64(rng);
    } while (draw < reject);
    return (int64_t)(draw % range);
}

void cst_rng_shuffle(cst_rng *rng, int64_t *items, int64_t count) {
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = cst_rng_below(rng, i + 1);
        int64_t keep = items[i];
        items[i] = items[j];
        items[j] = keep;
    }
}
