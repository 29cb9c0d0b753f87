/* test_estimate_advice - each advice fits, the cheapest comes first, and the largest batch is the
 * largest. */
#include "launcher/estimate/estimate.h"

#include "common/mem.h"
#include "launcher/jobs/history_jobs.h"
#include "tests/unit/test.h"

static const uint64_t GIB = 1 << 30;

static struct estimate llama(int batch, int ranks)
{
    struct estimate_opts o = estimate_opts_default();
    struct estimate s;
    o.model = (struct model_shape){.layers = 32,
                                   .hidden = 4096,
                                   .heads = 32,
                                   .intermediate = 11008,
                                   .vocab = 32000,
                                   .gated = true};
    o.batch = batch;
    o.ranks = ranks;
    CHECK_INT(estimate_job(&s, &o, NULL), 0);
    return s;
}

/* Checks the beginnings of the lines, which are separated by '|'. */
static void check_lines(const struct estimate *s, uint64_t gpu_bytes, const char *begins)
{
    AUTO(strv) char **lines = estimate_advice(s, gpu_bytes, &(struct estimate_advice){0});
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s", begins);
    size_t i = 0;
    for (char *word; (word = strsep(&rest, "|")) && *word; i++) {
        if (i >= strv_len(lines) || strncmp(lines[i], word, strlen(word)) != 0)
            FAIL("advice %zu is '%s', expected '%s'", i, i < strv_len(lines) ? lines[i] : "", word);
    }
    CHECK_INT(strv_len(lines), i);
}

TEST(verdicts_compare_both_ends_of_the_range)
{
    struct estimate s = {.low_bytes = 10, .high_bytes = 20};
    CHECK_STR(estimate_verdict_text(estimate_verdict(&s, 20)), "fits");
    CHECK_STR(estimate_verdict_text(estimate_verdict(&s, 19)), "close");
    CHECK_STR(estimate_verdict_text(estimate_verdict(&s, 10)), "close");
    CHECK_STR(estimate_verdict_text(estimate_verdict(&s, 9)), "does not fit");
}

TEST(changes_that_suffice_are_listed_by_cost)
{
    struct estimate s = llama(1, 8);
    check_lines(&s, 80 * GIB,
                "--zero 1: |--zero 2: |--zero 3: |"
                "--zero 2 --offload: |--zero 3 --offload --offload-params: ");
}

TEST(changes_are_combined_if_none_suffices)
{
    struct estimate s = llama(16, 1);
    check_lines(&s, 24 * GIB, "--batch 8 -np 32 --zero 3 --loss fused --recompute block: ");
    s = llama(16, 8);
    check_lines(&s, 24 * GIB, "--batch 1 --zero 3 --loss fused --recompute block: ");
}

TEST(a_loss_in_parts_is_advised_if_logits_are_the_largest_part)
{
    struct estimate s = llama(1, 1);
    s.o.model = (struct model_shape){
        .layers = 4, .hidden = 512, .heads = 8, .vocab = 250000, .gated = true};
    s.o.batch = 8;
    CHECK_INT(estimate_job(&s, &s.o, NULL), 0);
    AUTO(strv) char **lines = estimate_advice(&s, 40 * GIB, &(struct estimate_advice){0});
    CHECK(lines && strncmp(lines[0], "--loss fused: ", 14) == 0);
}

TEST(nothing_helps_if_a_layer_is_larger_than_the_gpu)
{
    struct estimate s = llama(1, 8);
    check_lines(&s, GIB, "");
}

/* Returns the number after `word` in a line. */
static int number_after(const char *line, const char *word)
{
    const char *at = strstr(line, word);
    CHECK(at);
    return atoi(at + strlen(word));
}

TEST(the_largest_batch_that_fits_is_the_largest)
{
    for (int batch = 1; batch <= 64; batch *= 8) {
        struct estimate s = llama(batch, 64);
        s.o.zero = 3;
        CHECK_INT(estimate_job(&s, &s.o, NULL), 0);
        AUTO(strv) char **lines = estimate_advice(&s, 80 * GIB, &(struct estimate_advice){0});
        CHECK(lines);
        struct estimate_opts o = s.o;
        struct estimate at;
        o.batch = number_after(lines[0], "--batch ");
        CHECK_INT(estimate_job(&at, &o, NULL), 0);
        CHECK_INT(estimate_verdict(&at, 80 * GIB), ESTIMATE_FITS);
        o.batch++;
        CHECK_INT(estimate_job(&at, &o, NULL), 0);
        CHECK(estimate_verdict(&at, 80 * GIB) != ESTIMATE_FITS);
    }
}

TEST(a_measured_job_is_advised_by_what_was_measured)
{
    const struct history_job one = {.batch = 4, .gpus = 64, .peak_bytes = 20 * GIB},
                             line[] = {one, {.batch = 8, .gpus = 64, .peak_bytes = 36 * GIB}};
    int largest = 0; /* it does not depend on the batch of the question */
    for (int batch = 1; batch <= 4; batch *= 2) {
        struct estimate s = llama(batch, 64), t;
        s.o.zero = 3;
        CHECK_INT(estimate_job(&s, &s.o, NULL), 0);
        t = s;
        estimate_correct(&s, line, 2); /* 4 + 4 x batch, and 3 % */
        AUTO(strv) char **lines = estimate_advice(&s, 80 * GIB, &(struct estimate_advice){0});
        CHECK_INT(number_after(lines[0], "--batch "), 18);
        estimate_correct(&t, &one, 1);
        AUTO(strv) char **more = estimate_advice(&t, 80 * GIB, &(struct estimate_advice){0});
        int found = number_after(more[0], "--batch ");
        CHECK(found == largest || largest == 0);
        largest = found;
    }
    CHECK(largest > 8);
}
