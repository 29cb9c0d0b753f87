/* command - one command of a program: parses its command line, prints its help page, runs it,
 * prints its error, and returns its exit status. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/opt.h"

enum {
    EXIT_STATUS_FAILED = 1, /* the work failed */
    EXIT_STATUS_USAGE = 2   /* the command line or a file is wrong, and nothing was started */
};

#define COMMAND_WORDS_ANY SIZE_MAX

/* Options and words may be mixed. A word is what is neither an option nor its value. */
struct command {
    struct opt_help help;
    const struct opt *options;
    size_t words_min, words_max; /* COMMAND_WORDS_ANY: no maximum */
    const char *missing;         /* the message if there are fewer words */
    const char *missing_hint;    /* its hint; NULL: none */
    const char *unexpected_hint; /* the hint if there are more words; NULL: none */
    size_t program;              /* COMMAND_PROGRAM; 0: none */
    /* `words` ends with NULL and is NULL if there are none; `into` has what `options` describe.
     * Returns an exit status or -errno. An error in *e is printed unless the status is 0. */
    int (*run)(char **words, void *into, struct err *e);
};

/* The command takes a program and its arguments: the words after words_max others, or after "--".
 * They are not parsed, and go to a field of `into`, a char *const * that ends with NULL and is
 * borrowed from argv. The field stays NULL if neither a word nor "--" begins a program. It is not
 * the first field of its struct. */
#define COMMAND_PROGRAM(type, field) .program = offsetof(type, field)

/* Reads options into `into`, and appends the other words to the strv *words, which the caller
 * frees, also after a failure. argv[0] is the command's name. Returns 0 or OPT_HELP.
 *   -EINVAL  more than words_max words, or an option with one value is given twice
 *   or an error of opt_parse() */
int command_parse(char ***words, const struct command *c, void *into, int argc, char **argv,
                  struct err *e);

/* Parses the command line, prints the help page or runs the command, and prints the error. Returns
 * the exit status. The status of an error of the command line is EXIT_STATUS_USAGE. So is that of
 * an error of `run` that says that what the user named does not exist, exists already, is in use or
 * is invalid: -ENOENT, -EEXIST, -EBUSY, -EINVAL and -ERANGE. Of other errors it is
 * EXIT_STATUS_FAILED. */
int command_run(const struct command *c, void *into, int argc, char **argv);

/* Returns "COMMAND NAME --dir ROOT" for a shell, which the caller frees; without --dir if ROOT is
 * the directory `usual`, which COMMAND takes by itself. `name` may be NULL. */
char *command_to_paste(const char *command, const char *name, const char *root, const char *usual);
