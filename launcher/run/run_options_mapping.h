/* run_options_mapping - the option values that say where ranks run and what starts them there:
 * --map-by, --rank-by, --bind-to and their older names, and --engine. */
#pragma once

#include "common/err.h"
#include "launcher/run/run_options.h"

/* Functions for the table of options. `opts` is a struct run_options; the functions fill its spec.
 * They return -EINVAL if the value is unknown, with the known values as the hint. */
int run_options_mapping_map_by(void *opts, char *const *values, struct err *e);
int run_options_mapping_bind_to(void *opts, char *const *values, struct err *e);
int run_options_mapping_rank_by(void *opts, char *const *values, struct err *e);
/* --ppr N:node, -npersocket N */
int run_options_mapping_ppr(void *opts, char *const *values, struct err *e);
int run_options_mapping_per_socket(void *opts, char *const *values, struct err *e);

int run_options_mapping_engine(void *opts, char *const *values, struct err *e);
/* hydra's -launcher and -bootstrap */
int run_options_mapping_launcher(void *opts, char *const *values, struct err *e);

/* Applies an option that is an older name of these: -bynode, -bind-to-core, -pernode, … */
int run_options_mapping_legacy(struct run_options *o, const char *option, struct err *e);
