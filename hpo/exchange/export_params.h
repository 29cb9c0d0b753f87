/* export_params - what each parameter of a sweep is, in the terms of other tools: a range of
 * numbers, or a list of choices. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"
#include "hpo/reader/sweep_columns.h"
#include "hpo/reader/text_table.h"
#include "hpo/spec/spec.h"

enum export_param_kind { EXPORT_PARAM_REAL, EXPORT_PARAM_INTEGER, EXPORT_PARAM_CHOICE };

struct export_param {
    const char *name; /* dotted; borrowed from the columns */
    enum export_param_kind kind;
    double low, high;         /* REAL, INTEGER: of the sweep file, wider if a value lies outside */
    bool log;                 /* its values are spread by their logarithm */
    double step;              /* of its values, from `low` on; 0: none */
    struct text_table values; /* CHOICE: each value as JSON text */
};

struct export_params {
    struct export_param *at; /* in the order of the columns */
    size_t count;
};

/* Reads the parameters. Borrows the spec and the columns; export_params_clear() frees the rest. */
struct export_params export_params_read(const struct spec *spec, const struct sweep_columns *c);
void export_params_clear(struct export_params *p);

/* Returns {"name","kind","low","high","log","step"?} or {"name","kind","choices":[…]} (new
 * reference). */
json_t *export_params_json(const struct export_param *p);
