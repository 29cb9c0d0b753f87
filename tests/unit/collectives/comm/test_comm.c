#include "collectives/comm/comm.h"

#include <math.h>

#include "collectives/comm/float16.h"
#include "tests/unit/test.h"

static struct drover *d;

static struct drover_comm *open_self(void)
{
    struct drover_comm *c = NULL;
    CHECK_INT(drover_init(&d), 0);
    CHECK_INT(drover_comm_open(&c, d, NULL), 0);
    CHECK_STR(drover_comm_backend(c), "self");
    return c;
}

TEST(wrong_calls_are_refused_and_do_no_harm)
{
    struct drover_comm *c = open_self();
    char b[8] = {0};
    CHECK_INT(drover_all_reduce(c, b, b, 1, (enum drover_type)99, DROVER_SUM), -EINVAL);
    CHECK_HAS(drover_error(d), "type 99");
    CHECK_INT(drover_all_reduce(c, b, b, 1, DROVER_INT8, (enum drover_op) - 1), -EINVAL);
    CHECK_INT(drover_broadcast(c, b, b, 1, DROVER_INT8, 1), -EINVAL);
    CHECK_INT(drover_reduce(c, b, b, 1, DROVER_INT8, DROVER_SUM, -1), -EINVAL);
    CHECK_INT(drover_all_gather(c, b, b, SIZE_MAX / 4, DROVER_DOUBLE), -EOVERFLOW);
    CHECK_INT(drover_all_gather(c, b, b, (size_t)PTRDIFF_MAX + 1, DROVER_INT8), -EOVERFLOW);
    CHECK_INT(drover_all_to_all(c, NULL, b, 1, DROVER_INT8), -EINVAL);
    CHECK_INT(drover_all_to_all(c, b, NULL, 1, DROVER_INT8), -EINVAL);
    CHECK_INT(drover_wait(c, 0), -EINVAL);
    CHECK_INT(drover_all_to_all(c, b, b, 1, DROVER_INT8), 0);
    CHECK_INT(drover_wait(c, 1000), 0);
    drover_comm_close(c);
    drover_close(d);
}

TEST(nothing_to_do_is_fine)
{
    struct drover_comm *c = open_self();
    CHECK_INT(drover_all_reduce(c, NULL, NULL, 0, DROVER_FLOAT, DROVER_SUM), 0);
    CHECK_INT(drover_barrier(c, 1000), 0);
    drover_comm_close(c);
    drover_comm_close(NULL);
    drover_close(d);
}

TEST(alone_every_collective_is_a_copy)
{
    struct drover_comm *c = open_self();
    int32_t in[3] = {1, -2, 3}, out[3];
    for (int op = 0; op < DROVER_OPS; op++) {
        memset(out, 0, sizeof out);
        CHECK_INT(drover_all_reduce(c, in, out, 3, DROVER_INT32, (enum drover_op)op), 0);
        CHECK_INT(drover_wait(c, 1000), 0);
        CHECK(memcmp(in, out, sizeof in) == 0);
    }
    memset(out, 0, sizeof out);
    CHECK_INT(drover_reduce_scatter(c, in, out, 3, DROVER_INT32, DROVER_SUM), 0);
    CHECK(memcmp(in, out, sizeof in) == 0);
    drover_comm_close(c);
    drover_close(d);
}

TEST(a_factor_multiplies_what_comes_after_it_in_the_type)
{
    struct drover_comm *c = open_self();
    int32_t in[2] = {7, -3}, out[2];
    float f[2] = {0.5f, -8};
    uint16_t h = half_from_float(3);
    CHECK_INT(drover_comm_factor(c, -2.9), 0); /* -2 for whole numbers */
    CHECK_INT(drover_all_reduce(c, in, out, 2, DROVER_INT32, DROVER_MULSUM), 0);
    CHECK(out[0] == -14 && out[1] == 6);
    CHECK_INT(drover_all_reduce(c, in, out, 2, DROVER_INT32, DROVER_SUM), 0);
    CHECK(memcmp(in, out, sizeof in) == 0);
    CHECK_INT(drover_comm_factor(c, 0.25), 0);
    CHECK_INT(drover_reduce(c, f, f, 2, DROVER_FLOAT, DROVER_MULSUM, 0), 0);
    CHECK(f[0] == 0.125f && f[1] == -2);
    CHECK_INT(drover_reduce_scatter(c, &h, &h, 1, DROVER_HALF, DROVER_MULSUM), 0);
    CHECK(half_to_float(h) == 0.75f);
    CHECK_INT(drover_broadcast(c, in, out, 2, DROVER_INT32, 0), 0);
    CHECK(memcmp(in, out, sizeof in) == 0);
    CHECK_INT(drover_comm_factor(c, NAN), -EINVAL);
    CHECK_INT(drover_comm_factor(c, -0x1p63), -EINVAL);
    CHECK_HAS(drover_error(d), "factor ");
    drover_comm_close(c);
    drover_close(d);
}

TEST(after_an_abort_only_close_may_follow)
{
    struct drover_comm *c = open_self();
    char b = 0;
    CHECK_INT(drover_comm_abort(c), 0);
    CHECK_INT(drover_comm_abort(c), 0);
    CHECK_INT(drover_all_reduce(c, &b, &b, 1, DROVER_INT8, DROVER_SUM), -ESHUTDOWN);
    CHECK_INT(drover_wait(c, 1000), -ESHUTDOWN);
    CHECK_INT(drover_barrier(c, 1000), -ESHUTDOWN);
    drover_comm_close(c);
    drover_close(d);
}

TEST(alone_a_rank_sends_to_itself_in_a_group_in_any_order)
{
    struct drover_comm *c = open_self();
    int32_t in[4] = {1, 2, 3, 4}, out[4] = {0};
    CHECK_INT(drover_send(c, in, 1, DROVER_INT32, 0), -EINVAL);
    CHECK_HAS(drover_error(d), "inside a group");
    CHECK_INT(drover_group_start(c), 0);
    CHECK_INT(drover_recv(c, out, 3, DROVER_INT32, 0), 0);
    CHECK_INT(drover_send(c, in, 3, DROVER_INT32, 0), 0);
    CHECK_INT(drover_send(c, in + 3, 1, DROVER_INT32, 0), 0);
    CHECK_INT(drover_recv(c, out + 3, 1, DROVER_INT32, 0), 0);
    CHECK_INT(drover_wait(c, 1000), -EINVAL); /* the group is open */
    CHECK_INT(out[0], 0);
    CHECK_INT(drover_group_end(c), 0);
    CHECK_INT(drover_wait(c, 1000), 0);
    CHECK(memcmp(in, out, sizeof in) == 0);
    CHECK_INT(drover_group_end(c), -EINVAL);
    drover_comm_close(c);
    drover_close(d);
}

TEST(a_send_without_a_receive_fails_the_communicator)
{
    struct drover_comm *c = open_self();
    char b[2] = {0};
    CHECK_INT(drover_group_start(c), 0);
    CHECK_INT(drover_send(c, b, 2, DROVER_INT8, 0), 0);
    CHECK_INT(drover_group_end(c), -EPROTO);
    CHECK_HAS(drover_error(d), "rank 0 of 1: call 1, send of 2 int8");
    CHECK_INT(drover_group_start(c), -ESHUTDOWN);
    CHECK_INT(drover_comm_poll(c), -ESHUTDOWN);
    drover_comm_close(c);
    drover_close(d);
}

TEST(alone_uneven_parts_are_one_part)
{
    struct drover_comm *c = open_self();
    int32_t in[5] = {1, 2, 3, 4, 5}, out[5] = {0};
    size_t n = 3, from = 1, to = 2, huge = SIZE_MAX;
    struct drover_parts send = {&n, &from}, recv = {&n, &to}, bad = {&n, &huge};
    CHECK_INT(drover_all_to_all_v(c, in, &send, out, &recv, DROVER_INT32), 0);
    CHECK_INT(drover_wait(c, 1000), 0);
    CHECK(out[1] == 0 && memcmp(in + 1, out + 2, 12) == 0);
    CHECK_INT(drover_all_to_all_v(c, in, &bad, out, &recv, DROVER_INT32), -EOVERFLOW);
    CHECK_INT(drover_all_to_all_v(c, NULL, &send, out, &recv, DROVER_INT32), -EINVAL);
    n = 0;
    CHECK_INT(drover_all_to_all_v(c, NULL, &send, NULL, &recv, DROVER_INT32), 0);
    drover_comm_close(c);
    drover_close(d);
}

TEST(one_rank_splits_into_itself_or_nothing)
{
    struct drover_comm *c = open_self(), *part = NULL, *none = c;
    CHECK_INT(drover_comm_split(&part, c, 7, -1), 0);
    CHECK_INT(drover_comm_rank(part), 0);
    CHECK_INT(drover_comm_size(part), 1);
    CHECK_INT(drover_barrier(part, 1000), 0);
    CHECK_INT(drover_comm_split(&none, c, DROVER_NO_COLOR, 0), 0);
    CHECK(none == NULL);
    CHECK_INT(drover_comm_split(&none, c, -2, 0), -EINVAL);
    CHECK_INT(drover_group_start(c), 0);
    CHECK_INT(drover_comm_split(&none, c, 0, 0), -EINVAL);
    drover_comm_close(part);
    drover_comm_close(c);
    drover_close(d);
}

TEST(what_has_failed_can_be_shrunk_and_then_only_be_closed)
{
    struct drover_comm *c = open_self(), *left = NULL;
    int me = 0;
    CHECK_INT(drover_comm_shrink(&left, c, &me, 1), -EINVAL);
    CHECK_HAS(drover_error(d), "shrink: rank 0 cannot exclude itself");
    CHECK_INT(drover_comm_abort(c), 0);
    CHECK_INT(drover_comm_shrink(&left, c, NULL, 0), 0);
    CHECK_INT(drover_barrier(c, 1000), -ESHUTDOWN);
    CHECK_INT(drover_barrier(left, 1000), 0);
    drover_comm_close(c);
    drover_comm_close(left);
    drover_close(d);
}

TEST(self_refuses_a_job_of_two)
{
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    struct drover_comm *c = NULL;
    CHECK_INT(drover_init(&d), 0);
    CHECK_INT(drover_comm_open(&c, d, &(struct drover_comm_opts){.backend = "self"}), -EINVAL);
    CHECK_HAS(drover_error(d), "rank 0 of 2: backend self");
    CHECK(c == NULL);
    drover_close(d);
}

TEST(a_plug_in_is_looked_for_where_the_variable_says_first)
{
    const struct backend *b = NULL;
    struct err e = {0};
    setenv("DROVER_PLUGIN_DIR", "/nowhere/at/all", 1);
    CHECK_INT(backend_load(&b, "nosuch", &e), -ENOENT);
    CHECK_HAS(e.text, "in /nowhere/at/all, ");
    CHECK_HAS(e.hint, "DROVER_PLUGIN_DIR");
    CHECK_INT(backend_load(&b, "self", &e), 0);
    CHECK(b == &backend_self);
}
