#include "common/durable.h"

#include <errno.h>
#include <sys/stat.h>

#include "tests/unit/test.h"

/* tests/fault/test_power_loss.py checks what is on the disk then. */
TEST(a_file_or_directory_is_replaced_or_stays)
{
    char dir[] = "/tmp/test_durable.XXXXXX";
    CHECK(mkdtemp(dir) != NULL && chdir(dir) == 0);
    CHECK_INT(mkdir("tmp", 0700), 0);
    CHECK_INT(durable_rename("tmp", "name"), 0);
    CHECK_INT(durable_rename("tmp", "name"), -ENOENT);
    CHECK_INT(access("name", F_OK), 0);
    CHECK_INT(durable_sync_dir_of("name/new"), 0);
    CHECK_INT(durable_sync_dir_of("absent/new"), -ENOENT);
    CHECK_INT(rmdir("name"), 0);
    CHECK_INT(rmdir(dir), 0);
}
