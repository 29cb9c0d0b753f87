/* opt - parses command lines by a table with one row per option. The same table gives the help
 * text.
 *
 *     static const struct opt options[] = {
 *         OPT_INT('n', "np", "N", "number of ranks", struct launch_spec, ranks, 1, INT_MAX),
 *         OPT_FLAG(0, "dry-run", "print the plan and stop", struct launch_spec, dry_run),
 *         OPT_END,
 *     };
 *
 * Long names have one dash or two (-np 4, --np 4, --np=4), as users of mpirun expect. Between the
 * parts of a name '_' and '-' are equivalent, as users of torchrun expect. The value of a
 * one-letter option is attached to it or is the next word (-n4, -n 4). Options end at "--" or at
 * the first word that is not an option. A value may start with a dash. Every table implies the
 * options -h and --help. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/err.h"

enum opt_kind {
    OPT_KIND_END,
    OPT_KIND_FLAG,
    OPT_KIND_INT,
    OPT_KIND_DOUBLE,
    OPT_KIND_DURATION,
    OPT_KIND_STR,
    OPT_KIND_STRV,
    OPT_KIND_WORDS,
    OPT_KIND_CALL,
    OPT_KIND_CALL_SOME,
    OPT_KIND_GROUP,
    OPT_KIND_ABBREVIATIONS,
    OPT_KIND_LAST_COUNTS,
    OPT_KIND_PART
};

struct opt {
    enum opt_kind kind;
    char letter; /* 0: none */
    /* Without dashes. Further names follow after '|', and names that help does not show after "||":
     * "host|hosts||machine". */
    const char *name;
    /* Name of the value in help, one word per value; NULL: no value. "a|b|c" lists all values,
     * which completion offers. */
    const char *arg;
    const char *help; /* NULL: help does not show the option */
    size_t offset;
    /* For OPT_KIND_CALL: the function to call; `values` has one value per word of `arg`. For
     * OPT_KIND_CALL_SOME: `values` has up to that many, fewer at the end of the line; the function
     * returns the number of values that it used. */
    int (*call)(void *into, char *const *values, struct err *e);
    double min, max;        /* of numbers and durations */
    const struct opt *part; /* for OPT_KIND_PART */
};

/* Rows for options with a field in the struct `type`. The field is a bool for OPT_FLAG, an int for
 * OPT_INT, a double for OPT_DOUBLE and OPT_DURATION, a const char * for OPT_STR (borrowed from
 * argv), and a char ** for OPT_STRV and OPT_WORDS (a strv, which the caller frees). */
#define OPT_ROW(kind_, letter_, name_, arg_, help_, type, field, min_, max_)         \
    {                                                                                \
        .kind = kind_, .letter = letter_, .name = name_, .arg = arg_, .help = help_, \
        .offset = offsetof(type, field), .min = min_, .max = max_                    \
    }
#define OPT_FLAG(letter, name, help, type, field) \
    OPT_ROW(OPT_KIND_FLAG, letter, name, NULL, help, type, field, 0, 0)
/* A value outside of [min, max] is an error. With INT_MAX there is no maximum. A value that means
 * "not given" lies outside of the range, so that no user can enter it. */
#define OPT_INT(letter, name, arg, help, type, field, min, max) \
    OPT_ROW(OPT_KIND_INT, letter, name, arg, help, type, field, min, max)
#define OPT_DOUBLE(letter, name, arg, help, type, field, min, max) \
    OPT_ROW(OPT_KIND_DOUBLE, letter, name, arg, help, type, field, min, max)
/* A duration (duration.h) in seconds; its field is a double, and so are the limits. */
#define OPT_DURATION(letter, name, arg, help, type, field, min, max) \
    OPT_ROW(OPT_KIND_DURATION, letter, name, arg, help, type, field, min, max)
#define OPT_STR(letter, name, arg, help, type, field) \
    OPT_ROW(OPT_KIND_STR, letter, name, arg, help, type, field, 0, 0)
/* May be repeated; each value is appended. */
#define OPT_STRV(letter, name, arg, help, type, field) \
    OPT_ROW(OPT_KIND_STRV, letter, name, arg, help, type, field, 0, 0)
/* Appends the option as the user typed it (an abbreviation in full) and its values (one per word of
 * `arg`) to the field. The caller can pass these words to another program or name them in a
 * message. */
#define OPT_WORDS(letter, name, arg, help, type, field) \
    OPT_ROW(OPT_KIND_WORDS, letter, name, arg, help, type, field, 0, 0)
#define OPT_CALL_ROW(kind_, letter_, name_, arg_, help_, fn)                                    \
    {                                                                                           \
        .kind = kind_, .letter = letter_, .name = name_, .arg = arg_, .help = help_, .call = fn \
    }
#define OPT_CALL(letter, name, arg, help, fn) \
    OPT_CALL_ROW(OPT_KIND_CALL, letter, name, arg, help, fn)
/* An option whose number of values depends on them: "-env NAME VALUE" and "-env NAME=VALUE". */
#define OPT_CALL_SOME(letter, name, arg, help, fn) \
    OPT_CALL_ROW(OPT_KIND_CALL_SOME, letter, name, arg, help, fn)
/* Starts a group: help shows the rows up to the next group under this title. A group without
 * visible rows is not shown, except the last group, which contains -h. */
#define OPT_GROUP(title)                      \
    {                                         \
        .kind = OPT_KIND_GROUP, .help = title \
    }
/* The rows of another table, in this place, also in help. `offset` is that of its struct, which its
 * OPT_CALL functions get. The other table has no parts. */
#define OPT_PART(rows, offset_)                                \
    {                                                          \
        .kind = OPT_KIND_PART, .part = rows, .offset = offset_ \
    }
/* With this row the table has abbreviations, as argparse and getopt_long() accept them: after two
 * dashes, the beginning of a name stands for the only option with such a name. */
#define OPT_ABBREVIATIONS              \
    {                                  \
        .kind = OPT_KIND_ABBREVIATIONS \
    }
/* With this row an option with one value may be given again, and the last value counts: for
 * commands to which wrappers append options. */
#define OPT_LAST_COUNTS              \
    {                                \
        .kind = OPT_KIND_LAST_COUNTS \
    }
#define OPT_END              \
    {                        \
        .kind = OPT_KIND_END \
    }

enum { OPT_HELP = 1 };

/* Reads argv[1...] into the fields of `into`. `*rest` is the index of the first word that is not
 * an option, or argc. Returns 0, or OPT_HELP if help was requested (nothing is printed). Options
 * before help or a failure stay in the fields.
 *   -EINVAL  unknown option (the hint has the nearest name), ambiguous abbreviation (the hint has
 *            its options), missing or malformed value
 *   -ERANGE  the number is not in the row's range
 *   or the error of a row's `call`
 * If help was requested, asserts that the table has no letter or name twice. */
int opt_parse(const struct opt *table, void *into, int argc, char *const *argv, int *rest,
              struct err *e);

/* The same; an option with one value (OPT_INT to OPT_STR) that is in `*given` is an error, unless
 * the table has OPT_LAST_COUNTS. Appends the names of such options to the strv, which the caller
 * frees.
 *   -EINVAL  an option is given twice */
int opt_parse_given(char ***given, const struct opt *table, void *into, int argc, char *const *argv,
                    int *rest, struct err *e);

struct opt_help {
    const char *program;  /* "drover run" */
    const char *usage;    /* the words after it: "[options] [--] program [arguments]" */
    const char *summary;  /* what the command does, in sentences without line breaks */
    const char *examples; /* command lines, one per line; NULL: none */
    /* Names of the options that most users need, separated by spaces: only these are shown, and a
     * line that says how many --help-all has. NULL: all are shown. */
    const char *usual;
};

/* Prints a help page of at most 80 columns: usage, summary, the rows by group, examples. Texts are
 * broken at spaces. '\n' in a text starts a new line; a line of the text that begins with a space
 * is not broken. Labels and examples are not broken either. Rows before the first group are shown
 * under the title "Options".
 * If the environment has DROVER_HELP=json, prints the same as one line of JSON, with the ranges of
 * numbers. scripts/manual makes manual pages and completion of it. */
void opt_print_help(FILE *to, const struct opt_help *h, const struct opt *table);

/* Reads the whole text as an integer in [min, max]; INT_MAX: no maximum. -EINVAL or -ERANGE; the
 * message names `what`. */
int opt_int(int *out, const char *what, const char *text, int min, int max, struct err *e);

/* Returns that of the `n` names with the smallest edit distance from `word`, in which two swapped
 * letters are one edit, or NULL if no name is near. A name is near if its distance is at most a
 * third of the length of `word`, or at most 2 and at most half of the length. */
const char *opt_suggest(const char *word, const char *const *names, size_t n);
