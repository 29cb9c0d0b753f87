#include "tokens.h"

#include <stdio.h>
#include <string.h>

#include "../kit/loader.h"

enum { LLMC = 20240520, LLMC_LLAMA3 = 20240801, LLMC_VERSION = 1, HEAD_BYTES = 256 * 4 };

/* Sets t->first and t->n. Returns NULL, or what is wrong with the file. */
static const char *find_tokens(struct tokens *t)
{
    static char text[160];
    int32_t head[3] = {0};
    size_t skip = 0;
    if (t->bytes == 2 && t->file_size >= HEAD_BYTES)
        memcpy(head, t->file, sizeof head);
    if (head[0] == LLMC_LLAMA3)
        return "tokens of 32 bits (llm.c's for Llama 3) are not supported (try: GPT-2's tokenizer)";
    if (head[0] == LLMC) {
        skip = HEAD_BYTES;
        if (head[1] != LLMC_VERSION) {
            snprintf(text, sizeof text, "version %d of llm.c's format; only %d is supported",
                     (int)head[1], LLMC_VERSION);
            return text;
        }
    }
    t->first = t->file + skip;
    t->n = (t->file_size - skip) / (size_t)t->bytes;
    if ((t->file_size - skip) % (size_t)t->bytes)
        return "an odd number of bytes, so not tokens of 16 bits (try: --data, if it is a text)";
    if (skip > 0 && t->n != (size_t)(uint32_t)head[2]) {
        snprintf(text, sizeof text, "its head says %u tokens, and it has %zu (try: copy it again)",
                 (unsigned)head[2], t->n);
        return text;
    }
    return NULL;
}

int tokens_open(struct tokens *t, const char *path, int bytes, int vocabulary, char *why,
                size_t why_size)
{
    enum { PIECE = 4096 };
    uint16_t piece[PIECE];
    *t = (struct tokens){.bytes = bytes};
    if (!(t->file = loader_map(path, &t->file_size, why, why_size)))
        return -1;
    const char *problem = find_tokens(t);
    if (problem)
        snprintf(why, why_size, "'%s': %s", path, problem);
    int highest = bytes == 1 ? UINT8_MAX : UINT16_MAX;
    for (size_t at = 0; !problem && vocabulary <= highest && at < t->n; at += PIECE) {
        size_t n = t->n - at < PIECE ? t->n - at : PIECE, i = 0;
        tokens_copy(piece, t, at, n);
        while (i < n && piece[i] < vocabulary)
            i++;
        if (i == n)
            continue;
        problem = why;
        snprintf(
            why, why_size,
            "'%s': token %u at position %zu is not below --vocabulary=%d (try: the size of the "
            "tokenizer's vocabulary)",
            path, (unsigned)piece[i], at + i, vocabulary);
    }
    if (problem)
        tokens_close(t);
    return problem ? -1 : 0;
}

void tokens_close(struct tokens *t)
{
    if (t->file)
        loader_unmap(t->file, t->file_size);
    *t = (struct tokens){0};
}

void tokens_copy(uint16_t *to, const struct tokens *t, size_t at, size_t n)
{
    if (t->bytes == 2)
        memcpy(to, t->first + 2 * at, 2 * n);
    for (size_t i = 0; i < n && t->bytes == 1; i++)
        to[i] = t->first[at + i];
}
