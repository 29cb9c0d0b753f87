/* engine_remote: whole jobs whose ranks are run by `drover rank`, started on this machine: what is
 * promised of the local engine holds here, too. */
#include "tests/unit/kit_launch.h"

TEST(ranks_say_their_lines_and_end_with_0)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = far_script(3, argv, "echo a$RANK/$WORLD_SIZE; echo b$RANK >&2");
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_HAS(strbuf_str(&h->out), "0oa0/3|");
    CHECK_HAS(strbuf_str(&h->out), "2oa2/3|");
    CHECK_HAS(strbuf_str(&h->out), "1eb1|");
    CHECK_INT(h->end.status, 0);
    CHECK_INT(h->ranks_ended, 3);
}

TEST(statuses_signals_and_missing_programs_come_through)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = far_script(2, argv, "[ $RANK = 1 ] || exec sleep 100; exit 9");
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_INT(h->end.status, 9);
    CHECK_INT(h->end.first_failed, 1);
    struct launch_spec t = far_script(1, argv, "kill -SEGV $$");
    h = begin(f, 1, &t);
    until_over(h);
    CHECK_INT(h->end.status, 128 + SIGSEGV);
    char *none[] = {(char *)"./no-such-program", NULL};
    struct launch_spec u = far_script(2, argv, "");
    u.argv = none;
    h = begin(f, 2, &u);
    until_over(h);
    CHECK_INT(h->end.status, 127);
    CHECK_HAS(h->end.first.start_error, "exec './no-such-program': No such file");
}

TEST(mpirun_starts_them_too)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = far_script(3, argv, "echo $RANK $OMPI_COMM_WORLD_SIZE");
    s.engine = PLAN_ENGINE_OPENMPI;
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_HAS(strbuf_str(&h->out), "2o2 3|");
    CHECK_INT(h->end.status, 0);
    fprintf(stderr, "# %g s\n", h->end.seconds);
}
