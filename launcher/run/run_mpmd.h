/* run_mpmd - the program of a job, or several programs in one job: "-np 2 ./a : -np 1 ./b". */
#pragma once

#include "common/err.h"
#include "launcher/run/run_options.h"

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
