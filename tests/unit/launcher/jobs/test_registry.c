/* registry: running jobs are listed, and jobs that have ended are not, whatever files they left. */
#include "launcher/jobs/registry.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/unit/test.h"

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

/* A runtime directory of the test's own. */
static void with_dir(void (*test)(const char *dir))
{
    char dir[] = "/tmp/drover-registry-XXXXXX";
    CHECK(mkdtemp(dir));
    setenv("XDG_RUNTIME_DIR", dir, 1);
    test(dir);
    CHECK_INT(nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static struct registry *enter(const char *id)
{
    struct registry *r = NULL;
    struct err e = {0};
    const struct registry_job j = {.id = (char *)id,
                                   .command = (char *)"./train --lr 0.1",
                                   .ranks = 4,
                                   .nodes = (char *)"n1,n2",
                                   .output_dir = (char *)""};
    if (registry_enter(&r, &j, &e) < 0)
        FAIL("%s", e.text);
    return r;
}

/* The jobs whose ids begin with "t-": other jobs of this user may run at the same time. */
static int count_ours(void)
{
    struct registry_list l;
    registry_read(&l);
    int n = 0;
    for (size_t i = 0; i < l.count; i++)
        n += strncmp(l.at[i].id, "t-", 2) == 0;
    registry_end(&l);
    return n;
}

static int files_in(const char *dir)
{
    AUTO(free) char *path = xasprintf("%s/drover/jobs", dir);
    DIR *d = opendir(path);
    CHECK(d);
    int n = 0;
    for (const struct dirent *f; (f = readdir(d));)
        n += f->d_name[0] != '.';
    closedir(d);
    return n;
}

static void lists(const char *dir)
{
    struct registry *r = enter("t-1");
    struct registry_list l;
    registry_read(&l);
    const struct registry_job *j = NULL;
    struct err e = {0};
    CHECK_INT(registry_find(&j, &l, "t-1", &e), 0);
    CHECK_INT(j->pid, getpid());
    CHECK_INT(j->ranks, 4);
    CHECK_STR(j->command, "./train --lr 0.1");
    CHECK_STR(j->nodes, "n1,n2");
    CHECK_STR(j->lines, registry_lines(r));
    AUTO(free) char *cwd = getcwd(NULL, 0);
    CHECK_STR(j->dir, cwd);
    CHECK(j->started_ms > 1600000000000 && registry_is_alive(j));
    registry_end(&l);
    registry_leave(r);
    CHECK_INT(count_ours(), 0);
    CHECK_INT(files_in(dir), 0);
}

TEST(a_job_is_listed_as_long_as_it_is_there)
{
    with_dir(lists);
}

static void private(const char *dir)
{
    AUTO(registry) struct registry *r = NULL;
    r = enter("t-1");
    static const char *const parts[] = {"", "/jobs"};
    struct stat st;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        AUTO(free) char *path = xasprintf("%s/drover%s", dir, parts[i]);
        CHECK_INT(stat(path, &st), 0);
        CHECK_INT(st.st_mode & 07777, 0700);
    }
    AUTO(free) char *jobs = xasprintf("%s/drover/jobs", dir);
    CHECK_INT(count_ours(), 1);
    CHECK_INT(chmod(jobs, 0777), 0); /* any user could have put files there */
    CHECK_INT(count_ours(), 0);
    CHECK_INT(chmod(jobs, 0700), 0);
}

TEST(the_directories_are_ours_alone_or_are_not_believed)
{
    with_dir(private);
}

static void stale(const char *dir)
{
    int ready[2];
    CHECK_INT(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct registry *r = enter("t-killed");
        close(open(registry_lines(r), O_CREAT | O_WRONLY, 0600));
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    char c;
    CHECK_INT(read(ready[0], &c, 1), 1);
    CHECK_INT(count_ours(), 1);
    kill(pid, SIGKILL);
    siginfo_t info;
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    CHECK_INT(files_in(dir), 2);
    CHECK_INT(count_ours(), 0); /* a zombie is not a job either */
    CHECK_INT(files_in(dir), 0);
    waitpid(pid, NULL, 0);
}

TEST(what_a_killed_drover_has_left_is_removed_by_who_sees_it)
{
    with_dir(stale);
}

static void reused(const char *dir)
{
    AUTO(registry) struct registry *r = NULL;
    r = enter("t-1");
    struct registry_list l;
    registry_read(&l);
    const struct registry_job *j = NULL;
    struct err e = {0};
    CHECK_INT(registry_find(&j, &l, "t-1", &e), 0);
    struct registry_job other = *j;
    other.start--;
    CHECK(!registry_is_alive(&other));
    registry_end(&l);
}

TEST(another_process_with_the_pid_is_not_the_job)
{
    with_dir(reused);
}

static void foreign(const char *dir)
{
    AUTO(registry) struct registry *r = NULL;
    r = enter("t-1");
    AUTO(free) char *path = xasprintf("%s/drover/jobs/t-2.1.json", dir); /* another namespace's */
    AUTO(file) FILE *f = fopen(path, "we");
    fputs("{}", f);
    CHECK_INT(count_ours(), 1);
    CHECK_INT(access(path, F_OK), 0);
}

TEST(jobs_of_other_pid_namespaces_are_left_alone)
{
    with_dir(foreign);
}

static void garbage(const char *dir)
{
    AUTO(registry) struct registry *r = NULL;
    r = enter("t-1");
    AUTO(free) char *jobs = xasprintf("%s/drover/jobs", dir);
    DIR *d = opendir(jobs);
    const struct dirent *f;
    while ((f = readdir(d)) && f->d_name[0] == '.')
        ;
    CHECK(f);
    static const char *const texts[] = {"", "{", "[]", "{\"id\":1}", "{\"id\":\"t-x\",\"pid\":1}"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        AUTO(free) char *path = xasprintf("%s/%zu%s", jobs, i, strchr(f->d_name, '.'));
        AUTO(file) FILE *bad = fopen(path, "we");
        fputs(texts[i], bad);
    }
    AUTO(free) char *path = xasprintf("%s/%s", jobs, f->d_name);
    AUTO(free) char *wide = xasprintf("%s/wide%s", jobs, strchr(f->d_name, '.'));
    AUTO(json) json_t *job = json_load_file(path, 0, NULL);
    json_int_t pid = json_integer_value(json_object_get(job, "pid"));
    json_object_set_new(job, "pid", json_integer(pid + (1LL << 32))); /* cut to an int: alive */
    CHECK_INT(json_dump_file(job, wide, 0), 0);
    closedir(d);
    CHECK_INT(count_ours(), 1);
}

TEST(files_that_are_no_jobs_are_not_listed)
{
    with_dir(garbage);
}

static void by_prefix(const char *dir)
{
    AUTO(registry) struct registry *a = NULL;
    a = enter("drover-777001-aa");
    AUTO(registry) struct registry *b = NULL;
    b = enter("drover-777002-bb");
    AUTO(registry) struct registry *c = NULL;
    c = enter("drover-777002");
    struct registry_list l;
    registry_read(&l);
    const struct registry_job *j = NULL;
    struct err e = {0};
    CHECK_INT(registry_find(&j, &l, "drover-777001", &e), 0);
    CHECK_STR(j->id, "drover-777001-aa");
    CHECK_INT(registry_find(&j, &l, "777001", &e), 0);
    CHECK_STR(j->id, "drover-777001-aa");
    CHECK_INT(registry_find(&j, &l, "drover-777002", &e), 0); /* the whole name */
    CHECK_STR(j->id, "drover-777002");
    CHECK_INT(registry_find(&j, &l, "7770", &e), -EEXIST);
    CHECK_HAS(e.text, "'7770'");
    CHECK_INT(registry_find(&j, &l, "nobody", &e), -ENOENT);
    CHECK_HAS(e.hint, "drover ps");
    registry_end(&l);
}

TEST(a_job_is_found_by_the_beginning_of_its_name_or_number)
{
    with_dir(by_prefix);
}

TEST(where_there_is_no_runtime_directory_tmp_is_used)
{
    setenv("XDG_RUNTIME_DIR", "/no/such/directory", 1);
    AUTO(registry) struct registry *r = NULL;
    r = enter("t-tmp");
    CHECK_HAS(registry_lines(r), "/tmp/drover-");
    CHECK_INT(count_ours(), 1);
}

TEST(a_name_that_would_lead_elsewhere_is_refused)
{
    struct registry *r = NULL;
    struct err e = {0};
    CHECK_INT(registry_enter(&r, &(struct registry_job){.id = (char *)"../x"}, &e), -EINVAL);
}

static void costs(const char *dir)
{
    struct timespec a, b;
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        clock_gettime(CLOCK_MONOTONIC, &a);
        struct registry *r = enter("t-1");
        clock_gettime(CLOCK_MONOTONIC, &b);
        registry_leave(r);
        double us = (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
        best = us < best ? us : best;
    }
    printf("# %.0f us to enter\n", best);
    fflush(stdout);
    CHECK_TIME(best < 1000); /* 43 on two cores; sanitizers take five times as long */
}

TEST(entering_takes_less_than_a_millisecond)
{
    with_dir(costs);
}

static void lists_sweeps(const char *dir)
{
    struct registry *sweep = NULL, *trial = NULL, *job = enter("t-1");
    struct err e = {0};
    char *argv[] = {(char *)"./t", (char *)"--api-key", (char *)"hidden", NULL};
    CHECK_INT(registry_enter_sweep(&sweep, "t-s", "/w/sweeps/t-s", &e), 0);
    CHECK_INT(registry_enter_trial(&trial, "t-s", 17, 2, argv, "/w/out", &e), 0);
    struct registry_list l;
    registry_read(&l);
    const struct registry_job *j = NULL;
    CHECK_INT(registry_find(&j, &l, "sweep-t-s", &e), 0);
    CHECK_INT(j->kind, REGISTRY_SWEEP);
    CHECK_STR(j->sweep, "t-s");
    CHECK_STR(j->command, "sweep t-s in /w/sweeps/t-s");
    CHECK_INT(registry_find(&j, &l, "trial-t-s.17", &e), 0);
    CHECK_INT(j->kind, REGISTRY_TRIAL);
    CHECK_INT(j->trial, 17);
    CHECK_INT(j->ranks, 2);
    CHECK_STR(j->command, "./t --api-key ***");
    CHECK_STR(j->output_dir, "/w/out");
    AUTO(json) json_t *as_json = registry_json(j);
    CHECK_STR(json_string_value(json_object_get(as_json, "kind")), "trial");
    CHECK_INT(registry_find(&j, &l, "t-1", &e), 0);
    CHECK_INT(j->kind, REGISTRY_JOB);
    CHECK(!j->sweep);
    registry_end(&l);
    registry_leave(trial);
    registry_leave(sweep);
    registry_leave(job);
    CHECK_INT(files_in(dir), 0);
}

TEST(sweeps_and_their_trials_are_jobs_of_their_own_kind)
{
    with_dir(lists_sweeps);
}
