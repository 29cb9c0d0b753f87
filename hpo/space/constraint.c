#include "hpo/space/constraint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hpo/space/constraint_internal.h"

static double minimum(double a, double b)
{
    return a < b ? a : b;
}

static double maximum(double a, double b)
{
    return a > b ? a : b;
}

const struct constraint_function constraint_functions[CONSTRAINT_FUNCTIONS] = {
    {"min", NULL, minimum}, {"max", NULL, maximum}, {"abs", fabs, NULL},   {"log", log, NULL},
    {"log2", log2, NULL},   {"log10", log10, NULL}, {"exp", exp, NULL},    {"sqrt", sqrt, NULL},
    {"floor", floor, NULL}, {"ceil", ceil, NULL},   {"round", rint, NULL},
};

void constraint_free(struct constraint *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->op_count; i++)
        free(c->ops[i].text);
    free(c->ops);
    free(c->text);
    free(c);
}

const char *constraint_text(const struct constraint *c)
{
    return c->text;
}

const size_t *constraint_names(const struct constraint *c, size_t *count)
{
    *count = c->name_count;
    return c->names;
}

/* ---- values --------------------------------------------------------------------------------- */

static const struct constraint_value no_value = {.type = CONSTRAINT_NONE};

static struct constraint_value number(double x)
{
    return isnan(x) ? no_value : (struct constraint_value){.type = CONSTRAINT_NUMBER, .number = x};
}

static struct constraint_value boolean(bool x)
{
    return (struct constraint_value){.type = CONSTRAINT_BOOL, .number = x};
}

static bool is_equal(struct constraint_value a, struct constraint_value b)
{
    if (a.type != b.type || a.type == CONSTRAINT_OTHER)
        return false;
    return a.type == CONSTRAINT_STRING ? strcmp(a.text, b.text) == 0 : a.number == b.number;
}

static struct constraint_value compare(enum comparison comparison, struct constraint_value a,
                                       struct constraint_value b)
{
    if (a.type == CONSTRAINT_NONE || b.type == CONSTRAINT_NONE)
        return no_value;
    if (comparison == CMP_EQUAL || comparison == CMP_NOT_EQUAL)
        return boolean(is_equal(a, b) == (comparison == CMP_EQUAL));
    if (a.type != CONSTRAINT_NUMBER || b.type != CONSTRAINT_NUMBER)
        return no_value;
    return boolean(comparison == CMP_LESS         ? a.number < b.number
                   : comparison == CMP_LESS_EQUAL ? a.number <= b.number
                   : comparison == CMP_GREATER    ? a.number > b.number
                                                  : a.number >= b.number);
}

/* Returns Python's a // b. Computes it from the remainder, since a / b may round up to a whole
 * number. */
static double floor_divide(double a, double b)
{
    double r = fmod(a, b), q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0))
        q--;
    double down = floor(q);
    return q - down > 0.5 ? down + 1 : down;
}

static double calculate(enum op_kind kind, double a, double b)
{
    double r = 0;
    switch (kind) {
    case OP_ADD:
        return a + b;
    case OP_SUBTRACT:
        return a - b;
    case OP_MULTIPLY:
        return a * b;
    case OP_DIVIDE:
        return b != 0 ? a / b : NAN;
    case OP_FLOOR_DIVIDE:
        return b != 0 ? floor_divide(a, b) : NAN;
    case OP_REMAINDER: /* the result has the sign of b */
        r = fmod(a, b);
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    case OP_POWER:
        return a == 0 && b < 0 ? NAN : pow(a, b);
    default:
        return NAN; /* not an arithmetic operation */
    }
}

static struct constraint_value eval(const struct constraint *c, int i,
                                    const struct constraint_value *values);

static struct constraint_value eval_logic(const struct constraint *c, const struct op *op,
                                          const struct constraint_value *values)
{
    bool stop = op->kind == OP_OR; /* an operand with this value decides the result */
    for (int i = op->first; i >= 0; i = c->ops[i].next) {
        struct constraint_value v = eval(c, i, values);
        if (v.type != CONSTRAINT_BOOL)
            return no_value;
        if ((v.number != 0) == stop)
            return v;
    }
    return boolean(!stop);
}

static struct constraint_value eval_chain(const struct constraint *c, const struct op *op,
                                          const struct constraint_value *values)
{
    struct constraint_value before = eval(c, op->first, values);
    for (int i = c->ops[op->first].next; i >= 0; i = c->ops[i].next) {
        struct constraint_value now = eval(c, i, values);
        struct constraint_value v = compare(c->ops[i].comparison, before, now);
        if (v.type != CONSTRAINT_BOOL || v.number == 0)
            return v;
        before = now;
    }
    return boolean(true);
}

static struct constraint_value eval_call(const struct constraint *c, const struct op *op,
                                         const struct constraint_value *values)
{
    const struct constraint_function *f = &constraint_functions[(size_t)op->number];
    struct constraint_value v = eval(c, op->first, values);
    if (f->unary && v.type == CONSTRAINT_NUMBER) {
        double y = f->unary(v.number);
        return y == -INFINITY ? no_value : number(y); /* -INFINITY comes from log(0) */
    }
    for (int i = c->ops[op->first].next; i >= 0 && v.type == CONSTRAINT_NUMBER;
         i = c->ops[i].next) {
        struct constraint_value w = eval(c, i, values);
        v = w.type == CONSTRAINT_NUMBER ? number(f->fold(v.number, w.number)) : no_value;
    }
    return v.type == CONSTRAINT_NUMBER ? v : no_value;
}

static struct constraint_value eval(const struct constraint *c, int i,
                                    const struct constraint_value *values)
{
    const struct op *op = &c->ops[i];
    struct constraint_value a, b;
    switch (op->kind) {
    case OP_NUMBER:
        return number(op->number);
    case OP_TEXT:
        return (struct constraint_value){.type = CONSTRAINT_STRING, .text = op->text};
    case OP_BOOL:
        return boolean(op->number != 0);
    case OP_NAME:
        return values[(size_t)op->number];
    case OP_NEGATIVE:
        a = eval(c, op->first, values);
        return a.type == CONSTRAINT_NUMBER ? number(-a.number) : no_value;
    case OP_NOT:
        a = eval(c, op->first, values);
        return a.type == CONSTRAINT_BOOL ? boolean(a.number == 0) : no_value;
    case OP_AND:
    case OP_OR:
        return eval_logic(c, op, values);
    case OP_CHAIN:
        return eval_chain(c, op, values);
    case OP_CALL:
        return eval_call(c, op, values);
    default:
        a = eval(c, op->first, values);
        b = eval(c, c->ops[op->first].next, values);
        if (a.type != CONSTRAINT_NUMBER || b.type != CONSTRAINT_NUMBER)
            return no_value;
        return number(calculate(op->kind, a.number, b.number));
    }
}

bool constraint_holds(const struct constraint *c, const struct constraint_value *values)
{
    struct constraint_value v = eval(c, c->root, values);
    return v.type == CONSTRAINT_BOOL && v.number != 0;
}
