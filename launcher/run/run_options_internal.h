/* run_options_internal - what the files of run_options share. */
#ifndef DROVER_RUN_OPTIONS_INTERNAL_H
#define DROVER_RUN_OPTIONS_INTERNAL_H

#include "launcher/run/run_options.h"

/* Reads the options of a command line's first program, and nothing else, into `probe`. Only what
 * the struct owns is valid afterwards. Free it with run_options_free() in every case. Errors are
 * those of opt_parse(). */
int run_options_probe(struct run_options *probe, int argc, char *const *words, struct err *e);

/* Sets o->words: the options that stand for launcher parameters of Open MPI (mca_params.h), then
 * those of --tune files, then the command line, whose options win.
 *   -EINVAL  --mca or --prtemca gives a parameter a value that drover does not know
 *   -errno   a --tune file cannot be read */
int run_options_add_params(struct run_options *o, int argc, char *const *argv, struct err *e);

#endif
