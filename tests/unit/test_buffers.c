#include "collectives/buffers.h"

#include "tests/unit/test.h"

enum { BYTES = 3 * VERIFY_PERIOD * 4 + 40 };

static struct buffers *open_ok(struct backend_comm **inner)
{
    struct err e = {0};
    struct backend_opts o = {.size = 1};
    CHECK_INT(backend_self.open(inner, &o, &e), 0);
    struct buffers *b = NULL;
    CHECK_INT(buffers_open(&b, &backend_self, *inner, 0, BYTES, &e), 0);
    return b;
}

static struct buffers_run a_run(enum backend_coll coll, bool in_place)
{
    struct buffers_run r = {.in_place = in_place};
    r.v = (struct verify){.coll = coll, .type = DROVER_FLOAT, .op = DROVER_SUM, .ranks = 1};
    r.shape = busbw_shape(coll, BYTES, 4, 1);
    return r;
}

static uint64_t wrong_after(struct buffers *b, struct buffers_run *r)
{
    uint64_t wrong = 0;
    struct err e = {0};
    CHECK_INT(buffers_wrong(b, r, &wrong, &e), 0);
    return wrong;
}

TEST(what_a_collective_leaves_is_right_and_what_none_has_touched_is_wrong)
{
    struct backend_comm *inner = NULL;
    struct buffers *b = open_ok(&inner);
    for (int coll = 0; coll < BACKEND_BARRIER; coll++) {
        struct err e = {0};
        struct buffers_run r = a_run((enum backend_coll)coll, false);
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
        struct buffers_run r = a_run(BACKEND_ALL_REDUCE, in_place == 1);
        CHECK_INT(buffers_prepare(b, &r, &e), 0);
        struct backend_call call = buffers_call(b, &r, 0);
        CHECK_INT(call.in == call.out, in_place);
        CHECK_INT(backend_self.start(inner, &call, 1, &e), 0);
        CHECK_INT(buffers_spoil(b, &r, 0, &e), 0);
        CHECK_INT(wrong_after(b, &r), 1);
        CHECK_INT(buffers_spoil(b, &r, r.shape.count - 1, &e), 0);
        CHECK_INT(wrong_after(b, &r), 2);
        CHECK_INT(buffers_spoil(b, &r, r.shape.count, &e), 0); /* there is none */
        CHECK_INT(wrong_after(b, &r), 2);
    }
    buffers_close(b);
    backend_self.close(inner);
}

TEST(bytes_written_behind_the_output_are_counted)
{
    struct backend_comm *inner = NULL;
    struct buffers *b = open_ok(&inner);
    struct err e = {0};
    struct buffers_run r = a_run(BACKEND_ALL_GATHER, false);
    CHECK_INT(buffers_prepare(b, &r, &e), 0);
    struct backend_call call = buffers_call(b, &r, 0);
    CHECK_INT(backend_self.start(inner, &call, 1, &e), 0);
    memset((char *)call.out + r.shape.out_bytes, 0, 3);
    CHECK_INT(wrong_after(b, &r), 3);
    buffers_close(b);
    backend_self.close(inner);
}

/* Sanitizers end a program that asks for too much, unless told not to. */
DROVER_API const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

DROVER_API const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

TEST(memory_that_there_is_not_is_an_error)
{
    struct err e = {0};
    struct backend_comm *inner = NULL;
    CHECK_INT(backend_self.open(&inner, &(struct backend_opts){.size = 1}, &e), 0);
    struct buffers *b = NULL;
    CHECK_INT(buffers_open(&b, &backend_self, inner, 0, SIZE_MAX / 4, &e), -ENOMEM);
    CHECK(b == NULL);
    CHECK_HAS(e.text, "no memory");
    backend_self.close(inner);
}
