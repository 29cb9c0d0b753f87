/* run_options - the options of `drover run` and `drover torchrun`, and the launch spec that follows
 * from them. */
#pragma once

#include <hwloc.h>
#include <stdbool.h>

#include "common/err.h"
#include "launcher/elastic/rdzv_client.h"
#include "launcher/place/placement.h"
#include "launcher/plan/hostfile.h"
#include "launcher/plan/hosts.h"
#include "launcher/plan/mca_params.h"
#include "launcher/plan/plan.h"
#include "launcher/run/console.h"
#include "launcher/run/features/feature.h"

enum {
    RUN_OPTIONS_NOT_GIVEN = -1, /* outside the range of every option */
    RUN_OPTIONS_RANKS_MAX = 1 << 20
};

struct run_options {
    const char *program;     /* prefix of messages: "drover run" */
    struct launch_spec spec; /* points into the command line and into the fields below */
    char **argv, **env;
    struct mca_params mca; /* Open MPI's launcher parameters on the command line */
    char **tune_files;     /* --tune: files with -x and --mca */
    char **words;          /* the command line and the options from `mca` and `tune_files` */
    char **mpirun_args;    /* arguments for the real mpirun: --mca, and mpirun_only */
    char **mpirun_only;    /* options that only mpirun can use: --prefix DIR */
    char **legacy;         /* older names of Open MPI for --map-by and --bind-to */
    char **ignored;        /* known options without effect, as they were typed */
    char **refused;        /* known options that are not supported, as they were typed */
    char **warnings;       /* about values; whole sentences */
    char **host_lists, **host_files; /* of -H and --hostfile */
    struct hosts *hosts;     /* from these, or from the allocation; NULL: no hosts are given */
    struct hosts *own_hosts; /* hosts of `argv` if `apps` have -H; NULL: all hosts */
    const char *gwdir; /* -gwdir: directory of all programs that have no -wdir; NULL: not given */
    char *cwd;         /* owned; NULL: not needed */
    struct launch_app *apps; /* the programs after the first ':'; they own argv and env */
    int app_count;
    const char *place;         /* --place: job file that selects the GPUs; NULL: none */
    const char *labels;        /* --labels: file with labels of GPUs; NULL: none */
    const char *rank_file;     /* --rankfile; NULL: none */
    struct rankfile *rankfile; /* its content */
    char **bind_slots;         /* CPUs of --bind-to user: */
    const char *app_file;      /* --app FILE … */
    char **app_words;          /* … and its words */
    const char *port_range;    /* --port-range; NULL: any port */
    const char *path;          /* directory searched first for the program; NULL: only PATH */
    int np;                    /* < 0: not given */
    int per_node;              /* -N; 0: one per GPU or core; < 0: not given */
    bool no_local;             /* --nolocal: no rank on this node */
    bool hydra_hosts;          /* -ppn, -hosts: slots do not limit the ranks of a node */
    bool hydra_ssh; /* -launcher ssh: starts the ranks on other nodes, if there are any */
    double grace_s; /* < 0: not given */
    /* In all of these, 0 means no limit or the default. */
    double start_timeout_s, lost_after_s;
    struct feature_settings features;
    char *ft_config;               /* spec.node.ft_config; owned */
    struct rdzv_client_opts *rdzv; /* the rendezvous of an elastic job; NULL: no rendezvous */
    struct console_style style;
    hwloc_bitmap_t show; /* the ranks whose output is shown; NULL: all */
    bool dry_run, json, report_bindings, quiet, verbose, help_all;
    bool as_root; /* --allow-run-as-root: accepted, without effect */
};

/* Sets the defaults. `program` is the prefix of messages; borrowed. */
void run_options_init(struct run_options *o, const char *program);
/* Reads the command line of `drover run`, and the host files that it names, into a spec. Returns 0,
 * or OPT_HELP if the help was printed to stdout, or a negative errno. The caller must call
 * run_options_free() in every case. */
int run_options_parse(struct run_options *o, const char *program, int argc, char **argv,
                      struct err *e);
/* Reads the number of ranks per node: "4", "gpu" (one per GPU), "cpu" (one per core, and the ranks
 * get no GPUs) or "auto" (one per GPU, or one per core if there are no GPUs). */
int run_options_per_node(struct run_options *o, const char *text, struct err *e);
/* Checks options that were not read by run_options_parse() (those of torchrun), finds the hosts,
 * and fills the spec. */
int run_options_resolve(struct run_options *o, struct err *e);
/* Returns what --place says; without --place, `file` is NULL. Borrows from `o`. */
struct placement_opts run_options_placement(const struct run_options *o);
/* Returns the run of these options, before it begins. Borrows from `o`. */
struct feature_run run_options_features(struct run_options *o);
/* Lets the job use up to `max` of its hosts, and at least `min`; the first ones, as long as it is
 * not known which are healthy. */
void run_options_choose_hosts(struct run_options *o, int min, int max);
/* Logs the options that have no effect with this engine, in one line, and the warnings. */
void run_options_log_ignored(const struct run_options *o, const char *engine);
void run_options_free(struct run_options *o);
