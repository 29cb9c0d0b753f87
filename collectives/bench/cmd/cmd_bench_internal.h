/* cmd_bench_internal - the parts of `drover bench` that run on its ranks: printing of results, and
 * --pairs. */
#pragma once

#include "collectives/bench/analysis/verdict.h"
#include "collectives/bench/cmd/cmd_bench_opts.h"
#include "collectives/bench/cmd/json_stream.h"

/* The output of rank 0; the other ranks only take part in the verdict. */
struct cmd_bench_printer {
    const struct cmd_bench_opts *o;
    struct bench_report_head head;
    const struct bench_report_device *devices; /* one per rank; borrowed */
    int ranks, groups;
    struct bench_report_json *json, *nccl_tests;   /* documents; NULL: not requested */
    struct json_stream *json_out, *nccl_tests_out; /* --json on stdout, -J; NULL: not requested */
    json_t *baseline;                              /* a document; NULL: not requested */
    struct bench_report_summary so_far;            /* of the rows that were reported */
    struct err write_error;                        /* the first one; code 0: none */
    bool shows_progress;     /* progress is shown on stderr, which is a terminal */
    struct verdict_run best; /* the row with the highest busbw */
    bool failed;             /* the verdict or the comparison has failed */
};

/* Returns the sink to which bench_run() passes rows. */
struct bench_sink cmd_bench_printer_sink(struct cmd_bench_printer *p);

/* Prints the head, or starts the documents, as the options say. `argv` is the command line.
 *   -EINVAL  the file of -J cannot be written, or the result of --baseline does not exist */
int cmd_bench_printer_start(struct cmd_bench_printer *p, char **argv, struct drover_comm *c,
                            struct err *e);

/* Ends the documents after a failure. They contain the rows that were measured before. */
void cmd_bench_printer_fail(struct cmd_bench_printer *p, const struct err *why);

/* Prints the summary, ends the documents, compares and saves. Returns 0 or a negative errno; output
 * that could not be written is a failure, too. */
int cmd_bench_printer_finish(struct cmd_bench_printer *p,
                             const struct bench_report_summary *summary, struct err *e);

/* Appends the verdict to `text` on rank 0. Collective: every rank sends its hardware facts. Returns
 * 0 or a negative errno; drover_error() has the text. */
int cmd_bench_printer_verdict(struct cmd_bench_printer *p, struct drover *d, struct drover_comm *c,
                              struct strbuf *text);

/* Frees the documents. */
void cmd_bench_printer_close(struct cmd_bench_printer *p);

/* Writes to stdout and flushes it. Returns 0 or a negative errno. */
int cmd_bench_print(const struct strbuf *text, struct err *e);

/* Measures every pair of nodes and prints the map. Collective. Returns 1 on rank 0 if a link or
 * node is slow, else 0, or a negative errno. */
int cmd_bench_pairs(struct drover *d, struct drover_comm *c, const struct cmd_bench_opts *o,
                    struct err *e);
