/* constraint - a condition that parameters have to meet, written as an expression:
 * layers * width <= 4096.
 *
 *     or  and  not  < <= > >= == !=  + -  * / // %  - (sign)  **       from weak to strong
 *     min max abs log log2 log10 exp sqrt floor ceil round             functions
 *     12  1e-4  'adam'  "adam"  true  false                            values
 *     width  optimizer.lr  `weight-decay`                              parameters
 *
 * It means what it does in Python (1 <= a < b is a chain, // and % round down, round goes to even),
 * but for this: strings are only == or != and never numbers, nor are true and false; and what has
 * no value (0/0 and any division by 0, log(0), 'a' * 2) makes that the condition does not hold.
 * Nothing else can be reached: no attributes, no calls, no loops; the text and its depth are
 * limited. */
#ifndef DROVER_CONSTRAINT_H
#define DROVER_CONSTRAINT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

enum { CONSTRAINT_LENGTH_MAX = 4096, CONSTRAINT_DEPTH_MAX = 64, CONSTRAINT_NAMES_MAX = 64 };

enum constraint_type {
    CONSTRAINT_NONE, /* of a value: there is none. Of a name: not known beforehand */
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

/* Compiles `text`, whose names are some of the `count` given ones; nothing is borrowed.
 *   -EINVAL  not an expression, an unknown name or function (the hint has the nearest), types that
 *            do not go together, or more than the limits; the message starts with LINE:COLUMN */
int constraint_read(struct constraint **out, const char *text, const struct constraint_name *names,
                    size_t count, struct err *e);
void constraint_free(struct constraint *c);
AUTO_DEFINE(constraint, struct constraint *, constraint_free)

const char *constraint_text(const struct constraint *c);

/* The names that it has, each once: indices into those that constraint_read() was given. */
const size_t *constraint_names(const struct constraint *c, size_t *count);

/* values[i] is that of the i-th of constraint_names(). Some 10 ns for each operator; no allocation.
 */
bool constraint_holds(const struct constraint *c, const struct constraint_value *values);

#endif
