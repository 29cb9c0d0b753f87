/* dl - libraries that are loaded when they are first used, and tables of their functions
 *
 *     struct sqlite { typeof(sqlite3_step) *step; … };
 *     static const struct dl_symbol symbols[] = {
 *         {"sqlite3_step", offsetof(struct sqlite, step), DL_REQUIRED},
 *         {"sqlite3_serialize", offsetof(struct sqlite, serialize), DL_OPTIONAL}, …
 *     };
 *     static const struct dl_library library = {
 *         .names = {"libsqlite3.so.0"}, DL_SYMBOLS(symbols), .hint = "apt install libsqlite3-0"};
 *     int rc = dl_load(&functions, NULL, &library, &e); */
#pragma once

#include <stddef.h>

#include "common/err.h"

enum dl_need { DL_REQUIRED, DL_OPTIONAL };

/* A function of a library, and where its pointer belongs in a table. Several rows may share a
 * pointer, for a function that has another name in other releases: the first name that the library
 * has fills it. All but the last of them are optional. */
struct dl_symbol {
    const char *name;
    size_t at; /* offset in the table */
    enum dl_need need;
};

struct dl_library {
    const char *names[4]; /* files or paths, best first; the rest is NULL */
    const char *variable; /* environment variable that names the only file to try, if it is set
                           * and not empty; NULL: none */
    int flags;            /* of dlopen(); 0: RTLD_NOW | RTLD_LOCAL */
    const char *hint;     /* for the user if loading fails; NULL: none */
    const struct dl_symbol *symbols;
    size_t symbol_count;
};
#define DL_SYMBOLS(array) .symbols = (array), .symbol_count = sizeof(array) / sizeof((array)[0])

/* Loads the first file of `l` that has all required functions, and fills `table` with pointers to
 * its functions: NULL for an optional one that it lacks. On failure all of these pointers are NULL.
 * The library stays loaded until the process ends, or until the caller calls dlclose() for the
 * handle `*lib` (`lib` may be NULL).
 *   -ENOENT   no file can be loaded
 *   -ELIBBAD  a library lacks a function, and no other file can be loaded */
int dl_load(void *table, void **lib, const struct dl_library *l, struct err *e);

/* Fills `table` with functions of the library that the handle `lib` names, as dl_load() does.
 *   -ELIBBAD  it lacks a function */
int dl_fill(void *table, void *lib, const struct dl_symbol *symbols, size_t n, struct err *e);
