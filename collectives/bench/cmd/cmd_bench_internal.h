/* cmd_bench_internal - the parts of `drover bench`: variables, printing of results, control runs,
 * and what runs on ranks instead of a collective. */
#pragma once

#include "collectives/bench/analysis/verdict.h"
#include "collectives/bench/cmd/cmd_bench_opts.h"
#include "collectives/bench/cmd/json_stream.h"
#include "launcher/client/rank_identity.h"

/* The output of rank 0; the other ranks only take part in the verdict. */
struct cmd_bench_printer {
    const struct cmd_bench_opts *o;
    struct bench_report_head head;
    const struct bench_report_device *devices; /* one per rank; borrowed */
    int ranks, groups;
    struct {
        struct bench_report_json *json; /* NULL: not requested */
        struct json_stream *out;        /* NULL: not written row by row */
    } documents[2];                     /* drover's, --json on stdout; nccl-tests', -J */
    json_t *rows;     /* drover's, for what reads them at the end; NULL: nothing */
    json_t *baseline; /* a document; NULL: not requested */
    struct bench_report_summary so_far; /* of the rows that were reported */
    struct err write_error;             /* the first one; code 0: none */
    bool shows_progress;                /* progress is shown on stderr, which is a terminal */
    struct verdict_run best;            /* the row with the highest busbw */
    bool failed;                        /* the verdict or the comparison has failed */
};

/* Functions of the sink to which bench_run() passes rows; `arg` is the printer. */
void cmd_bench_printer_row(void *arg, const struct bench_report_row *row);
void cmd_bench_printer_begin(void *arg, uint64_t bytes);

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

/* `drover bench ring` on its ranks: all ranks try their link to the next one at the same time, then
 * to the previous one. Rank 0 prints the links of all ranks. Returns 1 on rank 0 if a link does not
 * work, else 0, or a negative errno. */
int cmd_bench_ring(const struct rank_identity *me, const struct cmd_bench_opts *o, struct err *e);

/* `drover bench gemm` and `drover bench copy` on their ranks: measures this rank's devices, and
 * prints the rows of all ranks on rank 0. With as many ranks on a node as GPUs, each measures one
 * GPU; a single rank measures all of them, one after the other. Copies are measured by one rank of
 * a node at a time, since GPUs may share a link. `gpus`: on GPUs, and not on CPUs. Returns 1 on
 * rank 0 if a result is wrong, else 0, or a negative errno. */
int cmd_bench_local(const struct rank_identity *me, const struct cmd_bench_opts *o, bool gpus,
                    struct err *e);

/* ---- control runs --------------------------------------------------------------------------- */

/* Set in a control run, and for its ranks: nothing is saved, and no further control run follows. */
#define CMD_BENCH_CONTROL_ENV "DROVER_BENCH_CONTROL"

/* Status of a rank, and of a control run, whose collectives failed or gave wrong elements. */
enum { CMD_BENCH_CONTROL_STATUS = 3 };

/* After a --verdict run that failed or gave wrong elements, runs the command line `argv` again
 * without one transport after the other, and prints which one is at fault to stderr. */
void cmd_bench_control(char *const *argv, const struct cmd_bench_opts *o);

/* ---- variables ------------------------------------------------------------------------------ */

/* Reads nccl-tests' variables, and one for tests, into `o`, which already has the command line. The
 * caller frees o->bench.traffic in every case. A variable without a value counts as not set, and so
 * does the value that nccl-tests has if there is no variable (-1 of DEVICE and MIN_BW).
 *   -EINVAL, -ERANGE  a value is invalid */
int cmd_bench_env_read(struct cmd_bench_opts *o, struct err *e);

/* Appends "NAME=value" for each variable that must be the same for all ranks on all nodes. */
void cmd_bench_env_pass(char ***env);

/* ---- --report ------------------------------------------------------------------------------- */

/* Writes the document of --json as HTML or Markdown. `argv` is the command line; secrets in it are
 * not shown.
 *   -EIO  the file cannot be written */
int cmd_bench_report(const char *path, const json_t *document, char *const *argv, struct err *e);

/* ---- drover bench diff A B, and the files of --save and --baseline ----------------------------
 *
 * The files are documents of --json:
 * ${XDG_DATA_HOME:-~/.local/share}/drover/bench/CLUSTER/OP-NAME.json; CLUSTER is the first node's
 * name and a hash of all nodes, devices and the number of ranks. */

/* Runs `drover bench inspect`; argv[0] is "inspect". Returns the exit status: 1 if there is no
 * record, 2 if a file cannot be read. */
int cmd_bench_inspect(int argc, char **argv);

/* Runs `drover bench diff`; argv[0] is "diff". Returns the exit status: 1 if a row of B is worse or
 * its run went wrong, 2 if the documents cannot be compared. */
int cmd_bench_diff(int argc, char **argv);

/* Appends a table that compares two documents, A and B. Returns the number of rows that are worse,
 * and one more if the run of B failed or had wrong elements.
 *   -EINVAL   the documents differ in collective, backend, ranks or groups
 *   -ENODATA  no row in common has single iterations */
int cmd_bench_diff_show(struct strbuf *out, const json_t *before, const json_t *after,
                        double tolerance, struct err *e);

/* Returns the path of the saved result NAME for this cluster; the caller frees it. */
char *cmd_bench_diff_path(const char *name, const char *coll,
                          const struct bench_report_device *devices, int ranks);
/* Writes the document and creates the directories. */
int cmd_bench_diff_save(const char *path, const char *document, struct err *e);
int cmd_bench_diff_load(json_t **out, const char *path, struct err *e);

/* Parses "5%" or "0.05" as 0.05. `what` names the option in messages.
 *   -EINVAL  not a number, below 0 or above 10 */
int cmd_bench_diff_parse_share(double *out, const char *what, const char *text, struct err *e);
