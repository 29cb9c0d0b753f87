/* options - reads a command line by a table with one row per option.
 *
 * An option is --NAME=VALUE or --NAME VALUE. It is accepted in the forms in which a sweep writes
 * parameters: underscores for dashes, 64.0 for 64, and --FLAG=True. */
#pragma once

#include <stddef.h>

/* The types of the values: int, except float for OPTIONS_REAL and const char * for OPTIONS_TEXT. */
enum options_kind {
    OPTIONS_INT,
    OPTIONS_INT_OR_AUTO, /* "auto" is 0 */
    OPTIONS_REAL,
    OPTIONS_TEXT,
    OPTIONS_FLAG,
    OPTIONS_CHOICE, /* the number of the name */
};

struct options_row {
    const char *name;
    enum options_kind kind;
    size_t at;           /* where the value is in the settings */
    const char *initial; /* the value without the option; NULL: what is there */
    double low, high;    /* limits of numbers */
    const char *values;  /* for --help; of a choice: its names, separated by spaces */
    const char *help;
};

/* A row whose value is a member of `type`, the program's struct of settings. */
#define OPTIONS_ROW(type, kind, name, member, ...)                \
    {                                                             \
        name, OPTIONS_##kind, offsetof(type, member), __VA_ARGS__ \
    }

struct options {
    const char *program, *usage; /* usage: the beginning of what --help prints */
    const struct options_row *rows;
    size_t n;
};

/* Sets the values of all rows in `settings`. --help prints the options and exits. */
void options_parse(const struct options *o, void *settings, char **argv);
/* Prints what is wrong with the command line, and exits with status 2. */
_Noreturn void options_invalid(const struct options *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
