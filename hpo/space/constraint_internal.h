/* constraint_in - what the two halves of constraint share; nobody else includes it. */
#ifndef DROVER_CONSTRAINT_INTERNAL_H
#define DROVER_CONSTRAINT_INTERNAL_H

#include "hpo/space/constraint.h"

enum kind {
    OP_NUMBER,
    OP_TEXT,
    OP_BOOL,
    OP_NAME,
    OP_NEGATIVE,
    OP_NOT,
    OP_AND, /* any number of operands */
    OP_OR,
    OP_CHAIN, /* comparisons: each operand but the first says how with the one before */
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_DIVIDE_DOWN,
    OP_REMAINDER,
    OP_POWER,
    OP_CALL,
};

enum how { HOW_LESS, HOW_LESS_EQUAL, HOW_MORE, HOW_MORE_EQUAL, HOW_EQUAL, HOW_UNEQUAL };

struct op { /* of a tree; children are a list */
    enum kind kind;
    enum constraint_type type; /* NONE: not known beforehand */
    size_t at;                 /* where it starts in the text */
    int first, next;           /* child; sibling; -1: none */
    enum how how;              /* an operand of OP_CHAIN */
    double number; /* OP_NUMBER, OP_BOOL; OP_NAME: which value; OP_CALL: which function */
    char *text;    /* OP_TEXT */
};

struct constraint {
    char *text;
    struct op *ops;
    size_t op_count;
    int root;
    size_t names[CONSTRAINT_NAMES_MAX];
    size_t name_count;
};

struct constraint_function {
    const char *name;
    double (*one)(double);
    double (*fold)(double, double); /* takes any number of arguments, at least one */
};

enum { CONSTRAINT_FUNCTIONS = 11 };
extern const struct constraint_function constraint_functions[CONSTRAINT_FUNCTIONS];

#endif
