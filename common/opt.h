/* opt - command lines from tables: one row per option, from which the help follows, too.
 *
 *     static const struct opt options[] = {
 *         OPT_INT('n', "np", "N", "number of ranks", struct launch_spec, ranks),
 *         OPT_FLAG(0, "dry-run", "print the plan and stop", struct launch_spec, dry_run),
 *         OPT_END,
 *     };
 *
 * * Long names have one dash or two (-np 4, --np 4, --np=4), as users of mpirun write them, and '_'
 * or
 * '-' between words, as users of torchrun do. A letter has its value attached or as the next word
 * (-n4, -n 4). Options end at "--" or at the first word that is not an option. A value may start
 * with a dash. Every table has -h and --help. */
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
    const char *help; /* NULL: accepted, but not shown */
    size_t offset;
    /* Of OPT_KIND_CALL: gets one value per word of `arg`. */
    int (*call)(void *into, char *const *values, struct err *e);
};

/* The field's C type: bool, int, double, const char * (borrowed from argv), char ** (owned: strv).
 */
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
/* Appends the option as it was typed, and its values (one per word of `arg`), so that they can be
 * passed on or named in a message. */
#define OPT_WORDS(letter, name, arg, help, type, field)                      \
    {                                                                        \
        OPT_KIND_WORDS, letter, name, arg, help, offsetof(type, field), NULL \
    }
#define OPT_CALL(letter, name, arg, help, fn)         \
    {                                                 \
        OPT_KIND_CALL, letter, name, arg, help, 0, fn \
    }
/* The rows that follow, up to the next group, stand under this title in help. A group whose rows
 * are all hidden is not shown, except the last group: it has -h. */
#define OPT_GROUP(title)                              \
    {                                                 \
        OPT_KIND_GROUP, 0, NULL, NULL, title, 0, NULL \
    }
#define OPT_END                                    \
    {                                              \
        OPT_KIND_END, 0, NULL, NULL, NULL, 0, NULL \
    }

enum { OPT_HELP = 1 };

/* Reads argv[1...] into the fields of `into`. `*rest` is the index of the first word that is not
 * an option, or argc. Returns 0, or OPT_HELP if help was requested (nothing is printed). Options
 * before help or a failure stay in the fields.
 *   -EINVAL  unknown option (the hint has the nearest name), missing or malformed value
 *   -ERANGE  the number does not fit
 *   or the error of a row's `call`
 * Asserts that the table has no letter or name twice. */
int opt_parse(const struct opt *rows, void *into, int argc, char *const *argv, int *rest,
              struct err *e);

struct opt_help {
    const char *program; /* "drover run" */
    const char *usage;   /* what follows it: "[options] [--] program [arguments]" */
    const char *summary; /* what the command does, in sentences; broken into lines by the printer */
    const char *examples; /* command lines, one per line; NULL: none */
};

/* Prints a help page of at most 80 columns: usage, summary, the rows by group, examples. Texts are
 * broken at spaces; '\n' starts a new line, and a line that begins with a space is not broken.
 * Labels and examples are not broken either. Rows before the first group stand under "Options". */
void opt_print_help(FILE *to, const struct opt_help *h, const struct opt *rows);

/* Reads the whole text as an integer in [min, max]. -EINVAL or -ERANGE; the message names `what`.
 */
int opt_int(int *out, const char *what, const char *text, int min, int max, struct err *e);

/* Returns the one of the `n` names that is nearest to `word` by edit distance, in which two swapped
 * letters are one edit. NULL: none is near, since more than a third of the letters differ, and more
 * than 2 or more than half of them. */
const char *opt_suggest(const char *word, const char *const *names, size_t n);

#endif
