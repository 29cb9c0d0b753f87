/* agent_start_probe(): the output of `drover machine` of this build. */
#include "launcher/remote/agent/agent_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "launcher/node/topo.h"
#include "tests/unit/test.h"

TEST(the_program_prints_this_machines_topology)
{
    AUTO(strbuf) struct strbuf told = {0};
    AUTO(topo) struct topo *t = NULL, *own = NULL;
    struct err e = {0};
    CHECK_INT(agent_start_probe(&told, 1, NULL, &e), 0);
    const char *end = memchr(told.data, '\n', told.len);
    CHECK_INT(topo_import(&t, NULL, told.data, end ? (size_t)(end - told.data) : told.len, &e), 0);
    CHECK_INT(topo_load(&own, &e), 0);
    CHECK_STR(topo_name(t), topo_name(own));
    CHECK(hwloc_bitmap_isequal(topo_allowed(t), topo_allowed(own)));
    CHECK_INT(topo_gpu_count(t), topo_gpu_count(own));
}

/* A node without one of drover's libraries. */
TEST(its_last_line_is_the_error)
{
    AUTO(strbuf) struct strbuf told = {0};
    struct err e = {0};
    char dir[] = "/tmp/drover-test-XXXXXX";
    CHECK(mkdtemp(dir));
    AUTO(free) char *library = xasprintf("%s/libhwloc.so.15", dir);
    FILE *f = fopen(library, "we");
    fputs("no library", f);
    fclose(f);
    setenv("LD_LIBRARY_PATH", dir, 1);
    CHECK_INT(agent_start_probe(&told, 1, NULL, &e), -EIO);
    unsetenv("LD_LIBRARY_PATH");
    CHECK(strstr(e.text, "error while loading shared libraries: "));
    CHECK(!strchr(e.text, '\n'));
    unlink(library);
    rmdir(dir);
}
