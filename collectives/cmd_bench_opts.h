/* cmd_bench_opts - the command line of `drover bench`: nccl-tests' options, and ours. */
#ifndef DROVER_CMD_BENCH_OPTS_H
#define DROVER_CMD_BENCH_OPTS_H

#include <stdbool.h>

#include "collectives/bench.h"
#include "common/err.h"

enum cmd_bench_form { CMD_BENCH_TABLE, CMD_BENCH_JSON, CMD_BENCH_CSV };

/* Strings are borrowed from the command line. */
struct cmd_bench_opts {
    struct bench_opts bench;
    enum cmd_bench_form form;
    const char *backend;         /* NULL: by what there is */
    char **launch;               /* options for the launcher, as they were typed; owned (strv) */
    int np, per_np;              /* ranks: -np (0: not given) times -g times -t */
    int graph, local_register;   /* -G, -R */
    bool pairs;                  /* --pairs: bench.max_bytes and .iters are its messages */
    const char *save, *baseline; /* names; NULL: not wanted */
    double tolerance;            /* of the comparison; a share */
    bool verdict;                /* --verdict, or … */
    double expect;               /* --expect; GB/s, 0: by the hardware */
    bool memory;                 /* -M */
    const char *json_file;       /* -J; NULL: none */
};

/* argv[0] is "bench". Returns 0, OPT_HELP (help was printed), or -EINVAL, -ERANGE. `o` is to be
 * freed in each case. `inject` is DROVER_BENCH_INJECT's value, or NULL. */
int cmd_bench_opts_read(struct cmd_bench_opts *o, int argc, char **argv, const char *inject,
                        struct err *e);
void cmd_bench_opts_free(struct cmd_bench_opts *o);

/* The ranks to start: -np, or one, times -g times -t. 0: as many as the machine suggests. */
int cmd_bench_opts_ranks(const struct cmd_bench_opts *o);

#endif
