/* constraint_internal - types that constraint.c and constraint_parse.c share. */
#pragma once

#include "hpo/space/constraint.h"

enum op_kind {
    OP_NUMBER,
    OP_TEXT,
    OP_BOOL,
    OP_NAME,
    OP_NEGATIVE,
    OP_NOT,
    OP_AND, /* any number of operands */
    OP_OR,
    OP_CHAIN, /* a < b <= c; each operand but the first stores the operator before it */
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_FLOOR_DIVIDE,
    OP_REMAINDER,
    OP_POWER,
    OP_CALL,
};

enum comparison {
    CMP_LESS_EQUAL,
    CMP_LESS,
    CMP_GREATER_EQUAL,
    CMP_GREATER,
    CMP_EQUAL,
    CMP_NOT_EQUAL
};

struct op { /* a node of the expression's tree; its children (operands) are a linked list */
    enum op_kind kind;
    enum constraint_type type;  /* type of the result; NONE: not known before values are */
    size_t at;                  /* position in the text */
    int first, next;            /* indices of the first child and of the next sibling; -1: none */
    enum comparison comparison; /* for an operand of OP_CHAIN: the operator before it */
    double number; /* OP_NUMBER, OP_BOOL: the value; OP_NAME: index into `values`; OP_CALL: index of
                      the function */
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
    double (*unary)(double);
    double (*fold)(double, double); /* combines one or more arguments from left to right */
};

enum { CONSTRAINT_FUNCTIONS = 11 };
extern const struct constraint_function constraint_functions[CONSTRAINT_FUNCTIONS];
