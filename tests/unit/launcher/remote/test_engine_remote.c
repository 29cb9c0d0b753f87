/* engine_remote: whole jobs whose agents run on this machine. They behave as jobs of the local
 * engine. */
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include "launcher/guardian/process_tree.h"
#include "tests/unit/kit_launch.h"

TEST(lines_of_ranks_arrive_and_the_status_is_0)
{
    AUTO(fixture) struct fixture *f = open_all();
    AUTO(hosts) struct hosts *hosts = two_hosts(1, 2);
    char *argv[4];
    struct launch_spec s = far_script(3, argv, "echo a$RANK/$WORLD_SIZE; echo b$RANK >&2");
    s.hosts = hosts;
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_HAS(strbuf_str(&h->out), "0oa0/3|");
    CHECK_HAS(strbuf_str(&h->out), "2oa2/3|");
    CHECK_HAS(strbuf_str(&h->out), "1eb1|");
    CHECK_INT(h->end.status, 0);
    CHECK_INT(h->ranks_ended, 3);
}

TEST(stdout_is_a_pty_there_too_unless_the_job_forbids_it)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s =
        far_script(1, argv, "for i in 0 1 2; do [ -t $i ] && printf t || printf n; done");
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_STR(strbuf_str(&h->out), "0ontn|");
    s.node.no_pty = true;
    h = begin(f, 1, &s);
    until_over(h);
    CHECK_STR(strbuf_str(&h->out), "0onnn|");
}

/* The credit of a rank whose bytes wait for the other rank's turn is sent later, so both end. */
TEST(long_lines_of_two_ranks_arrive_whole)
{
    enum { LEN = 3000000 };
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = far_script(
        2, argv, "for i in 1 2; do head -c 3000000 /dev/zero | tr '\\0' $RANK; echo; done");
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_INT(h->end.status, 0);
    size_t len[2] = {0}; /* of the records "RANKoTEXT|", by rank */
    for (const char *p = strbuf_str(&h->out), *end; *p; p = end + 1) {
        int rank = *p - '0';
        end = strchr(p, '|');
        CHECK(end && (rank == 0 || rank == 1));
        CHECK_INT(len[!rank] % LEN, 0);
        len[rank] += (size_t)(end - p) - 2;
    }
    CHECK(len[0] == 2 * LEN && len[1] == 2 * LEN);
}

TEST(statuses_signals_and_missing_programs_are_reported)
{
    AUTO(fixture) struct fixture *f = open_all();
    AUTO(hosts) struct hosts *hosts = two_hosts(1, 1);
    char *argv[4];
    struct launch_spec s = far_script(2, argv, "[ $RANK = 1 ] || exec sleep 100; exit 9");
    s.hosts = hosts;
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_INT(h->end.status, 9);
    CHECK_INT(h->end.first_failed, 1);
    struct launch_spec t = far_script(1, argv, "kill -SEGV $$");
    h = begin(f, 1, &t);
    until_over(h);
    CHECK_INT(h->end.status, 128 + SIGSEGV);
    char *none[] = {(char *)"./no-such-program", NULL};
    struct launch_spec u = far_script(2, argv, "");
    u.argv = none;
    h = begin(f, 2, &u);
    until_over(h);
    CHECK_INT(h->end.status, 127);
    CHECK_HAS(h->end.first.start_error, "exec './no-such-program': No such file");
}

TEST(the_error_file_of_a_rank_on_another_node_arrives_with_its_exit)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    check_error_file(f, far_script(2, argv, KIT_WRITES_ERROR_FILE));
}

TEST(mpirun_starts_agents_too)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = far_script(3, argv, "echo $RANK of $WORLD_SIZE");
    s.engine = "openmpi";
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_HAS(strbuf_str(&h->out), "2o2 of 3|");
    CHECK_INT(h->end.status, 0);
    fprintf(stderr, "# %g s\n", h->end.seconds);
}

/* Creates a file; the test unlinks it. */
static char *temp_file(char *name, const void *bytes, size_t len)
{
    strcpy(name, "/tmp/drover-test-XXXXXX");
    int fd = mkstemp(name);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, bytes, len), len);
    close(fd);
    return name;
}

static char *random_bytes(size_t len, unsigned seed)
{
    char *b = xcalloc(len, 1);
    for (size_t i = 0; i < len; i++)
        b[i] = (char)(rand_r(&seed) >> 8);
    b[len - 1] = 'x'; /* no newline at the end */
    return b;
}

static bool file_is(const char *path, const char *bytes, size_t len)
{
    AUTO(free) char *got = xcalloc(len + 1, 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t at = 0;
    for (ssize_t n = 1; fd >= 0 && n > 0 && at <= len; at += (size_t)n)
        n = read(fd, got + at, len + 1 - at);
    if (fd >= 0)
        close(fd);
    return at == len && memcmp(got, bytes, len) == 0;
}

static bool count_only(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct heard *h = arg;
    h->bytes += len + (text[len] != '\0');
    if (h->pause_after == 0 || --h->pause_after > 0)
        return true;
    h->pause_after = 100;
    h->paused = true;
    uv_stop(&h->f->loop);
    return false;
}

static void bytes_come(int pause_after, int nodes)
{
    enum { LEN = 8 << 20 };
    AUTO(fixture) struct fixture *f = open_all();
    AUTO(hosts) struct hosts *hosts = two_hosts(1, 1);
    AUTO(free) char *bytes = random_bytes(LEN, 7);
    char name[40], dir[] = "/tmp/drover-test-XXXXXX", *argv[4];
    temp_file(name, bytes, LEN);
    CHECK(mkdtemp(dir));
    AUTO(free) char *text = xasprintf("cat %s & cat %s >&2; wait", name, name);
    struct launch_spec s = far_script(2, argv, text);
    s.output_dir = dir;
    s.hosts = nodes > 1 ? hosts : NULL;
    struct heard *h = &f->jobs[0];
    h->pause_after = pause_after;
    struct launch_events ev = kit_events;
    ev.line = count_only;
    begin_with(f, 0, &s, &ev);
    while (!h->over) {
        uv_run(&f->loop, UV_RUN_ONCE);
        if (h->paused) {
            h->paused = false;
            launch_resume_output(h->job);
        }
    }
    CHECK_INT(h->end.status, 0);
    CHECK_INT(h->bytes, 4L * LEN);
    for (int i = 0; i < 4; i++) {
        AUTO(free) char *path = xasprintf("%s/rank.%d/%s", dir, i / 2, i % 2 ? "stdout" : "stderr");
        CHECK(file_is(path, bytes, LEN));
        unlink(path);
    }
    AUTO(free) char *rm = xasprintf("rm -r %s %s", dir, name);
    CHECK_INT(system(rm), 0);
}

TEST(every_byte_of_the_output_arrives_and_is_in_the_files)
{
    bytes_come(0, 2);
}

TEST(pauses_lose_no_output)
{
    bytes_come(1, 1);
    bytes_come(1, 2);
}

TEST(rank_0_reads_our_stdin_to_its_end)
{
    enum { LEN = 1 << 20 };
    AUTO(free) char *bytes = random_bytes(LEN, 9);
    char name[40], copy[40], *argv[4];
    temp_file(name, bytes, LEN);
    temp_file(copy, "", 0);
    for (int by_pipe = 0; by_pipe < 2; by_pipe++) {
        AUTO(fixture) struct fixture *f = open_all();
        AUTO(free) char *text = xasprintf("if [ $RANK = 0 ]; then cat >%s; else wc -c; fi", copy);
        struct launch_spec s = far_script(2, argv, text);
        s.stdin_null = false;
        AUTO(free) char *cat = xasprintf("cat %s", name);
        FILE *from = by_pipe ? popen(cat, "r") : fopen(name, "r");
        s.stdin_fd = fileno(from);
        int flags = fcntl(s.stdin_fd, F_GETFL);
        struct heard *h = begin(f, 0, &s);
        until_over(h);
        CHECK_STR(strbuf_str(&h->out), "1o0|");
        CHECK_INT(h->end.status, 0);
        CHECK(file_is(copy, bytes, LEN));
        CHECK_INT(fcntl(s.stdin_fd, F_GETFL), flags);
        by_pipe ? pclose(from) : fclose(from);
    }
    unlink(name);
    unlink(copy);
}

TEST(a_signal_is_not_delayed_by_input_that_the_rank_does_not_read)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s =
        far_script(1, argv, "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.01; done");
    s.stdin_null = false;
    s.stdin_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    struct heard *h = begin(f, 0, &s);
    until_heard(h, &h->out, "0oup|");
    launch_signal(h->job, SIGUSR1);
    until_over(h);
    CHECK_HAS(strbuf_str(&h->out), "0ogot|");
    CHECK_INT(h->end.status, 5);
    close(s.stdin_fd);
}

TEST(drover_stops_reading_when_the_rank_closes_its_stdin)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = far_script(1, argv, "exec 0<&-; echo up; sleep 0.2");
    s.stdin_null = false;
    s.stdin_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_INT(h->end.status, 0);
    close(s.stdin_fd);
}

TEST(ranks_report_and_stop_when_they_are_asked_to)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    check_stop(f, far_script(2, argv, ""));
}

TEST(a_rank_that_saves_after_SIGTERM_gets_its_grace_when_another_fails)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4];
    struct launch_spec s = far_script(2, argv,
                                      "if [ $RANK = 0 ]; then trap 'sleep 1; echo saved; exit 0' "
                                      "TERM; echo up; while :; do sleep 0.01; done; fi; "
                                      "sleep 0.3; exit 7");
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_HAS(strbuf_str(&h->out), "0osaved|");
    CHECK_INT(h->end.status, 7);
    CHECK(h->end.seconds < 8);
}

/* Counts the living processes with the job's mark. */
static int marked(const char *job_id)
{
    struct process_tree w = {0};
    int n = 0;
    CHECK(process_tree_scan(&w) == 0);
    for (size_t i = 0; i < w.count; i++) {
        AUTO(free) char *mark = NULL;
        if (w.all[i].state == 'Z' ||
            process_tree_env(&mark, w.all[i].pid, "DROVER_JOB_ID") == -EAGAIN)
            continue;
        n += mark && strcmp(mark, job_id) == 0;
    }
    process_tree_free(&w);
    return n;
}

static void none_is_left(const char *job_id)
{
    for (int i = 0; i < 500; i++) {
        if (marked(job_id) == 0)
            return;
        usleep(10000);
    }
    FAIL("%d processes of %s are left", marked(job_id), job_id);
}

TEST(processes_that_ranks_have_left_are_killed_with_the_job)
{
    AUTO(fixture) struct fixture *f = open_all();
    char *argv[4], id[40];
    snprintf(id, sizeof id, "left-%d", (int)getpid());
    struct launch_spec s = far_script(2, argv, "setsid sleep 100 >&- 2>&- & sleep 0.05");
    s.job_id = id;
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_INT(h->end.status, 0);
    none_is_left(id);
}

/* Finds the pids of the job's processes that are drover's: parents, agents and guardians. */
static int drovers_processes(pid_t *out, int room, const char *job_id)
{
    struct process_tree w = {0};
    int n = 0;
    CHECK(process_tree_scan(&w) == 0);
    for (size_t i = 0; i < w.count; i++) {
        AUTO(free) char *mark = NULL;
        char path[64], comm[32] = "";
        snprintf(path, sizeof path, "/proc/%d/comm", (int)w.all[i].pid);
        AUTO(file) FILE *f = fopen(path, "re");
        if (f && !fgets(comm, sizeof comm, f))
            comm[0] = '\0';
        if (strncmp(comm, "drover", 6) == 0 &&
            process_tree_env(&mark, w.all[i].pid, "DROVER_JOB_ID") == 0 && mark &&
            strcmp(mark, job_id) == 0 && n < room)
            out[n++] = w.all[i].pid;
    }
    process_tree_free(&w);
    return n;
}

/* Rank 1 aborts, and rank 0 on the other node dies 30 ms after rank 1 has exited, as if its node
 * were slow. If the machine stands still for 100 ms, it is too late to be the first: it has several
 * tries. */
TEST(a_rank_that_died_on_another_node_is_the_first_failure_although_an_abort_is_told_earlier)
{
    enum { TRIES = 8 };
    AUTO(fixture) struct fixture *f = open_all();
    AUTO(hosts) struct hosts *hosts = two_hosts(1, 1);
    char *argv[4], id[40];
    int first = -1;
    for (int i = 0; i < TRIES && first != 0; i++) {
        struct launch_spec s = far_script(
            2, argv,
            "at=/tmp/drover-$DROVER_JOB_ID; if [ $RANK = 0 ]; then until [ -s $at ]; do :; done; "
            "read pid <$at; rm $at; while kill -0 $pid 2>&-; do :; done; sleep 0.03; kill -9 $$; "
            "fi; "
            "echo 'cmd=init pmi_version=1 pmi_subversion=1' >&4; read x <&4; "
            "echo 'cmd=abort exitcode=3' >&4; echo $$ >$at; exit 3");
        snprintf(id, sizeof id, "abort-%d-%d", (int)getpid(), i);
        s.hosts = hosts;
        s.job_id = id;
        s.node.no_pmix = false;
        struct heard *h = begin(f, i, &s);
        until_over(h);
        first = h->end.first_failed;
        CHECK_INT(h->end.status, first == 0 ? 128 + SIGKILL : 3);
    }
    CHECK_INT(first, 0);
}

TEST(of_several_aborts_the_first_one_counts)
{
    AUTO(fixture) struct fixture *f = open_all();
    AUTO(hosts) struct hosts *hosts = two_hosts(1, 1);
    char *argv[4], id[40];
    struct launch_spec s = far_script(
        2, argv,
        "say() { echo \"cmd=$1\" >&4; }; say 'init pmi_version=1 pmi_subversion=1'; read x <&4; "
        "at=/tmp/drover-$DROVER_JOB_ID; if [ $RANK = 0 ]; then until [ -e $at ]; do :; done; "
        "rm $at; sleep 0.02; else say 'abort exitcode=3'; touch $at; exec sleep 100; fi; "
        "say 'abort exitcode=4'; exec sleep 100");
    snprintf(id, sizeof id, "aborts-%d", (int)getpid());
    s.hosts = hosts;
    s.job_id = id;
    s.node.no_pmix = false;
    struct heard *h = begin(f, 0, &s);
    until_over(h);
    CHECK_INT(h->end.first_failed, 1);
    CHECK_INT(h->end.status, 3);
}

TEST(any_process_of_drover_may_be_killed_and_nothing_is_left)
{
    /* 2 nodes with a parent, an agent and a guardian each, in the order of their pids. One job per
     * victim. */
    enum { OURS = 6 };
    AUTO(fixture) struct fixture *f = open_all();
    AUTO(hosts) struct hosts *hosts = two_hosts(1, 1);
    char ids[OURS][40], *argv[4];
    for (int victim = 0; victim < OURS; victim++) {
        struct launch_spec s = far_script(2, argv, "setsid sleep 100 & echo up; exec sleep 100");
        snprintf(ids[victim], sizeof ids[victim], "kill-%d-%d", (int)getpid(), victim);
        s.hosts = hosts;
        s.job_id = ids[victim];
        s.grace_ms = 300;
        begin(f, victim, &s);
    }
    for (int victim = 0; victim < OURS; victim++) {
        struct heard *h = &f->jobs[victim];
        pid_t pids[OURS];
        until_heard(h, &h->out, "0oup|");
        until_heard(h, &h->out, "1oup|");
        CHECK_INT(drovers_processes(pids, OURS, ids[victim]), OURS);
        kill(pids[victim], SIGKILL);
    }
    for (int victim = 0; victim < OURS; victim++) {
        until_over(&f->jobs[victim]);
        CHECK(f->jobs[victim].end.status != 0);
        none_is_left(ids[victim]);
    }
}

TEST(a_launcher_that_is_killed_leaves_nothing)
{
    char id[40];
    unsigned seed = (unsigned)time(NULL);
    printf("# seed %u\n", seed);
    for (int run = 0; run < 20; run++) {
        snprintf(id, sizeof id, "launcher-%d-%d", (int)getpid(), run);
        pid_t launcher = fork();
        if (launcher == 0) {
            struct fixture *f = open_all();
            char *argv[4];
            struct launch_spec s = far_script(2, argv, "setsid sleep 100 & exec sleep 100");
            s.job_id = id;
            struct heard *h = begin(f, 0, &s);
            until_over(h);
            _exit(0);
        }
        usleep((useconds_t)(rand_r(&seed) % 60000));
        kill(launcher, SIGKILL);
        waitpid(launcher, NULL, 0);
        none_is_left(id);
    }
}
