#include "common/own_process.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

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

TEST(a_program_is_found_in_path_unless_it_is_drover)
{
    AUTO(free) char *drover = NULL, *found = NULL, *name = NULL;
    char dir[] = "/tmp/drover-path-XXXXXX";
    CHECK(mkdtemp(dir));
    AUTO(free) char *link = xasprintf("%s/sh", dir);
    AUTO(free) char *path = xasprintf("/nonexist:%s:/usr/bin:/bin", dir);
    CHECK_INT(own_process_sibling(&drover, "drover", NULL), 0);
    CHECK_INT(access(drover, X_OK), 0);
    CHECK_INT(symlink(drover, link), 0);
    CHECK_INT(own_process_find_program(&found, "sh", path), 0);
    CHECK_STR(found, "/usr/bin/sh");
    CHECK_INT(own_process_find_program(&name, "/bin/sh", "/nonexist"), 0);
    CHECK_STR(name, "/bin/sh");
    char *none = NULL;
    CHECK_INT(own_process_find_program(&none, link, path), -ENOENT);
    CHECK_INT(own_process_find_program(&none, "no-such-program", path), -ENOENT);
    CHECK_INT(own_process_find_program(&none, "sh", dir), -ENOENT);
    unlink(link);
    rmdir(dir);
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

TEST(libraries_get_memory_and_return_it)
{
    uv_loop_t loop;
    own_process_exit_without_memory();
    json_t *list = json_pack("[s,i]", "text", 3);
    CHECK_STR(json_string_value(json_array_get(list, 0)), "text");
    json_decref(list);
    CHECK_INT(uv_loop_init(&loop), 0);
    CHECK_INT(uv_loop_close(&loop), 0);
}
