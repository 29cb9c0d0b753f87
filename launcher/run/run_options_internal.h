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

/* ---- run_options_mapping.c: --map-by, --rank-by, --bind-to, their older names, and --engine */

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

/* ---- run_mpmd.c: the program of a job, or several programs in one job: "-np 2 ./a : -np 1 ./b" */

/* Appends the command of a program to `argv`. A program whose name ends in .py runs with
 * python3. */
void run_mpmd_program(char ***argv, int argc, char **words);

/* Checks that the Python scripts of the job exist, unless it has ranks on other hosts, whose files
 * are not known here.
 *   -ENOENT  a script does not exist */
int run_mpmd_check_scripts(const struct run_options *o, struct err *e);

/* Returns the index of the first ':' that separates programs; argc if there is none. */
int run_mpmd_first(int argc, char **argv);
/* Reads the programs after the first one: ": -np 2 -x A ./b : -np 1 ./c". argv[0] is the first
 * ':'. */
int run_mpmd_parse(struct run_options *o, int argc, char **argv, struct err *e);
/* Appends the words of a file, with the word `between` after each line except the last. `between`
 * may be NULL. */
int run_mpmd_read_file(char ***words, const char *path, const char *between, struct err *e);
/* Sets PATH in `env` to `dir` followed by the old PATH. The old PATH is that of `env`, else that of
 * `outer`, else that of this process. */
void run_mpmd_prepend_path(char ***env, char *const *outer, const char *dir);
/* Reads "NAME VALUE" or "NAME=VALUE", the forms of hydra's -env, and sets the variable in `env`.
 * Returns the number of values used, or -EINVAL if the text has neither form. */
int run_mpmd_read_env(char ***env, char *const *values, struct err *e);
void run_mpmd_free(struct run_options *o);
