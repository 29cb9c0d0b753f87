#include "collectives/bench/bench.h"

#include "tests/unit/test.h"

TEST(sizes_are_multiplied_or_added_to_until_the_last)
{
    struct bench_opts o = {.min_bytes = 8, .max_bytes = 100, .factor = 3};
    CHECK_INT(bench_next_size(&o, 8), 24);
    CHECK_INT(bench_next_size(&o, 24), 72);
    CHECK_INT(bench_next_size(&o, 72), 0);
    o.factor = 0;
    o.step_bytes = 46;
    CHECK_INT(bench_next_size(&o, 8), 54);
    CHECK_INT(bench_next_size(&o, 54), 100);
    CHECK_INT(bench_next_size(&o, 100), 0);
}

TEST(ranks_have_so_much_room_as_the_fullest_gpu_leaves_them)
{
    const uint64_t gib = UINT64_C(1) << 30;
    struct bench_opts o = {.unalign = 2};
    struct bench_report_device d[4] = {{.host = "a"}, {.host = "a"}, {.host = "b"}, {.host = "b"}};
    CHECK(bench_max_bytes(&o, d, 4) == UINT64_MAX);
    for (int r = 0; r < 4; r++) {
        d[r].is.free_bytes = 130 * gib;
        d[r].is.pci_bus = r;
    }
    CHECK(bench_max_bytes(&o, d, 4) == 64 * gib - 512 - 16);
    d[3].is.free_bytes = 8 * gib;
    CHECK(bench_max_bytes(&o, d, 4) == 7 * gib / 2 - 512 - 16);
    d[3].is.free_bytes = 1; /* never 0: allocating 1 byte then fails with a reason */
    CHECK(bench_max_bytes(&o, d, 4) == 1);
    d[0].is.pci_bus = d[1].is.pci_bus;
    CHECK(bench_max_bytes(&o, d, 3) == 32 * gib - 512 - 16);
}

TEST(ranks_on_the_cpus_of_a_host_share_its_memory)
{
    const uint64_t gib = UINT64_C(1) << 30;
    struct bench_opts o = {.unalign = 0};
    struct bench_report_device d[3] = {{.host = "a"}, {.host = "a"}, {.host = "b"}};
    for (int r = 0; r < 3; r++)
        d[r].is.free_bytes = 18 * gib; /* no place on a PCI bus */
    CHECK(bench_max_bytes(&o, d, 3) == 4 * gib - 512);
    CHECK(bench_max_bytes(&o, &d[2], 1) == 8 * gib - 512);
}

TEST(a_rank_on_the_cpu_has_the_memory_that_the_kernel_can_give)
{
    struct bench_opts o = {.wait_ms = 1000};
    struct drover *d = NULL;
    struct drover_comm *c = NULL;
    struct bench_report_device self;
    struct err e = {0};
    CHECK_INT(drover_init(&d), 0);
    CHECK_INT(drover_comm_open(&c, d, NULL), 0);
    CHECK_INT(bench_devices(&o, d, c, &self, &e), 0);
    CHECK(self.is.free_bytes > 0 && bench_max_bytes(&o, &self, 1) < UINT64_MAX);
    drover_comm_close(c);
    drover_close(d);
}

TEST(sizes_do_not_run_over)
{
    struct bench_opts o = {.min_bytes = 8, .max_bytes = UINT64_MAX, .factor = 2};
    CHECK_INT(bench_next_size(&o, UINT64_C(1) << 63), 0);
    o.factor = 0;
    o.step_bytes = UINT64_MAX - 4;
    CHECK_INT(bench_next_size(&o, 8), 0);
    o.step_bytes = 0;
    CHECK_INT(bench_next_size(&o, 8), 0);
}

struct seen {
    int rows;
    uint64_t wrong;
    size_t last_bytes;
};

static void on_row(void *arg, const struct bench_report_row *row)
{
    struct seen *s = arg;
    s->rows++;
    s->wrong += row->placement[0].wrong + row->placement[1].wrong;
    s->last_bytes = row->bytes;
    CHECK(row->placement[0].checked && row->placement[1].checked);
    CHECK(row->placement[0].seconds > 0);
    CHECK_NEAR(row->placement[0].rank_min_seconds, row->placement[0].rank_max_seconds, 0);
}

static struct bench_report_summary run(const struct bench_opts *o, struct seen *seen)
{
    struct drover *d = NULL;
    struct drover_comm *c = NULL;
    struct err e = {0};
    struct bench_report_summary foot;
    CHECK_INT(drover_init(&d), 0);
    CHECK_INT(drover_comm_open(&c, d, &(struct drover_comm_opts){.backend = "self"}), 0);
    if (bench_run(o, d, c, &(struct bench_sink){on_row, NULL, seen}, &foot, &e) < 0)
        FAIL("%s", e.text);
    struct bench_report_device device = {0};
    CHECK_INT(bench_devices(o, d, c, &device, &e), 0);
    CHECK_INT(device.pid, getpid());
    drover_comm_close(c);
    drover_close(d);
    return foot;
}

static struct bench_opts some(void)
{
    return (struct bench_opts){.coll = COLLECTIVE_REDUCE,
                               .min_bytes = 64,
                               .max_bytes = 300000,
                               .factor = 16,
                               .iters = 2,
                               .warmups = 1,
                               .agg = 1,
                               .cycles = 1,
                               .checks = 2,
                               .types = 1 << DROVER_FLOAT | 1 << DROVER_HALF,
                               .ops = 1 << DROVER_SUM | 1 << DROVER_AVG,
                               .root = BENCH_ROOT_ALL,
                               .wait_ms = 10000,
                               .inject_rank = -1};
}

TEST(a_table_has_a_row_for_each_type_operation_root_and_size)
{
    struct bench_opts o = some();
    struct seen seen = {0};
    struct bench_report_summary foot = run(&o, &seen);
    CHECK_INT(seen.rows, 2 * 2 * 1 * 4); /* 64, 1K, 16K, 256K */
    CHECK_INT(seen.wrong, 0);
    CHECK_INT(foot.bad, 0);
    CHECK_INT(seen.last_bytes, 262144);
}

TEST(collectives_that_compute_nothing_are_not_repeated_for_each_operation)
{
    struct bench_opts o = some();
    o.coll = COLLECTIVE_ALL_GATHER;
    struct seen seen = {0};
    run(&o, &seen);
    CHECK_INT(seen.rows, 2 * 4);
}

TEST(an_injected_error_is_found_in_each_row_that_reaches_it)
{
    struct bench_opts o = some();
    o.types = 1 << DROVER_FLOAT;
    o.inject_rank = 0;
    o.inject_at = 100; /* beyond 64 bytes */
    struct seen seen = {0};
    struct bench_report_summary foot = run(&o, &seen);
    CHECK_INT(seen.rows, 8);
    CHECK_INT(seen.wrong, 2 * 3 * 2); /* two operations, three sizes, out of place and in place */
    CHECK_INT(foot.bad, 12);
}

static void on_samples(void *arg, const struct bench_report_row *row)
{
    size_t *seen = arg;
    for (int i = 0; i < 2; i++) {
        const struct bench_report_placement *h = &row->placement[i];
        seen[i] = h->stats.n;
        CHECK(h->stats.min <= h->stats.low && h->stats.low <= h->stats.median);
        CHECK(h->stats.median <= h->stats.high && h->stats.high <= h->stats.p99);
        CHECK_NEAR(stats_median(h->samples, h->stats.n), h->stats.median, 0);
    }
}

TEST(single_iterations_are_timed_until_their_median_is_known_or_time_is_over)
{
    struct drover *d = NULL;
    struct drover_comm *c = NULL;
    struct err e = {0};
    struct bench_report_summary foot;
    size_t seen[2] = {0};
    struct bench_opts o = some();
    o.min_bytes = o.max_bytes = 1 << 20; /* long enough that no two times are equal */
    o.types = 1 << DROVER_FLOAT;
    o.ops = 1 << DROVER_SUM;
    o.samples = true;
    o.iters = 10;
    CHECK_INT(drover_init(&d), 0);
    CHECK_INT(drover_comm_open(&c, d, &(struct drover_comm_opts){.backend = "self"}), 0);
    const struct bench_sink sink = {on_samples, NULL, seen};
    CHECK_INT(bench_run(&o, d, c, &sink, &foot, &e), 0);
    CHECK_INT(seen[0], 10);
    CHECK_INT(seen[1], 10);
    o.stable = 1e-9;    /* never */
    o.max_time_s = 0.2; /* longer than a busy machine stalls */
    CHECK_INT(bench_run(&o, d, c, &sink, &foot, &e), 0);
    CHECK(seen[0] > 10 && seen[0] % 10 == 0);
    drover_comm_close(c);
    drover_close(d);
}
