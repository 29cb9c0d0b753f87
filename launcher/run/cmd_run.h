/* cmd_run - what the files of `drover run` and `drover torchrun` share: options, and how they tell
 * of a job. */
#ifndef DROVER_CMD_RUN_H
#define DROVER_CMD_RUN_H

#include <hwloc.h>
#include <stdbool.h>

#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/elastic/rdzv_client.h"
#include "launcher/engine/launch.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/plan.h"
#include "launcher/run/console.h"
#include "launcher/run/redirect.h"

enum { RUN_OPTIONS_NOT_GIVEN = -1 };

struct run_options {
    const char *who;         /* speaks in messages: "drover run" */
    struct launch_spec spec; /* its pointers lead to the command line or to what stands below */
    char **argv, **env;
    char **mpirun_args;              /* words for the real mpirun: --mca, and then … */
    char **mpirun_only;              /* … what has a meaning for no other engine: --prefix DIR */
    char **old;                      /* options by which Open MPI once said --map-by and the like */
    char **ignored;                  /* known, and without meaning here: as they were typed */
    char **refused;                  /* known, and not taken: as they were typed */
    char **warnings;                 /* about values; whole sentences */
    char **host_lists, **host_files; /* of -H and --hostfile */
    struct hosts *hosts;             /* what they, or the allocation, say; NULL: nothing */
    struct launch_app *apps;         /* the programs behind ':'; they own argv and env */
    int app_count;
    const char *app_file; /* --app … */
    char **app_words;     /* … and what stands there */
    const char *path;     /* where programs are looked for first; NULL: PATH */
    int np;               /* < 0: not given */
    int per_node;         /* -N; 0: one a GPU or a core; < 0: not given */
    bool no_local;        /* no rank on this machine */
    bool hydra;           /* -ppn, -hosts: slots are no limit */
    double grace_s;       /* < 0: not given */
    double timeout_s, start_timeout_s, lost_after_s, hang_timeout_s; /* 0: none, or as usual */
    int max_restarts;
    struct rdzv_client_opts *rdzv; /* where the job's nodes meet; NULL: they do not */
    const char *events_file;       /* NULL: none */
    struct console_style style;
    hwloc_bitmap_t show; /* the ranks whose lines are shown; NULL: all */
    struct redirect_spec redirect;
    bool dry_run, json, report_bindings, quiet, verbose;
    bool as_root; /* --allow-run-as-root: understood, and always so */
};

/* Reads the command line of `who`, and the host files that it names. Returns 0, OPT_HELP (help was
 * printed to stdout), or a negative errno. To be ended with run_options_free() in every case. */
int run_options_parse(struct run_options *o, const char *who, int argc, char **argv, struct err *e);
void run_options_free(struct run_options *o);

/* Before options are read, by run_options_parse() or in another way (torchrun's) … */
void run_options_init(struct run_options *o, const char *who);
/* … and after: whether they go together, which hosts they mean, and the spec that follows. */
int run_options_resolve(struct run_options *o, struct err *e);

/* ---- cmd_run_app.c: the program, or several in one job -----------------------------------------
 */

/* Appends a program as it is to be executed: one whose name ends in .py by python3. */
void run_mpmd_program(char ***argv, int argc, char **words);

/* How many words stand before the first ':' that parts programs (argc: there is none). */
int run_mpmd_first(int argc, char **argv);
/* Reads the programs behind it: "-np 2 -x A ./b : -np 1 ./c". argv[0] is the word before. */
int run_mpmd_parse(struct run_options *o, int argc, char **argv, struct err *e);
/* The words of a file with a program and its options a line, with ':' between; to be freed. */
int run_mpmd_read_file(char ***words, const char *path, struct err *e);
void run_mpmd_free(struct run_options *o);

/* Runs the job that `o` asks for, in the foreground. Returns the exit status. */
int run_session(struct run_options *o);
/* Nothing was started: says why. Returns the exit status. */
int run_usage_error(const struct run_options *o, const struct err *e);

/* ---- cmd_run_where.c: values that say where ranks run; into the spec of a struct run_options --
 */
int run_options_mapping_map_by(void *opts, char *const *values, struct err *e);
int run_options_mapping_bind_to(void *opts, char *const *values, struct err *e);
int run_options_mapping_rank_by(void *opts, char *const *values, struct err *e);
/* Old names of these: -bynode, -bind-to-core, -pernode, … */
int run_options_mapping_legacy(struct run_options *o, const char *option, struct err *e);
/* --ppr N:node, -npersocket N */
int run_options_mapping_ppr(void *opts, char *const *values, struct err *e);
int run_options_mapping_per_socket(void *opts, char *const *values, struct err *e);

/* ---- cmd_run_show.c ----------------------------------------------------------------------------
 */

/* Which rank failed first, how, its last lines, and what is known about such a failure. Appends
 * nothing where none did. */
void run_print_failure(struct strbuf *b, const char *who, const struct plan *p,
                       const struct job_end *end);

/* --dry-run: the whole plan. */
void run_print_plan(struct strbuf *b, const struct plan *p, bool json);
/* --report-bindings: its ranks. */
void run_print_bindings(struct strbuf *b, const struct plan *p);

#endif
