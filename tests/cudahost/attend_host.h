/* attend_host - an attend_cudnn.so that computes attention on the host, next to the CUDA code of
 * tests/cudahost. Its version is 9.19.0; it checks what it is given, and counts. */
#pragma once

#include "examples/gpt/attend_cudnn.h"

struct attend_host {
    const char *refuse;    /* the reason why plan() refuses each shape; NULL: it does not */
    const char *break_run; /* the error of run(); NULL: none */
    int spoil;             /* 1: run() gives other numbers each time */
    int opens, closes, plans, runs;
    struct attend_shape last; /* of run() */
};
/* The symbol of the only one. */
#define ATTEND_HOST_SYMBOL "attend_host"
/* Bytes that the backward pass of a shape needs. */
#define ATTEND_HOST_WORKSPACE(B, T, H) ((size_t)(B) * (H) * (T) * (T)*2)
