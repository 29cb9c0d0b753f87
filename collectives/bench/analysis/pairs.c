#include "collectives/bench/analysis/pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/bench/analysis/stats.h"

int pairs_rounds(int n)
{
    return n < 2 ? 0 : n % 2 ? n : n - 1;
}

int pairs_partner(int n, int round, int i)
{
    /* The node at the last position stays there in all rounds. If n is odd, this position is
     * empty. */
    int positions = n + n % 2, circle = positions - 1, other;
    if (i == positions - 1) {
        for (other = 0; (2 * other) % circle != round % circle; other++)
            ;
    } else {
        other = ((round - i) % circle + circle) % circle;
        if (other == i)
            other = positions - 1;
    }
    return other < n ? other : -1;
}

static int first_on_host(const char *const *hosts, int rank)
{
    int r = 0;
    while (strcmp(hosts[r], hosts[rank]) != 0)
        r++;
    return r;
}

/* The rank's number among the ranks of its host, from 0 on. */
static int number_on_host(const char *const *hosts, int rank)
{
    int number = 0;
    for (int r = 0; r < rank; r++)
        number += strcmp(hosts[r], hosts[rank]) == 0;
    return number;
}

int pairs_rails(int *ranks, int *n, const char *const *hosts, int size)
{
    AUTO(free) int *counts = xcalloc((size_t)size, sizeof *counts);
    AUTO(free) int *node = xcalloc((size_t)size, sizeof *node);
    int nodes = 0, rails = size;
    for (int r = 0; r < size; r++) {
        int first = first_on_host(hosts, r);
        node[r] = first == r ? nodes++ : node[first];
        counts[node[r]]++;
    }
    for (int i = 0; i < nodes; i++)
        rails = counts[i] < rails ? counts[i] : rails;
    *n = nodes > 1 ? nodes : size;
    for (int r = 0; r < size; r++) {
        int k = nodes > 1 ? number_on_host(hosts, r) : 0;
        if (k < rails)
            ranks[k * *n + (nodes > 1 ? node[r] : r)] = r;
    }
    return nodes > 1 ? rails : 1;
}

/* ---- slow nodes and links ------------------------------------------------------------------- */

struct judge {
    const double *rates;
    int n;
    char *slow;   /* nodes that were found to be slow */
    double *list; /* room for all pairs */
};

static double rate(const struct judge *j, int a, int b)
{
    return fmin(j->rates[a * j->n + b], j->rates[b * j->n + a]);
}

/* Lists the rates of the pairs of nodes that are not slow. Leaves out node `skip` and the pair of
 * `a` and `b`. */
static size_t collect(const struct judge *j, int skip, int a, int b)
{
    size_t count = 0;
    for (int x = 0; x < j->n; x++)
        for (int y = x + 1; y < j->n; y++)
            if (!j->slow[x] && !j->slow[y] && x != skip && y != skip && !(x == a && y == b))
                j->list[count++] = rate(j, x, y);
    return count;
}

/* Returns true if `value` is slow compared with the `count` rates in the list. Sets *median to the
 * median of the list. */
static bool below(const struct judge *j, double value, size_t count, double *median)
{
    if (count == 0)
        return false;
    *median = stats_median(j->list, count);
    double spread = stats_spread(j->list, count, *median);
    double share = 0.1 + 0.5 / (double)count;
    double margin = fmax(5 * spread, share * *median);
    return value < *median - fmin(margin, 0.5 * *median);
}

/* Returns the upper median of the rates of the node's pairs. */
static double node_rate(const struct judge *j, int node)
{
    size_t count = 0;
    for (int x = 0; x < j->n; x++)
        if (x != node && !j->slow[x])
            j->list[count++] = rate(j, node, x);
    /* If the number is even, takes the higher one of the two middle rates: a node is slow only if
     * more than half of its pairs are. */
    double middle = stats_median(j->list, count), best = INFINITY;
    for (size_t i = 0; i < count; i++)
        if (j->list[i] >= middle && j->list[i] < best)
            best = j->list[i];
    return best;
}

/* Returns the slowest node if it is slow, else -1. */
static int slow_node(const struct judge *j)
{
    int worst = -1;
    double least = INFINITY, median;
    for (int x = 0; x < j->n; x++) {
        double r = j->slow[x] ? INFINITY : node_rate(j, x);
        if (r < least) {
            least = r;
            worst = x;
        }
    }
    if (worst < 0)
        return -1;
    size_t count = collect(j, worst, -1, -1);
    return below(j, least, count, &median) ? worst : -1;
}

void pairs_judge(struct pairs_slow *out, const double *rates, int n)
{
    size_t max = (size_t)n * (size_t)n;
    AUTO(free) char *slow = xcalloc((size_t)n + 1, 1);
    AUTO(free) double *list = xcalloc(max + 1, sizeof *list);
    struct judge j = {rates, n, slow, list};
    *out = (struct pairs_slow){.nodes = xcalloc((size_t)n + 1, sizeof *out->nodes),
                               .links = xcalloc(max + 1, sizeof *out->links)};
    int node;
    size_t pairs = collect(&j, -1, -1, -1);
    out->uneven =
        pairs && stats_pick(list, pairs, STATS_MIN) < stats_pick(list, pairs, STATS_MAX) / 2;
    while (out->node_count < n - 2 && (node = slow_node(&j)) >= 0) {
        slow[node] = 1;
        out->nodes[out->node_count++] = node;
    }
    size_t count = collect(&j, -1, -1, -1);
    out->usual = count ? stats_median(list, count) : 0;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            double median;
            if (slow[a] || slow[b])
                continue;
            count = collect(&j, -1, a, b);
            if (below(&j, rate(&j, a, b), count, &median)) {
                out->links[out->link_count][0] = a;
                out->links[out->link_count++][1] = b;
            }
        }
}

bool pairs_same(const struct pairs_slow *a, const struct pairs_slow *b)
{
    return a->node_count == b->node_count && a->link_count == b->link_count &&
           memcmp(a->nodes, b->nodes, (size_t)a->node_count * sizeof *a->nodes) == 0 &&
           memcmp(a->links, b->links, (size_t)a->link_count * sizeof *a->links) == 0;
}

void pairs_slow_free(struct pairs_slow *s)
{
    free(s->nodes);
    free(s->links);
}

/* ---- output --------------------------------------------------------------------------------- */

/* Returns green, yellow, orange or red, one of 256 colours, for a share of the usual rate. */
static int color_of(double share)
{
    return share > 0.9 ? 34 : share > 0.75 ? 148 : share > 0.5 ? 214 : 160;
}

static void print_cell(struct strbuf *out, const struct pairs_map *m, double rate, double usual)
{
    double share = usual > 0 ? rate / usual : 1;
    const char *form = rate < 10 ? "%7.3f" : rate < 1000 ? "%7.1f" : "%7.0f";
    if (m->color)
        strbuf_printf(out, " \033[48;5;%d;30m", color_of(share));
    else
        strbuf_putc(out, ' ');
    strbuf_printf(out, form, rate);
    if (m->color)
        strbuf_puts(out, "\033[0m");
    else /* one mark per 25 % that are missing */
        strbuf_puts(out, share > 0.75 ? "   " : share > 0.5 ? "-  " : share > 0.25 ? "-- " : "---");
}

static void print_map(struct strbuf *out, const struct pairs_map *m, const double *values,
                      double usual)
{
    strbuf_printf(out, "# %12s ", "from \\ to");
    for (int j = 0; j < m->n; j++)
        strbuf_printf(out, m->color ? " %7d" : " %7d   ", j);
    strbuf_putc(out, '\n');
    for (int i = 0; i < m->n; i++) {
        strbuf_printf(out, "%3d %10.10s ", i, m->names[i]);
        for (int j = 0; j < m->n; j++)
            if (i == j)
                strbuf_printf(out, m->color ? " %7s" : " %7s   ", ".");
            else
                print_cell(out, m, values[i * m->n + j], usual);
        strbuf_putc(out, '\n');
    }
}

static void print_slow(struct strbuf *out, const struct pairs_map *m, const struct pairs_slow *s)
{
    for (int i = 0; i < s->node_count; i++) {
        int x = s->nodes[i];
        double best = 0;
        for (int y = 0; y < m->n; y++)
            if (y != x)
                best = fmax(best, fmin(m->rates[x * m->n + y], m->rates[y * m->n + x]));
        strbuf_printf(out, "# slow node: %d %s: best pair %.3g GB/s, others %.3g GB/s (%.0f %%)\n",
                      x, m->names[x], best, s->usual, 100 * best / s->usual);
    }
    for (int i = 0; i < s->link_count; i++) {
        int a = s->links[i][0], b = s->links[i][1];
        double there = m->rates[a * m->n + b], back = m->rates[b * m->n + a];
        strbuf_printf(out,
                      "# slow link: %d %s - %d %s: %.3g and %.3g GB/s, others %.3g GB/s (%.0f %%)"
                      "\n",
                      a, m->names[a], b, m->names[b], there, back, s->usual,
                      100 * fmin(there, back) / s->usual);
    }
    if (m->n < 3)
        strbuf_puts(out, "# one pair only: nothing to compare it with\n");
    else if (s->node_count + s->link_count == 0)
        strbuf_printf(out, "# no slow link or node: median %.3g GB/s\n", s->usual);
}

void pairs_show(struct strbuf *out, const struct pairs_map *m, const struct pairs_slow *s)
{
    strbuf_puts(out, "# GB/s\n");
    print_map(out, m, m->rates, s->usual);
    strbuf_puts(out, "# microseconds, half of a round trip\n");
    print_map(out, m, m->latency_us, 0);
    print_slow(out, m, s);
}
