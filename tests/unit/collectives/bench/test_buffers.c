#include "collectives/bench/buffers.h"

#include "tests/unit/test.h"

enum { BYTES = 3 * VERIFY_PERIOD * 4 + 40 };

static struct buffers *open_ok(struct backend_comm **inner)
{
    struct err e = {0};
    struct backend_opts o = {.size = 1};
    CHECK_INT(backend_self.open(inner, &o, &e), 0);
    struct buffers *b = NULL;
    CHECK_INT(
        buffers_open(&b, &backend_self, *inner, &(struct buffers_opts){.max_bytes = BYTES}, &e), 0);
    return b;
}

static struct buffers_run a_run(enum collective coll, bool in_place)
{
    struct buffers_run r = {.in_place = in_place};
    static const struct traffic even;
    r.v = (struct verify){
        .coll = coll, .type = DROVER_FLOAT, .op = DROVER_SUM, .ranks = 1, .traffic = &even};
    r.shape = busbw_shape(coll, BYTES, 4, 1);
    return r;
}

static uint64_t wrong_after(struct buffers *b, struct buffers_run *r)
{
    struct buffers_wrong w;
    struct err e = {0};
    CHECK_INT(buffers_check(b, r, &w, &e), 0);
    return w.elements + w.canaries;
}

TEST(what_a_collective_leaves_is_right_and_what_none_has_touched_is_wrong)
{
    struct backend_comm *inner = NULL;
    struct buffers *b = open_ok(&inner);
    for (int coll = 0; coll < COLLECTIVE_BARRIER; coll++) {
        struct err e = {0};
        struct buffers_run r = a_run((enum collective)coll, false);
        CHECK_INT(buffers_prepare(b, &r, &e), 0);
        CHECK_INT(wrong_after(b, &r), r.shape.out_bytes / 4);
        struct backend_call call = buffers_call(b, &r, 0);
        CHECK_INT(backend_self.start(inner, &call, 1, &e), 0);
        CHECK_INT(wrong_after(b, &r), 0);
    }
    buffers_close(b);
    backend_self.close(inner);
}

TEST(a_spoiled_element_is_counted_wherever_it_is)
{
    struct backend_comm *inner = NULL;
    struct buffers *b = open_ok(&inner);
    for (int in_place = 0; in_place < 2; in_place++) {
        struct err e = {0};
        struct buffers_run r = a_run(COLLECTIVE_ALL_REDUCE, in_place == 1);
        CHECK_INT(buffers_prepare(b, &r, &e), 0);
        struct backend_call call = buffers_call(b, &r, 0);
        CHECK_INT(call.in == call.out, in_place);
        CHECK_INT(backend_self.start(inner, &call, 1, &e), 0);
        CHECK_INT(buffers_inject(b, &r, BUFFERS_FLIP_BIT, 0, &e), 0);
        CHECK_INT(wrong_after(b, &r), 1);
        CHECK_INT(buffers_inject(b, &r, BUFFERS_FLIP_BIT, r.shape.count - 1, &e), 0);
        CHECK_INT(wrong_after(b, &r), 2);
        CHECK_INT(buffers_inject(b, &r, BUFFERS_FLIP_BIT, r.shape.count, &e),
                  0); /* no such element */
        CHECK_INT(wrong_after(b, &r), 2);
    }
    buffers_close(b);
    backend_self.close(inner);
}

TEST(the_first_wrong_element_is_told_with_what_it_should_be)
{
    struct backend_comm *inner = NULL;
    struct buffers *b = open_ok(&inner);
    struct err e = {0};
    struct buffers_wrong w;
    struct buffers_run r = a_run(COLLECTIVE_ALL_REDUCE, false);
    CHECK_INT(buffers_prepare(b, &r, &e), 0);
    struct backend_call call = buffers_call(b, &r, 0);
    CHECK_INT(backend_self.start(inner, &call, 1, &e), 0);
    size_t at = 2 * VERIFY_PERIOD + 7; /* of the third period */
    const float *out = call.out;
    float right = out[at];
    CHECK_INT(buffers_inject(b, &r, BUFFERS_FLIP_BIT, at, &e), 0);
    CHECK_INT(buffers_inject(b, &r, BUFFERS_FLIP_BIT, at + 9, &e), 0);
    CHECK_INT(buffers_check(b, &r, &w, &e), 0);
    CHECK_INT(w.elements, 2);
    CHECK_INT(w.index, at);
    CHECK_NEAR(w.first.expected, right, 0);
    CHECK_NEAR(w.first.got, out[at], 0);
    CHECK_INT(w.diagnosis.cause, VERIFY_UNKNOWN);
    CHECK_INT(w.canaries, 0);
    buffers_close(b);
    backend_self.close(inner);
}

static void check_canary(bool in_place, size_t from_in, long at, enum buffers_side side, int bytes)
{
    struct backend_comm *inner = NULL;
    struct buffers *b = open_ok(&inner);
    struct err e = {0};
    struct buffers_wrong w;
    struct buffers_run r = a_run(COLLECTIVE_ALL_GATHER, in_place);
    CHECK_INT(buffers_prepare(b, &r, &e), 0);
    struct backend_call call = buffers_call(b, &r, 0);
    CHECK_INT(backend_self.start(inner, &call, 1, &e), 0);
    memset((from_in ? (char *)(uintptr_t)call.in : (char *)call.out) + at, 0, 3);
    CHECK_INT(buffers_check(b, &r, &w, &e), 0);
    CHECK_INT(w.elements, 0);
    CHECK_INT(w.canaries, 3);
    CHECK_INT(w.side, side);
    CHECK_INT(w.canary_bytes, bytes);
    buffers_close(b);
    backend_self.close(inner);
}

TEST(bytes_written_around_the_output_or_the_input_are_counted_and_placed)
{
    struct buffers_run r = a_run(COLLECTIVE_ALL_GATHER, false);
    long end = (long)r.shape.out_bytes;
    for (int in_place = 0; in_place < 2; in_place++) {
        check_canary(in_place, 0, end, BUFFERS_OUT_END, 1);
        check_canary(in_place, 0, end + BUFFERS_GUARD - 3, BUFFERS_OUT_END, BUFFERS_GUARD - 2);
        check_canary(in_place, 0, -3, BUFFERS_OUT_BEGIN, 1);
        check_canary(in_place, 0, -8, BUFFERS_OUT_BEGIN, 6);
    }
    check_canary(false, 1, end + 1, BUFFERS_IN_END, 2);
    check_canary(false, 1, -3, BUFFERS_IN_BEGIN, 1);
}

TEST(memory_that_there_is_not_is_an_error)
{
    struct err e = {0};
    struct backend_comm *inner = NULL;
    CHECK_INT(backend_self.open(&inner, &(struct backend_opts){.size = 1}, &e), 0);
    struct buffers *b = NULL;
    CHECK_INT(buffers_open(&b, &backend_self, inner,
                           &(struct buffers_opts){.max_bytes = SIZE_MAX / 4}, &e),
              -ENOMEM);
    CHECK(b == NULL);
    CHECK_HAS(e.text, "no memory");
    backend_self.close(inner);
}
