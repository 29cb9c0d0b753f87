/* session_dir: private, removed when the process ends, and cleaned up after killed processes. */
#include "launcher/node/session_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/unit/test.h"

static char tmp[64];

static void own_tmp(void)
{
    snprintf(tmp, sizeof tmp, "/tmp/drover-test-XXXXXX");
    CHECK(mkdtemp(tmp));
    setenv("TMPDIR", tmp, 1);
}

static void remove_tmp(void)
{
    AUTO(free) char *command = xasprintf("rm -r '%s'", tmp);
    CHECK_INT(system(command), 0);
}

static void put_something(const char *dir)
{
    AUTO(free) char *sub = xasprintf("%s/sub", dir);
    AUTO(free) char *file = xasprintf("%s/file", sub);
    CHECK_INT(mkdir(sub, 0700), 0);
    AUTO(file) FILE *f = fopen(file, "w");
    CHECK(f != NULL);
}

TEST(it_is_ours_alone_and_goes_with_all_that_is_in_it)
{
    own_tmp();
    struct session_dir *w = NULL;
    CHECK_INT(session_dir_open(&w, NULL), 0);
    AUTO(free) char *path = xstrdup(session_dir_path(w));
    struct stat st;
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0700);
    put_something(path);
    session_dir_close(w);
    CHECK(stat(path, &st) < 0 && errno == ENOENT);
    remove_tmp();
}

TEST(what_a_killed_process_has_left_is_removed_by_the_next_and_the_livings_is_not)
{
    own_tmp();
    AUTO(session_dir) struct session_dir *living = NULL;
    CHECK_INT(session_dir_open(&living, NULL), 0);
    int told[2];
    CHECK(pipe(told) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct session_dir *w = NULL;
        if (session_dir_open(&w, NULL) < 0)
            _exit(1);
        put_something(session_dir_path(w));
        (void)!write(told[1], session_dir_path(w), strlen(session_dir_path(w)));
        raise(SIGKILL);
    }
    char path[256] = "";
    CHECK(read(told[0], path, 200) > 0);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    struct stat st;
    CHECK_INT(stat(path, &st), 0);
    struct session_dir *next = NULL;
    CHECK_INT(session_dir_open(&next, NULL), 0);
    CHECK(stat(path, &st) < 0 && errno == ENOENT);
    CHECK_INT(stat(session_dir_path(living), &st), 0);
    session_dir_close(next);
    session_dir_close(TAKE(living));
    remove_tmp();
}

/* Creates a file with the name that Open MPI uses for the job. */
static char *put_segment(const char *name)
{
    char *path = xasprintf("%s/%s", tmp, name);
    AUTO(file) FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    return path;
}

TEST(a_jobs_shared_memory_goes_at_its_end_or_with_the_directory)
{
    own_tmp();
    struct session_dir *w = NULL;
    CHECK_INT(session_dir_open(&w, NULL), 0);
    session_dir_job_begins(w, "drover-9179-1edf0c7b", tmp);
    session_dir_job_begins(w, "job-a", tmp);
    session_dir_job_begins(w, "not-there", "/nowhere");
    AUTO(free) char *first = put_segment("vader_segment.vm.0.cb7728b0.0");
    AUTO(free) char *second = put_segment("vader_segment.vm.0.a59646e6.0");
    AUTO(free) char *strangers = put_segment("vader_segment.vm.0.a59646e7.0");
    session_dir_job_ends(w, "drover-9179-1edf0c7b");
    CHECK(access(first, F_OK) < 0);
    CHECK_INT(access(second, F_OK), 0);
    session_dir_close(w);
    CHECK(access(second, F_OK) < 0);
    CHECK_INT(access(strangers, F_OK), 0);
    remove_tmp();
}

TEST(it_is_not_in_a_place_that_others_can_reach)
{
    own_tmp();
    AUTO(free) char *parent = xasprintf("%s/drover-%u", tmp, (unsigned)geteuid());
    CHECK_INT(mkdir(parent, 0700), 0);
    CHECK_INT(chmod(parent, 0755), 0);
    AUTO(session_dir) struct session_dir *w = NULL;
    CHECK_INT(session_dir_open(&w, NULL), 0);
    AUTO(free) char *path = xstrdup(session_dir_path(w));
    CHECK(strncmp(path, parent, strlen(parent)) == 0 && path[strlen(parent)] == '-');
    put_something(path);
    session_dir_close(TAKE(w));
    CHECK(access(path, F_OK) < 0);
    remove_tmp();
}

TEST(a_reserved_directory_is_made_when_it_is_needed)
{
    own_tmp();
    AUTO(session_dir) struct session_dir *w = NULL;
    CHECK_INT(session_dir_reserve(&w, NULL), 0);
    AUTO(free) char *path = xstrdup(session_dir_path(w));
    CHECK(access(path, F_OK) < 0);
    CHECK_INT(session_dir_make(w, NULL), 0);
    CHECK_INT(session_dir_make(w, NULL), 0);
    put_something(path);
    session_dir_remove_stale(); /* this process has it */
    CHECK_INT(access(path, F_OK), 0);
    session_dir_close(TAKE(w));
    CHECK(access(path, F_OK) < 0);
    CHECK_INT(session_dir_reserve(&w, NULL), 0);
    session_dir_close(TAKE(w));
    remove_tmp();
}

TEST(an_error_file_that_a_killed_process_has_left_is_removed_after_a_day)
{
    own_tmp();
    AUTO(free) char *fresh = NULL;
    AUTO(free) char *old = NULL;
    CHECK_INT(session_dir_beside(&fresh, SESSION_DIR_ERROR, NULL), 0);
    CHECK_INT(session_dir_beside(&old, SESSION_DIR_ERROR, NULL), 0);
    CHECK(strcmp(fresh, old) != 0);
    CHECK_INT(close(creat(fresh, 0600)), 0);
    CHECK_INT(close(creat(old, 0600)), 0);
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - 90000}};
    CHECK_INT(utimensat(AT_FDCWD, old, times, 0), 0);
    session_dir_remove_stale();
    CHECK_INT(access(fresh, F_OK), 0);
    CHECK(access(old, F_OK) < 0);
    remove_tmp();
}

TEST(a_place_that_is_not_there_is_an_error_that_names_it)
{
    own_tmp();
    remove_tmp();
    struct err e = {0};
    struct session_dir *w = NULL;
    CHECK_INT(session_dir_open(&w, &e), -ENOENT);
    CHECK_HAS(e.text, tmp);
}

/* ---- shared memory -------------------------------------------------------------------------- */

/* Names that Open MPI 4.1.4 has used for the files of this job. */
#define JOB "drover-9179-1edf0c7b"

TEST(a_jobs_shared_memory_is_known_by_its_namespace)
{
    static const struct {
        const char *file;
        bool of_job;
    } cases[] = {
        {"vader_segment.", false},
        {"vader_segment.vm.0.cb7728b0.1", true},
        {"vader_segment.c03.example.org.1000.cb7728b0.17", true},
        {"osc_sm.vm.cb7728b0.3.1", true},
        {"osc_rdma.vm.cb7728b0.3", true},
        {"vader_segment.vm.0.cb7728b1.1", false},
        {"vader_segment.vm.0.1cb7728b0.1", false},
        {"other.vm.0.cb7728b0.1", false},
        {"else", false},
    };
    own_tmp();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *path = xasprintf("%s/%s", tmp, cases[i].file);
        AUTO(file) FILE *f = fopen(path, "w");
        CHECK(f != NULL);
        if (i == 0)
            session_dir_remove_shm(tmp, "");
    }
    AUTO(free) char *dir = xasprintf("%s/osc_sm.vm.cb7728b0.0", tmp);
    CHECK_INT(mkdir(dir, 0700), 0); /* not a file */
    session_dir_remove_shm(tmp, "drover-9179-1edf0c7c");
    for (int removed = 0; removed < 2; removed++) {
        for (size_t i = 0; i < COUNT_OF(cases); i++) {
            AUTO(free) char *path = xasprintf("%s/%s", tmp, cases[i].file);
            CHECK_INT(access(path, F_OK) < 0, removed && cases[i].of_job);
        }
        CHECK_INT(access(dir, F_OK), 0);
        session_dir_remove_shm(tmp, JOB);
    }
    session_dir_remove_shm("/nowhere", JOB);
    remove_tmp();
}
