/* test_plan_hardware - the name of a job's hardware, which does not depend on its hosts. */
#include "launcher/plan/plan_hardware.h"

#include "launcher/plan/env.h"

#include "launcher/plan/hosts.h"
#include "tests/unit/kit_machine.h"
#include "tests/unit/test.h"

static struct topo *machine_with_cpu(const char *name, const char *model)
{
    struct topo *t = machine(name);
    hwloc_obj_t package = hwloc_get_obj_by_type(topo_hwloc(t), HWLOC_OBJ_PACKAGE, 0);
    CHECK_INT(hwloc_obj_add_info(package, "CPUModel", model), 0);
    return t;
}

static char *hardware_of(const struct launch_spec *s, const struct topo *t,
                         const struct topo *second)
{
    static char *const program[] = {(char *)"p", NULL}, *const base[] = {NULL};
    struct launch_spec with_program = *s;
    with_program.argv = program;
    AUTO(plan) struct plan *p = NULL;
    struct err e = {0};
    if (plan_make(&p, &with_program, t, base, &e) < 0 ||
        (second && plan_set_node(p, 1, &with_program, second, base, &e) < 0))
        FAIL("%s", e.text);
    return plan_hardware_job(p, &with_program);
}

TEST(the_name_has_ranks_cpus_and_gpus)
{
    static const struct {
        const char *machine;
        struct launch_spec spec;
        const char *hardware;
    } cases[] = {
        {"vm-2core", {.ranks = 1}, "1 rank on 1 x AMD EPYC 7763, 2 bound cores per rank"},
        {"vm-2core", {.ranks = 2}, "2 ranks on 1 x AMD EPYC 7763, 1 bound core per rank"},
        {"vm-2core",
         {.ranks = 1, .bind_to = PLAN_BIND_NONE},
         "1 rank on 1 x AMD EPYC 7763, 2 cores per rank"},
        {"dgx-h100",
         {.ranks = 8},
         "8 ranks on 1 x AMD EPYC 7763 with 8 x NVIDIA H100 80GB HBM3, 14 bound cores per rank"},
        {"dgx-h100",
         {.ranks = 2, .gpus = "0,1"},
         "2 ranks on 1 x AMD EPYC 7763 with 2 x NVIDIA H100 80GB HBM3, 28 bound cores per rank"},
        {"dgx-h100",
         {.ranks = 1, .gpus = ""},
         "1 rank on 1 x AMD EPYC 7763, 112 bound cores per rank"},
        /* the other nodes of torchrun are assumed to be alike */
        {"vm-2core",
         {.ranks = 2, .external_part = {.nodes = 3, .master_addr = "a"}},
         "6 ranks on 3 x AMD EPYC 7763, 1 bound core per rank"},
        {"vm-2core",
         {.ranks = 2, .external_part = {.nodes = 3, .master_addr = "a", .world_size = 5}},
         "5 ranks on 3 x AMD EPYC 7763, 1 bound core per rank"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(topo) struct topo *t = machine_with_cpu(cases[i].machine, "  AMD EPYC   7763 ");
        AUTO(free) char *hardware = hardware_of(&cases[i].spec, t, NULL);
        CHECK_STR(hardware, cases[i].hardware);
    }
}

TEST(nodes_that_are_alike_are_counted_whatever_their_names)
{
    AUTO(topo) struct topo *epyc = machine_with_cpu("vm-2core", "EPYC");
    AUTO(topo) struct topo *xeon = machine_with_cpu("vm-2core", "Xeon");
    static const char *const lists[][2] = {{"a", "b"}, {"c07", "d"}};
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        AUTO(hosts) struct hosts *h = xzalloc(sizeof *h);
        hosts_add(h, lists[i][0], 2, 0);
        hosts_add(h, lists[i][1], 2, 0);
        const struct launch_spec s = {.hosts = h};
        AUTO(free) char *alike = hardware_of(&s, epyc, epyc);
        CHECK_STR(alike, "4 ranks on 2 x EPYC, 1 bound core per rank");
        AUTO(free) char *different = hardware_of(&s, epyc, xeon);
        CHECK_STR(different, "4 ranks on 1 x EPYC and 1 x Xeon, 1 bound core per rank");
    }
}

TEST(different_gpus_of_a_node_are_listed)
{
    AUTO(topo) struct topo *t = machine("desktop-mixed");
    AUTO(free)
    char *hardware = hardware_of(&(struct launch_spec){.ranks = topo_gpu_count(t)}, t, NULL);
    CHECK_HAS(hardware, "on 1 x unknown CPU with 1 x NVIDIA ");
    CHECK_HAS(hardware, " and 1 x ");
}

TEST(gpus_of_different_models_have_the_same_names_in_each_order_of_cuda)
{
    static const struct {
        const char *order, *shown;
    } cases[] = {{"CUDA_DEVICE_ORDER=FASTEST_FIRST", "GPU-"},
                 {"CUDA_DEVICE_ORDER=PCI_BUS_ID", "1"},
                 {NULL, "1"}};
    AUTO(topo) struct topo *t = machine("desktop-mixed");
    struct launch_spec s = {.gpus = "1"};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *base[] = {(char *)cases[i].order, NULL};
        AUTO(gpu_assignment) struct gpu_assignment *c = NULL;
        AUTO(strv) char **env = xcalloc(1, sizeof *env);
        CHECK_INT(gpu_assignment_make(&c, &s, t, base, NULL), 0);
        gpu_assignment_show(&env, &(struct plan_rank){0}, &s, t, c, base);
        CHECK_HAS(env_get(env, "CUDA_VISIBLE_DEVICES"), cases[i].shown);
        CHECK_STR(env_get(env, "CUDA_DEVICE_ORDER") ? env_get(env, "CUDA_DEVICE_ORDER") : "-",
                  cases[i].order ? "-" : "PCI_BUS_ID");
    }
}

TEST(mig_instances_are_not_whole_gpus)
{
    AUTO(topo) struct topo *t = machine("a100-mig");
    AUTO(free) char *hardware = hardware_of(&(struct launch_spec){.ranks = 2}, t, NULL);
    CHECK_HAS(hardware, "with 1 x NVIDIA A100 80GB PCIe and 1 x NVIDIA A100 80GB PCIe (MIG)");
}

TEST(a_gpu_that_several_ranks_share_counts_once)
{
    struct plan_rank ranks[] = {{.node = 0, .gpu = 0},
                                {.node = 0, .gpu = 1},
                                {.node = 0, .gpu = 0},
                                {.node = 1, .gpu = 0},
                                {.node = 1, .gpu = -1}};
    int first[] = {0, 1, 2}, second[] = {3, 4};
    struct plan_node nodes[] = {{.local_size = 3, .ranks = first},
                                {.local_size = 2, .ranks = second}};
    struct plan p = {.ranks = ranks, .world_size = 5, .nodes = nodes, .node_count = 2};
    CHECK_INT(plan_hardware_gpus(&p), 3);
    p.node_count = 0;
    CHECK_INT(plan_hardware_gpus(&p), 0);
}
