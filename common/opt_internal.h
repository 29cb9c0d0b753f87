/* opt_internal - what opt.c and opt_help.c share. */
#pragma once

#include "common/opt.h"

/* Sets `*name` to the next of the names "a|b||c" and advances `*names` past it. Returns its length,
 * or 0 if there are no more names. */
size_t opt_next_name(const char **names, const char **name);

/* Returns the table with the rows of its parts in their places. The caller frees it. */
struct opt *opt_with_parts(const struct opt *table);
