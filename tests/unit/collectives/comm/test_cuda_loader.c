/* cuda_loader: where a library is found. Each directory contains a copy of a library of this
 * machine. */
#include "collectives/comm/cuda_loader.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <jansson.h>
#include <link.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "common/mem.h"

#include "tests/unit/test.h"

static const char *const names[] = {"libdrover_none.so.13", "libdrover_none.so.12", NULL};

static char *folder(void)
{
    static char path[] = "/tmp/drover-cudalib-XXXXXX";
    CHECK(mkdtemp(path));
    return path;
}

/* Creates `root`/`below` and in it a library with that name. Returns the library's path. */
static char *put(const char *root, const char *below, const char *name)
{
    Dl_info info;
    CHECK(dladdr((void *)json_null, &info));
    char *path = xasprintf("%s/%s/%s", root, below, name);
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        CHECK(mkdir(path, 0755) == 0 || errno == EEXIST);
        *p = '/';
    }
    struct stat st;
    int from = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
    int to = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    CHECK(from >= 0 && to >= 0 && fstat(from, &st) == 0);
    CHECK_INT(sendfile(to, from, NULL, (size_t)st.st_size), st.st_size);
    close(from);
    close(to);
    return path;
}

static void nothing_else(const char *root)
{
    unsetenv("VIRTUAL_ENV");
    unsetenv("CONDA_PREFIX");
    unsetenv("CUDA_HOME");
    unsetenv("DROVER_TEST_LIB");
    setenv("PATH", root, 1);
    setenv("HOME", root, 1);
}

static void remove_all(const char *root)
{
    AUTO(free) char *command = xasprintf("/bin/rm -rf %s", root);
    CHECK_INT(system(command), 0);
}

/* Checks that the library with this path, and no other, is opened. */
static void check_opens(const char *path)
{
    void *lib = NULL;
    struct err e = {0};
    int rc = cuda_loader_open(&lib, names, "DROVER_TEST_LIB", &e);
    if (rc < 0)
        FAIL("%s", e.text);
    struct link_map *map = NULL;
    char want[4096], got[4096];
    CHECK_INT(dlinfo(lib, RTLD_DI_LINKMAP, &map), 0);
    CHECK(realpath(path, want) && realpath(map->l_name, got));
    CHECK_STR(got, want);
}

static void check_found_below(const char *variable, const char *value, const char *below)
{
    char *root = folder();
    nothing_else(root);
    AUTO(free) char *path = put(root, below, names[1]);
    AUTO(free) char *set = xasprintf("%s/%s", root, value);
    setenv(variable, set, 1);
    check_opens(path);
    remove_all(root);
}

TEST(it_is_found_in_a_toolkit)
{
    check_found_below("CUDA_HOME", "toolkit", "toolkit/lib64");
}

TEST(it_is_found_in_the_wheels_of_the_active_environment)
{
    check_found_below("VIRTUAL_ENV", "env", "env/lib/python3.11/site-packages/nvidia/cu13/lib");
}

TEST(it_is_found_in_condas_wheels)
{
    check_found_below("CONDA_PREFIX", "env", "env/lib/python3.9/site-packages/nvidia/nccl/lib");
}

TEST(it_is_found_in_the_users_wheels)
{
    check_found_below("HOME", "home", "home/.local/lib/python3.12/site-packages/nvidia/cu13/lib");
}

TEST(it_is_found_beside_the_python_in_path)
{
    char *root = folder();
    nothing_else(root);
    AUTO(free)
    char *path = put(root, "py/lib/python3.11/site-packages/nvidia/cublas/lib", names[0]);
    free(put(root, "py/bin", "python3"));
    AUTO(free) char *list = xasprintf("%s/none:%s/py/bin", root, root);
    setenv("PATH", list, 1);
    check_opens(path);
    remove_all(root);
}

TEST(the_better_name_and_the_toolkit_come_first)
{
    char *root = folder();
    nothing_else(root);
    free(put(root, "toolkit/lib64", names[1]));
    AUTO(free) char *young = put(root, "toolkit/lib64", names[0]);
    free(put(root, "env/lib/python3.11/site-packages/nvidia/a/lib", names[0]));
    AUTO(free) char *toolkit = xasprintf("%s/toolkit", root);
    AUTO(free) char *env = xasprintf("%s/env", root);
    setenv("CUDA_HOME", toolkit, 1);
    setenv("VIRTUAL_ENV", env, 1);
    check_opens(young);
    remove_all(root);
}

TEST(a_choice_is_not_overruled)
{
    char *root = folder();
    nothing_else(root);
    AUTO(free) char *path = put(root, "env/lib/python3.11/site-packages/nvidia/a/lib", names[0]);
    AUTO(free) char *env = xasprintf("%s/env", root);
    setenv("VIRTUAL_ENV", env, 1);
    setenv("DROVER_TEST_LIB", "/nowhere/lib.so", 1);
    struct err e = {0};
    void *lib = NULL;
    CHECK_INT(cuda_loader_open(&lib, names, "DROVER_TEST_LIB", &e), -ENOENT);
    CHECK(!lib && strstr(e.text, "DROVER_TEST_LIB: /nowhere/lib.so"));
    setenv("DROVER_TEST_LIB", path, 1);
    check_opens(path);
    remove_all(root);
}

TEST(what_the_process_has_is_taken)
{
    static const char *const loaded[] = {"libc.so.6", NULL};
    void *lib = NULL;
    struct err e = {0};
    CHECK_INT(cuda_loader_open(&lib, loaded, NULL, &e), 0);
    CHECK(dlsym(lib, "gnu_get_libc_version"));
}

TEST(an_error_lists_the_places_and_the_way_out)
{
    char *root = folder();
    nothing_else(root);
    AUTO(free) char *toolkit = xasprintf("%s/toolkit/lib64", root);
    free(put(root, "toolkit/lib64", "libother.so"));
    toolkit[strlen(toolkit) - strlen("/lib64")] = '\0';
    setenv("CUDA_HOME", toolkit, 1);
    setenv("VIRTUAL_ENV", "/env", 1);
    struct err e = {0};
    void *lib = NULL;
    CHECK_INT(cuda_loader_open(&lib, names, "DROVER_TEST_LIB", &e), -ENOENT);
    CHECK(strstr(e.text, "no libdrover_none.so.13 was found on the loader's path, "));
    CHECK(strstr(e.text, toolkit));
    CHECK(strstr(e.text, ", /env/lib/python3*/*-packages/nvidia/*/lib"));
    CHECK(strstr(e.text, ", /usr/lib/python3/dist-packages/nvidia/*/lib"));
    CHECK(strstr(e.hint, "set DROVER_TEST_LIB to the file"));
    remove_all(root);
}
