/* The kit's loader, and its decisions: learning rates, batches and figures of throughput. */
#include <math.h>
#include <stdatomic.h>
#include <time.h>

#include "examples/kit/batch_auto.h"
#include "examples/kit/loader.h"
#include "examples/kit/schedule.h"
#include "examples/kit/throughput.h"
#include "tests/unit/test.h"

/* ---- loader
 * -----------------------------------------------------------------------------------------------
 */

struct source {
    int64_t first;
    atomic_long filled; /* number of batches */
    atomic_int hold;    /* fill() waits */
};

static void pause_briefly(void)
{
    struct timespec t = {.tv_nsec = 100000};
    nanosleep(&t, NULL);
}

static void fill(void *arg, int64_t number, void *buffer)
{
    struct source *s = arg;
    while (atomic_load(&s->hold))
        pause_briefly();
    CHECK_INT(number, s->first + atomic_load(&s->filled)); /* each batch once, in order */
    *(int64_t *)buffer = number;
    atomic_fetch_add(&s->filled, 1);
}

TEST(a_loader_returns_batches_in_order_one_ahead)
{
    int64_t a, b, *last = NULL;
    struct source s = {.first = 41};
    struct loader l = {.fill = fill, .arg = &s, .buffers = {&a, &b}, .number = s.first};
    loader_start(&l);
    for (int64_t i = 0; i < 500; i++) {
        int64_t *batch = loader_next(&l);
        CHECK(batch != last && (batch == &a || batch == &b));
        CHECK_INT(*batch, s.first + i);
        while (atomic_load(&s.filled) < i + 2) /* the next one is filled without a call … */
            pause_briefly();
        CHECK_INT(*batch, s.first + i); /* … and leaves this one as it is */
        CHECK_INT(atomic_load(&s.filled), i + 2);
        last = batch;
    }
    loader_stop(&l);
}

TEST(a_loader_counts_the_time_that_its_caller_waits)
{
    int64_t a, b;
    struct source s = {.hold = 1};
    struct loader l = {.fill = fill, .arg = &s, .buffers = {&a, &b}, .number = 0};
    loader_start(&l);
    CHECK_NEAR(l.waited_s, 0, 0);
    atomic_store(&s.hold, 0);
    (void)loader_next(&l);
    CHECK(l.waited_s > 0);
    loader_stop(&l);
}

TEST(a_loader_is_closed_while_it_fills_or_before_any_batch_was_taken)
{
    struct loader none = {0};
    loader_stop(&none);
    for (int taken = 0; taken < 100; taken++) {
        int64_t a, b;
        struct source s = {0};
        struct loader l = {.fill = fill, .arg = &s, .buffers = {&a, &b}, .number = 0};
        loader_start(&l);
        for (int i = 0; i < taken % 3; i++)
            (void)loader_next(&l);
        loader_stop(&l);
        CHECK_INT(atomic_load(&s.filled),
                  taken % 3 + 1); /* nothing writes to the buffers any more */
    }
}

TEST(a_file_is_mapped_and_what_cannot_be_mapped_is_named)
{
    char path[] = "/tmp/test_kit_XXXXXX", why[256] = "";
    size_t n = 0;
    FILE *f = fdopen(mkstemp(path), "w");
    CHECK(loader_map(path, &n, why, sizeof why) == NULL);
    CHECK_HAS(why, path);
    CHECK_HAS(why, "empty");
    CHECK(fputs("some text", f) >= 0 && fclose(f) == 0);
    const uint8_t *bytes = loader_map(path, &n, why, sizeof why);
    CHECK(bytes && n == 9 && memcmp(bytes, "some text", n) == 0);
    loader_unmap(bytes, n);
    unlink(path);
    CHECK(loader_map(path, &n, why, sizeof why) == NULL);
    CHECK_HAS(why, strerror(ENOENT));
    CHECK(loader_map("/tmp", &n, why, sizeof why) == NULL);
    CHECK_HAS(why, "not a file");
}

/* ---- schedule
 * --------------------------------------------------------------------------------------------- */

TEST(a_learning_rate_warms_up_and_then_stays_or_follows_a_cosine)
{
    static const struct {
        enum schedule schedule;
        int64_t step, total, warmup;
        double floor, factor;
    } rows[] = {
        {SCHEDULE_CONSTANT, 0, 100, 10, 0, 0.1},
        {SCHEDULE_CONSTANT, 9, 100, 10, 0, 1},
        {SCHEDULE_CONSTANT, 10, 100, 10, 0, 1},
        {SCHEDULE_CONSTANT, 99, 100, 10, 0.1, 1},
        {SCHEDULE_CONSTANT, 0, 100, 0, 0, 1},
        {SCHEDULE_COSINE, 4, 110, 10, 0, 0.5},
        {SCHEDULE_COSINE, 10, 110, 10, 0, 1},
        {SCHEDULE_COSINE, 35, 110, 10, 0, (1 + M_SQRT1_2) / 2},
        {SCHEDULE_COSINE, 60, 110, 10, 0, 0.5},
        {SCHEDULE_COSINE, 60, 110, 10, 0.1, 0.55},
        {SCHEDULE_COSINE, 110, 110, 10, 0, 0},
        {SCHEDULE_COSINE, 110, 110, 10, 0.1, 0.1},
        {SCHEDULE_COSINE, 10, 10, 10, 0, 1}, /* all of it is the warm-up */
        {SCHEDULE_COSINE, 0, 0, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_NEAR(schedule_factor(rows[i].schedule, rows[i].step, rows[i].total, rows[i].warmup,
                                   rows[i].floor),
                   rows[i].factor, 1e-12);
}

/* ---- batch
 * ------------------------------------------------------------------------------------------------
 */

struct memory {
    int room; /* samples that fit */
    int tried[16], tries;
};

static bool fits(void *arg, int batch)
{
    struct memory *m = arg;
    m->tried[m->tries++] = batch;
    return batch <= m->room;
}

TEST(the_largest_batch_that_fits_is_found_by_halving)
{
    static const struct {
        int share, min, max, room, batch;
        int tried[6];
    } rows[] = {
        {64, 1, 64, 100, 64, {64}},
        {64, 1, 64, 20, 16, {64, 32, 16}},
        {64, 1, 32, 20, 16, {32, 16}},
        {64, 1, 48, 20, 16, {32, 16}}, /* 48 does not divide the share */
        {64, 4, 64, 3, 0, {64, 32, 16, 8, 4}},
        {12, 2, 12, 2, 2, {12, 6, 3, 2}},
        {35, 4, 35, 5, 5, {35, 7, 5}},
        {7, 1, 7, 1, 1, {7, 1}},
        {1, 1, 1, 0, 0, {1}},
        {7, 2, 6, 100, 0, {0}}, /* no divisor in the limits */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct memory m = {.room = rows[i].room};
        struct batch_limits limits = {
            .min = rows[i].min, .max = rows[i].max, .share = rows[i].share};
        CHECK_INT(batch_auto_largest(&limits, fits, &m), rows[i].batch);
        for (int t = 0; t < 6; t++)
            CHECK_INT(m.tried[t], rows[i].tried[t]);
    }
}

TEST(a_batch_doubles_on_an_idle_device_and_halves_on_a_full_one)
{
    static const struct {
        int share, min, max, batch;
        double utilisation, memory;
        int next;
    } rows[] = {
        {64, 1, 64, 8, 0.29, 0.2, 16}, {64, 1, 64, 8, 0.3, 0.2, 8},
        {64, 1, 64, 8, 0.9, 0.8, 8},   {64, 1, 64, 8, 0.9, 0.81, 4},
        {64, 1, 64, 8, 0.1, 0.81, 4}, /* memory has priority */
        {64, 1, 8, 8, 0.1, 0.2, 8},    {64, 8, 64, 8, 0.1, 0.9, 8},
        {64, 1, 12, 8, 0.1, 0.2, 8}, /* 16 exceeds max, and 12 does not divide the share */
        {12, 1, 12, 3, 0.1, 0.2, 6},   {12, 1, 12, 3, 0.5, 0.9, 1},
        {12, 2, 12, 3, 0.5, 0.9, 2},   {35, 1, 35, 5, 0.1, 0.2, 7},
        {35, 4, 35, 7, 0.5, 0.9, 5},   {7, 1, 7, 1, 0.1, 0.2, 1}, /* 7 is more than the double */
        {7, 1, 7, 7, 0.5, 0.9, 1},     {1, 1, 1, 1, 0, 1, 1},
        {64, 1, 64, 8, NAN, NAN, 8}, /* nothing was measured */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct batch_limits limits = {
            .min = rows[i].min, .max = rows[i].max, .share = rows[i].share};
        struct batch_usage u = {.utilisation = rows[i].utilisation, .memory = rows[i].memory};
        CHECK_INT(batch_auto_next(rows[i].batch, &u, &limits), rows[i].next);
    }
}

TEST(every_decision_keeps_the_global_batch)
{
    for (int share = 1; share <= 96; share++)
        for (int batch = 1; batch <= share; batch++) {
            if (share % batch != 0)
                continue;
            struct batch_limits limits = {.min = 1, .max = share, .share = share};
            struct batch_usage idle = {.utilisation = 0.1}, full = {.memory = 0.9};
            int up = batch_auto_next(batch, &idle, &limits);
            int down = batch_auto_next(batch, &full, &limits);
            CHECK(share % up == 0 && up >= batch && up <= 2 * batch);
            CHECK(share % down == 0 && down >= 1 && (batch == 1 ? down == 1 : 2 * down <= batch));
        }
}

/* ---- throughput
 * ------------------------------------------------------------------------------------------- */

TEST(flops_per_token_of_gpt_2_are_known)
{
    /* GPT-2 with 124M parameters: 12 layers of 12 * 768^2 parameters, and the output's 768 *
     * 50257. */
    int64_t params = 12 * 12 * 768 * 768 + 768 * 50257;
    CHECK_NEAR(throughput_flops_per_token(params, 12, 768, 1024), 7.978e8, 1e5);
    CHECK_NEAR(throughput_flops_per_token(INT64_C(100000000000), 0, 0, 0), 6e11, 0);
}

TEST(a_gpu_is_found_by_the_name_that_cuda_reports)
{
    static const struct {
        const char *name;
        double bf16, fp32;
    } rows[] = {
        {"Tesla T4", 0, 8.1},
        {"Tesla V100-SXM2-16GB", 0, 15.7},
        {"Tesla V100-PCIE-32GB", 0, 14},
        {"NVIDIA A10", 125, 31.2},
        {"NVIDIA A100-SXM4-40GB", 312, 19.5},
        {"NVIDIA A100 80GB PCIe", 312, 19.5},
        {"NVIDIA L4", 121, 30.3},
        {"NVIDIA L40S", 362, 91.6},
        {"NVIDIA GeForce RTX 3090", 71, 35.6},
        {"NVIDIA GeForce RTX 4090", 165.2, 82.6},
        {"NVIDIA GeForce RTX 5090", 209.5, 104.8},
        {"NVIDIA H100 PCIe", 756, 51},
        {"NVIDIA H100 80GB HBM3", 989, 67},
        {"NVIDIA H200", 989, 67},
        {"NVIDIA B200", 2250, 75},
        /* Other chips, and parts of one: */
        {"NVIDIA GeForce RTX 3090 Ti", 0, 0},
        {"NVIDIA GeForce RTX 4090 Laptop GPU", 0, 0},
        {"NVIDIA A100-SXM4-40GB MIG 1g.5gb", 0, 0},
        {"NVIDIA A10G", 0, 0},
        {"NVIDIA L40", 0, 0},
        {"NVIDIA GH200 480GB", 0, 0},
        {"NVIDIA H20", 0, 0},
        {"NVIDIA GB200", 0, 0},
        {"", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *source = NULL;
        CHECK_NEAR(throughput_peak(rows[i].name, 1, &source), 1e12 * rows[i].bf16, 1);
        CHECK_NEAR(throughput_peak(rows[i].name, 0, &source), 1e12 * rows[i].fp32, 1);
        CHECK(source && *source);
    }
}

TEST(the_peak_of_a_core_is_explained)
{
    const char *source = NULL;
    double peak = throughput_peak_cpu_core(&source), mhz = -1;
    int flops = -1;
    CHECK(source &&
          sscanf(source, "/proc/cpuinfo: %lf MHz * %d FLOPs per cycle", &mhz, &flops) == 2);
    CHECK_NEAR(peak, 1e6 * mhz * flops, 0.5e6 * flops); /* the text has whole MHz */
    CHECK(mhz == 0 || (mhz >= 400 && mhz <= 10000));
#ifdef __x86_64__
    int want = __builtin_cpu_supports("fma") ? 32 : __builtin_cpu_supports("avx") ? 16 : 8;
    if (__builtin_cpu_supports("avx512f"))
        CHECK(flops == 64 || flops == 32); /* Zen 4 needs two cycles for 512 bits */
    else
        CHECK_INT(flops, want);
#endif
}
