#include "options.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void options_invalid(const struct options *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", o->program);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n  try: %s --help\n", o->program);
    va_end(args);
    exit(2);
}

static _Noreturn void print_usage(const struct options *o)
{
    fputs(o->usage, stdout);
    for (const struct options_row *r = o->rows; r < o->rows + o->n; r++) {
        const char *names = r->kind == OPTIONS_CHOICE ? r->values : NULL;
        int width = printf("  --%s%s%s", r->name, r->kind == OPTIONS_FLAG ? "" : "=",
                           names ? "NAME" : r->values);
        printf("%*s%s%s%s", width < 25 ? 25 - width : 1, "", r->help, names ? ": " : "",
               names ? names : "");
        printf(r->initial ? " (default: %s)\n" : "\n", r->initial);
    }
    puts("In names, - and _ are the same.");
    exit(0);
}

static char letter(char c)
{
    return c == '_' ? '-' : c;
}

/* Returns the row of an option. If there is none, suggests the name with the most letters at its
 * begin and end that are the same. */
static const struct options_row *find(const struct options *o, const char *name)
{
    const struct options_row *best = o->rows;
    size_t most = 0, n = strlen(name);
    for (const struct options_row *r = o->rows; r < o->rows + o->n; r++) {
        size_t m = strlen(r->name), begin = 0, end = 0;
        while (begin < n && letter(name[begin]) == letter(r->name[begin]))
            begin++;
        if (begin == n && begin == m)
            return r;
        while (end < n && end < m && letter(name[n - 1 - end]) == letter(r->name[m - 1 - end]))
            end++;
        if (begin + end > most) {
            most = begin + end;
            best = r;
        }
    }
    fprintf(stderr, "%s: unknown option '--%s'\n  try: --%s\n", o->program, name, best->name);
    exit(2);
}

static int choice(const struct options *o, const char *name, const char *names, const char *value)
{
    size_t n = strlen(value), letters;
    int i = 0;
    for (const char *p = names; *p; p += letters + (p[letters] == ' '), i++) {
        letters = strcspn(p, " ");
        if (letters == n && strncmp(p, value, n) == 0)
            return i;
    }
    options_invalid(o, "--%s '%s': expected one of %s", name, value, names);
}

static double number(const struct options *o, const struct options_row *r, const char *value)
{
    char *end;
    double v = strtod(value, &end);
    bool whole = r->kind != OPTIONS_REAL;
    if (end == value || *end || !(v >= r->low && v <= r->high) || (whole && v != floor(v)))
        options_invalid(o, "--%s '%s': expected a %snumber from %.10g to %.10g", r->name, value,
                        whole ? "whole " : "", r->low, r->high);
    return v;
}

/* `value` is NULL for a flag without a value. */
static void set(const struct options *o, const struct options_row *r, void *to, const char *value)
{
    if (r->kind == OPTIONS_TEXT)
        *(const char **)to = value;
    else if (r->kind == OPTIONS_REAL)
        *(float *)to = (float)number(o, r, value);
    else if (r->kind == OPTIONS_FLAG)
        *(int *)to = !value || choice(o, r->name, "false true 0 1 False True", value) & 1;
    else if (r->kind == OPTIONS_CHOICE)
        *(int *)to = choice(o, r->name, r->values, value);
    else if (r->kind == OPTIONS_INT_OR_AUTO && strcmp(value, "auto") == 0)
        *(int *)to = 0;
    else
        *(int *)to = (int)number(o, r, value);
}

void options_parse(const struct options *o, void *settings, char **argv)
{
    for (const struct options_row *r = o->rows; r < o->rows + o->n; r++)
        if (r->initial)
            set(o, r, (char *)settings + r->at, r->initial);
    while (*++argv) {
        if (strncmp(*argv, "--", 2) != 0)
            options_invalid(o, "unexpected argument '%s'", *argv);
        char *name = *argv + 2, *value = strchr(name, '=');
        if (value)
            *value++ = '\0';
        if (strcmp(name, "help") == 0)
            print_usage(o);
        const struct options_row *r = find(o, name);
        if (!value && r->kind != OPTIONS_FLAG && !(value = *++argv))
            options_invalid(o, "--%s needs a value", name);
        set(o, r, (char *)settings + r->at, value);
    }
}
