/* cmd_bench_internal - what `drover bench` does on its ranks: printing results, and --pairs. */
#ifndef DROVER_CMD_BENCH_INTERNAL_H
#define DROVER_CMD_BENCH_INTERNAL_H

#include "collectives/bench/analysis/verdict.h"
#include "collectives/bench/cmd/cmd_bench_opts.h"

/* The output of rank 0; the other ranks only take part in the verdict. */
struct cmd_bench_printer {
    const struct cmd_bench_opts *o;
    struct bench_report_head head;
    const struct bench_report_device *devices; /* one per rank; borrowed */
    int ranks, groups;
    struct bench_report_json *json, *nccl_tests; /* JSON; NULL: not requested */
    bool shows_progress;                         /* on stderr, which is a terminal */
    struct verdict_run best;                     /* the row with the highest busbw */
    bool failed;                                 /* the verdict or the comparison failed */
};

/* Where bench_run() reports rows. */
struct bench_sink cmd_bench_printer_sink(struct cmd_bench_printer *p);

/* Prints the head, or starts the JSON documents, as the options say. `argv` is the command line. */
void cmd_bench_printer_start(struct cmd_bench_printer *p, char **argv, struct drover_comm *c);

/* Prints the summary, writes the documents, compares and saves. Returns 0 or a negative errno. */
int cmd_bench_printer_finish(struct cmd_bench_printer *p,
                             const struct bench_report_summary *summary, struct err *e);

/* Appends the verdict to `text` on rank 0. Collective: every rank sends its hardware facts. Returns
 * 0 or a negative errno; drover_error() has the text. */
int cmd_bench_printer_verdict(struct cmd_bench_printer *p, struct drover *d, struct drover_comm *c,
                              struct strbuf *text);

/* Frees the documents. */
void cmd_bench_printer_close(struct cmd_bench_printer *p);

/* Writes to stdout, at once. */
void cmd_bench_print(const struct strbuf *text);

/* Measures every pair of nodes and prints the map. Collective. Returns 1 on rank 0 if a link or
 * node is slow, else 0, or a negative errno. */
int cmd_bench_pairs(struct drover *d, struct drover_comm *c, const struct cmd_bench_opts *o,
                    struct err *e);

#endif
