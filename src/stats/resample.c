/*
 * Draws bootstrap resamples: how often each row occurs, for CST_LANES resamples side by side. Under
 * the intervals of every score. docs/json.md#evaluate.
 */
#include "stats/resample.h"

#include <Random123/philox.h>
#include <string.h>

cst_status cst_resample_make(cst_context *context, int64_t rows, cst_resample *out) {
    int64_t padded = (rows + CST_LANES - 1) / CST_LANES * CST_LANES;
    *out = (cst_resample){.rows = rows, .padded = padded};
    out->lane = cst_alloc(context, (size_t)padded, CST_LANES);
    out->count = cst_alloc(context, (size_t)padded, CST_LANES);
    return out->lane && out->count ? CST_OK : CST_ERROR_MEMORY;
}

void cst_resample_free(cst_context *context, cst_resample *resample) {
    cst_free(context, resample->lane);
    cst_free(context, resample->count);
    *resample = (cst_resample){0};
}

/* Blocks of four words that are drawn side by side. */
enum { BLOCKS = 32 };

/* Rows for the words of blocks block .. block + BLOCKS - 1 of a stream: row [4][BLOCKS]. Tells
 * whether some word is to be refused, as one that would favour some rows. */
CST_VECTOR_CLONES
static uint32_t draw_rows(uint64_t seed, uint32_t resample, uint64_t block, uint32_t range,
                          uint32_t refuse, uint32_t *row) {
    uint32_t x[4][BLOCKS];
    uint32_t key0 = (uint32_t)seed;
    uint32_t key1 = (uint32_t)(seed >> 32);
    for (uint32_t b = 0; b < BLOCKS; b++) {
        x[0][b] = (uint32_t)(block + b);
        x[1][b] = (uint32_t)((block + b) >> 32);
        x[2][b] = (uint32_t)CST_STREAM_BOOTSTRAP;
        x[3][b] = resample;
    }
    for (int round = 0; round < 10; round++) { /* philox4x32-10 */
        for (int b = 0; b < BLOCKS; b++) {
            uint64_t first = (uint64_t)PHILOX_M4x32_0 * x[0][b];
            uint64_t second = (uint64_t)PHILOX_M4x32_1 * x[2][b];
            x[0][b] = (uint32_t)(second >> 32) ^ x[1][b] ^ key0;
            x[1][b] = (uint32_t)second;
            x[2][b] = (uint32_t)(first >> 32) ^ x[3][b] ^ key1;
            x[3][b] = (uint32_t)first;
        }
        key0 += PHILOX_W32_0;
        key1 += PHILOX_W32_1;
    }
    uint32_t refused = 0;
    for (int w = 0; w < 4; w++) { /* Lemire's multiply and shift */
        for (int b = 0; b < BLOCKS; b++) {
            uint64_t product = (uint64_t)x[w][b] * range;
            row[w * BLOCKS + b] = (uint32_t)(product >> 32);
            refused |= (uint32_t)product < refuse;
        }
    }
    return refused;
}

/* Row for draw `j` of a resample whose word was refused (a chance of rows / 2^32): words of a part
 * of the stream that nothing else reads. */
static int64_t draw_again(uint64_t seed, uint32_t resample, int64_t j, int64_t rows) {
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_BOOTSTRAP, resample);
    rng.counter[0] = (uint32_t)j;
    rng.counter[1] = 0x80000000U | (uint32_t)(j >> 32);
    return cst_rng_below(&rng, rows);
}

/* `draws` draws from number `first` on, one after another: the last of a resample, and those among
 * which a word is refused. */
static void draw_few(uint64_t seed, uint32_t resample, int64_t first, int64_t draws, uint32_t range,
                     uint32_t refuse, unsigned char *count) {
    cst_rng rng;
    cst_rng_init(&rng, seed, CST_STREAM_BOOTSTRAP, resample);
    rng.counter[0] = (uint32_t)(first / 4);
    rng.counter[1] = (uint32_t)((uint64_t)first >> 34);
    for (int64_t j = first; j < first + draws; j++) {
        uint64_t product = (uint64_t)cst_rng_u32(&rng) * range;
        size_t row = (size_t)(product >> 32);
        if ((uint32_t)product < refuse)
            row = (size_t)draw_again(seed, resample, j, range);
        count[row]++;
    }
}

static void draw_lane(uint64_t seed, uint32_t resample, uint32_t range, unsigned char *count) {
    enum { CHUNK = 4 * BLOCKS };
    uint32_t refuse = (uint32_t)((UINT64_C(1) << 32) % range);
    uint32_t row[CHUNK];
    int64_t j = 0;
    for (; j + CHUNK <= range; j += CHUNK) {
        if (draw_rows(seed, resample, (uint64_t)j / 4, range, refuse, row))
            draw_few(seed, resample, j, CHUNK, range, refuse, count);
        else
            for (int i = 0; i < CHUNK; i++)
                count[row[i]]++;
    }
    draw_few(seed, resample, j, range - j, range, refuse, count);
}

/* Squares of 16 lanes and 16 rows, turned by four rounds of interleaving. */
static void turn(cst_resample *resample) {
    typedef unsigned char bytes __attribute__((vector_size(CST_LANES)));
    bytes from[CST_LANES];
    bytes to[CST_LANES];
    for (int64_t row = 0; row < resample->padded; row += CST_LANES) {
        for (int l = 0; l < CST_LANES; l++)
            memcpy(&from[l], resample->lane + l * resample->padded + row, sizeof from[l]);
        for (int round = 0; round < 4; round++) {
            for (int l = 0; l < CST_LANES / 2; l++) {
                bytes a = from[l];
                bytes b = from[l + CST_LANES / 2];
                to[2 * l] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                                    6, 22, 7, 23);
                to[2 * l + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                        13, 29, 14, 30, 15, 31);
            }
            memcpy(from, to, sizeof from);
        }
        memcpy(resample->count + row * CST_LANES, from, sizeof from);
    }
}

void cst_resample_draw(cst_resample *resample, uint64_t seed, uint32_t first) {
    memset(resample->lane, 0, (size_t)resample->padded * CST_LANES);
    for (uint32_t l = 0; l < CST_LANES; l++)
        draw_lane(seed, first + l, (uint32_t)resample->rows, resample->lane + l * resample->padded);
    turn(resample);
}

void cst_resample_once(cst_resample *resample) {
    memset(resample->lane, 1, (size_t)resample->padded * CST_LANES);
    memset(resample->count, 1, (size_t)resample->padded * CST_LANES);
}

cst_status cst_resample_all(cst_context *context, int64_t resamples, int64_t batch,
                            cst_task_fn task, void *user, double *drawn, int64_t columns) {
    cst_share *filled = cst_alloc(context, (size_t)columns, sizeof *filled);
    if (!filled)
        return CST_ERROR_MEMORY;
    for (int64_t c = 0; c < columns; c++)
        filled[c] = (cst_share){drawn + c * resamples, (size_t)batch * sizeof *drawn,
                                (size_t)resamples * sizeof *drawn};
    cst_status status = cst_parallel_fill(context, (resamples + batch - 1) / batch, task, user,
                                          filled, (int32_t)columns);
    cst_free(context, filled);
    return status;
}
