/* NCCL 2.19: none of the calls that came later. */
#define FAKE_OLD
#include "tests/fake/nccl.c"
