/* sweep_columns_internal - the struct of the columns, shared by the files of sweep_columns. */
#pragma once

#include "hpo/reader/sweep_columns.h"

struct column {
    struct columns_param param;
    unsigned char *kinds; /* [cap]: enum columns_kind */
    union cell {
        double number;
        int json;
    } * cells;
    size_t cap;
};

struct sweep_columns {
    const struct spec *spec;
    struct text_table texts;
    struct columns_trial *trials;
    size_t count, cap;
    int64_t seq; /* of the last record */
    struct columns_lease *leases;
    size_t lease_count, lease_cap;
    struct column *columns;
    size_t column_count, column_cap;
    int states[TRIAL_STATES];
    struct columns_commands commands;
    char *model_state; /* JSON; NULL: none */
    int metric;        /* number of the sweep's metric in `texts`; TEXT_TABLE_NONE: not yet known */
};
