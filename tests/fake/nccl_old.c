/* NCCL 2.19, without newer functions. */
#define FAKE_OLD
#include "tests/fake/nccl.c"
