/* constraint_read - from the text of a constraint to a tree, by recursive descent. */
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
    size_t at; /* of the next token; blanks are behind us */
    int depth;
    struct err *e;
};

/* Describes a failure at a place of the text; returns -1, no operation. */
__attribute__((format(printf, 3, 4))) static int wrong(struct parse *p, size_t at, const char *fmt,
                                                       ...)
{
    char text[256];
    int line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column += ((unsigned char)p->c->text[i] & 0xC0) != 0x80; /* UTF-8: not each byte counts */
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

/* Takes the token, if it is next. */
static bool took(struct parse *p, const char *token)
{
    size_t len = strlen(token);
    const char *s = p->c->text + p->at;
    if (strncmp(s, token, len) != 0 || (is_word(token[0]) && (is_word(s[len]) || s[len] == '.')))
        return false;
    p->at += len;
    skip_blanks(p);
    return true;
}

static int new_op(struct parse *p, enum kind kind, enum constraint_type type, size_t at)
{
    struct constraint *c = p->c;
    if ((c->op_count & (c->op_count - 1)) == 0)
        c->ops = xrealloc(c->ops, c->op_count ? 2 * c->op_count : 1, sizeof *c->ops);
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

/* Whether an operand may be of the type, as far as it is known; -1: no. */
static int want(struct parse *p, int i, enum constraint_type type, const char *who)
{
    const struct op *op = &p->c->ops[i];
    if (op->type == CONSTRAINT_NONE || op->type == type)
        return 0;
    return wrong(p, op->at, "%s needs %ss, this is %s", who, type_words[type] + 2,
                 type_words[op->type]);
}

/* An operation of two operands. */
static int join(struct parse *p, enum kind kind, int a, int b, const char *who)
{
    if (a < 0 || b < 0 || want(p, a, CONSTRAINT_NUMBER, who) < 0 ||
        want(p, b, CONSTRAINT_NUMBER, who) < 0)
        return -1;
    int i = new_op(p, kind, CONSTRAINT_NUMBER, p->c->ops[a].at);
    p->c->ops[i].first = a;
    p->c->ops[a].next = b;
    return i;
}

/* People come from other languages. */
static int unexpected(struct parse *p)
{
    static const char *const others[][2] = {
        {"&&", "and"}, {"||", "or"}, {"!", "not"}, {"^", "**"}, {"=", "=="}};
    const char *s = p->c->text + p->at;
    wrong(p, p->at, "'%.*s' was not expected", (int)strcspn(s, " \t\n"), s);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (strncmp(s, others[i][0], strlen(others[i][0])) == 0)
            return err_hint(p->e, "%s", others[i][1]), -1;
    return -1;
}

static int read_or(struct parse *p);
static int read_unary(struct parse *p);

/* ---- atoms -------------------------------------------------------------------------------------
 */

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
        return wrong(p, at, "'%.*s' is no number", (int)(len + strcspn(s + len, " \t\n)")), s);
    int i = new_op(p, OP_NUMBER, CONSTRAINT_NUMBER, at);
    p->c->ops[i].number = strtod(s, NULL); /* reads as far: what could make it read on is refused */
    p->at += len;
    skip_blanks(p);
    return i;
}

static int read_text(struct parse *p)
{
    const char *s = p->c->text + p->at, *end = strchr(s + 1, *s);
    if (!end)
        return wrong(p, p->at, "the string has no end");
    int i = new_op(p, OP_TEXT, CONSTRAINT_STRING, p->at);
    p->c->ops[i].text = xstrndup(s + 1, (size_t)(end - s - 1));
    p->at += (size_t)(end - s) + 1;
    skip_blanks(p);
    return i;
}

static int unknown_name(struct parse *p, const char *name, size_t at)
{
    AUTO(free) const char **known = xcalloc(p->count, sizeof *known);
    wrong(p, at, "there is no parameter '%.100s'", name);
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
        return wrong(p, at, "more than %d parameters", CONSTRAINT_NAMES_MAX);
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
        wrong(p, at, "there is no function '%.100s'", name);
        const char *near = opt_suggest(name, known, CONSTRAINT_FUNCTIONS);
        return err_hint(p->e, "%s", near ? near : "min max abs log log2 log10 exp sqrt …"), -1;
    }
    int call = new_op(p, OP_CALL, CONSTRAINT_NUMBER, at), last = -1;
    p->c->ops[call].number = (double)f;
    do {
        int arg = read_or(p);
        if (arg < 0 || want(p, arg, CONSTRAINT_NUMBER, name) < 0)
            return -1;
        *(last < 0 ? &p->c->ops[call].first : &p->c->ops[last].next) = arg;
        if (last >= 0 && constraint_functions[f].one)
            return wrong(p, p->c->ops[arg].at, "%s takes one argument", name);
        last = arg;
    } while (took(p, ","));
    return took(p, ")") ? call : wrong(p, p->at, "')' is missing");
}

static int read_name(struct parse *p)
{
    const char *s = p->c->text + p->at;
    size_t at = p->at, len = 0;
    bool quoted = *s == '`';
    if (quoted) {
        len = strcspn(++s, "`");
        if (!s[len])
            return wrong(p, at, "the name has no second backquote");
    } else {
        while (is_word(s[len]) || (s[len] == '.' && is_word(s[len + 1])))
            len++;
    }
    AUTO(free) char *name = xstrndup(s, len);
    p->at += len + (quoted ? 2 : 0);
    skip_blanks(p);
    return !quoted && took(p, "(") ? read_call(p, name, at) : use_name(p, name, at);
}

static int read_atom(struct parse *p)
{
    const char *s = p->c->text + p->at;
    size_t at = p->at;
    if (isdigit((unsigned char)s[0]) || (s[0] == '.' && isdigit((unsigned char)s[1])))
        return read_number(p);
    if (s[0] == '\'' || s[0] == '"')
        return read_text(p);
    bool yes = took(p, "true") || took(p, "True");
    if (yes || took(p, "false") || took(p, "False")) {
        int i = new_op(p, OP_BOOL, CONSTRAINT_BOOL, at);
        p->c->ops[i].number = yes;
        return i;
    }
    if (took(p, "(")) {
        int i = read_or(p);
        return i < 0 || took(p, ")") ? i : wrong(p, p->at, "')' is missing");
    }
    if (isalpha((unsigned char)s[0]) || s[0] == '_' || s[0] == '`')
        return read_name(p);
    if (!s[0])
        return wrong(p, at, "something is missing at the end");
    return unexpected(p);
}

/* ---- operators ---------------------------------------------------------------------------------
 */

static int read_power(struct parse *p)
{
    int a = read_atom(p);
    if (a < 0 || !took(p, "**"))
        return a;
    p->depth++;
    a = join(p, OP_POWER, a, read_unary(p), "**");
    p->depth--;
    return a;
}

static int read_unary(struct parse *p)
{
    size_t at = p->at;
    if (p->depth == CONSTRAINT_DEPTH_MAX)
        return wrong(p, at, "nested deeper than %d", CONSTRAINT_DEPTH_MAX);
    bool minus = p->c->text[at] == '-', plus = took(p, "+");
    if (!minus && !plus)
        return read_power(p);
    if (minus)
        took(p, "-");
    p->depth++;
    int a = read_unary(p);
    p->depth--;
    if (a < 0 || want(p, a, CONSTRAINT_NUMBER, "a sign") < 0)
        return -1;
    int i = minus ? new_op(p, OP_NEGATIVE, CONSTRAINT_NUMBER, at) : a;
    if (minus)
        p->c->ops[i].first = a;
    return i;
}

static int read_term(struct parse *p)
{
    static const struct {
        const char *token;
        enum kind kind;
    } ops[] = {{"//", OP_DIVIDE_DOWN}, {"/", OP_DIVIDE}, {"%", OP_REMAINDER}, {"*", OP_MULTIPLY}};
    int a = read_unary(p);
    for (size_t i = 0; a >= 0 && i < COUNT_OF(ops);)
        if (took(p, ops[i].token)) {
            a = join(p, ops[i].kind, a, read_unary(p), ops[i].token);
            i = 0;
        } else {
            i++;
        }
    return a;
}

static int read_sum(struct parse *p)
{
    int a = read_term(p);
    while (a >= 0) {
        if (took(p, "+"))
            a = join(p, OP_ADD, a, read_term(p), "+");
        else if (took(p, "-"))
            a = join(p, OP_SUBTRACT, a, read_term(p), "-");
        else
            break;
    }
    return a;
}

/* Whether two operands can be compared, as far as their types are known. */
static int comparable(struct parse *p, enum how how, int a, int b)
{
    const struct op *x = &p->c->ops[a], *y = &p->c->ops[b];
    if (how != HOW_EQUAL && how != HOW_UNEQUAL)
        return want(p, a, CONSTRAINT_NUMBER, "an order") < 0 ||
                       want(p, b, CONSTRAINT_NUMBER, "an order") < 0
                   ? -1
                   : 0;
    if (x->type == CONSTRAINT_NONE || y->type == CONSTRAINT_NONE || x->type == y->type)
        return 0;
    return wrong(p, y->at, "%s is never equal to %s", type_words[x->type], type_words[y->type]);
}

static int read_comparison(struct parse *p)
{
    static const char *const tokens[] = {
        [HOW_LESS] = "<",        [HOW_LESS_EQUAL] = "<=", [HOW_MORE] = ">",
        [HOW_MORE_EQUAL] = ">=", [HOW_EQUAL] = "==",      [HOW_UNEQUAL] = "!=",
    };
    static const enum how order[] = {HOW_LESS_EQUAL, HOW_LESS,  HOW_MORE_EQUAL,
                                     HOW_MORE,       HOW_EQUAL, HOW_UNEQUAL};
    int last = read_sum(p), chain = -1;
    for (size_t i = 0; last >= 0 && i < COUNT_OF(order);) {
        if (!took(p, tokens[order[i]])) {
            i++;
            continue;
        }
        int next = read_sum(p);
        if (next < 0 || comparable(p, order[i], last, next) < 0)
            return -1;
        if (chain < 0) {
            chain = new_op(p, OP_CHAIN, CONSTRAINT_BOOL, p->c->ops[last].at);
            p->c->ops[chain].first = last;
        }
        p->c->ops[next].how = order[i];
        p->c->ops[last].next = next;
        last = next;
        i = 0;
    }
    return last < 0 || chain < 0 ? last : chain;
}

static int read_not(struct parse *p)
{
    size_t at = p->at;
    if (!took(p, "not"))
        return read_comparison(p);
    if (p->depth == CONSTRAINT_DEPTH_MAX)
        return wrong(p, at, "nested deeper than %d", CONSTRAINT_DEPTH_MAX);
    p->depth++;
    int a = read_not(p);
    p->depth--;
    if (a < 0 || want(p, a, CONSTRAINT_BOOL, "not") < 0)
        return -1;
    int i = new_op(p, OP_NOT, CONSTRAINT_BOOL, at);
    p->c->ops[i].first = a;
    return i;
}

/* Operands between `word`s. */
static int read_logic(struct parse *p, enum kind kind, const char *word,
                      int (*operand)(struct parse *p))
{
    int last = operand(p), all = -1;
    while (last >= 0 && took(p, word)) {
        int next = operand(p);
        if (next < 0 || want(p, last, CONSTRAINT_BOOL, word) < 0 ||
            want(p, next, CONSTRAINT_BOOL, word) < 0)
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
        return wrong(p, p->at, "nested deeper than %d", CONSTRAINT_DEPTH_MAX);
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
        return wrong(&p, 0, "longer than %d bytes", CONSTRAINT_LENGTH_MAX), -EINVAL;
    skip_blanks(&p);
    c->root = read_or(&p);
    if (c->root < 0)
        return -EINVAL;
    if (text[p.at])
        return unexpected(&p), -EINVAL;
    if (c->ops[c->root].type != CONSTRAINT_BOOL && c->ops[c->root].type != CONSTRAINT_NONE)
        return wrong(&p, 0, "this is %s, not a condition", type_words[c->ops[c->root].type]),
               -EINVAL;
    *out = TAKE(c);
    return 0;
}
