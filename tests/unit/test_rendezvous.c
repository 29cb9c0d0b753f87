/* rendezvous: namespaces side by side, and what a rank is given to find the server. (That MPI
 * programs meet through it is tests/e2e/test_run_mpi.py's matter.) */
#include "launcher/rendezvous.h"

#include <dirent.h>
#include <pmix_server.h>

#include "launcher/env.h"
#include "launcher/topo.h"
#include "tests/unit/kit_pmix.h"
#include "tests/unit/test.h"

static void on_aborted(void *arg, int rank, int code)
{
    FAIL("nobody aborts here");
}

static void on_joined(void *arg, int rank)
{
}

static const struct rendezvous_events quiet = {on_joined, on_aborted};

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
    rendezvous_env(ja, 2, &ea);
    rendezvous_env(jb, 0, &eb);
    CHECK_INT(rendezvous_joined(ja, NULL), 0);
    CHECK_INT(rendezvous_joined(ja, NULL), 0); /* still */
    CHECK_STR(env_get(ea, "PMIX_NAMESPACE"), "job-a");
    CHECK_STR(env_get(ea, "PMIX_RANK"), "2");
    CHECK_STR(env_get(eb, "PMIX_NAMESPACE"), "job-b");
    CHECK_STR(env_get(eb, "PMIX_RANK"), "0");
    CHECK(env_get(ea, "PMIX_SERVER_URI41") || env_get(ea, "PMIX_SERVER_URI4"));
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
    AUTO(strv) char **ours = NULL;
    AUTO(strv) char **its = NULL;
    rendezvous_env(j, 2, &ours);
    CHECK_INT(rendezvous_joined(j, NULL), 0);
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, "job-a", 2);
    CHECK_INT(PMIx_server_setup_fork(&who, &its), PMIX_SUCCESS);
    CHECK(strv_len(its) > 5);
    CHECK_INT(strv_len(ours), strv_len(its));
    for (size_t i = 0; its[i]; i++)
        CHECK_STR(ours[i], its[i]);
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
