#include "collectives/comm.h"

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
