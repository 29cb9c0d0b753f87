/* cmd_run - what the files of `drover run` share: its options, and how it tells of failures. */
#ifndef DROVER_CMD_RUN_H
#define DROVER_CMD_RUN_H

#include <stdbool.h>

#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/console.h"
#include "launcher/launch.h"
#include "launcher/plan.h"

struct cmd_run_opts {
    struct launch_spec spec; /* .argv and .env point into the two below */
    char **argv, **env;
    int np, per_node; /* < 0: not given */
    int hosts_slots;  /* of --host: 0: not given */
    double grace_s, timeout_s;
    double hang_timeout_s; /* 0: hangs are not looked for */
    const char *events;    /* a file; NULL: none */
    struct console_style style;
    bool dry_run, json, report_bindings, quiet, verbose;
    bool as_root; /* --allow-run-as-root: understood, and always so */
};

/* Reads the command line. Returns 0, OPT_HELP (help was printed to stdout), or a negative errno.
 * To be ended with cmd_run_opts_free() in every case. */
int cmd_run_parse(struct cmd_run_opts *o, int argc, char **argv, struct err *e);
void cmd_run_opts_free(struct cmd_run_opts *o);

/* Which rank failed first, how, its last lines, and what is known about such a failure. Appends
 * nothing where none did. */
void cmd_run_show_failure(struct strbuf *b, const struct plan *p, const struct job_end *end);

/* --dry-run: the whole plan. */
void cmd_run_show_plan(struct strbuf *b, const struct plan *p, bool json);
/* --report-bindings: its ranks. */
void cmd_run_show_bindings(struct strbuf *b, const struct plan *p);

#endif
