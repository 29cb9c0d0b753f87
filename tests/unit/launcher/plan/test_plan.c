#include "launcher/plan/plan.h"

#include <time.h>

#include "launcher/node/topo.h"
#include "launcher/plan/env.h"
#include "launcher/plan/hosts.h"
#include "tests/unit/kit_machine.h"
#include "tests/unit/test.h"

static char *program[] = {(char *)"./train", (char *)"--lr=1", NULL};

TEST(a_plan_has_its_own_copy_of_what_was_asked_for)
{
    AUTO(topo) struct topo *t = machine("laptop");
    char name[] = "first", dir[] = "/w";
    struct launch_spec s = {.argv = program, .ranks = 2, .job_id = name, .wdir = dir};
    AUTO(plan) struct plan *p = NULL;
    CHECK_INT(plan_make(&p, &s, t, NULL, NULL), 0);
    memset(name, 'x', 5);
    memset(dir, 'x', 2);
    CHECK_STR(p->job_id, "first");
    CHECK_STR(p->wdir, "/w");
    CHECK_STR(p->argv[1], "--lr=1");
    CHECK(p->argv[2] == NULL);
    CHECK_INT(p->world_size, 2);
    CHECK_INT(p->node_count, 1);
    CHECK_STR(p->nodes[0].name, "laptop");
    CHECK_INT(p->nodes[0].local_size, 2);
    CHECK_STR(p->master_addr, "127.0.0.1");
    CHECK_INT(p->ranks[1].rank, 1);
    CHECK_INT(p->ranks[1].local_rank, 1);
    CHECK_INT(p->ranks[1].gpu, -1);
    CHECK(p->ranks[1].gpu_uuid == NULL);
}

TEST(ranks_know_their_gpus_by_index_and_uuid)
{
    AUTO(topo) struct topo *t = machine("v100-smt-off");
    struct launch_spec s = {.argv = program, .gpus = "1"};
    AUTO(plan) struct plan *p = NULL;
    CHECK_INT(plan_make(&p, &s, t, NULL, NULL), 0);
    CHECK_INT(p->world_size, 1);
    CHECK_INT(p->ranks[0].gpu, 1);
    CHECK_STR(p->ranks[0].gpu_uuid, topo_gpu(t, 1)->uuid);
    CHECK_STR(p->ranks[0].cpus, "20-39");
    CHECK_STR(p->ranks[0].mems, "1");
    CHECK_STR(env_get(p->ranks[0].env, "CUDA_VISIBLE_DEVICES"), "1");
}

TEST(wishes_that_make_no_sense_are_refused_and_leave_the_output_alone)
{
    AUTO(topo) struct topo *t = machine("v100-smt-off");
    static char *nothing[] = {NULL};
    const struct launch_spec bad[] = {
        {.argv = NULL},
        {.argv = nothing},
        {.argv = program, .ranks = -1},
        {.argv = program, .ranks = 1 << 30},
        {.argv = program, .cpus_per_rank = -2},
        {.argv = program, .ranks = 3},
        {.argv = program, .gpus = "2"},
        {.argv = program, .gpus = "0,0"},
        {.argv = program, .gpus = "0,"},
        {.argv = program, .gpus = ","},
        {.argv = program, .gpus = "x"},
        {.argv = program, .gpus = "GPU-"},
        {.argv = program, .gpus = "99999999999999999999"},
        {.argv = program, .cpus = ""},
        {.argv = program, .cpus = "40"},
        {.argv = program, .cpus = "3-1"},
        {.argv = program, .gpus = "", .ranks = 41, .bind_to = PLAN_BIND_CORE},
        {.argv = program, .gpus = "", .ranks = 41, .map_by = PLAN_MAP_CORE},
        {.argv = program, .cpus_per_rank = 21},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct plan *p = NULL;
        struct err e = {0};
        if (plan_make(&p, &bad[i], t, NULL, &e) != -EINVAL)
            FAIL("spec %zu was accepted", i);
        CHECK(p == NULL);
        CHECK(e.text[0]);
        CHECK_INT(plan_make(&p, &bad[i], t, NULL, NULL), -EINVAL);
    }
}

TEST(too_many_ranks_for_the_gpus_name_both_numbers_and_the_way_out)
{
    AUTO(topo) struct topo *t = machine("v100-smt-off");
    struct launch_spec s = {.argv = program, .ranks = 3};
    struct plan *p = NULL;
    struct err e = {0};
    CHECK_INT(plan_make(&p, &s, t, NULL, &e), -EINVAL);
    CHECK_HAS(e.text, "3 ranks");
    CHECK_HAS(e.text, "2 GPUs");
    CHECK_HAS(e.hint, "--oversubscribe");
    CHECK_HAS(e.hint, "--gpus");
}

TEST(dash_x_cuda_visible_devices_counts_as_the_launchers_own)
{
    AUTO(topo) struct topo *t = machine("dgx-h100");
    char *x[] = {(char *)"CUDA_VISIBLE_DEVICES=6", NULL};
    char *base[] = {(char *)"CUDA_VISIBLE_DEVICES=1,2", NULL};
    struct launch_spec s = {.argv = program, .env = x};
    AUTO(plan) struct plan *p = NULL;
    CHECK_INT(plan_make(&p, &s, t, base, NULL), 0);
    CHECK_INT(p->world_size, 1);
    CHECK_INT(p->ranks[0].gpu, 6);
    AUTO(strv) char **m = env_merge(base, p->env, p->ranks[0].env);
    CHECK_STR(env_get(m, "CUDA_VISIBLE_DEVICES"), "6");
}

TEST(gpus_given_in_another_order_than_inherited_are_set)
{
    AUTO(topo) struct topo *t = machine("v100-smt-off");
    char *base[] = {(char *)"CUDA_VISIBLE_DEVICES=1,0", NULL};
    struct launch_spec s = {.argv = program, .gpus = "0,1"};
    AUTO(plan) struct plan *p = NULL;
    CHECK_INT(plan_make(&p, &s, t, base, NULL), 0);
    CHECK_INT(p->ranks[0].gpu, 0);
    CHECK_STR(env_get(p->ranks[0].env, "CUDA_VISIBLE_DEVICES"), "0,1");
}

TEST(a_job_without_gpus_takes_any_number_of_ranks_and_hides_them)
{
    AUTO(topo) struct topo *t = machine("v100-smt-off");
    struct launch_spec s = {.argv = program, .gpus = "", .ranks = 50};
    AUTO(plan) struct plan *p = NULL;
    CHECK_INT(plan_make(&p, &s, t, NULL, NULL), 0);
    CHECK_INT(p->world_size, 50);
    CHECK(p->ranks[49].cpus == NULL);
    CHECK_STR(env_get(p->ranks[49].env, "OMP_NUM_THREADS"), "1");
    CHECK_STR(env_get(p->ranks[49].env, "CUDA_VISIBLE_DEVICES"), "");
    CHECK_STR(env_get(p->ranks[49].env, "OMPI_MCA_mpi_oversubscribe"), "1");
}

TEST(a_thousand_ranks_are_planned_at_once)
{
    AUTO(topo) struct topo *t = machine("dgx-a100");
    struct launch_spec s = {.argv = program, .oversubscribe = true, .ranks = 1000};
    AUTO(plan) struct plan *p = NULL;
    CHECK_INT(plan_make(&p, &s, t, NULL, NULL), 0);
    CHECK_INT(p->ranks[999].gpu, 999 % 8);
}

/* ---- several nodes -------------------------------------------------------------------------- */

static struct hosts *hosts_of(int count, int slots)
{
    struct hosts *h = xzalloc(sizeof *h);
    for (int i = 0; i < count; i++) {
        AUTO(free) char *name = xasprintf("c%04d", i);
        hosts_add(h, name, slots, 0);
    }
    return h;
}

TEST(the_engine_follows_from_the_hosts_and_the_allocation)
{
    AUTO(topo) struct topo *t = machine("v100-smt-off");
    AUTO(hosts) struct hosts *h = hosts_of(2, 1);
    char *inside[] = {(char *)"SLURM_JOB_NODELIST=c[0000-0003]", NULL};
    char *other[] = {(char *)"SLURM_JOB_NODELIST=d[0000-0003]", NULL};
    const struct {
        bool first_here, second_here;
        const char *requested;
        char *const *env;
        const char *expected; /* NULL: refused */
    } cases[] = {
        {true, true, NULL, NULL, "local"},        {true, false, NULL, NULL, "openmpi"},
        {false, false, NULL, inside, "slurm"},    {false, false, NULL, other, "openmpi"},
        {true, true, NULL, inside, "local"},      {false, false, "openmpi", inside, "openmpi"},
        {true, true, "openmpi", NULL, "openmpi"}, {true, false, "local", NULL, NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        h->at[0].here = cases[i].first_here;
        h->at[1].here = cases[i].second_here;
        struct launch_spec s = {.argv = program, .hosts = h, .engine = cases[i].requested};
        AUTO(plan) struct plan *p = NULL;
        struct err e = {0};
        int rc = plan_make(&p, &s, t, cases[i].env, &e);
        if (!cases[i].expected) {
            CHECK_INT(rc, -EINVAL);
            CHECK_HAS(e.text, "'c0001'");
        } else {
            CHECK_INT(rc, 0);
            CHECK_STR(p->engine, cases[i].expected);
        }
    }
}

TEST(a_spec_may_say_which_engine_starts_ranks_on_other_machines)
{
    AUTO(topo) struct topo *t = machine("v100-smt-off");
    AUTO(hosts) struct hosts *h = hosts_of(2, 1);
    char *inside[] = {(char *)"SLURM_JOB_NODELIST=c[0000-0003]", NULL};
    struct launch_spec s = {.argv = program, .hosts = h, .remote_engine = "ssh"};
    AUTO(plan) struct plan *far = NULL, *slurm = NULL, *here = NULL, *named = NULL;
    CHECK_INT(plan_make(&far, &s, t, NULL, NULL), 0);
    CHECK_STR(far->engine, "ssh");
    CHECK_INT(plan_make(&slurm, &s, t, inside, NULL), 0);
    CHECK_STR(slurm->engine, "slurm");
    s.engine = "openmpi";
    CHECK_INT(plan_make(&named, &s, t, NULL, NULL), 0);
    CHECK_STR(named->engine, "openmpi");
    s.engine = NULL;
    h->at[0].here = h->at[1].here = true;
    CHECK_INT(plan_make(&here, &s, t, NULL, NULL), 0);
    CHECK_STR(here->engine, "local");
}

TEST(over_several_nodes_nothing_is_said_that_is_known_only_there)
{
    AUTO(topo) struct topo *t = machine("v100-smt-off");
    AUTO(hosts) struct hosts *h = hosts_of(3, 2);
    struct launch_spec s = {
        .argv = program, .hosts = h, .ranks = 4, .restart_count = 2, .max_restarts = 5};
    AUTO(plan) struct plan *p = NULL;
    CHECK_INT(plan_make(&p, &s, t, NULL, NULL), 0);
    CHECK_INT(p->node_count, 2); /* the third has no rank */
    CHECK(p->master_addr == NULL && env_get(p->env, "MASTER_ADDR") == NULL);
    CHECK(env_get(p->env, "OMPI_MCA_schizo") && env_get(p->env, "OMPI_MCA_btl") == NULL);
    CHECK_STR(env_get(p->env, "GROUP_WORLD_SIZE"), "2");
    CHECK_STR(env_get(p->env, "TORCHELASTIC_RESTART_COUNT"), "2");
    CHECK_STR(env_get(p->env, "TORCHELASTIC_MAX_RESTARTS"), "5");
    CHECK_STR(env_get(p->env, "DROVER_RESTART_COUNT"), "2");
    CHECK_STR(env_get(p->ranks[3].env, "GROUP_RANK"), "1");
    CHECK_STR(env_get(p->ranks[3].env, "LOCAL_RANK"), "1");
    CHECK_STR(p->nodes[1].name, "c0001");
    CHECK(!p->nodes[1].here);
    CHECK_INT(p->ranks[3].gpu, 1);
}

TEST(a_node_that_turns_out_to_be_another_machine_is_placed_anew)
{
    AUTO(topo) struct topo *t = machine("v100-smt-off"), *other = machine("dgx-h100");
    AUTO(hosts) struct hosts *h = hosts_of(2, 2);
    struct launch_spec s = {.argv = program, .hosts = h};
    AUTO(plan) struct plan *p = NULL;
    CHECK_INT(plan_make(&p, &s, t, NULL, NULL), 0);
    CHECK_INT(plan_set_node(p, 1, &s, other, NULL, NULL), 0);
    CHECK_STR(p->ranks[1].cpus, "20-39"); /* unchanged */
    CHECK_STR(p->ranks[2].cpus, "0-27,112-139");
    CHECK_STR(p->ranks[3].gpu_uuid, topo_gpu(other, 1)->uuid);
    CHECK_STR(env_get(p->ranks[3].env, "OMP_NUM_THREADS"), "28");
    CHECK_INT(p->ranks[3].rank, 3);
    CHECK_INT(p->ranks[3].local_rank, 1);
}

TEST(a_node_with_too_little_is_named_and_the_plan_is_as_before)
{
    AUTO(topo) struct topo *t = machine("dgx-h100"), *other = machine("v100-smt-off");
    AUTO(hosts) struct hosts *h = hosts_of(2, 8);
    struct launch_spec s = {.argv = program, .hosts = h};
    AUTO(plan) struct plan *p = NULL;
    struct err e = {0};
    CHECK_INT(plan_make(&p, &s, t, NULL, NULL), 0);
    CHECK_INT(plan_set_node(p, 1, &s, other, NULL, &e), -EINVAL);
    CHECK_HAS(e.text, "cannot assign GPUs to 8 ranks: the job has 2 GPUs on 'c0001'");
    CHECK_STR(p->ranks[8].gpu_uuid, topo_gpu(t, 0)->uuid);
    CHECK_INT(plan_set_node(p, 1, &s, other, NULL, NULL), -EINVAL);
}

TEST(a_login_node_without_gpus_plans_for_those_that_have_them)
{
    AUTO(topo) struct topo *login = machine("vm-2core"), *t = machine("dgx-h100");
    AUTO(hosts) struct hosts *h = hosts_of(2, 8);
    struct launch_spec s = {
        .argv = program, .hosts = h, .gpus = "0,1,2,3,4,5,6,7", .bind_to = PLAN_BIND_CORE};
    AUTO(plan) struct plan *p = NULL;
    struct err e = {0};
    if (plan_make(&p, &s, login, NULL, &e) < 0)
        FAIL("%s", e.text);
    CHECK_INT(p->world_size, 16);
    for (int i = 0; i < 2; i++)
        CHECK_INT(plan_set_node(p, i, &s, t, NULL, NULL), 0);
    CHECK_INT(p->ranks[15].gpu, 7);
    CHECK_STR(p->ranks[15].mems, "1");
    h->at[0].here = true; /* what the node itself lacks counts */
    struct plan *none = NULL;
    CHECK_INT(plan_make(&none, &s, login, NULL, &e), -EINVAL);
    CHECK_HAS(e.text, "'vm-2core'");
}

TEST(a_thousand_nodes_of_eight_ranks_are_planned_in_well_under_a_second)
{
    AUTO(topo) struct topo *t = machine("dgx-a100");
    AUTO(hosts) struct hosts *h = hosts_of(1000, 8);
    char **base = NULL;
    for (int i = 0; i < 300; i++)
        strv_push(&base, xasprintf("SOME_VARIABLE_%d=%d", i, i));
    struct launch_spec s = {.argv = program, .hosts = h};
    AUTO(plan) struct plan *p = NULL;
    struct timespec from, made, set;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    CHECK_INT(plan_make(&p, &s, t, base, NULL), 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &made);
    CHECK_INT(p->world_size, 8000);
    CHECK_INT(p->ranks[7999].gpu, 7);
    for (int i = 0; i < 100; i++)
        CHECK_INT(plan_set_node(p, i, &s, t, base, NULL), 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &set);
    double make_s =
        (double)(made.tv_sec - from.tv_sec) + 1e-9 * (double)(made.tv_nsec - from.tv_nsec);
    double set_s = (double)(set.tv_sec - made.tv_sec) + 1e-9 * (double)(set.tv_nsec - made.tv_nsec);
    fprintf(stderr, "# plan_make %.3f s, plan_set_node %.2f ms\n", make_s, set_s * 10);
    CHECK_TIME(make_s < 1);
    strv_free(base);
}

TEST(a_plan_that_cannot_be_made_leaves_nothing_to_free)
{
    AUTO(topo) struct topo *t = machine("dgx-a100");
    AUTO(hosts) struct hosts *h = hosts_of(1, 2);
    char *base[] = {NULL};
    struct launch_spec s = {.argv = program, .hosts = h, .ranks = 3};
    struct plan *p = NULL;
    struct err e = {0};
    CHECK(plan_make(&p, &s, t, base, &e) < 0);
    CHECK(!p && e.text[0]);
    plan_free(p);
}
