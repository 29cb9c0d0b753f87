/* constraint_parse - parses a constraint into a tree, by recursive descent. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/opt.h"
#include "hpo/space/constraint_internal.h"

struct parse {
    struct constraint *c;
    const struct constraint_name *names;
    size_t count;
    size_t at; /* position of the next token, after blanks */
    int depth;
    struct err *e;
};

/* Sets the error text, with a position in the expression. Returns -1, which is not the index of an
 * operation. */
__attribute__((format(printf, 3, 4))) static int parse_error(struct parse *p, size_t at,
                                                             const char *fmt, ...)
{
    char text[256];
    int line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        /* Bytes that continue a UTF-8 character do not count. */
        column += ((unsigned char)p->c->text[i] & 0xC0) != 0x80;
        if (p->c->text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_set(p->e, -EINVAL, "%d:%d: %s", line, column, text);
    return -1;
}

static void skip_blanks(struct parse *p)
{
    while (isspace((unsigned char)p->c->text[p->at]))
        p->at++;
}

static bool is_word(char ch)
{
    return isalnum((unsigned char)ch) || ch == '_';
}

/* Consumes `token` and returns true if the text continues with it. */
static bool accept_token(struct parse *p, const char *token)
{
    size_t len = strlen(token);
    const char *s = p->c->text + p->at;
    if (strncmp(s, token, len) != 0 || (is_word(token[0]) && (is_word(s[len]) || s[len] == '.')))
        return false;
    p->at += len;
    skip_blanks(p);
    return true;
}

static int new_op(struct parse *p, enum op_kind kind, enum constraint_type type, size_t at)
{
    struct constraint *c = p->c;
    c->ops = xgrow(c->ops, c->op_count, sizeof *c->ops);
    c->ops[c->op_count] =
        (struct op){.kind = kind, .type = type, .at = at, .first = -1, .next = -1};
    return (int)c->op_count++;
}

static const char *const type_words[] = {
    [CONSTRAINT_NONE] = "a value",
    [CONSTRAINT_NUMBER] = "a number",
    [CONSTRAINT_STRING] = "a string",
    [CONSTRAINT_BOOL] = "a condition",
    [CONSTRAINT_OTHER] = "a list or mapping",
};

/* Checks the type of an operand, if its type is known. Returns 0, or -1 on an error. */
static int require_type(struct parse *p, int i, enum constraint_type type, const char *operator)
{
    const struct op *op = &p->c->ops[i];
    if (op->type == CONSTRAINT_NONE || op->type == type)
        return 0;
    return parse_error(p, op->at, "%s needs %ss, not %s", operator, type_words[type] + 2,
                       type_words[op->type]);
}

/* Adds an arithmetic operation with two operands. Returns its index or -1. */
static int new_binary(struct parse *p, enum op_kind kind, int a, int b, const char *operator)
{
    if (a < 0 || b < 0 || require_type(p, a, CONSTRAINT_NUMBER, operator) < 0 ||
        require_type(p, b, CONSTRAINT_NUMBER, operator) < 0)
        return -1;
    int i = new_op(p, kind, CONSTRAINT_NUMBER, p->c->ops[a].at);
    p->c->ops[i].first = a;
    p->c->ops[a].next = b;
    return i;
}

/* Reports an unexpected token. If the token is an operator of another language, the hint is the
 * right operator. */
static int unexpected(struct parse *p)
{
    static const char *const foreign[][2] = {
        {"&&", "and"}, {"||", "or"}, {"!", "not"}, {"^", "**"}, {"=", "=="}};
    const char *s = p->c->text + p->at;
    parse_error(p, p->at, "unexpected '%.*s'", (int)strcspn(s, " \t\n"), s);
    for (size_t i = 0; i < COUNT_OF(foreign); i++)
        if (strncmp(s, foreign[i][0], strlen(foreign[i][0])) == 0)
            return err_hint(p->e, "%s", foreign[i][1]), -1;
    return -1;
}

static int read_or(struct parse *p);
static int read_unary(struct parse *p);

/* ---- atoms ---------------------------------------------------------------------------------- */

static int read_number(struct parse *p)
{
    const char *s = p->c->text + p->at;
    size_t len = strspn(s, "0123456789"), at = p->at;
    if (s[len] == '.')
        len += 1 + strspn(s + len + 1, "0123456789");
    if (s[len] == 'e' || s[len] == 'E') {
        size_t sign = s[len + 1] == '+' || s[len + 1] == '-';
        size_t digits = strspn(s + len + 1 + sign, "0123456789");
        len += digits ? 1 + sign + digits : 0;
    }
    if (is_word(s[len]) || s[len] == '.')
        return parse_error(p, at, "'%.*s' is not a number", (int)(len + strcspn(s + len, " \t\n)")),
                           s);
    int i = new_op(p, OP_NUMBER, CONSTRAINT_NUMBER, at);
    /* strtod() reads exactly `len` characters: the check above rejects a longer number. */
    p->c->ops[i].number = strtod(s, NULL);
    p->at += len;
    skip_blanks(p);
    return i;
}

static int read_text(struct parse *p)
{
    const char *s = p->c->text + p->at, *end = strchr(s + 1, *s);
    if (!end)
        return parse_error(p, p->at, "the closing quote is missing");
    int i = new_op(p, OP_TEXT, CONSTRAINT_STRING, p->at);
    p->c->ops[i].text = xstrndup(s + 1, (size_t)(end - s - 1));
    p->at += (size_t)(end - s) + 1;
    skip_blanks(p);
    return i;
}

static int unknown_name(struct parse *p, const char *name, size_t at)
{
    AUTO(free) const char **known = xcalloc(p->count, sizeof *known);
    parse_error(p, at, "unknown parameter '%.100s'", name);
    for (size_t i = 0; i < p->count; i++) {
        known[i] = p->names[i].name;
        if (strpbrk(known[i], "-") && strncmp(p->c->text + at, known[i], strlen(known[i])) == 0)
            return err_hint(p->e, "`%s`, in backquotes", known[i]), -1;
    }
    const char *near = opt_suggest(name, known, p->count);
    if (near)
        err_hint(p->e, "%s", near);
    return -1;
}

static int use_name(struct parse *p, const char *name, size_t at)
{
    struct constraint *c = p->c;
    size_t which = 0, i = 0;
    while (which < p->count && strcmp(p->names[which].name, name) != 0)
        which++;
    if (which == p->count)
        return unknown_name(p, name, at);
    while (i < c->name_count && c->names[i] != which)
        i++;
    if (i == CONSTRAINT_NAMES_MAX)
        return parse_error(p, at, "more than %d parameters", CONSTRAINT_NAMES_MAX);
    if (i == c->name_count)
        c->names[c->name_count++] = which;
    int op = new_op(p, OP_NAME, p->names[which].type, at);
    c->ops[op].number = (double)i;
    return op;
}

static int read_call(struct parse *p, const char *name, size_t at)
{
    const char *known[CONSTRAINT_FUNCTIONS];
    size_t f = 0;
    for (size_t i = 0; i < CONSTRAINT_FUNCTIONS; i++)
        known[i] = constraint_functions[i].name;
    while (f < CONSTRAINT_FUNCTIONS && strcmp(name, known[f]) != 0)
        f++;
    if (f == CONSTRAINT_FUNCTIONS) {
        parse_error(p, at, "unknown function '%.100s'", name);
        const char *near = opt_suggest(name, known, CONSTRAINT_FUNCTIONS);
        return err_hint(p->e, "%s", near ? near : "min max abs log log2 log10 exp sqrt …"), -1;
    }
    int call = new_op(p, OP_CALL, CONSTRAINT_NUMBER, at), last = -1;
    p->c->ops[call].number = (double)f;
    do {
        int arg = read_or(p);
        if (arg < 0 || require_type(p, arg, CONSTRAINT_NUMBER, name) < 0)
            return -1;
        *(last < 0 ? &p->c->ops[call].first : &p->c->ops[last].next) = arg;
        if (last >= 0 && constraint_functions[f].unary)
            return parse_error(p, p->c->ops[arg].at, "%s takes one argument", name);
        last = arg;
    } while (accept_token(p, ","));
    return accept_token(p, ")") ? call : parse_error(p, p->at, "')' is missing");
}

static int read_name(struct parse *p)
{
    const char *s = p->c->text + p->at;
    size_t at = p->at, len = 0;
    bool quoted = *s == '`';
    if (quoted) {
        len = strcspn(++s, "`");
        if (!s[len])
            return parse_error(p, at, "the closing backquote is missing");
    } else {
        while (is_word(s[len]) || (s[len] == '.' && is_word(s[len + 1])))
            len++;
    }
    AUTO(free) char *name = xstrndup(s, len);
    p->at += len + (quoted ? 2 : 0);
    skip_blanks(p);
    return !quoted && accept_token(p, "(") ? read_call(p, name, at) : use_name(p, name, at);
}

static int read_atom(struct parse *p)
{
    const char *s = p->c->text + p->at;
    size_t at = p->at;
    if (isdigit((unsigned char)s[0]) || (s[0] == '.' && isdigit((unsigned char)s[1])))
        return read_number(p);
    if (s[0] == '\'' || s[0] == '"')
        return read_text(p);
    bool yes = accept_token(p, "true") || accept_token(p, "True");
    if (yes || accept_token(p, "false") || accept_token(p, "False")) {
        int i = new_op(p, OP_BOOL, CONSTRAINT_BOOL, at);
        p->c->ops[i].number = yes;
        return i;
    }
    if (accept_token(p, "(")) {
        int i = read_or(p);
        return i < 0 || accept_token(p, ")") ? i : parse_error(p, p->at, "')' is missing");
    }
    if (isalpha((unsigned char)s[0]) || s[0] == '_' || s[0] == '`')
        return read_name(p);
    if (!s[0])
        return parse_error(p, at, "unexpected end of the expression");
    return unexpected(p);
}

/* ---- operators ------------------------------------------------------------------------------ */

static int read_power(struct parse *p)
{
    int a = read_atom(p);
    if (a < 0 || !accept_token(p, "**"))
        return a;
    p->depth++;
    a = new_binary(p, OP_POWER, a, read_unary(p), "**");
    p->depth--;
    return a;
}

static int read_unary(struct parse *p)
{
    size_t at = p->at;
    if (p->depth == CONSTRAINT_DEPTH_MAX)
        return parse_error(p, at, "nested deeper than %d", CONSTRAINT_DEPTH_MAX);
    bool minus = p->c->text[at] == '-', plus = accept_token(p, "+");
    if (!minus && !plus)
        return read_power(p);
    if (minus)
        accept_token(p, "-");
    p->depth++;
    int a = read_unary(p);
    p->depth--;
    if (a < 0 || require_type(p, a, CONSTRAINT_NUMBER, "a sign") < 0)
        return -1;
    int i = minus ? new_op(p, OP_NEGATIVE, CONSTRAINT_NUMBER, at) : a;
    if (minus)
        p->c->ops[i].first = a;
    return i;
}

struct infix {
    const char *token; /* NULL: the end of a table */
    enum op_kind kind;
};

/* Parses operands that are separated by operators of the same precedence. */
static int read_binary(struct parse *p, const struct infix *all, int (*operand)(struct parse *p))
{
    int a = operand(p);
    for (const struct infix *o = all; a >= 0 && o->token;) {
        bool found = accept_token(p, o->token);
        if (found)
            a = new_binary(p, o->kind, a, operand(p), o->token);
        o = found ? all : o + 1;
    }
    return a;
}

static int read_term(struct parse *p)
{
    static const struct infix all[] = {
        {"//", OP_FLOOR_DIVIDE}, {"/", OP_DIVIDE}, {"%", OP_REMAINDER}, {"*", OP_MULTIPLY}, {0}};
    return read_binary(p, all, read_unary);
}

static int read_sum(struct parse *p)
{
    static const struct infix all[] = {{"+", OP_ADD}, {"-", OP_SUBTRACT}, {0}};
    return read_binary(p, all, read_term);
}

/* Checks that two operands can be compared, if their types are known. Returns 0, or -1 on an
 * error. */
static int comparable(struct parse *p, enum comparison comparison, int a, int b)
{
    const struct op *x = &p->c->ops[a], *y = &p->c->ops[b];
    if (comparison != CMP_EQUAL && comparison != CMP_NOT_EQUAL)
        return require_type(p, a, CONSTRAINT_NUMBER, "a comparison") < 0 ||
                       require_type(p, b, CONSTRAINT_NUMBER, "a comparison") < 0
                   ? -1
                   : 0;
    if (x->type == CONSTRAINT_NONE || y->type == CONSTRAINT_NONE || x->type == y->type)
        return 0;
    return parse_error(p, y->at, "%s is never equal to %s", type_words[x->type],
                       type_words[y->type]);
}

static int read_comparison(struct parse *p)
{
    /* A token comes before one that it begins with. */
    static const char *const tokens[] = {
        [CMP_LESS_EQUAL] = "<=", [CMP_LESS] = "<",   [CMP_GREATER_EQUAL] = ">=",
        [CMP_GREATER] = ">",     [CMP_EQUAL] = "==", [CMP_NOT_EQUAL] = "!=",
    };
    int last = read_sum(p), chain = -1;
    for (size_t i = 0; last >= 0 && i < COUNT_OF(tokens);) {
        if (!accept_token(p, tokens[i])) {
            i++;
            continue;
        }
        int next = read_sum(p);
        if (next < 0 || comparable(p, (enum comparison)i, last, next) < 0)
            return -1;
        if (chain < 0) {
            chain = new_op(p, OP_CHAIN, CONSTRAINT_BOOL, p->c->ops[last].at);
            p->c->ops[chain].first = last;
        }
        p->c->ops[next].comparison = (enum comparison)i;
        p->c->ops[last].next = next;
        last = next;
        i = 0;
    }
    return last < 0 || chain < 0 ? last : chain;
}

static int read_not(struct parse *p)
{
    size_t at = p->at;
    if (!accept_token(p, "not"))
        return read_comparison(p);
    if (p->depth == CONSTRAINT_DEPTH_MAX)
        return parse_error(p, at, "nested deeper than %d", CONSTRAINT_DEPTH_MAX);
    p->depth++;
    int a = read_not(p);
    p->depth--;
    if (a < 0 || require_type(p, a, CONSTRAINT_BOOL, "not") < 0)
        return -1;
    int i = new_op(p, OP_NOT, CONSTRAINT_BOOL, at);
    p->c->ops[i].first = a;
    return i;
}

/* Parses operands that are separated by `word`. */
static int read_logic(struct parse *p, enum op_kind kind, const char *word,
                      int (*operand)(struct parse *p))
{
    int last = operand(p), all = -1;
    while (last >= 0 && accept_token(p, word)) {
        int next = operand(p);
        if (next < 0 || require_type(p, last, CONSTRAINT_BOOL, word) < 0 ||
            require_type(p, next, CONSTRAINT_BOOL, word) < 0)
            return -1;
        if (all < 0) {
            all = new_op(p, kind, CONSTRAINT_BOOL, p->c->ops[last].at);
            p->c->ops[all].first = last;
        }
        p->c->ops[last].next = next;
        last = next;
    }
    return last < 0 || all < 0 ? last : all;
}

static int read_and(struct parse *p)
{
    return read_logic(p, OP_AND, "and", read_not);
}

static int read_or(struct parse *p)
{
    if (p->depth == CONSTRAINT_DEPTH_MAX)
        return parse_error(p, p->at, "nested deeper than %d", CONSTRAINT_DEPTH_MAX);
    p->depth++;
    int i = read_logic(p, OP_OR, "or", read_and);
    p->depth--;
    return i;
}

int constraint_read(struct constraint **out, const char *text, const struct constraint_name *names,
                    size_t count, struct err *e)
{
    AUTO(constraint) struct constraint *c = xzalloc(sizeof *c);
    c->text = xstrndup(text, CONSTRAINT_LENGTH_MAX);
    struct parse p = {.c = c, .names = names, .count = count, .e = e};
    if (strlen(text) > CONSTRAINT_LENGTH_MAX)
        return parse_error(&p, 0, "longer than %d bytes", CONSTRAINT_LENGTH_MAX), -EINVAL;
    skip_blanks(&p);
    c->root = read_or(&p);
    if (c->root < 0)
        return -EINVAL;
    if (text[p.at])
        return unexpected(&p), -EINVAL;
    if (c->ops[c->root].type != CONSTRAINT_BOOL && c->ops[c->root].type != CONSTRAINT_NONE)
        return parse_error(&p, 0, "this is %s, not a condition", type_words[c->ops[c->root].type]),
               -EINVAL;
    *out = TAKE(c);
    return 0;
}
