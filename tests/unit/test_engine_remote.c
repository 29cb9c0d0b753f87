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
