#include "common/own_process.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "common/mem.h"

#include "tests/unit/test.h"

TEST(the_program_its_directory_and_those_above_are_found)
{
    AUTO(free) char *file = NULL, *dir = NULL, *above = NULL;
    struct err e = {0};
    CHECK_INT(own_process_dir_above(&file, 0, &e), 0);
    CHECK_INT(own_process_dir_above(&dir, 1, &e), 0);
    CHECK_INT(own_process_dir_above(&above, 2, &e), 0);
    CHECK_STR(strrchr(file, '/'), "/common");
    CHECK(strncmp(file, dir, strlen(dir)) == 0 && strcmp(file + strlen(dir), "/common") == 0);
    CHECK(strncmp(dir, above, strlen(above)) == 0 && strrchr(dir, '/') == dir + strlen(above));
}

TEST(above_the_root_there_is_nothing)
{
    char *path = NULL;
    struct err e = {0};
    CHECK_INT(own_process_dir_above(&path, 100, &e), -ENOENT);
    CHECK(path == NULL && e.text[0]);
}

TEST(a_limit_of_too_few_files_is_an_error)
{
    struct err e = {0};
    CHECK_INT(own_process_check_files(&e), 0);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &(struct rlimit){40, 40}), 0);
    CHECK_INT(own_process_check_files(&e), -EMFILE);
    CHECK_HAS(e.text, "only 40 files (ulimit -n)");
    CHECK_HAS(e.hint, "ulimit -n");
}
