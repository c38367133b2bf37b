#include "sha256.h"

#include <string.h>

/* FIPS 180-4, 4.2.2. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t word, unsigned bits) {
    return word >> bits | word << (32 - bits);
}

/* One block, 6.2.2. The message schedule is kept as its last 16 words. */
static void take_block(uint32_t state[static 8], const unsigned char block[static SHA256_BLOCK]) {
    uint32_t w[16];
    for (unsigned i = 0; i < 16; i++, block += 4) {
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (unsigned i = 0; i < 64; i++) {
        uint32_t word = w[i % 16];
        uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + word;
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
        uint32_t s0 = w[(i + 1) % 16], s1 = w[(i + 14) % 16];
        w[i % 16] = word + w[(i + 9) % 16] + (rotate(s0, 7) ^ rotate(s0, 18) ^ s0 >> 3) +
                    (rotate(s1, 17) ^ rotate(s1, 19) ^ s1 >> 10);
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void sha256_start(struct sha256 *hash) {
    /* 5.3.3 */
    *hash = (struct sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                  0x5be0cd19},
    };
}

void sha256_add(struct sha256 *hash, const void *data, size_t size) {
    const unsigned char *next = data;
    size_t held = hash->length % SHA256_BLOCK;
    hash->length += size;
    if (held > 0) {
        size_t part = size < SHA256_BLOCK - held ? size : SHA256_BLOCK - held;
        memcpy(hash->block + held, next, part);
        if (held + part < SHA256_BLOCK) {
            return;
        }
        take_block(hash->state, hash->block);
        next += part;
        size -= part;
    }
    for (; size >= SHA256_BLOCK; next += SHA256_BLOCK, size -= SHA256_BLOCK) {
        take_block(hash->state, next);
    }
    memcpy(hash->block, next, size);
}

void sha256_end(struct sha256 *hash, char ret_text[static SHA256_DIGITS + 1]) {
    /* 5.1.1: a one bit, zeros, and the length in bits as the last 8 bytes of a block. */
    static const unsigned char PADDING[SHA256_BLOCK] = {0x80};
    uint64_t bits = hash->length * 8;
    size_t held = hash->length % SHA256_BLOCK;
    sha256_add(hash, PADDING, (held < 56 ? 56 : 120) - held);
    unsigned char length[8];
    for (unsigned i = 0; i < 8; i++) {
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    }
    sha256_add(hash, length, sizeof length);
    for (unsigned i = 0; i < SHA256_DIGITS; i++) {
        ret_text[i] = "0123456789abcdef"[hash->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    }
    ret_text[SHA256_DIGITS] = '\0';
}
