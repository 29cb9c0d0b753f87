#include "launcher/guardian/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

static char *usual_env[] = {"PATH=/usr/bin:/bin", NULL};

static struct guardian_rank rank_of(char *const *argv)
{
    return (struct guardian_rank){
        .argv = argv, .env = usual_env, .fds = {0, 1, 2}, .report_fd = -1, .pmi_fd = -1};
}

static int status_of(pid_t pid)
{
    int status;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return status;
}

static void fails_with(const struct guardian_rank *r, int error, enum spawn_step at)
{
    pid_t pid;
    enum spawn_step step;
    CHECK_INT(spawn_start(&pid, r, &step), -error);
    CHECK_INT(step, at);
    CHECK(wait(NULL) < 0 && errno == ECHILD);
}

/* Runs it until it exits. Returns its stdout. */
static char *output_of(struct guardian_rank *r)
{
    int ends[2];
    pid_t pid;
    enum spawn_step step;
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    r->fds[1] = ends[1];
    CHECK_INT(spawn_start(&pid, r, &step), 0);
    close(ends[1]);
    struct strbuf b = {0};
    char bytes[4096];
    for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;)
        strbuf_add(&b, bytes, (size_t)n);
    close(ends[0]);
    CHECK_INT(status_of(pid), 0);
    return strbuf_take(&b);
}

TEST(a_program_starts_and_its_status_is_its_own)
{
    struct guardian_rank r = rank_of((char *[]){"sh", "-c", "exit 9", NULL});
    pid_t pid;
    enum spawn_step step;
    CHECK_INT(spawn_start(&pid, &r, &step), 0);
    CHECK_INT(WEXITSTATUS(status_of(pid)), 9);
}

TEST(a_program_that_cannot_be_executed_is_reported_with_the_reason)
{
    struct guardian_rank missing = rank_of((char *[]){"no-such-program-anywhere", NULL});
    fails_with(&missing, ENOENT, SPAWN_EXEC);
    struct guardian_rank path = rank_of((char *[]){"/no/such/file", NULL});
    fails_with(&path, ENOENT, SPAWN_EXEC);
    struct guardian_rank forbidden = rank_of((char *[]){"/etc/passwd", NULL});
    fails_with(&forbidden, EACCES, SPAWN_EXEC);
    struct guardian_rank empty = rank_of((char *[]){"", NULL});
    fails_with(&empty, ENOENT, SPAWN_EXEC);
}

TEST(a_missing_directory_is_reported_as_chdir)
{
    struct guardian_rank r = rank_of((char *[]){"true", NULL});
    r.wdir = "/no/such/directory";
    fails_with(&r, ENOENT, SPAWN_CHDIR);
}

TEST(a_program_starts_in_its_directory)
{
    struct guardian_rank r = rank_of((char *[]){"pwd", NULL});
    r.wdir = "/usr";
    char *text = output_of(&r);
    CHECK_STR(text, "/usr\n");
    free(text);
}

TEST(a_rank_writes_itself_into_its_control_group)
{
    char dir[] = "/tmp/test_spawn.XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    AUTO(free) char *procs = xasprintf("%s/cgroup.procs", dir);
    struct guardian_rank r = rank_of((char *[]){"cat", procs, NULL});
    r.cgroup = dir;
    fails_with(&r, ENOENT, SPAWN_CGROUP);
    AUTO(fd) int fd = open(procs, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    char *text = output_of(&r);
    CHECK_STR(text, "0");
    free(text);
    unlink(procs);
    rmdir(dir);
}

/* Returns a directory where this process may create a control group of version 2; NULL: there is
 * none. The caller frees it. */
static char *real_group(void)
{
    AUTO(file) FILE *mounts = fopen("/proc/self/mounts", "re");
    AUTO(file) FILE *own = fopen("/proc/self/cgroup", "re");
    char line[1024], at[512] = "", kind[64], path[512] = "";
    while (mounts && fgets(line, sizeof line, mounts))
        if (sscanf(line, "%*s %511s %63s", at, kind) == 2 && strcmp(kind, "cgroup2") == 0)
            break;
        else
            at[0] = '\0';
    while (own && fgets(line, sizeof line, own) && sscanf(line, "0::%511s", path) != 1)
        ;
    AUTO(free) char *dir = xasprintf("%s%s/drover-test-%d", at, path, (int)getpid());
    return at[0] && path[0] && mkdir(dir, 0700) == 0 ? TAKE(dir) : NULL;
}

TEST(the_kernel_shows_the_rank_in_its_control_group)
{
    AUTO(free) char *dir = real_group();
    if (!dir)
        SKIP("no control group of version 2 that may be divided");
    struct guardian_rank r = rank_of((char *[]){"cat", "/proc/self/cgroup", NULL});
    r.cgroup = dir;
    char *text = output_of(&r);
    int removed = rmdir(dir);
    CHECK_HAS(text, strrchr(dir, '/'));
    CHECK_INT(removed, 0);
    free(text);
}

TEST(invalid_cpus_are_reported_as_bind)
{
    const char *const bad[] = {"", "x", "3-", "100000"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct guardian_rank r = rank_of((char *[]){"true", NULL});
        r.cpus = bad[i];
        pid_t pid;
        enum spawn_step step;
        CHECK_INT(spawn_start(&pid, &r, &step),
                  -EINVAL); /* no CPU of this machine: the kernel's error */
        CHECK_INT(step, SPAWN_BIND);
    }
}

TEST(a_rank_is_bound_before_its_program_starts)
{
    cpu_set_t allowed;
    CHECK_INT(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &allowed))
        last--;
    char cpus[16], want[64];
    snprintf(cpus, sizeof cpus, "%d", last);
    snprintf(want, sizeof want, "Cpus_allowed_list:\t%d\n", last);
    struct guardian_rank r =
        rank_of((char *[]){"grep", "^Cpus_allowed_list", "/proc/self/status", NULL});
    r.cpus = cpus;
    char *text = output_of(&r);
    CHECK_STR(text, want);
    free(text);
}

TEST(the_memory_of_a_rank_is_bound_if_the_kernel_allows_it)
{
    if (access("/proc/self/numa_maps", R_OK) < 0)
        SKIP("this kernel knows no NUMA nodes");
    struct guardian_rank r = rank_of((char *[]){"head", "-n1", "/proc/self/numa_maps", NULL});
    char *plain = output_of(&r);
    CHECK_HAS(plain, "default");
    r.mems = "0";
    char *text = output_of(&r);
    if (strstr(text, "default"))
        SKIP("this container forbids set_mempolicy");
    CHECK_HAS(text, "bind:0");
    free(plain);
    free(text);
}

TEST(the_program_is_searched_in_the_ranks_own_path)
{
    char dir[] = "/tmp/drover-spawn-XXXXXX", file[64], path[64];
    CHECK(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/only-here", dir);
    snprintf(path, sizeof path, "PATH=/nowhere:%s:/usr/bin:/bin", dir);
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    CHECK(write(fd, "echo found $1\n", 14) == 14); /* without #!: the shell runs it */
    close(fd);
    char *env[] = {path, NULL};
    struct guardian_rank r = rank_of((char *[]){"only-here", "it", NULL});
    fails_with(&r, ENOENT, SPAWN_EXEC);
    r.env = env;
    char *text = output_of(&r);
    unlink(file);
    rmdir(dir);
    CHECK_STR(text, "found it\n");
    free(text);
}

TEST(a_rank_has_its_environment_and_nothing_of_drovers)
{
    setenv("OURS", "1", 1);
    char *env[] = {"PATH=/usr/bin:/bin", "X=a b", NULL};
    struct guardian_rank r = rank_of((char *[]){"env", NULL});
    r.env = env;
    char *text = output_of(&r);
    CHECK_STR(text, "PATH=/usr/bin:/bin\nX=a b\n");
    free(text);
}

/* The descriptors are our own low ones, crossed: nothing may be overwritten before it is used. */
TEST(descriptors_arrive_though_they_cross_and_no_other_does)
{
    int in[2], out[2], report[2], pmi[2];
    CHECK(pipe(in) == 0 && pipe(out) == 0 && pipe(report) == 0 && pipe(pmi) == 0);
    CHECK_INT(fcntl(2, F_DUPFD, 60), 60); /* inheritable on purpose */
    CHECK(write(in[1], "hello\n", 6) == 6);
    int saved_err = fcntl(2, F_DUPFD_CLOEXEC, 70);
    /* 0: report, 1: stdin, 2: stdout, 3: stderr */
    CHECK(dup2(report[1], 0) == 0 && dup2(in[0], 1) == 1 && dup2(out[1], 2) == 2);
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 3);
    char *argv[] = {"sh", "-c",
                    "read x; echo $x; echo r >&3; echo p >&4; echo e >&2; exec ls /proc/self/fd",
                    NULL};
    struct guardian_rank r = rank_of(argv);
    memcpy(r.fds, (int[]){1, 2, 3}, sizeof r.fds);
    r.report_fd = 0;
    r.pmi_fd = pmi[1];
    pid_t pid;
    enum spawn_step step;
    int rc = spawn_start(&pid, &r, &step);
    dup2(saved_err, 2);
    CHECK_INT(rc, 0);
    CHECK_INT(WEXITSTATUS(status_of(pid)), 0);
    char text[64] = "";
    CHECK(read(out[0], text, sizeof text - 1) > 0);
    CHECK_STR(text, "hello\n0\n1\n2\n3\n4\n5\n"); /* 5 is what ls reads the directory by */
    CHECK_INT(read(report[0], text, sizeof text), 2);
    CHECK_INT(read(pmi[0], text, sizeof text), 2);
}

TEST(a_descriptor_may_exist_without_the_one_before_it)
{
    int pmi[2];
    CHECK(pipe(pmi) == 0);
    while (open("/dev/null", O_RDONLY) < 10) /* inheritable: 3 is one of them */
        ;
    struct guardian_rank r =
        rank_of((char *[]){"sh", "-c", "echo p >&4; exec ls /proc/self/fd", NULL});
    r.pmi_fd = pmi[1];
    char *text = output_of(&r);
    CHECK_STR(text, "0\n1\n2\n3\n4\n"); /* 3 is what ls reads the directory by */
    free(text);
    CHECK_INT(read(pmi[0], (char[4]){0}, 4), 2);
}

TEST(signals_are_as_a_program_expects_them)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    spawn_default_signals();
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    char *argv[] = {"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status", NULL};
    struct guardian_rank r = rank_of(argv);
    char *text = output_of(&r);
    CHECK_STR(text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    free(text);
}

TEST(a_rank_leads_a_group_as_soon_as_its_pid_is_known)
{
    struct guardian_rank r = rank_of((char *[]){"sleep", "1000", NULL});
    pid_t pid;
    enum spawn_step step;
    CHECK_INT(spawn_start(&pid, &r, &step), 0);
    CHECK_INT(getpgid(pid), pid);
    CHECK_INT(kill(-pid, SIGKILL), 0);
    CHECK_INT(WTERMSIG(status_of(pid)), SIGKILL);
}

TEST(a_rank_dies_with_its_parent)
{
    int told[2], life[2];
    CHECK(pipe(told) == 0 && pipe(life) == 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct guardian_rank r = rank_of((char *[]){"sleep", "1000", NULL});
        r.fds[1] = life[1]; /* closed when the rank has ended */
        pid_t pid;
        enum spawn_step step;
        CHECK_INT(spawn_start(&pid, &r, &step), 0);
        CHECK(write(told[1], &pid, sizeof pid) == sizeof pid);
        kill(getpid(), SIGKILL);
    }
    close(life[1]);
    pid_t pid;
    CHECK_INT(read(told[0], &pid, sizeof pid), sizeof pid);
    struct pollfd p = {.fd = life[0]};
    CHECK_INT(poll(&p, 1, 10000), 1);
    CHECK(p.revents & POLLHUP);
    CHECK_INT(WTERMSIG(status_of(parent)), SIGKILL);
}
