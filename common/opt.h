/* opt - command lines from tables: one row per option; help, manual and completion come from it.
 *
 *     static const struct opt options[] = {
 *         OPT_INT('n', "np", "N", "number of ranks", struct launch_spec, ranks),
 *         OPT_FLAG(0, "dry-run", "print the plan and stop", struct launch_spec, dry_run),
 *         OPT_END,
 *     };
 *
 * Long names are taken with one dash or two (-np 4, --np 4, --np=4), as mpirun's users write them;
 * and with '_' for '-', as torchrun's do; a letter takes its value attached or apart (-n4, -n 4).
 * Options end at "--" or at the first word that is none; a value may start with a dash. -h and
 * --help are known to every table. */
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
    char letter;      /* 0: none */
    const char *name; /* without dashes; more names for the same follow, apart by '|': "np|n" */
    const char *arg;  /* what the value is called in help; its words count the values; NULL: none */
    const char *help; /* NULL: understood, but not shown */
    size_t offset;
    /* OPT_KIND_CALL: gets as many values as `arg` has words. */
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
/* May be given many times; each value is appended. */
#define OPT_STRV(letter, name, arg, help, type, field)                      \
    {                                                                       \
        OPT_KIND_STRV, letter, name, arg, help, offsetof(type, field), NULL \
    }
/* The option as it was typed, and its values (as many as `arg` has words), are appended: to be
 * passed on, or to be spoken of. */
#define OPT_WORDS(letter, name, arg, help, type, field)                      \
    {                                                                        \
        OPT_KIND_WORDS, letter, name, arg, help, offsetof(type, field), NULL \
    }
#define OPT_CALL(letter, name, arg, help, fn)         \
    {                                                 \
        OPT_KIND_CALL, letter, name, arg, help, 0, fn \
    }
/* The rows that follow, up to the next group, stand under this title in help. A group whose rows
 * are all hidden has no title there. */
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
 * an option (argc where there is none). Returns 0, or OPT_HELP when help was asked for (nothing
 * was printed). What was read before help or a failure stays in the fields.
 *   -EINVAL  unknown option (the hint has the nearest name), missing or malformed value
 *   -ERANGE  a number that does not fit
 *   else what a row's `call` returned
 * A table that names a letter or a name twice is a mistake: assert. */
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
/* The same, without examples. */
void opt_help(FILE *to, const char *program, const char *usage, const char *summary,
              const struct opt *rows);

/* The whole text as an integer in [min, max]; -EINVAL or -ERANGE, naming `what`. */
int opt_int(int *out, const char *what, const char *text, int min, int max, struct err *e);

/* The one of `names` (n of them) nearest to `word` by edit distance, or NULL when none is near
 * (more than a third of its letters differ, and more than 2 or than half of them). */
const char *opt_suggest(const char *word, const char *const *names, size_t n);

#endif
