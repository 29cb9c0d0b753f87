/* opt - parses command lines by a table with one row per option. The same table gives the help
 * text.
 *
 *     static const struct opt options[] = {
 *         OPT_INT('n', "np", "N", "number of ranks", struct launch_spec, ranks),
 *         OPT_FLAG(0, "dry-run", "print the plan and stop", struct launch_spec, dry_run),
 *         OPT_END,
 *     };
 *
 * Long names have one dash or two (-np 4, --np 4, --np=4), as users of mpirun expect. Between the
 * parts of a name '_' and '-' are equivalent, as users of torchrun expect. The value of a
 * one-letter option is attached to it or is the next word (-n4, -n 4). Options end at "--" or at
 * the first word that is not an option. A value may start with a dash. Every table implies the
 * options -h and --help. */
#ifndef DROVER_OPT_H
#define DROVER_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/err.h"

enum opt_kind {
    OPT_KIND_END,
    OPT_KIND_FLAG,
    OPT_KIND_INT,
    OPT_KIND_DOUBLE,
    OPT_KIND_STR,
    OPT_KIND_STRV,
    OPT_KIND_WORDS,
    OPT_KIND_CALL,
    OPT_KIND_GROUP
};

struct opt {
    enum opt_kind kind;
    char letter; /* 0: none */
    /* Without dashes. Further names follow after '|', and names that help does not show after "||":
     * "host|hosts||machine". */
    const char *name;
    const char *arg;  /* name of the value in help; one word per value; NULL: no value */
    const char *help; /* NULL: help does not show the option */
    size_t offset;
    /* For OPT_KIND_CALL: the function to call. `values` has one value per word of `arg`. */
    int (*call)(void *into, char *const *values, struct err *e);
};

/* Rows for options with a field in the struct `type`. The field is a bool for OPT_FLAG, an int for
 * OPT_INT, a double for OPT_DOUBLE, a const char * for OPT_STR (borrowed from argv), and a char **
 * for OPT_STRV and OPT_WORDS (a strv, which the caller frees). */
#define OPT_FLAG(letter, name, help, type, field)                            \
    {                                                                        \
        OPT_KIND_FLAG, letter, name, NULL, help, offsetof(type, field), NULL \
    }
#define OPT_INT(letter, name, arg, help, type, field)                      \
    {                                                                      \
        OPT_KIND_INT, letter, name, arg, help, offsetof(type, field), NULL \
    }
#define OPT_DOUBLE(letter, name, arg, help, type, field)                      \
    {                                                                         \
        OPT_KIND_DOUBLE, letter, name, arg, help, offsetof(type, field), NULL \
    }
#define OPT_STR(letter, name, arg, help, type, field)                      \
    {                                                                      \
        OPT_KIND_STR, letter, name, arg, help, offsetof(type, field), NULL \
    }
/* May be repeated; each value is appended. */
#define OPT_STRV(letter, name, arg, help, type, field)                      \
    {                                                                       \
        OPT_KIND_STRV, letter, name, arg, help, offsetof(type, field), NULL \
    }
/* Appends the option as the user typed it and its values (one per word of `arg`) to the field. The
 * caller can pass these words to another program or name them in a message. */
#define OPT_WORDS(letter, name, arg, help, type, field)                      \
    {                                                                        \
        OPT_KIND_WORDS, letter, name, arg, help, offsetof(type, field), NULL \
    }
#define OPT_CALL(letter, name, arg, help, fn)         \
    {                                                 \
        OPT_KIND_CALL, letter, name, arg, help, 0, fn \
    }
/* Starts a group: help shows the rows up to the next group under this title. A group without
 * visible rows is not shown, except the last group, which contains -h. */
#define OPT_GROUP(title)                              \
    {                                                 \
        OPT_KIND_GROUP, 0, NULL, NULL, title, 0, NULL \
    }
#define OPT_END                                    \
    {                                              \
        OPT_KIND_END, 0, NULL, NULL, NULL, 0, NULL \
    }

enum { OPT_HELP = 1 };

/* Reads argv[1...] into the fields of `into`. `*rest` is the index of the first word that is not an
 * option, or argc. Returns 0, or OPT_HELP if help was requested (nothing is printed). Options
 * before -h or before a failure have set their fields.
 *   -EINVAL  unknown option (the hint is the nearest name), missing or malformed value
 *   -ERANGE  the number does not fit
 *   or the error of a row's `call`
 * Asserts that the table has no letter or name twice. */
int opt_parse(const struct opt *rows, void *into, int argc, char *const *argv, int *rest,
              struct err *e);

struct opt_help {
    const char *program;  /* "drover run" */
    const char *usage;    /* the words after it: "[options] [--] program [arguments]" */
    const char *summary;  /* what the command does, in sentences without line breaks */
    const char *examples; /* command lines, one per line; NULL: none */
};

/* Prints a help page of at most 80 columns: usage, summary, the rows by group, examples. Texts are
 * broken at spaces. '\n' in a text starts a new line; a line of the text that begins with a space
 * is not broken. Labels and examples are not broken either. Rows before the first group are shown
 * under the title "Options". */
void opt_print_help(FILE *to, const struct opt_help *h, const struct opt *rows);

/* Reads `text` as an integer in [min, max]. The message of a failure names `what`.
 *   -EINVAL  the text is not a whole number
 *   -ERANGE  the number is out of range */
int opt_int(int *out, const char *what, const char *text, int min, int max, struct err *e);

/* Returns that of the `n` names with the smallest edit distance from `word`, or NULL if no name is
 * near. A name is near if its distance is at most a third of the length of `word`, or at most 2 and
 * at most half of the length. */
const char *opt_suggest(const char *word, const char *const *names, size_t n);

#endif
