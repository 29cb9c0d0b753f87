/* rendezvous: namespaces side by side, and what a rank is given to find the server. (That MPI
 * programs meet through it is tests/e2e/test_run_mpi.py's matter.) */
#include "launcher/pmix/rendezvous.h"

#include <dirent.h>
#include <pmix.h>
#include <pmix_server.h>
#include <sys/wait.h>

#include "launcher/node/topo.h"
#include "launcher/plan/env.h"
#include "tests/unit/kit_pmix.h"
#include "tests/unit/test.h"

static void on_aborted(void *arg, int rank, int code)
{
    FAIL("nobody aborts here");
}

static void on_joined(void *arg, int rank)
{
}

static const struct rendezvous_events quiet = {on_joined, on_aborted, on_joined};

struct fixture {
    uv_loop_t loop;
    struct topo *topo;
    struct rendezvous *r;
};

static void start(struct fixture *f)
{
    struct err e = {0};
    uv_loop_init(&f->loop);
    if (topo_load(&f->topo, &e) < 0 ||
        rendezvous_open(&f->r, &f->loop, topo_hwloc(f->topo), &e) < 0)
        FAIL("%s", e.text);
}

static void stop(struct fixture *f)
{
    rendezvous_close(f->r);
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

TEST(jobs_have_names_of_their_own_and_ranks_their_numbers)
{
    struct fixture f;
    start(&f);
    AUTO(plan) struct plan *a = make_plan(&f, "job-a", 3);
    AUTO(plan) struct plan *b = make_plan(&f, "job-b", 1);
    struct rendezvous_job *ja = NULL, *jb = NULL;
    CHECK_INT(rendezvous_join(&ja, f.r, a, &quiet, NULL, NULL), 0);
    CHECK_INT(rendezvous_join(&jb, f.r, b, &quiet, NULL, NULL), 0);
    AUTO(strv) char **ea = NULL;
    AUTO(strv) char **eb = NULL;
    rendezvous_expect(ja, 2, &ea);
    rendezvous_expect(jb, 0, &eb);
    CHECK_INT(rendezvous_joined(ja, NULL), 0);
    CHECK_INT(rendezvous_joined(ja, NULL), 0); /* still */
    char *const *all_a = rendezvous_env(ja), *const *all_b = rendezvous_env(jb);
    CHECK_STR(env_get(all_a, "PMIX_NAMESPACE"), "job-a");
    CHECK_STR(env_get(ea, "PMIX_RANK"), "2");
    CHECK_STR(env_get(all_b, "PMIX_NAMESPACE"), "job-b");
    CHECK_STR(env_get(eb, "PMIX_RANK"), "0");
    CHECK(env_get(all_a, "PMIX_SERVER_URI41") || env_get(all_a, "PMIX_SERVER_URI4"));
    rendezvous_leave(ja);
    rendezvous_leave(jb);
    stop(&f);
}

TEST(a_rank_finds_in_its_environment_what_libpmix_itself_would_put_there)
{
    struct fixture f;
    start(&f);
    AUTO(plan) struct plan *p = make_plan(&f, "job-a", 3);
    struct rendezvous_job *j = NULL;
    CHECK_INT(rendezvous_join(&j, f.r, p, &quiet, NULL, NULL), 0);
    AUTO(strv) char **own = NULL;
    AUTO(strv) char **its = NULL;
    rendezvous_expect(j, 2, &own);
    AUTO(free) char **ours = env_over(rendezvous_env(j), own);
    CHECK_INT(rendezvous_joined(j, NULL), 0);
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, "job-a", 2);
    CHECK_INT(PMIx_server_setup_fork(&who, &its), PMIX_SUCCESS);
    CHECK(strv_len(its) > 5);
    CHECK_INT(strv_len(ours), strv_len(its));
    AUTO(strv) char **ours_sorted = env_merge(NULL, ours, NULL);
    AUTO(strv) char **its_sorted = env_merge(NULL, its, NULL);
    for (size_t i = 0; its[i]; i++)
        CHECK_STR(ours_sorted[i], its_sorted[i]);
    rendezvous_leave(j);
    stop(&f);
}

/* The namespace that a rank of the job would be told. */
static void in_namespace(const struct rendezvous_job *j, const char *name)
{
    CHECK_STR(env_get(rendezvous_env(j), "PMIX_NAMESPACE"), name);
}

static struct rendezvous_job *join(const struct fixture *f, const char *id, int ranks)
{
    AUTO(plan) struct plan *p = make_plan(f, id, ranks);
    struct rendezvous_job *j = NULL;
    AUTO(strv) char **own = NULL;
    CHECK_INT(rendezvous_join(&j, f->r, p, &quiet, NULL, NULL), 0);
    for (int i = 0; i < ranks; i++)
        rendezvous_expect(j, i, &own);
    CHECK_INT(rendezvous_joined(j, NULL), 0);
    return j;
}

TEST(a_lone_rank_that_never_came_leaves_its_namespace_to_the_next)
{
    struct fixture f;
    start(&f);
    rendezvous_leave(join(&f, "job-a", 1));
    struct rendezvous_job *two = join(&f, "job-b", 2), *one = join(&f, "job-c", 1),
                          *other = join(&f, "job-d", 1);
    in_namespace(two, "job-b");
    in_namespace(one, "job-a");
    in_namespace(other, "job-d");
    rendezvous_leave(two);
    rendezvous_leave(one);
    rendezvous_leave(other);
    one = join(&f, "job-e", 1);
    in_namespace(one, "job-d");
    rendezvous_leave(one);
    setenv("OMPI_MCA_btl_vader_backing_directory", "/tmp", 1);
    one = join(&f, "job-f", 1); /* its shared memory is elsewhere */
    in_namespace(one, "job-f");
    rendezvous_leave(one);
    stop(&f);
}

/* A process that waits for an environment, up to an empty line, attaches with it, and goes. */
static pid_t fork_rank(int *env_to)
{
    int fds[2];
    CHECK_INT(pipe(fds), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0) {
        close(fds[0]);
        *env_to = fds[1];
        return pid;
    }
    close(fds[1]);
    char *line = NULL;
    size_t cap = 0;
    FILE *f = fdopen(fds[0], "r");
    for (ssize_t n; f && (n = getline(&line, &cap, f)) > 1; line = NULL, cap = 0) {
        line[n - 1] = '\0';
        putenv(line);
    }
    pmix_proc_t who;
    _exit(PMIx_Init(&who, NULL, 0) == PMIX_SUCCESS && PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0
                                                                                             : 1);
}

static void attach(pid_t pid, int env_to, const struct rendezvous_job *j)
{
    char *const *env = rendezvous_env(j);
    int status = -1;
    for (size_t i = 0; env[i]; i++)
        dprintf(env_to, "%s\n", env[i]);
    dprintf(env_to, "PMIX_RANK=0\n\n");
    close(env_to);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

TEST(a_lone_rank_that_came_leaves_nothing_to_the_next)
{
    struct fixture f;
    int env_to[2];
    pid_t pids[2] = {fork_rank(&env_to[0]), fork_rank(&env_to[1])}; /* before there are threads */
    start(&f);
    rendezvous_leave(join(&f, "job-a", 1));
    struct rendezvous_job *j = join(&f, "job-b", 1);
    in_namespace(j, "job-a");
    attach(pids[0], env_to[0], j); /* who comes in a namespace of an earlier job is served */
    rendezvous_leave(j);
    j = join(&f, "job-c", 1);
    in_namespace(j, "job-c");
    attach(pids[1], env_to[1], j);
    rendezvous_leave(j);
    stop(&f);
}

TEST(our_own_environment_stays_as_it_was)
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
