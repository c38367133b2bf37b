/* SHA-256 (FIPS 180-4) of a stream, in constant memory: add() as often as there are pieces, then end(). */
#ifndef OPENSAFE_SHA256_H
#define OPENSAFE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum {
    SHA256_BLOCK = 64, /* bytes */
    SHA256_DIGITS = 64 /* of the digest in hexadecimal */
};

struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far; those beyond the last whole block wait in `block` */
    unsigned char block[SHA256_BLOCK];
};

void sha256_start(struct sha256 *hash);

void sha256_add(struct sha256 *hash, const void *data, size_t size);

/* The digest in lowercase hexadecimal, ended by a NUL. `hash` is used up. */
void sha256_end(struct sha256 *hash, char ret_text[static SHA256_DIGITS + 1]);

#endif
