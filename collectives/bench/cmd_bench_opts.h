/* cmd_bench_opts - the command line of `drover bench`: nccl-tests' options, and ours. */
#ifndef DROVER_CMD_BENCH_OPTS_H
#define DROVER_CMD_BENCH_OPTS_H

#include <stdbool.h>

#include "collectives/bench/bench.h"
#include "common/err.h"

enum cmd_bench_form { CMD_BENCH_TABLE, CMD_BENCH_JSON, CMD_BENCH_CSV };

/* Strings are borrowed from the command line. */
struct cmd_bench_opts {
    struct bench_opts bench;
    enum cmd_bench_form form;
    const char *backend;         /* NULL: by what there is */
    char **notes;                /* what was left out, to be said once; owned (strv) */
    char **launch;               /* options for the launcher, as they were typed; owned (strv) */
    int np, per_np;              /* ranks: -np (0: not given) times -g times -t */
    bool stream_null;            /* -y: CUDA's default stream */
    bool stamps, per_iter;       /* -S -I */
    int skip;                    /* -K */
    char cta_policy[2];          /* -x 0 … 2; "": not given */
    bool pairs;                  /* --pairs: bench.max_bytes and .iters are its messages */
    const char *save, *baseline; /* names; NULL: not wanted */
    double tolerance;            /* of the comparison; a share */
    bool verdict;                /* --verdict, or … */
    double expect;               /* --expect; GB/s, 0: by the hardware */
    bool memory;                 /* -M */
    double min_busbw;            /* NCCL_TESTS_MIN_BW, GB/s; 0: not given */
    int first_device;            /* NCCL_TESTS_DEVICE; -1: not given */
    const char *json_file;       /* -J; NULL: none */
};

/* Variables of the environment; NULL: not set. */
struct cmd_bench_env {
    const char *inject;             /* DROVER_BENCH_INJECT */
    const char *split, *split_mask; /* NCCL_TESTS_SPLIT, NCCL_TESTS_SPLIT_MASK */
    const char *min_bw, *device;    /* NCCL_TESTS_MIN_BW, NCCL_TESTS_DEVICE */
};

/* argv[0] is "bench". Returns 0, OPT_HELP (help was printed), or -EINVAL, -ERANGE. `o` is to be
 * freed in each case. */
int cmd_bench_opts_read(struct cmd_bench_opts *o, int argc, char **argv,
                        const struct cmd_bench_env *env, struct err *e);
void cmd_bench_opts_free(struct cmd_bench_opts *o);

/* The ranks to start: -np, or one, times -g times -t. 0: as many as the machine suggests. */
int cmd_bench_opts_ranks(const struct cmd_bench_opts *o);

#endif
