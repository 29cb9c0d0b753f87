/* test_estimate_correct - estimates that earlier jobs correct. */
#include "launcher/estimate/estimate.h"

#include <math.h>

#include "launcher/jobs/history_jobs.h"
#include "tests/unit/test.h"

static const double GIB = 1 << 30;

static struct estimate of_batch(int batch)
{
    struct estimate_opts o = estimate_opts_default();
    struct estimate s;
    o.model = (struct model_shape){.layers = 12, .hidden = 768, .heads = 12, .vocab = 50257};
    o.batch = batch;
    CHECK_INT(estimate_job(&s, &o, NULL), 0);
    return s;
}

static struct history_job peak_of(int batch, double gib)
{
    return (struct history_job){.batch = batch, .gpus = 1, .peak_bytes = (int64_t)(gib * GIB)};
}

TEST(two_batch_sizes_give_a_line)
{
    struct estimate s = of_batch(16);
    const struct history_job peaks[] = {peak_of(4, 5), peak_of(8, 7), peak_of(8, 7)};
    estimate_correct(&s, peaks, 3);
    CHECK_INT(s.measured.n, 3);
    CHECK_NEAR((double)s.low_bytes / GIB, 11 * 0.97, 1e-6); /* 3 + 0.5 x 16, and 3 % */
    CHECK_NEAR((double)s.high_bytes / GIB, 11 * 1.03, 1e-6);
    CHECK_HAS(s.correction, "3.00 GiB + 0.500 GiB x batch");
}

TEST(peaks_that_disagree_widen_the_range)
{
    struct estimate s = of_batch(8);
    const struct history_job peaks[] = {peak_of(4, 5), peak_of(8, 6), peak_of(8, 8)};
    estimate_correct(&s, peaks, 3);
    CHECK_NEAR((double)s.low_bytes / GIB, 6, 1e-6);
    CHECK_NEAR((double)s.high_bytes / GIB, 8, 1e-6);
}

TEST(memory_does_not_fall_with_the_batch)
{
    struct estimate s = of_batch(1000);
    const struct history_job peaks[] = {peak_of(4, 6), peak_of(8, 4)};
    estimate_correct(&s, peaks, 2);
    CHECK_NEAR((double)s.low_bytes / GIB, 4, 1e-6);
    CHECK_NEAR((double)s.high_bytes / GIB, 6, 1e-6);
}

TEST(one_batch_size_is_shown_as_it_was)
{
    struct estimate s = of_batch(8);
    const struct history_job peaks[] = {peak_of(8, 31.2)};
    estimate_correct(&s, peaks, 1);
    CHECK_STR(s.correction, "measured in 1 job: 31.2 GiB at batch 8");
    CHECK_NEAR((double)s.low_bytes / GIB, 31.2 * 0.97, 1e-6);
    CHECK_NEAR((double)s.high_bytes / GIB, 31.2 * 1.03, 1e-6);
}

TEST(another_batch_changes_as_the_formula_does)
{
    const struct history_job peak = peak_of(8, 20);
    struct estimate before = of_batch(16), half = of_batch(8), s = before;
    estimate_correct(&s, &peak, 1);
    double low = (double)before.low_bytes, high = (double)before.high_bytes;
    double half_low = (double)half.low_bytes, half_high = (double)half.high_bytes, m = 20 * GIB;
    const double ways[] = {m + low - half_low, m + high - half_high, m * low / half_low,
                           m * high / half_high};
    double least = ways[0], most = ways[0];
    for (int i = 1; i < 4; i++) {
        least = fmin(least, ways[i]);
        most = fmax(most, ways[i]);
    }
    CHECK_NEAR((double)s.low_bytes, least * 0.97, 2);
    CHECK_NEAR((double)s.high_bytes, fmin(most, 2 * m) * 1.03, 2);
    CHECK(s.low_bytes <= s.expected_bytes && s.expected_bytes <= s.high_bytes);
    CHECK_HAS(s.correction, "measured in 1 job: 20.0 GiB at batch 8, changed");
}

TEST(memory_is_between_constant_and_proportional_to_the_batch)
{
    for (double measured = 0.1; measured < 1000; measured *= 3) {
        const struct history_job peak = peak_of(8, measured);
        uint64_t low = 0, high = 0;
        for (int batch = 1; batch <= 64; batch *= 2) {
            struct estimate s = of_batch(batch);
            double all = measured * batch / 8, most = fmax(all, measured) * 1.03,
                   least = fmin(all, measured) * 0.97;
            estimate_correct(&s, &peak, 1);
            CHECK((double)s.low_bytes / GIB >= least - 1e-6);
            CHECK((double)s.high_bytes / GIB <= most + 1e-6);
            CHECK(low <= s.low_bytes && high <= s.high_bytes && s.low_bytes <= s.high_bytes);
            low = s.low_bytes;
            high = s.high_bytes;
        }
    }
}

TEST(nothing_measured_changes_nothing)
{
    struct estimate s = of_batch(8), before = s;
    const struct history_job peaks[] = {peak_of(-1, 20), peak_of(8, 0)};
    estimate_correct(&s, peaks, 2);
    CHECK(s.low_bytes == before.low_bytes && s.high_bytes == before.high_bytes);
    CHECK_INT(s.measured.n, 0);
    estimate_correct(&s, NULL, 0);
    CHECK(memcmp(&s, &before, sizeof s) == 0);
    CHECK(!estimate_left_out_text(&s));
}

TEST(a_job_that_says_nothing_of_this_one_is_left_out_and_counted)
{
    struct history_job jobs[] = {peak_of(8, 20), peak_of(8, 5),  peak_of(8, 30), peak_of(8, 99),
                                 peak_of(8, 20), peak_of(-1, 2), peak_of(8, 0),  peak_of(8, 2)};
    jobs[1].status = 1;              /* out of memory, perhaps */
    jobs[2].gpus = 8;                /* with ZeRO, perhaps */
    jobs[3].memory_bytes = 80 * GIB; /* less than its peak */
    jobs[4].status = 128 + 2;        /* Ctrl-C */
    jobs[7].peak_of_all = 1;
    struct estimate s = of_batch(8);
    estimate_correct(&s, jobs, COUNT_OF(jobs));
    CHECK_STR(s.correction, "measured in 2 jobs: 20.0 GiB at batch 8");
    AUTO(free) char *text = estimate_left_out_text(&s);
    CHECK_STR(text, "6 earlier jobs do not count: 1 failed, 1 with another number of GPUs (-np), "
                    "1 without --batch-size in the command, 3 whose own peak is unknown");
    estimate_correct(&s, &jobs[1], 1);
    AUTO(free) char *one = estimate_left_out_text(&s);
    CHECK_STR(one, "1 earlier job does not count: 1 failed");
}
