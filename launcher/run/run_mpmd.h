/* run_mpmd - the program of a job, or several programs in one job: "-np 2 ./a : -np 1 ./b". */
#ifndef DROVER_RUN_MPMD_H
#define DROVER_RUN_MPMD_H

#include "common/err.h"
#include "launcher/run/run_options.h"

/* Appends the command of a program: a name that ends in .py runs with python3. */
void run_mpmd_program(char ***argv, int argc, char **words);

/* Checks that the Python scripts of the job exist, unless it has ranks on other hosts, whose files
 * are not known here.
 *   -ENOENT  a script does not exist */
int run_mpmd_check_scripts(const struct run_options *o, struct err *e);

/* Returns the index of the first ':' that separates programs; argc if there is none. */
int run_mpmd_first(int argc, char **argv);
/* Reads the programs after that: ": -np 2 -x A ./b : -np 1 ./c". argv[0] is the ':'. */
int run_mpmd_parse(struct run_options *o, int argc, char **argv, struct err *e);
/* Appends the words of a file's lines, with the word `between` between lines (NULL: nothing). */
int run_mpmd_read_file(char ***words, const char *path, const char *between, struct err *e);
/* Puts a directory in front of PATH: that of `env`, else that of `outer`, else this process's. */
void run_mpmd_search_first(char ***env, char *const *outer, const char *dir);
/* Reads "NAME VALUE" or "NAME=VALUE", as hydra's -env has them, into a variable. Returns the number
 * of values that it used; -EINVAL  neither. */
int run_mpmd_read_env(char ***env, char *const *values, struct err *e);
void run_mpmd_free(struct run_options *o);

#endif
