/* constraint - an expression over parameters that every trial must satisfy: layers * width <= 4096.
 *
 *      or  and  not  < <= > >= == !=  + -  * / // %  - (sign)  **       lowest precedence first
 *      min max abs log log2 log10 exp sqrt floor ceil round             functions
 *      12  1e-4  'adam'  "adam"  true  false                            values
 *      width  optimizer.lr  `weight-decay`                              parameters
 *
 * Expressions mean what they mean in Python (1 <= a < b is a chain, // and % round down, round()
 * goes to even), with two exceptions. Strings and booleans are not numbers; strings can only be
 * compared with == and !=. An expression without a value (any division by 0, log(0), 'a' * 2) makes
 * the constraint fail. Nothing else can be reached: no attributes, no other calls, no loops. Length
 * and depth of the text are limited. */
#ifndef DROVER_CONSTRAINT_H
#define DROVER_CONSTRAINT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

enum { CONSTRAINT_LENGTH_MAX = 4096, CONSTRAINT_DEPTH_MAX = 64, CONSTRAINT_NAMES_MAX = 64 };

enum constraint_type {
    CONSTRAINT_NONE, /* a value: none. A name: its type is unknown beforehand */
    CONSTRAINT_NUMBER,
    CONSTRAINT_STRING,
    CONSTRAINT_BOOL,
    CONSTRAINT_OTHER, /* a list, null, … */
};

struct constraint_name {
    const char *name;
    enum constraint_type type;
};

struct constraint_value {
    enum constraint_type type;
    double number;    /* NUMBER; BOOL: 0 or 1 */
    const char *text; /* STRING; borrowed */
};

struct constraint;

/* Compiles `text`, whose names must be among the `count` given ones; borrows nothing.
 *   -EINVAL  not an expression, an unknown name or function (the hint has the nearest), types
 *            that do not match, or a limit is exceeded; the message starts with LINE:COLUMN */
int constraint_read(struct constraint **out, const char *text, const struct constraint_name *names,
                    size_t count, struct err *e);
void constraint_free(struct constraint *c);
AUTO_DEFINE(constraint, struct constraint *, constraint_free)

const char *constraint_text(const struct constraint *c);

/* The names in the expression, each once: indices into the names that constraint_read() got. */
const size_t *constraint_names(const struct constraint *c, size_t *count);

/* values[i] is the value of the i-th of constraint_names(). Costs about 10 ns per operator;
 * allocates nothing. */
bool constraint_holds(const struct constraint *c, const struct constraint_value *values);

#endif
