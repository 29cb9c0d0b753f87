/* cmd_bench_opts - the command line of `drover bench`: nccl-tests' options and drover's own. */
#pragma once

#include <stdbool.h>

#include "collectives/bench/bench.h"
#include "collectives/bench/local/bench_local.h"
#include "common/err.h"

enum cmd_bench_form { CMD_BENCH_TABLE, CMD_BENCH_JSON, CMD_BENCH_CSV };

/* Strings are borrowed from the command line. */
struct cmd_bench_opts {
    struct bench_opts bench;
    bool ring; /* ring, instead of a collective */
    enum bench_local_what
        local; /* gemm or copy, instead of a collective; sizes of 0: the default */
    enum drover_type local_type; /* of gemm's matrices; DROVER_TYPES: not given */
    enum cmd_bench_form form;
    const char *backend;        /* NULL: nccl if the node has a GPU, else mpi */
    char **warnings;            /* options without effect; owned (strv) */
    char **launch;              /* options for the launcher, as typed; owned (strv) */
    int np, per_np;             /* ranks: -np (0: not given) times -g times -t */
    bool counts;                /* only -g or -t sets the number of ranks, and no nodes are named */
    int stream_null;            /* -y, not 0: CUDA's default stream */
    int stamps, per_iter, skip; /* -S (not 0: shown) -I (0 or 1) -K */
    char cta_policy[2];         /* -x 0 … 2; "": not given */
    bool pairs;                 /* --pairs: messages of bench.max_bytes, .iters of them */
    const char *save, *baseline; /* names; NULL: not given */
    double tolerance;            /* tolerance of the comparison; 0.05 is 5 % */
    bool verdict;                /* --verdict or --expect */
    double expect;               /* --expect, GB/s; 0: what the hardware should give */
    int memory;                  /* -M; not 0: shown */
    double min_busbw;            /* NCCL_TESTS_MIN_BW, GB/s; <= 0: not given */
    int first_device;            /* NCCL_TESTS_DEVICE; -1: not given */
    const char *json_file;       /* -J; NULL: none */
    const char *report;          /* --report; NULL: none */
};

/* Reads the command line, and the variables of cmd_bench_env.c; argv[0] is "bench". The caller must
 * call cmd_bench_opts_free() in every case. Returns 0, or OPT_HELP if the help page was printed.
 *   -EINVAL, -ERANGE  an option, an argument or a variable is invalid */
int cmd_bench_opts_read(struct cmd_bench_opts *o, int argc, char **argv, struct err *e);
void cmd_bench_opts_free(struct cmd_bench_opts *o);

/* Returns the number of ranks to start: -np (default: 1) times -g times -t. Returns 0 if none of
 * the three is given; the launcher then chooses the number. */
int cmd_bench_opts_ranks(const struct cmd_bench_opts *o);
