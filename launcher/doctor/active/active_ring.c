#include <stdlib.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/doctor/active/active_internal.h"

static const char check_id[] = "net.back", source[] = "drover bench ring";

/* A link is slow at less than this share of the median: links of one network are alike, and shares
 * of other jobs in it change by less. */
static const double SLOW_SHARE = 0.5;

/* At most this many measurements, if links are slow. */
enum { MEASUREMENTS = 3 };

enum link_state { LINK_OK, LINK_SLOW, LINK_BROKEN, LINK_STATES };

static int end_of(const json_t *row, const char *key)
{
    return (int)json_integer_value(json_object_get(row, key));
}

static double rate_of(const json_t *row)
{
    return json_number_value(json_object_get(row, "gbps"));
}

static enum link_state state_of(const json_t *row, double usual)
{
    if (json_is_string(json_object_get(row, "error")))
        return LINK_BROKEN;
    return rate_of(row) < SLOW_SHARE * usual ? LINK_SLOW : LINK_OK;
}

static double usual_rate(const json_t *rows)
{
    AUTO(free) double *rates = xcalloc(json_array_size(rows) + 1, sizeof *rates);
    const json_t *row;
    size_t i;
    int n = 0;
    json_array_foreach (rows, i, row)
        if (rate_of(row) > 0)
            rates[n++] = rate_of(row);
    return active_median(rates, n);
}

/* Appends what is wrong with a link. */
static void put_link(struct strbuf *b, const struct active_measurement *m, const json_t *row)
{
    const char *error = json_string_value(json_object_get(row, "error"));
    const char *from = m->report->nodes[m->nodes[end_of(row, "from")]].name;
    const char *to = m->report->nodes[m->nodes[end_of(row, "to")]].name;
    strbuf_printf(b, "%s%s to %s", b->len ? "; " : "", from, to);
    if (error)
        strbuf_printf(b, " (%s): %s", json_string_value(json_object_get(row, "address")), error);
    else
        strbuf_printf(b, ": %.3g GB/s", rate_of(row));
}

void active_ring_judge(const struct active_measurement *m, const json_t *root)
{
    const json_t *row, *rows = json_object_get(root, "rows");
    double usual = usual_rate(rows);
    AUTO(free) int(*links)[LINK_STATES] = xcalloc((size_t)m->count + 1, sizeof *links);
    AUTO(free) struct strbuf *found = xcalloc((size_t)m->count + 1, sizeof *found);
    size_t i;
    json_array_foreach (rows, i, row) {
        links[end_of(row, "from")][state_of(row, usual)]++;
        links[end_of(row, "to")][state_of(row, usual)]++;
    }
    json_array_foreach (rows, i, row) { /* the end with more links of this state is at fault */
        int from = end_of(row, "from"), to = end_of(row, "to");
        enum link_state s = state_of(row, usual);
        if (s != LINK_OK)
            put_link(&found[links[to][s] > links[from][s] ? to : from], m, row);
    }
    AUTO(free) char *want = xasprintf("a connection with %.3g GB/s, as the others have", usual);
    for (int n = 0; n < m->count; n++) {
        struct check_result *r = active_result(m, n, check_id);
        if (found[n].len) {
            check_bad(r, CHECK_FAIL, usual > 0 ? want : "a connection", source, "%s",
                      strbuf_str(&found[n]));
            check_advise(r, "let the nodes of a job connect to each other on all TCP ports, and "
                            "look at cable, port and MTU; drover bench ring shows each link");
        } else if (r->state == CHECK_SKIP) {
            check_ok(r, source, "%.3g GB/s to its neighbours", usual);
        }
        strbuf_free(&found[n]);
    }
}

bool active_ring_is_slow(const json_t *root)
{
    const json_t *row, *rows = json_object_get(root, "rows");
    double usual = usual_rate(rows);
    size_t i;
    json_array_foreach (rows, i, row)
        if (state_of(row, usual) == LINK_SLOW)
            return true;
    return false;
}

void active_ring_merge(json_t *root, const json_t *again)
{
    const json_t *others = json_object_get(again, "rows");
    json_t *row;
    size_t i;
    json_array_foreach (json_object_get(root, "rows"), i, row) {
        double rate = rate_of(json_array_get(others, i));
        if (rate > rate_of(row) && state_of(row, 0) != LINK_BROKEN)
            json_object_set_new(row, "gbps", json_real(rate));
    }
}

/* Sets `*out` to the output of one measurement. If the output is not complete, `*out` stays NULL,
 * and the check fails on all nodes. */
static int measure(json_t **out, const struct active_measurement *m)
{
    char *options[] = {"ring", NULL};
    AUTO(child_result) struct child_result c = {0};
    AUTO(json) json_t *j = NULL;
    int rc = active_bench(&j, &c, m, m->hosts, 1, options);
    if (rc < 0)
        return rc;
    if (json_array_size(json_object_get(j, "rows")) == 2 * (size_t)m->count) {
        *out = TAKE(j);
        return 0;
    }
    active_fail_all(m, check_id, source, &c);
    return 0;
}

int active_ring_run(const struct active_measurement *m)
{
    AUTO(json) json_t *root = NULL;
    if (!m->hosts || m->count < 2)
        return 0;
    int rc = measure(&root, m);
    for (int i = 1; rc == 0 && i < MEASUREMENTS && active_ring_is_slow(root); i++) {
        AUTO(json) json_t *again = NULL;
        rc = measure(&again, m);
        active_ring_merge(root, again);
    }
    if (rc == 0 && root)
        active_ring_judge(m, root);
    return rc;
}
