/* bench_local: the CPU by itself, and devices that are wrong, slow or gone, as a table of
 * functions. */
#include "collectives/bench/local/bench_local.h"

#include <errno.h>
#include <stdint.h>

#include "tests/unit/test.h"

static struct bench_local_opts opts(enum bench_local_what what)
{
    return (struct bench_local_opts){.what = what,
                                     .kind = &local_device_cpu,
                                     .bytes = 64 << 10,
                                     .type = DROVER_TYPES,
                                     .iters = 3,
                                     .warmups = 1,
                                     .checks = 2,
                                     .wait_ms = INT64_MAX,
                                     .inject_at = -1};
}

TEST(the_cpu_multiplies_and_copies_without_an_error)
{
    struct bench_local_row row = {0};
    struct err e = {0};
    struct bench_local_opts o = opts(BENCH_LOCAL_GEMM);
    CHECK_INT(bench_local_run(&row, &o, 0, &e), 0);
    CHECK_INT(row.n, 128);
    CHECK_INT(row.bytes, 128 * 128 * 4);
    CHECK_INT(row.wrong, 0);
    CHECK(row.tflops > 0 && row.seconds > 0 && row.device.name[0]);
    row = (struct bench_local_row){0};
    o = opts(BENCH_LOCAL_COPY);
    CHECK_INT(bench_local_run(&row, &o, 0, &e), 0);
    CHECK(row.within_gbps > 0 && row.to_gbps == 0 && row.from_gbps == 0);
    CHECK_INT(row.wrong, 0);
}

TEST(a_wrong_bit_of_the_last_result_is_counted)
{
    for (int checks = 1; checks <= 3; checks++) {
        struct bench_local_row row = {0};
        struct err e = {0};
        struct bench_local_opts o = opts(BENCH_LOCAL_GEMM);
        o.checks = checks;
        o.inject_at = 77;
        CHECK_INT(bench_local_run(&row, &o, 0, &e), 0);
        CHECK_INT(row.wrong, 1);
        row.wrong = 0;
        o.what = BENCH_LOCAL_COPY;
        CHECK_INT(bench_local_run(&row, &o, 0, &e), 0);
        CHECK_INT(row.wrong, 1);
    }
}

TEST(a_type_that_the_cpu_does_not_multiply_is_an_error)
{
    struct bench_local_row row = {0};
    struct err e = {0};
    struct bench_local_opts o = opts(BENCH_LOCAL_GEMM);
    o.type = DROVER_HALF;
    CHECK_INT(bench_local_run(&row, &o, 0, &e), -ENOTSUP);
    CHECK_STR(e.text, "a CPU multiplies float, not half");
}

static int lazy_multiply(struct local_device *d, const struct local_device_product *p,
                         struct err *e)
{
    return 0; /* writes nothing */
}

static int late_copy(struct local_device *d, const struct local_device_copy *c, struct err *e)
{
    return err_set(e, -ETIMEDOUT, "CUDA: a copy: not done after 3 s");
}

TEST(a_product_that_writes_nothing_is_wrong_and_a_device_that_hangs_is_named)
{
    struct local_device_kind kind = local_device_cpu;
    struct bench_local_row row = {0};
    struct err e = {0};
    struct bench_local_opts o = opts(BENCH_LOCAL_GEMM);
    kind.multiply = lazy_multiply;
    o.kind = &kind;
    CHECK_INT(bench_local_run(&row, &o, 0, &e), 0);
    CHECK_INT(row.wrong, 128);
    kind.copy = late_copy;
    kind.has_links = true;
    CHECK_INT(bench_local_run(&row, &o, 3, &e), -ETIMEDOUT);
    CHECK_STR(e.text, "GPU 3: CUDA: a copy: not done after 3 s");
}

TEST(names_are_found)
{
    CHECK_INT(bench_local_find("gemm"), BENCH_LOCAL_GEMM);
    CHECK_INT(bench_local_find("copy"), BENCH_LOCAL_COPY);
    CHECK_INT(bench_local_find("all_reduce"), BENCH_LOCAL_NONE);
    CHECK_STR(bench_local_name(BENCH_LOCAL_COPY), "copy");
}
