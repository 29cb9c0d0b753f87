/* pmix_server: several namespaces, the environment by which a rank finds the server, and when the
 * server starts. (tests/e2e/test_run_mpi.py shows that MPI programs connect through it.) */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <pmix.h>
#include <pmix_server.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "launcher/node/topo.h"
#include "launcher/plan/env.h"
#include "launcher/pmi/pmix_server_internal.h"
#include "tests/unit/launcher/pmi/kit_pmix_rank.h"
#include "tests/unit/test.h"

static int joined, finalized; /* number of events */

static void on_rank_event(void *arg, enum rank_event ev, int rank, int code)
{
    CHECK(ev == RANK_JOINED || ev == RANK_FINALIZED);
    joined += ev == RANK_JOINED;
    finalized += ev == RANK_FINALIZED;
}

static const struct rank_events quiet = {.event = on_rank_event};

struct fixture {
    uv_loop_t loop;
    struct topo *topo;
    struct pmix_server *r;
};

static void start(struct fixture *f)
{
    struct err e = {0};
    uv_loop_init(&f->loop);
    if (topo_load(&f->topo, &e) < 0 ||
        pmix_server_open(&f->r, &f->loop, topo_hwloc(f->topo), &e) < 0)
        FAIL("%s", e.text);
}

static void stop(struct fixture *f)
{
    pmix_server_close(f->r);
    CHECK_INT(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&f->loop), 0);
    topo_free(f->topo);
}

static struct plan *make_plan(const struct fixture *f, const char *id, int ranks)
{
    char *argv[] = {(char *)"true", NULL};
    struct launch_spec s = {.ranks = ranks, .argv = argv, .oversubscribe = true, .job_id = id};
    struct plan *p = NULL;
    CHECK_INT(plan_make(&p, &s, f->topo, environ, NULL), 0);
    return p;
}

static struct pmix_server_job *join(const struct fixture *f, const char *id, int ranks)
{
    AUTO(plan) struct plan *p = make_plan(f, id, ranks);
    AUTO(job_map) struct job_map *map = job_map_new(p, 0);
    struct pmix_server_job *j = NULL;
    CHECK_INT(pmix_server_join(&j, f->r, map, NULL, &quiet, NULL, NULL), 0);
    return j;
}

static int connect_and_leave(void)
{
    pmix_proc_t who;
    return PMIx_Init(&who, NULL, 0) != PMIX_SUCCESS || PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}

static struct kit_rank fork_rank(void)
{
    return kit_fork_rank(connect_and_leave);
}

struct watch {
    uv_timer_t timer;
    pid_t pid;
    int status;
};

static void check_exit(uv_timer_t *t)
{
    struct watch *w = (struct watch *)t;
    if (waitpid(w->pid, &w->status, WNOHANG) == w->pid)
        uv_close((uv_handle_t *)t, NULL);
}

/* Runs the loop until the rank has exited. Returns its exit status. */
static int attach(struct fixture *f, struct kit_rank r, const struct pmix_server_job *j, int number)
{
    kit_send_env(r, pmix_server_env(j), number);
    struct watch w = {.pid = r.pid};
    uv_timer_init(&f->loop, &w.timer);
    uv_timer_start(&w.timer, check_exit, 0, 2);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    return WEXITSTATUS(w.status);
}

TEST(each_job_has_its_own_namespace)
{
    struct fixture f;
    start(&f);
    struct pmix_server_job *a = join(&f, "job-a", 3), *b = join(&f, "job-b", 1);
    CHECK_STR(env_get(pmix_server_env(a), "PMIX_NAMESPACE"), "job-a");
    CHECK_STR(env_get(pmix_server_env(b), "PMIX_NAMESPACE"), "job-b");
    pmix_server_leave(a);
    pmix_server_leave(b);
    stop(&f);
}

TEST(the_server_starts_when_the_first_rank_connects)
{
    struct kit_rank rank = fork_rank();
    struct fixture f;
    start(&f);
    pmix_server_leave(join(&f, "job-a", 2));
    struct pmix_server_job *j = join(&f, "job-b", 2);
    CHECK(f.r->phase == PMIX_SERVER_NEW);
    CHECK_INT(attach(&f, rank, j, 1), 0);
    CHECK(f.r->phase != PMIX_SERVER_NEW);
    pmix_server_leave(j);
    stop(&f);
}

TEST(what_a_rank_has_done_is_known_when_it_has_exited)
{
    struct kit_rank rank = fork_rank();
    struct fixture f;
    start(&f);
    struct pmix_server_job *j = join(&f, "job-a", 2);
    joined = finalized = 0;
    CHECK_INT(attach(&f, rank, j, 1), 0);
    pmix_server_drain(j);
    CHECK_INT(joined, 1);
    CHECK_INT(finalized, 1);
    pmix_server_leave(j);
    stop(&f);
}

TEST(without_interposition_the_server_runs_before_the_ranks)
{
    setenv("DROVER_NO_INTERPOSE", "1", 1);
    struct kit_rank ranks[] = {fork_rank(), fork_rank()};
    struct fixture f;
    start(&f);
    struct pmix_server_job *a = join(&f, "job-a", 1);
    CHECK(f.r->phase != PMIX_SERVER_NEW);
    struct pmix_server_job *b = join(&f, "job-b", 2);
    CHECK(!env_get(pmix_server_env(b), "PMIX_RANK"));
    CHECK_INT(attach(&f, ranks[0], b, 1), 0);
    CHECK_INT(attach(&f, ranks[1], a, 0), 0);
    pmix_server_leave(a);
    pmix_server_leave(b);
    stop(&f);
}

TEST(jobs_from_before_the_server_and_after_are_served)
{
    struct kit_rank ranks[] = {fork_rank(), fork_rank(), fork_rank(), fork_rank()};
    struct fixture f;
    start(&f);
    struct pmix_server_job *a = join(&f, "job-a", 1), *b = join(&f, "job-b", 2);
    CHECK_INT(attach(&f, ranks[0], b, 1), 0);
    CHECK_INT(attach(&f, ranks[1], a, 0), 0);
    pmix_server_leave(a);
    struct pmix_server_job *c = join(&f, "job-c", 3);
    CHECK_INT(attach(&f, ranks[2], c, 2), 0);
    CHECK_INT(attach(&f, ranks[3], b, 0), 0);
    pmix_server_leave(b);
    pmix_server_leave(c);
    stop(&f);
}

TEST(a_rank_gets_the_environment_that_libpmix_would_give_it)
{
    struct kit_rank rank = fork_rank();
    struct fixture f;
    start(&f);
    struct pmix_server_job *j = join(&f, "job-a", 3);
    CHECK_INT(attach(&f, rank, j, 2), 0);
    AUTO(strv) char **its = NULL;
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, "job-a", 2);
    CHECK_INT(PMIx_server_setup_fork(&who, &its), PMIX_SUCCESS);
    AUTO(strv) char **ours = strv_copy(pmix_server_env(j));
    env_set(&ours, "PMIX_RANK", "2");
    CHECK(strv_len(its) > 5);
    CHECK_INT(strv_len(ours), strv_len(its));
    for (size_t i = 0; ours[i]; i++) {
        AUTO(free) char *name = xstrndup(ours[i], strcspn(ours[i], "="));
        const char *theirs = env_get(its, name);
        if (strcmp(name, "PMIX_VERSION") == 0) /* they may call it 4.2.2rc2 */
            CHECK(theirs && strncmp(theirs, env_get(ours, name), 3) == 0);
        else
            CHECK_STR(env_get(ours, name), theirs);
    }
    pmix_server_leave(j);
    stop(&f);
}

TEST(a_connection_that_closes_at_once_does_no_harm)
{
    struct kit_rank rank = fork_rank();
    struct fixture f;
    start(&f);
    struct pmix_server_job *j = join(&f, "job-a", 1);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    at.sin_port = htons((uint16_t)f.r->listener.port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    close(fd);
    CHECK_INT(attach(&f, rank, j, 0), 0);
    pmix_server_leave(j);
    stop(&f);
}

/* libpmix select()s. */
TEST(the_server_has_low_descriptors_however_many_are_open)
{
    struct kit_rank rank = fork_rank();
    struct fixture f;
    struct rlimit limit = {2048, 2048};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 2048;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    start(&f);
    struct pmix_server_job *j = join(&f, "job-a", 1);
    int last = 0;
    while (last < 1500)
        CHECK((last = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    CHECK_INT(attach(&f, rank, j, 0), 0);
    pmix_server_leave(j);
    stop(&f);
}

TEST(if_the_server_cannot_start_ranks_are_disconnected)
{
    struct kit_rank ranks[] = {fork_rank(), fork_rank()};
    struct fixture f;
    setenv("PMIX_MCA_bfrops", "no-such-module", 1); /* the ranks do not inherit it */
    start(&f);
    struct pmix_server_job *j = join(&f, "job-a", 2);
    CHECK_INT(attach(&f, ranks[0], j, 0), 1);
    CHECK_INT(attach(&f, ranks[1], j, 1), 1);
    CHECK(f.r->phase == PMIX_SERVER_NEW);
    pmix_server_leave(j);
    stop(&f);
}

TEST(the_environment_of_drover_does_not_change)
{
    struct fixture f;
    unsetenv("PMIX_MCA_gds");
    start(&f);
    CHECK(getenv("PMIX_MCA_gds") == NULL);
    stop(&f);
}

TEST(it_leaves_no_files)
{
    char tmp[] = "/tmp/drover-test-XXXXXX", path[128];
    CHECK(mkdtemp(tmp));
    setenv("TMPDIR", tmp, 1);
    struct fixture f;
    start(&f);
    stop(&f);
    snprintf(path, sizeof path, "%s/drover-%u", tmp, (unsigned)geteuid());
    DIR *d = opendir(path);
    CHECK(d);
    for (struct dirent *e; (e = readdir(d));)
        CHECK(strncmp(e->d_name, "run-", 4) != 0);
    closedir(d);
    snprintf(path, sizeof path, "rm -r %s", tmp);
    CHECK_INT(system(path), 0);
}
