/* call_stacks: of real processes, by the real gdb. */
#include "launcher/hang/call_stacks.h"

#include <sys/stat.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

struct heard {
    uv_loop_t loop;
    struct call_stacks *s;
    struct strbuf texts;
    int calls;
};

static void on_done(void *arg, const char *const *texts)
{
    struct heard *h = arg;
    h->calls++;
    strbuf_puts(&h->texts, texts[0]);
    call_stacks_free(h->s);
}

static pid_t start_sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        execlp("sleep", "sleep", "100", (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void ask(struct heard *h, const struct rank_status *of)
{
    uv_loop_init(&h->loop);
    h->s = call_stacks_capture(&h->loop, of, 1, on_done, h);
    CHECK_INT(h->calls, 0); /* from the loop */
    CHECK_INT(uv_run(&h->loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&h->loop), 0);
    CHECK_INT(h->calls, 1);
}

TEST(gdb_tells_where_a_process_stands)
{
    if (access("/usr/bin/gdb", X_OK) < 0)
        SKIP("gdb is not installed");
    pid_t pid = start_sleeper();
    struct heard h = {.calls = 0};
    ask(&h, &(struct rank_status){.at = {.pid = pid}});
    CHECK_HAS(strbuf_str(&h.texts), "#0 ");
    CHECK_HAS(strbuf_str(&h.texts), "nanosleep");
    CHECK(!strstr(strbuf_str(&h.texts), "Thread "));
    strbuf_free(&h.texts);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

TEST(a_native_frame_of_mpi_makes_a_line_with_the_state_of_the_frames_outside_of_it)
{
    static const struct {
        const char *names, *has;
    } tools[] = {
        {"#0  0x1 in opal_progress ()\n=1 2\n#1  0x2 in PMPI_Recv ()\n=5 6\n", "state: "},
        {"#0  0x1 in opal_progress ()\n=3 4\n#1  0x2 in PMPI_Recv ()\n=5 6\n", "state: "},
        {"#0  0x1 in opal_progress ()\n=3 4\n#1  0x2 in PMPI_Recv ()\n=5 7\n", "state: "},
        {"#0  0x1 in step () at train.c:3\n=1 2\n", ""},
    };
    char dir[] = "/tmp/drover-gdb-XXXXXX", path[64], first[64] = "";
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/gdb", dir);
    setenv("PATH", dir, 1);
    for (size_t i = 0; i < COUNT_OF(tools); i++) {
        FILE *f = fopen(path, "we");
        CHECK(f != NULL);
        fprintf(f, "#!/bin/sh\necho '%s'\n", tools[i].names);
        CHECK_INT(fclose(f), 0);
        CHECK_INT(chmod(path, 0700), 0);
        struct heard h = {.calls = 0};
        ask(&h, &(struct rank_status){.at = {.pid = getpid(), .name = "train"}});
        const char *state = strstr(strbuf_str(&h.texts), "state: ");
        CHECK_INT(state != NULL, tools[i].has[0] != '\0');
        CHECK(!strchr(strbuf_str(&h.texts), '='));
        if (i == 0)
            snprintf(first, sizeof first, "%s", state);
        else if (state)
            CHECK_INT(strcmp(state, first) == 0, i == 1); /* only the inner frame has changed */
        strbuf_free(&h.texts);
    }
    CHECK_INT(unlink(path), 0);
    CHECK_INT(rmdir(dir), 0);
}

TEST(without_a_tool_the_text_is_empty_or_names_the_one_for_python)
{
    setenv("PATH", "/nowhere", 1);
    struct heard h = {.calls = 0};
    ask(&h, &(struct rank_status){.at = {.pid = getpid(), .name = "train"}});
    CHECK_STR(strbuf_str(&h.texts), "");
    h.calls = 0;
    ask(&h, &(struct rank_status){.at = {.pid = getpid(), .name = "python3"}});
    CHECK_HAS(strbuf_str(&h.texts), "try: python3 -m pip install py-spy");
    strbuf_free(&h.texts);
}

TEST(what_is_freed_early_is_not_told)
{
    pid_t pid = start_sleeper();
    struct heard h = {.calls = 0};
    uv_loop_init(&h.loop);
    call_stacks_free(
        call_stacks_capture(&h.loop, &(struct rank_status){.at = {.pid = pid}}, 1, on_done, &h));
    CHECK_INT(uv_run(&h.loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&h.loop), 0);
    CHECK_INT(h.calls, 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A py-spy that prints two threads, as py-spy 0.4 does. */
static void install_py_spy(char *dir)
{
    char path[64];
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/py-spy", dir);
    FILE *f = fopen(path, "we");
    CHECK(f != NULL);
    fputs("#!/bin/sh\n"
          "echo 'Process 7: python3 train.py'\n"
          "echo 'Thread 7 (idle): \"MainThread\"'\n"
          "echo '    load (train.py:7)'\n"
          "echo 'Thread 8 (idle): \"Thread-1 (helper)\"'\n"
          "echo '    helper (train.py:4)'\n",
          f);
    CHECK_INT(fclose(f), 0);
    CHECK_INT(chmod(path, 0700), 0);
    setenv("PATH", dir, 1);
}

TEST(py_spy_is_asked_about_a_python_of_any_name_and_its_main_thread_counts)
{
    pid_t pid = fork();
    if (pid == 0) {
        execlp("python3", "python3", "-c", "import time; time.sleep(100)", (char *)NULL);
        _exit(127);
    }
    char path[64], exe[256] = "", dir[] = "/tmp/drover-py-spy-XXXXXX";
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    while (waitpid(pid, NULL, WNOHANG) == 0 && !strstr(exe, "/python"))
        exe[readlink(path, exe, sizeof exe - 1)] = '\0';
    install_py_spy(dir);
    struct heard h = {.calls = 0};
    ask(&h, &(struct rank_status){.at = {.pid = pid, .name = "pt_main_thread"}});
    CHECK_HAS(strbuf_str(&h.texts), "    load (train.py:7)\n");
    CHECK(!strstr(strbuf_str(&h.texts), "helper"));
    snprintf(path, sizeof path, "%s/py-spy", dir);
    CHECK_INT(unlink(path), 0);
    CHECK_INT(rmdir(dir), 0);
    strbuf_free(&h.texts);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
