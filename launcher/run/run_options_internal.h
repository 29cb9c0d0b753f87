/* run_options_internal - what the files of run_options share. */
#pragma once

#include "launcher/run/run_options.h"

/* Reads the options of a command line's first program, and nothing else, into `probe`. Afterwards
 * only the fields that own their memory are valid. The caller must call run_options_free() in every
 * case. Errors are those of opt_parse(). */
int run_options_probe(struct run_options *probe, int argc, char *const *words, struct err *e);

/* Sets o->words: first the options that correspond to Open MPI's launcher parameters
 * (mca_params.h), then the options of --tune files, then the command line. A later option wins.
 *   -EINVAL  --mca or --prtemca gives a parameter a value that drover does not know
 *   -errno   a --tune file cannot be read */
int run_options_add_params(struct run_options *o, int argc, char *const *argv, struct err *e);
