#include "collectives/bench/cmd/cmd_bench_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/bootstrap/bootstrap.h"
#include "common/json.h"
#include "common/mem.h"

enum { EXCHANGE_MS = 300000 };

/* What every rank sends: its number of rows, and the ranks on its node. */
struct hello {
    int rows, local_size;
};

struct local_bench {
    const struct rank_identity *me;
    const struct bench_local_opts *opts;
    const struct bench_opts *sizes;
    struct bench_local_row *rows; /* this rank's, one per device and size */
    int count;
};

/* ---- measuring ------------------------------------------------------------------------------ */

/* Adds the rows of one device. */
static int measure_device(struct local_bench *b, int device, struct err *e)
{
    struct bench_local_opts o = *b->opts;
    int rc;
    o.bytes = b->sizes->min_bytes;
    do {
        struct bench_local_row *row = &b->rows[b->count++];
        row->rank = b->me->rank;
        (void)gethostname(row->host, sizeof row->host - 1); /* on failure it stays empty */
        row->host[strcspn(row->host, ".")] = '\0';
        rc = bench_local_run(row, &o, device, e);
        o.bytes = bench_next_size(b->sizes, o.bytes);
    } while (o.bytes && rc == 0);
    return rc;
}

/* With fewer GPUs than ranks, ranks share GPUs. */
static int measure(struct local_bench *b, int devices, struct err *e)
{
    int rc = 0, step = b->me->local_size < devices ? b->me->local_size : devices;
    for (int k = b->me->local_rank % step; k < devices && rc == 0; k += step)
        rc = measure_device(b, k, e);
    return rc;
}

/* ---- exchange ------------------------------------------------------------------------------- */

/* Measures this rank's devices: one rank of a node after the other if they may share a link. */
static int measure_in_turn(struct local_bench *b, int devices, const struct hello *all,
                           struct err *e)
{
    int turns = 1, rc = 0;
    for (int r = 0; r < b->me->size; r++)
        turns = all[r].local_size > turns ? all[r].local_size : turns;
    if (b->opts->what == BENCH_LOCAL_GEMM || b->me->size == 1)
        return measure(b, devices, e);
    for (int t = 0; t < turns && rc == 0; t++) {
        if (t == b->me->local_rank)
            rc = measure(b, devices, e);
        rc = rc < 0 ? rc : bootstrap_gather(b->me, "", 1, NULL, EXCHANGE_MS, e);
    }
    return rc;
}

/* Returns the rows of all ranks on rank 0, else none. The caller frees them. */
static int gather(struct local_bench *b, const struct hello *all, struct bench_local_row **out,
                  int *count, struct err *e)
{
    int most = 0;
    for (int r = 0; r < b->me->size; r++)
        most = all[r].rows > most ? all[r].rows : most;
    size_t bytes = (size_t)most * sizeof **out;
    AUTO(free) struct bench_local_row *mine = xzalloc(bytes + 1);
    struct bench_local_row *rows = *out = xzalloc((size_t)b->me->size * bytes + 1);
    memcpy(mine, b->rows, (size_t)b->count * sizeof *rows);
    int rc = bootstrap_gather(b->me, mine, bytes, rows, EXCHANGE_MS, e);
    *count = 0;
    for (int r = 0; r < b->me->size && b->me->rank == 0 && rc == 0; r++) {
        memmove(rows + *count, rows + r * most, (size_t)all[r].rows * sizeof *rows);
        *count += all[r].rows;
    }
    return rc;
}

/* ---- output --------------------------------------------------------------------------------- */

static json_t *number(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

static json_t *link_json(const struct pcie_link *l)
{
    double gbps = pcie_link_gbps(l);
    return gbps > 0 ? json_pack("{s:i, s:i, s:i, s:f}", "generation", l->generation, "width",
                                l->width, "width_max", l->width_max, "gbps", gbps)
                    : json_null();
}

static json_t *row_json(const struct bench_local_row *r, enum bench_local_what what)
{
    json_t *j = json_pack("{s:i, s:o, s:i, s:o, s:I}", "rank", r->rank, "host", json_text(r->host),
                          "device", r->index, "name", json_text(r->device.name), "size",
                          (json_int_t)r->bytes);
    if (r->device.has_pci) {
        AUTO(free)
        char *pci = xasprintf("%04x:%02x:%02x.0", (unsigned)r->device.pci_domain,
                              (unsigned)r->device.pci_bus, (unsigned)r->device.pci_device);
        json_object_set_new(j, "pci", json_string(pci));
    }
    if (what == BENCH_LOCAL_GEMM)
        json_object_update_new(j, json_pack("{s:i, s:s, s:f, s:f, s:f}", "n", r->n, "type",
                                            backend_type_name(r->type), "time_us", r->seconds * 1e6,
                                            "spread", r->spread, "tflops", r->tflops));
    else
        json_object_update_new(j, json_pack("{s:o, s:o, s:o, s:o}", "to_gbps", number(r->to_gbps),
                                            "from_gbps", number(r->from_gbps), "within_gbps",
                                            number(r->within_gbps), "link", link_json(&r->link)));
    json_object_set_new(j, "wrong", json_integer((json_int_t)r->wrong));
    return j;
}

static void write_json(struct strbuf *out, const struct bench_local_row *rows, int count,
                       enum bench_local_what what)
{
    AUTO(json)
    json_t *root =
        json_pack("{s:i, s:s, s:[]}", "schema", 1, "bench", bench_local_name(what), "rows");
    json_int_t wrong = 0;
    for (int i = 0; i < count; i++) {
        json_array_append_new(json_object_get(root, "rows"), row_json(&rows[i], what));
        wrong += (json_int_t)rows[i].wrong;
    }
    json_object_set_new(root, "wrong", json_integer(wrong));
    AUTO(free) char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    strbuf_printf(out, "%s\n", text);
}

/* Prints the document of a run that did not take place since a library of CUDA is missing. */
static void print_missing(enum bench_local_what what, const char *text)
{
    AUTO(json)
    json_t *root = json_pack("{s:i, s:s, s:[], s:o}", "schema", 1, "bench", bench_local_name(what),
                             "rows", "missing", json_text(text));
    AUTO(free) char *line = json_line(root);
    puts(line);
    (void)fflush(stdout); /* the error follows on stderr in any case */
}

/* Writes a rate, or "-" if it was not measured. */
static void write_rate(struct strbuf *out, double gbps, const char *before)
{
    if (gbps > 0)
        strbuf_printf(out, "%s%9.2f", before, gbps);
    else
        strbuf_printf(out, "%s%9s", before, "-");
}

static void write_link(struct strbuf *out, const struct pcie_link *l)
{
    AUTO(free)
    char *text =
        pcie_link_gbps(l) > 0 ? xasprintf("gen%d x%d", l->generation, l->width) : xstrdup("-");
    strbuf_printf(out, "  %9s", text);
}

static void write_table(struct strbuf *out, const struct bench_local_row *rows, int count,
                        enum bench_local_what what)
{
    strbuf_printf(out, "# %4s  %-15s  %6s  %12s", "rank", "host", "device", "size(B)");
    strbuf_puts(out, what == BENCH_LOCAL_GEMM
                         ? "       n      type   time(us)  spread(%)    TFLOP/s  #wrong\n"
                         : "   to(GB/s)  from(GB/s)  within(GB/s)       link  #wrong\n");
    for (int i = 0; i < count; i++) {
        const struct bench_local_row *r = &rows[i];
        strbuf_printf(out, "  %4d  %-15s  %6d  %12llu", r->rank, r->host, r->index,
                      (unsigned long long)r->bytes);
        if (what == BENCH_LOCAL_GEMM) {
            strbuf_printf(out, "  %6d  %8s  %9.1f  %9.2f  %9.3f", r->n, backend_type_name(r->type),
                          r->seconds * 1e6, r->spread * 100, r->tflops);
        } else {
            write_rate(out, r->to_gbps, "  ");
            write_rate(out, r->from_gbps, "   ");
            write_rate(out, r->within_gbps, "     ");
            write_link(out, &r->link);
        }
        strbuf_printf(out, "  %6llu\n", (unsigned long long)r->wrong);
    }
    for (int i = 0; i < count; i++)
        if (i == 0 || strcmp(rows[i].device.name, rows[i - 1].device.name) != 0)
            strbuf_printf(out, "# device %d of rank %d: %s\n", rows[i].index, rows[i].rank,
                          rows[i].device.name);
}

/* Prints the rows. Returns 1 if a result is wrong. */
static int print(const struct bench_local_row *rows, int count, const struct cmd_bench_opts *o,
                 struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    bool wrong = false;
    (o->form == CMD_BENCH_JSON ? write_json : write_table)(&text, rows, count, o->local);
    for (int i = 0; i < count; i++)
        wrong |= rows[i].wrong > 0;
    int rc = cmd_bench_print(&text, e);
    return rc < 0 ? rc : wrong;
}

/* Without -b and -e there is one size, the default. */
static int count_sizes(const struct bench_opts *o)
{
    int n = 1;
    for (uint64_t bytes = o->min_bytes; (bytes = bench_next_size(o, bytes)) > 0;)
        n++;
    return n;
}

int cmd_bench_local(const struct rank_identity *me, const struct cmd_bench_opts *o, bool gpus,
                    struct err *e)
{
    const struct bench_local_opts opts = {
        .what = o->local,
        .kind = gpus ? &local_device_cuda : &local_device_cpu,
        .type = o->local_type,
        .iters = o->bench.iters,
        .warmups = o->bench.warmups,
        .checks = o->bench.checks,
        .wait_ms = o->bench.wait_ms,
        .inject_at = o->bench.inject_rank == me->rank ? o->bench.inject_at : -1};
    int devices = 0, count = 0;
    int rc = opts.kind->count(&devices, e);
    if (rc == 0 && o->local == BENCH_LOCAL_GEMM && opts.kind->load_product)
        rc = opts.kind->load_product(e);
    if (rc == -ENOENT && o->form == CMD_BENCH_JSON)
        print_missing(o->local, e->text); /* on each rank: the first one that exits ends the job */
    if (rc < 0)
        return rc;
    if (devices < 1) {
        err_set(e, -ENODEV, "CUDA shows no GPU");
        return err_hint(e, "drover doctor, or --backend self for the CPU");
    }
    AUTO(free) struct hello *all = xcalloc((size_t)me->size, sizeof *all);
    struct local_bench b = {.me = me, .opts = &opts, .sizes = &o->bench};
    AUTO(free) struct bench_local_row *all_rows = NULL;
    int step = me->local_size < devices ? me->local_size : devices;
    int mine = (devices - me->local_rank % step + step - 1) / step * count_sizes(&o->bench);
    AUTO(free) struct bench_local_row *rows = xcalloc((size_t)mine + 1, sizeof *rows);
    b.rows = rows;
    const struct hello hello = {mine, me->local_size};
    rc = bootstrap_gather(me, &hello, sizeof hello, all, EXCHANGE_MS, e);
    if (rc == 0)
        rc = measure_in_turn(&b, devices, all, e);
    if (rc == 0)
        rc = gather(&b, all, &all_rows, &count, e);
    return rc < 0 || me->rank > 0 ? rc : print(all_rows, count, o, e);
}
