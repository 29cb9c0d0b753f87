/* profile - the time of each operation, measured by marks of the device. */
#pragma once

#include "ops.h"

enum { PROFILE_FIRST = 126, PROFILE_ROWS = 32 };

struct profile {
    const struct ops_backend *ops;
    struct ops *dev;
    int on, used; /* used: number of marks since the last sum */
    const char *name[OPS_MARKS - PROFILE_FIRST];
    struct profile_row {
        const char *name;
        double ms;
        long calls;
    } row[PROFILE_ROWS];
    int rows;
};

void profile_begin(struct profile *p, int on);
/* Ends an operation, which began at the end of the one before it. `name` is not copied. */
void profile_operation(struct profile *p, const char *name);
void profile_end(struct profile *p);
/* Prints the ten most expensive operations. */
void profile_print(struct profile *p);
