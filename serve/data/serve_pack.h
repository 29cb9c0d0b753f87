/* serve_pack - columns of numbers and a JSON header as one body: what the page reads with typed
 * arrays. Pure.
 *
 *     4 bytes  length of the header
 *     header   JSON, padded with spaces so that the data are aligned
 *     data     columns; each begins at a multiple of 8 bytes
 *
 * Numbers are little-endian. The header's member `columns` maps the name of each column to [type,
 * offset in the data, count]; columns with the same numbers have the same offset. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/strbuf.h"

enum serve_pack_type { SERVE_PACK_F32, SERVE_PACK_F64, SERVE_PACK_U8, SERVE_PACK_U32 };

struct serve_pack {           /* zeroes are an empty pack */
    json_t *columns, *newest; /* the newest one is borrowed */
    struct strbuf data;
};

/* Adds a column of `count` zeroes and returns it. The caller fills it before it adds another
 * one. */
void *serve_pack_add(struct serve_pack *p, const char *name, enum serve_pack_type type,
                     size_t count);

/* Adds a column whose element `i` is an expression, which is converted to the column's type:
 *     SERVE_PACK(&pack, "low", F32, n, i, points[i].low); */
typedef float serve_pack_F32;
typedef double serve_pack_F64;
typedef uint8_t serve_pack_U8;
typedef uint32_t serve_pack_U32;
#define SERVE_PACK(pack, name, type, count, i, value)                                      \
    do {                                                                                   \
        serve_pack_##type *column_ = serve_pack_add(pack, name, SERVE_PACK_##type, count); \
        for (size_t i = 0; i < (count); i++)                                               \
            column_[i] = (serve_pack_##type)(value);                                       \
    } while (0)

/* Appends the body to `out` and empties the pack. Takes ownership of `head`, an object. */
void serve_pack_finish(struct strbuf *out, struct serve_pack *p, json_t *head);

/* A body in parts. The header is a new reference, the data are borrowed. */
json_t *serve_pack_head(const struct strbuf *body);
const char *serve_pack_data(const struct strbuf *body);
/* Appends a body of a header, with its member `columns`, and its data. */
void serve_pack_join(struct strbuf *out, const json_t *head, const char *data, size_t len);

/* Puts the first bytes of each column's numbers together, then their second ones, and so on: the
 * body is compressed to two thirds then. */
void serve_pack_planes(struct strbuf *body);
