#include "collectives/bench/analysis/rank_groups.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"

static bool parse_number(int *out, const char *text, int base)
{
    char *end = NULL;
    while (isspace((unsigned char)*text))
        text++;
    if (!isxdigit((unsigned char)*text)) /* strtoul() would accept a sign */
        return false;
    if (base == 0 && strncasecmp(text, "0b", 2) == 0 && isdigit((unsigned char)text[2])) {
        text += 2;
        base = 2;
    }
    errno = 0;
    unsigned long value = strtoul(text, &end, base);
    if (end == text || *end || errno || value > INT_MAX)
        return false;
    *out = (int)value;
    return true;
}

/* Parses an operation and its value, as in "MOD 8" and "%8". */
static bool parse_operation(struct rank_groups *out, const char *text)
{
    static const char *const names[] = {"AND", "&", "OR", "|", "MOD", "%", "DIV", "/"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t len = strlen(names[i]);
        if (strncasecmp(text, names[i], len) != 0)
            continue;
        out->op = names[i | 1][0];
        return parse_number(&out->value, text + len, 0) &&
               (out->value || out->op == '&' || out->op == '|');
    }
    return false;
}

int rank_groups_read(struct rank_groups *out, const char *text, const char *mask, struct err *e)
{
    struct rank_groups s = {0};
    if (mask) {
        s.op = '&';
        if (!parse_number(&s.value, mask, 16))
            return err_set(e, -EINVAL, "NCCL_TESTS_SPLIT_MASK: '%s' is not a hexadecimal number",
                           mask);
    } else if (text && !parse_operation(&s, text)) {
        err_set(e, -EINVAL, "NCCL_TESTS_SPLIT: invalid operation '%s'", text);
        return err_hint(e, "AND 0x7, OR 0x7, MOD 8 or DIV 8");
    }
    *out = s;
    return 0;
}

int rank_groups_color(const struct rank_groups *s, int rank)
{
    return s->op == '&'   ? rank & s->value
           : s->op == '|' ? rank | s->value
           : s->op == '%' ? rank % s->value
           : s->op == '/' ? rank / s->value
                          : 0;
}

int rank_groups_group(int *members, const struct rank_groups *s, int ranks, int rank)
{
    int n = 0, color = rank_groups_color(s, rank);
    for (int r = 0; r < ranks; r++) {
        if (rank_groups_color(s, r) != color)
            continue;
        if (members)
            members[n] = r;
        n++;
    }
    return n;
}

int rank_groups_groups(const struct rank_groups *s, int ranks, int *smallest)
{
    int groups = 0;
    *smallest = ranks;
    for (int r = 0; r < ranks; r++) {
        bool first = true;
        for (int k = 0; k < r && first; k++)
            first = rank_groups_color(s, k) != rank_groups_color(s, r);
        int size = first ? rank_groups_group(NULL, s, ranks, r) : ranks;
        groups += first;
        *smallest = size < *smallest ? size : *smallest;
    }
    return groups;
}
