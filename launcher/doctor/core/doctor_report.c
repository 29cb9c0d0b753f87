#include "launcher/doctor/core/doctor_report.h"

#include <errno.h>
#include <string.h>

#include "common/mem.h"
#include "common/plural.h"

static void node_clear(struct doctor_node *n)
{
    for (size_t i = 0; n->results && i < CHECKS; i++)
        check_result_clear(&n->results[i]);
    free(n->results);
    free(n->name);
    free(n->error);
}

void doctor_report_free(struct doctor_report *r)
{
    for (int i = 0; i < r->count; i++)
        node_clear(&r->nodes[i]);
    free(r->nodes);
    *r = (struct doctor_report){0};
}

/* ---- nodes that agree ----------------------------------------------------------------------- */

static bool was_run(const struct check_result *c)
{
    return c && c->value;
}

struct check_result *doctor_report_result(const struct doctor_report *r, int node, size_t row)
{
    return r->nodes[node].results ? &r->nodes[node].results[row] : NULL;
}

static bool same(const struct check_result *a, const struct check_result *b)
{
    return was_run(a) && was_run(b) && a->state == b->state && strcmp(a->value, b->value) == 0;
}

/* Returns the number of nodes with the same result as `node`, which is the first of them, or 0 if
 * an earlier node has it. */
static int count_same(const struct doctor_report *r, int node, size_t row)
{
    const struct check_result *mine = doctor_report_result(r, node, row);
    int n = 0;
    for (int i = 0; i < r->count; i++) {
        if (!same(mine, doctor_report_result(r, i, row)))
            continue;
        if (i < node)
            return 0;
        n++;
    }
    return n;
}

/* Returns the node whose value most nodes have, among those whose result is ok; -1: none. */
static int majority(const struct doctor_report *r, size_t row, int *count)
{
    int best = -1;
    *count = 0;
    for (int i = 0; i < r->count; i++) {
        const struct check_result *c = doctor_report_result(r, i, row);
        int n = was_run(c) && c->state == CHECK_OK ? count_same(r, i, row) : 0;
        if (n > *count) {
            *count = n;
            best = i;
        }
    }
    return best;
}

/* Returns the length of the first part of a value: ", " separates them. */
static size_t part_length(const char *value)
{
    const char *end = strstr(value, ", ");
    return end ? (size_t)(end - value) : strlen(value);
}

/* Returns what follows the first part, or NULL. */
static const char *next_part(const char *value)
{
    const char *end = strstr(value, ", ");
    return end ? end + 2 : NULL;
}

static bool has_same_part(const char *value, const char *part)
{
    size_t len = part_length(part);
    for (; value; value = next_part(value))
        if (part_length(value) == len && strncmp(value, part, len) == 0)
            return true;
    return false;
}

/* Returns the parts of a value that another one lacks, or NULL. The caller frees them. */
static char *only_in(const char *value, const char *other)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (const char *part = value; part; part = next_part(part))
        if (!has_same_part(other, part))
            strbuf_printf(&b, "%s%.*s", b.len ? ", " : "", (int)part_length(part), part);
    return b.len ? strbuf_take(&b) : NULL;
}

/* Returns true if a part of the text has one of the names. */
static bool has_part(const char *parts, const char *names)
{
    for (const char *name = names; name && *name;) {
        size_t len = strcspn(name, "|");
        for (const char *part = parts; part; part = next_part(part))
            if (strncmp(part, name, len) == 0 && part[len] == ' ')
                return true;
        name += len + (name[len] == '|');
    }
    return false;
}

/* Makes a result of a node in the minority a warning or a failure that has only what differs. */
static void differ(struct check_result *c, const struct check *row, const char *usual, int nodes)
{
    AUTO(free) char *own = only_in(c->value, usual);
    AUTO(free) char *missing = only_in(usual, c->value);
    bool fails = has_part(own, row->must_match) || has_part(missing, row->must_match);
    c->state = fails ? CHECK_FAIL : CHECK_WARN;
    free(c->want);
    c->want = xasprintf("%s, as on %d other%s", missing ? missing : "nothing else", nodes,
                        plural_s(nodes));
    free(c->value);
    c->value = own ? TAKE(own) : xasprintf("no %s", missing ? missing : "value");
}

void doctor_report_compare(struct doctor_report *r)
{
    const struct check *table = check_table();
    for (size_t row = 0; row < CHECKS; row++) {
        int most, reference = table[row].compared ? majority(r, row, &most) : -1;
        if (reference < 0)
            continue;
        const struct check_result *usual = doctor_report_result(r, reference, row);
        for (int i = 0; i < r->count; i++) {
            struct check_result *c = doctor_report_result(r, i, row);
            if (!was_run(c) || c->state != CHECK_OK || same(c, usual))
                continue;
            differ(c, &table[row], usual->value, most);
        }
    }
}

void doctor_report_judge_clock(struct doctor_node *n, double begin_s, double end_s)
{
    enum { WARN_S = 1, FAIL_S = 30 };
    const struct check *table = check_table(), *clock = check_find("host.clock");
    double ahead = n->time_s - end_s, behind = begin_s - n->time_s;
    double off = ahead > behind ? ahead : behind;
    if (!n->results || n->time_s <= 0 || off <= WARN_S)
        return;
    check_bad(&n->results[clock - table], off > FAIL_S ? CHECK_FAIL : CHECK_WARN,
              "at most 1 s of difference", "time of the answer", "%.0f s %s this machine's clock",
              off, ahead > behind ? "ahead of" : "behind");
}

/* ---- counts and cause ----------------------------------------------------------------------- */

/* Returns the worst state of a row over all nodes: fail, warn, ok, skip; -1: it was run on none. */
static int worst(const struct doctor_report *r, size_t row)
{
    static const int weight[CHECK_STATES] = {
        [CHECK_SKIP] = 1, [CHECK_OK] = 2, [CHECK_WARN] = 3, [CHECK_FAIL] = 4};
    int state = -1;
    for (int i = 0; i < r->count; i++) {
        const struct check_result *c = doctor_report_result(r, i, row);
        if (was_run(c) && (state < 0 || weight[c->state] > weight[state]))
            state = (int)c->state;
    }
    return state;
}

struct doctor_counts doctor_report_count(const struct doctor_report *r)
{
    struct doctor_counts n = {0};
    for (size_t row = 0; row < CHECKS; row++) {
        int state = worst(r, row);
        n.ok += state == CHECK_OK;
        n.warn += state == CHECK_WARN;
        n.fail += state == CHECK_FAIL;
        n.skip += state == CHECK_SKIP;
    }
    for (int i = 0; i < r->count; i++)
        n.fail += !r->nodes[i].results;
    return n;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* "c07 and c19", "c07, c08 and 28 others" */
static void put_names(struct strbuf *b, const struct doctor_report *r, int node, size_t row)
{
    enum { NAMES_MAX = 3 };
    int n = count_same(r, node, row), shown = n <= NAMES_MAX ? n : NAMES_MAX - 1, k = 0;
    for (int i = node; i < r->count && k < shown; i++) {
        if (!same(doctor_report_result(r, node, row), doctor_report_result(r, i, row)))
            continue;
        strbuf_printf(b, "%s%s", k == 0 ? "" : k == n - 1 ? " and " : ", ", r->nodes[i].name);
        k++;
    }
    if (shown < n)
        strbuf_printf(b, " and %d other%s", n - shown, plural_s(n - shown));
}

/* " on c07 and c19", " on 30 of 32 nodes"; nothing if there is one node. */
static void put_where(struct strbuf *b, const struct doctor_report *r, int node, size_t row)
{
    int n = count_same(r, node, row);
    if (r->count == 1)
        return;
    strbuf_puts(b, " on ");
    if (n == r->count)
        strbuf_puts(b, "all nodes");
    else if (2 * n > r->count)
        strbuf_printf(b, "%d of %d nodes", n, r->count);
    else
        put_names(b, r, node, row);
}

bool doctor_report_is_first(const struct doctor_report *r, int node, size_t row)
{
    return count_same(r, node, row) > 0;
}

const char *doctor_report_put_finding(struct strbuf *out, const struct doctor_report *r, int node,
                                      size_t row)
{
    const struct check *c = &check_table()[row];
    const struct check_result *x = doctor_report_result(r, node, row);
    strbuf_printf(out, "%s: %s: %s", c->id, c->what, x->value);
    put_where(out, r, node, row);
    if (x->want)
        strbuf_printf(out, ", wanted: %s", x->want);
    if (x->source)
        strbuf_printf(out, " (%s)", x->source);
    return x->advice ? x->advice : c->advice;
}

static void put_finding(struct strbuf *b, const struct doctor_report *r, int node, size_t row)
{
    enum check_state s = doctor_report_result(r, node, row)->state;
    strbuf_printf(b, "%-4s  ", check_state_name(s));
    const char *advice = doctor_report_put_finding(b, r, node, row);
    strbuf_puts(b, "\n");
    if (advice && (s == CHECK_WARN || s == CHECK_FAIL))
        strbuf_printf(b, "      try: %s\n", advice);
}

static bool is_finding(const struct check_result *c)
{
    return was_run(c) && (c->state == CHECK_WARN || c->state == CHECK_FAIL);
}

/* Returns the length of the cause in an error that may end in "; try: WAY OUT". Sets *advice to the
 * way out, or to NULL. */
static int cause_length(const char *error, const char **advice)
{
    static const char mark[] = "; try: ";
    const char *at = strstr(error, mark);
    *advice = at ? at + sizeof mark - 1 : NULL;
    return (int)(at ? (size_t)(at - error) : strlen(error));
}

static void put_missing_node(struct strbuf *b, const char *error)
{
    const char *advice;
    int len = cause_length(error, &advice);
    strbuf_printf(b, "fail  %.*s\n", len, error);
    if (advice)
        strbuf_printf(b, "      try: %s\n", advice);
}

static void put_missing(struct strbuf *b, const struct doctor_report *r)
{
    for (int i = 0; i < r->count; i++)
        if (!r->nodes[i].results)
            put_missing_node(b, r->nodes[i].error);
}

static void put_rows(struct strbuf *b, const struct doctor_report *r, bool all)
{
    for (size_t row = 0; row < CHECKS; row++)
        for (int i = 0; i < r->count; i++) {
            const struct check_result *c = doctor_report_result(r, i, row);
            if ((is_finding(c) || (all && was_run(c))) && doctor_report_is_first(r, i, row))
                put_finding(b, r, i, row);
        }
}

/* Why checks were skipped, if it is the same for all of them: " (no GPU)". */
static void put_skip_reason(struct strbuf *b, const struct doctor_report *r)
{
    const char *why = NULL;
    for (size_t row = 0; row < CHECKS; row++)
        for (int i = 0; i < r->count && worst(r, row) == CHECK_SKIP; i++) {
            const struct check_result *c = doctor_report_result(r, i, row);
            if (!was_run(c) || strncmp(c->value, "needs ", 6) == 0)
                continue;
            if (why && strcmp(why, c->value) != 0)
                return;
            why = c->value;
        }
    if (why)
        strbuf_printf(b, " (%s)", why);
}

static void put_counts(struct strbuf *b, const struct doctor_report *r)
{
    struct doctor_counts n = doctor_report_count(r);
    strbuf_printf(b, "%d ok, %d warning%s, %d failure%s, %d skipped", n.ok, n.warn,
                  plural_s(n.warn), n.fail, plural_s(n.fail), n.skip);
    put_skip_reason(b, r);
    if (r->count > 1)
        strbuf_printf(b, " on %d nodes", r->count);
    strbuf_printf(b, " in %.1f s\n", r->seconds);
}

/* The first failure in the order of the table: later ones may follow from it. */
static void put_cause(struct strbuf *b, const struct doctor_report *r)
{
    const struct check *table = check_table();
    for (int i = 0; i < r->count; i++)
        if (!r->nodes[i].results) {
            const char *advice;
            int len = cause_length(r->nodes[i].error, &advice);
            strbuf_printf(b, "cause: %.*s\n", len, r->nodes[i].error);
            return;
        }
    for (size_t row = 0; row < CHECKS; row++)
        for (int i = 0; i < r->count; i++) {
            const struct check_result *c = doctor_report_result(r, i, row);
            if (!was_run(c) || c->state != CHECK_FAIL)
                continue;
            strbuf_printf(b, "cause: %s: %s", table[row].what, c->value);
            put_where(b, r, i, row);
            strbuf_puts(b, "\n");
            return;
        }
}

void doctor_report_text(struct strbuf *out, const struct doctor_report *r, bool all)
{
    put_missing(out, r);
    put_rows(out, r, all);
    put_counts(out, r);
    put_cause(out, r);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *checks_json(const struct doctor_node *n)
{
    const struct check *table = check_table();
    json_t *list = json_array();
    for (size_t i = 0; n->results && i < CHECKS; i++) {
        const struct check_result *c = &n->results[i];
        if (was_run(c))
            json_array_append_new(
                list, check_result_json(c, table[i].id, is_finding(c) ? table[i].advice : NULL));
    }
    return list;
}

json_t *doctor_report_json(const struct doctor_report *r)
{
    const struct check *table = check_table();
    json_t *nodes = json_array(), *cause = json_array();
    for (int i = 0; i < r->count; i++) {
        json_t *node = json_pack("{s:o,s:o}", "node", json_text(r->nodes[i].name), "checks",
                                 checks_json(&r->nodes[i]));
        if (r->nodes[i].time_s > 0)
            json_object_set_new(node, "time", json_real(r->nodes[i].time_s));
        if (!r->nodes[i].results)
            json_object_set_new(node, "error", json_text(r->nodes[i].error));
        json_array_append_new(nodes, node);
    }
    for (size_t row = 0; row < CHECKS; row++)
        if (worst(r, row) == CHECK_FAIL)
            json_array_append_new(cause, json_string(table[row].id));
    return json_pack("{s:i,s:o,s:o}", "v", 1, "nodes", nodes, "cause", cause);
}

static void read_check(struct check_result *results, const json_t *o)
{
    const char *id = json_string_value(json_object_get(o, "id"));
    const struct check *c = id ? check_find(id) : NULL;
    if (!c)
        return;
    struct check_result *r = &results[c - check_table()];
    enum check_state before = r->state;
    check_result_clear(r); /* a faulty report may name a check twice */
    r->state = before;
    check_result_read(r, o);
}

int doctor_report_read_node(struct doctor_node *out, const char *text, struct err *e)
{
    AUTO(json) json_t *root = NULL;
    size_t i;
    json_t *check;
    if (json_parse(&root, text, strlen(text), e) < 0)
        return -EBADMSG;
    const json_t *node = json_array_get(json_object_get(root, "nodes"), 0);
    const json_t *checks = json_object_get(node, "checks");
    if (!json_is_array(checks))
        return err_set(e, -EBADMSG, "no list of checks");
    out->time_s = json_number_value(json_object_get(node, "time"));
    out->results = xcalloc(CHECKS, sizeof *out->results);
    for (size_t k = 0; k < CHECKS; k++)
        out->results[k].state = CHECK_SKIP;
    json_array_foreach (checks, i, check)
        read_check(out->results, check);
    return 0;
}
