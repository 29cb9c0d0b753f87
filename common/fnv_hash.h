/* fnv_hash - FNV-1a hash of 64 bits (Fowler, Noll, Vo): distinguishes texts; not cryptographic. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FNV_HASH_INIT UINT64_C(0xcbf29ce484222325)

static inline uint64_t fnv_hash_bytes(uint64_t h, const void *data, size_t len)
{
    for (const unsigned char *b = data; len > 0; b++, len--)
        h = (h ^ *b) * UINT64_C(0x100000001b3);
    return h;
}

/* Adds the text and a mark of its end to the hash, so that the texts "ab" and "c" give another hash
 * than "a" and "bc". */
static inline uint64_t fnv_hash_text(uint64_t h, const char *text)
{
    return (fnv_hash_bytes(h, text, strlen(text)) ^ 0xff) * UINT64_C(0x100000001b3);
}
