/* sweep_options - the options of `drover sweep`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/opt.h"
#include "launcher/limits/job_limits.h"

struct sweep_options {
    char **words;     /* strv: the sweep file; of `resume`: the name */
    const char *file; /* NULL: resume the stored sweep */
    const char *name, *root;
    char **host_options; /* strv: options of `drover run` that name nodes; NULL: none */
    char **worker_args;  /* strv: --place and --labels, for the workers; NULL: none */
    char **prior;        /* strv: other sweeps to learn from; NULL: none */
    int parallel;        /* 0: as the file says */
    int local_slots;     /* trials at once on this machine; -1: as many as fit */
    const char *listen;  /* NULL: as last time */
    const char *metrics; /* address of --metrics; NULL: none */
    struct job_limits limits;
    bool restart; /* archive the stored sweep first */
    bool resume, plain, json, quiet, dry_run, serve, no_preflight;
    bool has_seed;
    uint64_t seed;
};

extern const struct opt sweep_options_rows[];

/* Reads argv; argv[0] is "sweep", or "resume" with a name instead of a file. Returns 0 or OPT_HELP.
 * Call sweep_options_free() in every case.
 *   -EINVAL, -ERANGE  an option, the file or the name is wrong or missing */
int sweep_options_parse(struct sweep_options *o, int argc, char **argv, struct err *e);
void sweep_options_free(struct sweep_options *o);
