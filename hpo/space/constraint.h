/* constraint - an expression over parameters that every trial must satisfy: layers * width <= 4096.
 *
 *      or  and  not  < <= > >= == !=  + -  * / // %  - (sign)  **       lowest precedence first
 *      min max abs log log2 log10 exp sqrt floor ceil round             functions
 *      12  1e-4  'adam'  "adam"  true  false                            values
 *      width  optimizer.lr  `weight-decay`                              parameters
 *
 * Expressions have the same meaning as in Python (1 <= a < b is a chain, // and % round down,
 * round() rounds halves to even), with two exceptions. First, strings and booleans are not numbers,
 * and strings can only be compared with == and !=. Second, an expression without a value (any
 * division by 0, log(0), 'a' * 2) makes the constraint fail. There are no attributes, no other
 * functions and no loops. The length and the depth of an expression are limited. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

enum { CONSTRAINT_LENGTH_MAX = 4096, CONSTRAINT_DEPTH_MAX = 64, CONSTRAINT_NAMES_MAX = 64 };

enum constraint_type {
    CONSTRAINT_NONE, /* for a value: there is none; for a name: its values have different types */
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
    double number;    /* the value of a NUMBER; for a BOOL 0 or 1 */
    const char *text; /* the value of a STRING; borrowed */
};

struct constraint;

/* Compiles the expression `text` to a constraint, which the caller frees. `names` are the `count`
 * parameters that it may use. Nothing is borrowed.
 *   -EINVAL  not an expression, an unknown name or function (the hint is the nearest name), types
 *            that do not match, or a limit is exceeded; the message starts with LINE:COLUMN */
int constraint_read(struct constraint **out, const char *text, const struct constraint_name *names,
                    size_t count, struct err *e);
void constraint_free(struct constraint *c);
AUTO_DEFINE(constraint, struct constraint *, constraint_free)

const char *constraint_text(const struct constraint *c);

/* Returns the parameters in the expression, each once, as indices into the `names` of
 * constraint_read(); borrowed. Sets `*count` to their number. */
const size_t *constraint_names(const struct constraint *c, size_t *count);

/* Returns true if the expression is true. values[i] is the value of the i-th parameter of
 * constraint_names(). Costs about 10 ns per operator; allocates nothing. */
bool constraint_holds(const struct constraint *c, const struct constraint_value *values);
