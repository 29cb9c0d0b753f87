/* The program, its MPI, and switches that are left over. */
#include "launcher/doctor/checks/program.h"
#include "tests/unit/launcher/doctor/kit_check.h"

static char *put_program(const char *root, const char *name, const char *text, mode_t mode)
{
    put(root, name, text);
    char *path = xasprintf("%s/%s", root, name);
    CHECK_INT(chmod(path, mode), 0);
    return path;
}

static void finds_program(const char *program, const char *argument, enum check_state s,
                          const char *value, const char *advice)
{
    char *command[] = {(char *)program, (char *)argument, NULL};
    CHECK_FINDS("soft.prog", &(struct check_env){.command = command}, s, value, advice);
}

TEST(a_program_is_found_as_execvp_finds_it)
{
    char *root = new_root();
    AUTO(free) char *path = xasprintf("%s/a:%s/b:/usr/bin:/bin", root, root);
    AUTO(free) char *plain = put_program(root, "a/train", "#!/bin/sh\n", 0644);
    AUTO(free) char *good = put_program(root, "b/train", "#!/bin/sh\n", 0755);
    CHECK_INT(setenv("PATH", path, 1), 0);
    finds_program("train", NULL, CHECK_OK, good, "");
    finds_program("trian", NULL, CHECK_FAIL, "trian: No such file", "");
    finds_program("/no/such", NULL, CHECK_FAIL, "/no/such: No such file", "");
    finds_program(root, NULL, CHECK_FAIL, "Is a directory", "");
    finds_program(plain, NULL, CHECK_FAIL, "Permission denied", "chmod +x");
    CHECK_FINDS("soft.prog", NULL, CHECK_SKIP, "no program was given", "");
    remove_root(root);
}

TEST(an_interpreter_must_exist_and_a_carriage_return_is_named)
{
    char *root = new_root();
    AUTO(free) char *missing = put_program(root, "a", "#!/no/such/python3\nx\n", 0755);
    AUTO(free) char *dos = put_program(root, "b", "#!/bin/sh\r\nx\r\n", 0755);
    finds_program(missing, NULL, CHECK_FAIL, "needs /no/such/python3", "install");
    finds_program(dos, NULL, CHECK_FAIL, "carriage return", "sed -i");
    finds_program("/bin/sh", NULL, CHECK_OK, "/bin/sh", "");
    remove_root(root);
}

TEST(a_program_for_another_architecture_fails)
{
    char *root = new_root();
    AUTO(free) char *copy = xasprintf("%s/p", root);
    AUTO(free) char *command = xasprintf("cp /bin/sh '%s'", copy);
    CHECK_INT(system(command), 0);
    finds_program(copy, NULL, CHECK_OK, copy, "");
    AUTO(file) FILE *f = fopen(copy, "r+");
    CHECK(f && fseek(f, 18, SEEK_SET) == 0 && fputc(243, f) == 243); /* e_machine: RISC-V */
    CHECK_INT(fflush(f), 0);
    finds_program(copy, NULL, CHECK_FAIL, "another architecture", "");
    remove_root(root);
}

TEST(a_python_script_must_exist_too)
{
    char *root = new_root();
    AUTO(free) char *python = put_program(root, "bin/python3", "#!/bin/sh\n", 0755);
    AUTO(free) char *script = put_program(root, "train.py", "", 0644);
    AUTO(free) char *none = xasprintf("%s/none.py", root);
    finds_program(python, script, CHECK_OK, python, "");
    finds_program(python, none, CHECK_FAIL, "none.py: No such file", "");
    finds_program(python, "-m", CHECK_OK, python, "");
    remove_root(root);
}

TEST(python_is_recognised_by_name_and_by_the_first_line)
{
    char *root = new_root();
    AUTO(free) char *python = put_program(root, "bin/python3", "#!/bin/sh\n", 0755);
    AUTO(free) char *line = xasprintf("#!%s -u\n", python);
    AUTO(free) char *script = put_program(root, "a", line, 0755);
    AUTO(free) char *env = put_program(root, "b", "#!/usr/bin/env python3\n", 0755);
    AUTO(free) char *shell = put_program(root, "c", "#!/bin/sh\n", 0755);
    AUTO(free) char *path = xasprintf("%s/bin:/usr/bin:/bin", root);
    CHECK_INT(setenv("PATH", path, 1), 0);
    char *const programs[] = {python, script, env};
    for (size_t i = 0; i < COUNT_OF(programs); i++) {
        AUTO(free) char *found = program_python((char *[]){programs[i], NULL});
        CHECK_STR(found, python);
    }
    CHECK(!program_python((char *[]){shell, NULL}) && !program_python(NULL));
    remove_root(root);
}

TEST(packages_are_searched_in_the_order_of_python)
{
    char *root = new_root();
    AUTO(free) char *python = put_program(root, "venv/bin/python3", "", 0755);
    AUTO(free) char *own = put_program(root, "venv/lib/python3.11/site-packages/x/l.so", "", 0644);
    AUTO(free)
    char *user = put_program(root, ".local/lib/python3.12/site-packages/x/l.so", "", 0644);
    AUTO(free) char *first = put_program(root, "extra/x/l.so", "", 0644);
    AUTO(free) char *paths = xasprintf("/no/such:%s/extra", root);
    CHECK_INT(setenv("HOME", root, 1), 0);
    CHECK_INT(setenv("PYTHONPATH", paths, 1), 0);
    AUTO(strv) char **found = NULL;
    program_packages(&found, python, "x/l.so");
    CHECK_INT(strv_len(found), 3);
    CHECK_STR(found[0], first);
    CHECK_STR(found[1], own);
    CHECK_STR(found[2], user);
    remove_root(root);
}

TEST(a_program_without_mpi_is_skipped)
{
    CHECK_FINDS("soft.mpi", NULL, CHECK_SKIP, "no program was given", "");
    char *none[] = {NULL};
    CHECK_FINDS("soft.mpi", &(struct check_env){.command = none}, CHECK_SKIP, "no program", "");
    CHECK_FINDS("soft.prog", &(struct check_env){.command = none}, CHECK_SKIP, "no program", "");
    char *command[] = {"/bin/sh", NULL};
    CHECK_FINDS("soft.mpi", &(struct check_env){.command = command}, CHECK_SKIP, "no MPI", "");
}

/* An environment and a home directory without settings. */
static char *clean_home(void)
{
    char *root = new_root();
    CHECK_INT(clearenv(), 0);
    CHECK_INT(setenv("DROVER_SYSROOT", root, 1), 0);
    CHECK_INT(setenv("HOME", root, 1), 0);
    return root;
}

TEST(harmful_switches_fail_with_their_cost_and_others_are_listed)
{
    static const struct {
        const char *name, *value, *cost;
    } rows[] = {
        {"NCCL_P2P_DISABLE", "1", "main memory"}, {"NCCL_SHM_DISABLE", "1", "network"},
        {"NCCL_IB_DISABLE", "1", "TCP"},          {"NCCL_DEBUG", "trace", "a line per operation"},
        {"CUDA_LAUNCH_BLOCKING", "1", "waits"},   {"NSIGHT_CUDA_DEBUGGER", "1", "debugger"}};
    char *root = clean_home();
    CHECK_FINDS("soft.env", NULL, CHECK_OK, "none", "");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_INT(setenv(rows[i].name, rows[i].value, 1), 0);
        CHECK_FINDS("soft.env", NULL, CHECK_FAIL, rows[i].name, rows[i].cost);
        CHECK_INT(setenv(rows[i].name, "0", 1), 0);
        CHECK_FINDS("soft.env", NULL, CHECK_OK, rows[i].name, "");
        CHECK_INT(unsetenv(rows[i].name), 0);
    }
    CHECK_INT(setenv("NCCL_DEBUG", "INFO", 1), 0);
    CHECK_INT(setenv("OMP_NUM_THREADS", "4", 1), 0);
    CHECK_INT(setenv("SECRET", "x", 1), 0);
    CHECK_FINDS("soft.env", NULL, CHECK_OK, "NCCL_DEBUG=INFO, OMP_NUM_THREADS=4", "");
    remove_root(root);
}

TEST(the_file_that_sets_a_switch_is_named)
{
    char *root = clean_home();
    CHECK_INT(setenv("NCCL_P2P_DISABLE", "1", 1), 0);
    put(root, ".bashrc", "export NCCL_P2P_DISABLE=1\n");
    CHECK_FINDS("soft.env", NULL, CHECK_FAIL, "NCCL_P2P_DISABLE=1", "/.bashrc");
    CHECK_INT(unsetenv("NCCL_P2P_DISABLE"), 0);
    CHECK_FINDS("soft.env", NULL, CHECK_OK, "none", "");
    put(root, ".nccl.conf", "# NCCL_IB_DISABLE=1\nNCCL_NTHREADS=64\n");
    CHECK_FINDS("soft.env", NULL, CHECK_OK, "NCCL_NTHREADS=64", "");
    put(root, ".nccl.conf", "NCCL_IB_DISABLE=1\r\n");
    CHECK_FINDS("soft.env", NULL, CHECK_FAIL, "NCCL_IB_DISABLE=1", "/.nccl.conf");
    put(root, "other.conf", "NCCL_IB_DISABLE=0\n");
    AUTO(free) char *other = xasprintf("%s/other.conf", root);
    CHECK_INT(setenv("NCCL_CONF_FILE", other, 1), 0);
    CHECK_FINDS("soft.env", NULL, CHECK_OK, "NCCL_IB_DISABLE=0", "");
    put(root, "etc/nccl.conf", "NCCL_P2P_DISABLE=1\n");
    CHECK_FINDS("soft.env", NULL, CHECK_FAIL, "NCCL_P2P_DISABLE=1", "etc/nccl.conf");
    remove_root(root);
}
