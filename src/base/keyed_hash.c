/*
 * SipHash-1-3. Under the tables of ids and of files. Paper: Aumasson and Bernstein, "SipHash: a
 * fast short-input PRF", 2012.
 */
#include "base/keyed_hash.h"

#include <string.h>
#include <time.h>

static uint64_t turn_left(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = turn_left(v[1], 13) ^ v[0];
    v[3] = turn_left(v[3], 16) ^ v[2];
    v[0] = turn_left(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = turn_left(v[3], 21) ^ v[0];
    v[1] = turn_left(v[1], 17) ^ v[2];
    v[2] = turn_left(v[2], 32);
}

uint64_t cst_keyed_hash(const uint64_t key[2], const char *text) {
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                     key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    size_t left = strlen(text);
    uint64_t word = (uint64_t)left << 56;
    for (; left >= 8; left -= 8, text += 8) {
        uint64_t eight = 0;
        memcpy(&eight, text, 8);
        v[3] ^= eight;
        sip_round(v);
        v[0] ^= eight;
    }
    for (size_t i = 0; i < left; i++)
        word |= (uint64_t)(unsigned char)text[i] << (8 * i);
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void cst_keyed_hash_key(const void *memory, uint64_t key[2]) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    key[0] = (uint64_t)(uintptr_t)memory ^ (uint64_t)now.tv_nsec << 32;
    key[1] = (uint64_t)(uintptr_t)&now ^ (uint64_t)now.tv_sec << 20 ^ (uint64_t)now.tv_nsec;
}
