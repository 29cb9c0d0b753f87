/* safetensors - the header of a .safetensors file: how many parameters of which type it has.
 *
 * The file begins with the length of the header (8 bytes, little-endian), then the header, a JSON
 * object with a type, a shape and a position for each tensor, then the tensors' bytes. Files come
 * from other people: each number is checked against the size of the file. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

enum { SAFETENSORS_HEADER_MAX = 32 << 20 };

/* Tensors with an integer type, such as positions, do not count, unless they hold packed weights:
 * those of bitsandbytes, GPTQ, AWQ, compressed-tensors and MXFP4 count as the weights that they
 * hold. Scales and zero points of such weights count as bytes only. */
struct safetensors {
    int64_t params;        /* their elements */
    int64_t largest_layer; /* elements of the largest layer or other module */
    int64_t packed;        /* … elements that are stored in less than 16 bit */
    int64_t adapter;       /* … that are an adapter's (LoRA) */
    int64_t bytes;         /* of what counts, with scales */
};

/* Parses a header of `len` bytes, which `data_bytes` bytes of tensors follow, and adds its tensors
 * to `*out`. A layer that lies in several files counts once per file.
 *   -EINVAL  malformed: not JSON, an unknown type, a shape that does not match the position, a
 *            position outside of the file, or tensors that overlap or leave gaps */
int safetensors_parse(struct safetensors *out, const char *header, size_t len, int64_t data_bytes,
                      struct err *e);

/* Reads the header of a file. In addition: -EFBIG  it is longer than SAFETENSORS_HEADER_MAX; or as
 * open() fails. */
int safetensors_read(struct safetensors *out, const char *path, struct err *e);
