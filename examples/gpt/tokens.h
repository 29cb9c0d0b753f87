/* tokens - the tokens of a file: the bytes of any file, or numbers of 16 bits from a tokenizer.
 *
 * Files of 16 bits, little-endian, are those of nanoGPT (only tokens), and of llm.c (a head of 256
 * int32 before them: 20240520, version 1, number of tokens). */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct tokens {
    const uint8_t *file, *first; /* the whole file in memory; its first token */
    size_t file_size, n;         /* bytes; number of tokens */
    int bytes;                   /* of a token: 1 or 2 */
};

/* Opens a file. `bytes`: of a token. Reads all of it, to check that each token is below
 * `vocabulary`. Free it with tokens_close(). Returns 0, or -1 with the error in `why`. */
int tokens_open(struct tokens *t, const char *path, int bytes, int vocabulary, char *why,
                size_t why_size);
/* An empty `t` is allowed. */
void tokens_close(struct tokens *t);
/* Copies n tokens from position `at` on. at + n <= t->n. */
void tokens_copy(uint16_t *to, const struct tokens *t, size_t at, size_t n);
