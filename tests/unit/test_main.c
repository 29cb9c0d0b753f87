/* The main program of the tests of a folder.
 *
 *     PROGRAM [--perf] [--file FILE] [PART ...]   runs the tests of FILE (test_x) whose names
 * contain a PART; with --perf, limits on time are checked PROGRAM --list prints the files that have
 * tests, one per line */
#include "tests/unit/test.h"

/* ---- options of the sanitizers
 * -------------------------------------------------------------------
 */

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const char *__asan_default_options(void);
EXPORTED const char *__tsan_default_options(void);
EXPORTED const char *__lsan_default_suppressions(void);
EXPORTED const char *__tsan_default_suppressions(void);

/* Stacks reach through libpmix, and an allocation that is too large fails instead of ending the
 * program. */
const char *__asan_default_options(void)
{
    return "fast_unwind_on_malloc=0:allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* The server of libpmix 4.2 leaks a little memory each time it is started. */
const char *__lsan_default_suppressions(void)
{
    return "leak:PMIx_server_init\nleak:pmix_server_message_handler";
}

/* libpmix 4.2 closes a pipe that its other thread may be using. ZeroMQ's threads hand messages over
 * in a way that the sanitizer cannot follow, since it sees no code of libzmq. */
const char *__tsan_default_suppressions(void)
{
    return "race:libpmix.so\nrace:pmix_ptl_base_stop_listening\n"
           "called_from_lib:libzmq.so\nrace:libzmq.so\n";
}

/* ---- tests ---------------------------------------------------------------------------------- */

bool test_checks_time;

static struct test_case *first, **end = &first;

void test_register(struct test_case *t)
{
    *end = t;
    end = &t->next;
}

/* Whether `t` is in FILE.c. */
static bool is_in(const struct test_case *t, const char *file)
{
    const char *base = strrchr(t->file, '/');
    base = base ? base + 1 : t->file;
    size_t len = strlen(file);
    return strncmp(base, file, len) == 0 && strcmp(base + len, ".c") == 0;
}

static bool is_wanted(const struct test_case *t, const char *file, char **parts)
{
    bool wanted = !*parts;
    for (; *parts; parts++)
        wanted |= strstr(t->name, *parts) != NULL;
    return wanted && (!file || is_in(t, file));
}

static int run(const struct test_case *t)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(TEST_LIMIT_S);
        t->run();
        exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        fprintf(stderr, "# %s: killed by signal %d (%s)\n", t->name, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int list(void)
{
    const char *before = "";
    for (const struct test_case *t = first; t; t = t->next) {
        const char *base = strrchr(t->file, '/');
        base = base ? base + 1 : t->file;
        if (strcmp(base, before) != 0)
            printf("%.*s\n", (int)strcspn(base, "."), base);
        before = base;
    }
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list();
    argv++;
    if (*argv && strcmp(*argv, "--perf") == 0) {
        test_checks_time = true;
        argv++;
    }
    const char *file = NULL;
    if (*argv && strcmp(*argv, "--file") == 0 && argv[1]) {
        file = argv[1];
        argv += 2;
    }
    int failed = 0, number = 0;
    for (const struct test_case *t = first; t; t = t->next) {
        if (!is_wanted(t, file, argv))
            continue;
        int status = run(t);
        printf("%s %d - %s%s\n", status == 0 || status == 77 ? "ok" : "not ok", ++number, t->name,
               status == 77 ? " # SKIP" : "");
        failed += status != 0 && status != 77;
    }
    printf("1..%d\n", number);
    return failed != 0;
}
