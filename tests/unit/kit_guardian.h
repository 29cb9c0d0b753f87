/* kit_guardian - a guardian on a loop, shell scripts as ranks, and their events. */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/strbuf.h"
#include "launcher/guardian/guardian.h"
#include "launcher/guardian/process_tree.h"
#include "tests/unit/test.h"

/* A daemon of a rank in its own session; it prints "up" when it runs. */
#define DAEMON "setsid sh -c 'echo up; exec sleep 1000' & "
/* The same without the rank's environment, and its parent has exited. */
#define NAMELESS_DAEMON "(env -i /usr/bin/setsid /bin/sh -c 'echo up; exec /bin/sleep %s' &) & "

enum { KIT_LIMIT_MS = 10000, KIT_EVENTS_MAX = 4096 };
enum kit_kind { KIT_STARTED, KIT_NOT_STARTED, KIT_EXITED, KIT_REAPED, KIT_DIED };

struct kit_event {
    enum kit_kind kind;
    uint32_t job;
    int rank;
    int value; /* pid, errno, wait status */
    char step[8];
    bool reaped; /* of an exit */
};

struct kit {
    uv_loop_t loop;
    uv_timer_t deadline;
    struct guardian *g;
    struct kit_event events[KIT_EVENTS_MAX];
    int count;
    char mark[64];    /* in the environment of every rank: "KIT_MARK=..." */
    char seconds[32]; /* that only daemons of this test sleep: "sleep %s" in a script */
};

static inline void kit_hear(void *arg, struct kit_event e)
{
    struct kit *k = arg;
    CHECK(k->count < KIT_EVENTS_MAX);
    k->events[k->count++] = e;
    uv_stop(
        &k->loop); /* else a turn that began with a timer's event would wait for another event */
}

static void kit_started(void *arg, uint32_t job, int rank, pid_t pid)
{
    kit_hear(arg, (struct kit_event){KIT_STARTED, job, rank, pid, "", false});
}

static void kit_not_started(void *arg, uint32_t job, int rank, int error, const char *step)
{
    struct kit_event e = {KIT_NOT_STARTED, job, rank, error, "", false};
    snprintf(e.step, sizeof e.step, "%s", step);
    kit_hear(arg, e);
}

static void kit_exited(void *arg, uint32_t job, int rank, int wait_status, bool reaped)
{
    kit_hear(arg, (struct kit_event){KIT_EXITED, job, rank, wait_status, "", reaped});
}

static void kit_reaped(void *arg, uint32_t job)
{
    kit_hear(arg, (struct kit_event){KIT_REAPED, job, -1, 0, "", false});
}

static void kit_died(void *arg)
{
    kit_hear(arg, (struct kit_event){KIT_DIED, 0, -1, 0, "", false});
}

static const struct guardian_events kit_watcher = {kit_started, kit_not_started, kit_exited,
                                                   kit_reaped, kit_died};

static inline int64_t kit_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline void kit_open_with(struct kit *k, int (*start)(struct guardian **, struct err *))
{
    struct err e = {0};
    memset(k, 0, sizeof *k);
    snprintf(k->mark, sizeof k->mark, "KIT_MARK=%d.%lld", (int)getpid(), (long long)kit_now_ms());
    snprintf(k->seconds, sizeof k->seconds, "1234.%d", (int)getpid());
    if (start(&k->g, &e) < 0)
        FAIL("%s", e.text);
    CHECK_INT(uv_loop_init(&k->loop), 0);
    uv_timer_init(&k->loop, &k->deadline);
    if (guardian_attach(k->g, &k->loop, &kit_watcher, k, &e) < 0)
        FAIL("%s", e.text);
}

static inline void kit_open(struct kit *k)
{
    kit_open_with(k, guardian_start);
}

/* Returns the guardian itself, its monitor's only child; waits until it is forked. */
static inline pid_t kit_guardian(const struct guardian *g)
{
    int64_t deadline = kit_now_ms() + KIT_LIMIT_MS;
    for (;; poll(NULL, 0, 1)) {
        struct process_tree w = {0};
        CHECK_INT(process_tree_scan(&w), 0);
        pid_t pid = 0;
        for (size_t i = 0; i < w.count; i++)
            if (w.all[i].parent == guardian_monitor_pid(g))
                pid = w.all[i].pid;
        process_tree_free(&w);
        if (pid)
            return pid;
        CHECK(kit_now_ms() < deadline);
    }
}

/* Closes the kit. The loop must have nothing left. */
static inline void kit_close(struct kit *k)
{
    guardian_detach(k->g);
    guardian_stop(k->g);
    uv_close((uv_handle_t *)&k->deadline, NULL);
    CHECK_INT(uv_run(&k->loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&k->loop), 0);
}

static inline struct kit_event *kit_find(struct kit *k, enum kit_kind kind, uint32_t job, int rank)
{
    for (int i = 0; i < k->count; i++) {
        struct kit_event *e = &k->events[i];
        if (e->kind == kind && e->job == job && e->rank == rank)
            return e;
    }
    return NULL;
}

static inline void kit_too_late(uv_timer_t *t)
{
    FAIL("an awaited event did not come");
}

/* Runs the loop until the event occurs. */
static inline struct kit_event *kit_await(struct kit *k, enum kit_kind kind, uint32_t job, int rank)
{
    uv_timer_start(&k->deadline, kit_too_late, KIT_LIMIT_MS, 0);
    struct kit_event *e;
    while (!(e = kit_find(k, kind, job, rank)))
        uv_run(&k->loop, UV_RUN_ONCE);
    uv_timer_stop(&k->deadline);
    return e;
}

static inline void kit_kill_tree(struct kit *k, uint32_t job)
{
    guardian_kill_tree(k->g, job);
    kit_await(k, KIT_REAPED, job, -1);
}

/* Requests a rank. Returns the descriptor of its output. */
static inline int kit_spawn_argv(struct kit *k, uint32_t job, int rank, char *const *argv)
{
    char id[64];
    snprintf(id, sizeof id, "DROVER_JOB_ID=job-%u-%d", job, (int)getpid());
    char *env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", id, k->mark, NULL};
    int ends[2], null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(null >= 0 && pipe2(ends, O_CLOEXEC) == 0);
    struct guardian_rank r = {.rank = rank,
                              .argv = argv,
                              .env = env,
                              .fds = {null, ends[1], ends[1]},
                              .report_fd = -1,
                              .pmi_fd = -1};
    struct err e = {0};
    if (guardian_spawn(k->g, job, &r, &e) < 0)
        FAIL("%s", e.text);
    close(null);
    close(ends[1]);
    return ends[0];
}

/* Replaces a %s in the script by k->seconds. */
static inline int kit_spawn(struct kit *k, uint32_t job, int rank, const char *script)
{
    char text[1024];
    snprintf(text, sizeof text, script, k->seconds);
    char *argv[] = {"sh", "-c", text, NULL};
    return kit_spawn_argv(k, job, rank, argv);
}

/* Up to the next newline, which is dropped, or the end. The loop runs meanwhile, since messages may
 * still be on their way out. */
static inline const char *kit_line(struct kit *k, int fd)
{
    static char line[4096];
    size_t len = 0;
    int64_t deadline = kit_now_ms() + KIT_LIMIT_MS;
    while (len < sizeof line - 1) {
        uv_run(&k->loop, UV_RUN_NOWAIT);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 5) == 0) {
            if (kit_now_ms() > deadline)
                FAIL("an awaited line did not come");
            continue;
        }
        if (read(fd, line + len, 1) != 1 || line[len] == '\n')
            break;
        len++;
    }
    line[len] = '\0';
    return line;
}

/* All that comes until every writer has closed, with the loop running. */
static inline char *kit_output(struct kit *k, int fd)
{
    struct strbuf all = {0};
    int64_t deadline = kit_now_ms() + KIT_LIMIT_MS;
    for (;;) {
        uv_run(&k->loop, UV_RUN_NOWAIT);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 5) == 0) {
            if (kit_now_ms() > deadline)
                FAIL("an awaited end of output did not come");
            continue;
        }
        char bytes[4096];
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n <= 0)
            return strbuf_take(&all);
        strbuf_add(&all, bytes, (size_t)n);
    }
}

static inline bool kit_file_has(const char *pid, const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    static char bytes[1 << 20];
    ssize_t n = read(fd, bytes, sizeof bytes);
    close(fd);
    return n > 0 && memmem(bytes, (size_t)n, text, strlen(text)) != NULL;
}

/* How many living processes have `text` in their environment or arguments. One that is just being
 * replaced by another program shows neither. */
static inline int kit_living(const char *text)
{
    int n = 0;
    DIR *proc = opendir("/proc");
    CHECK(proc);
    for (struct dirent *d; (d = readdir(proc));)
        n += d->d_name[0] >= '1' && d->d_name[0] <= '9' && atoi(d->d_name) != getpid() &&
             (kit_file_has(d->d_name, "environ", text) || kit_file_has(d->d_name, "cmdline", text));
    closedir(proc);
    return n;
}

/* For processes that have been told to be there: they may be on the way from one program to
 * another.
 */
static inline void kit_await_living(const char *text, int want)
{
    int64_t deadline = kit_now_ms() + KIT_LIMIT_MS;
    for (int n; (n = kit_living(text)) != want;)
        if (kit_now_ms() > deadline)
            FAIL("%d processes have '%s', expected %d", n, text, want);
}
