#include "launcher/plan/gpu_assignment.h"

#include "launcher/plan/env.h"
#include "tests/unit/kit_machine.h"
#include "tests/unit/test.h"

TEST(cuda_visible_devices_is_read_as_cuda_reads_it)
{
    AUTO(topo) struct topo *t = machine("dgx-h100");
    static const struct {
        const char *value;
        int count, first;
    } cases[] = {{"0,1,2", 3, 0},      {"3", 1, 3},        {"7,0", 2, 7},
                 {"", 0, -1},          {"-1", 0, -1},      {"0,-1,1", 1, 0},
                 {"0,8,1", 1, 0},      {"1,1", 0, -1},     {" 2 , 3", 2, 2},
                 {"GPU-41b205", 1, 5}, {"none,0", 0, -1},  {"NoDevFiles", 0, -1},
                 {"0,x", 1, 0},        {"MIG-1/2", 0, -1}, {"GPU-41b204f3,1", 2, 4}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *entry = xasprintf("CUDA_VISIBLE_DEVICES=%s", cases[i].value);
        char *base[] = {entry, NULL};
        AUTO(gpu_assignment) struct gpu_assignment *c = NULL;
        CHECK_INT(gpu_assignment_make(&c, &(struct launch_spec){0}, t, base, NULL), 0);
        int first = c->n > 0 ? c->at[0].gpu->index : -1;
        if (c->n != cases[i].count || first != cases[i].first)
            FAIL("'%s': %d GPUs from %d, expected %d from %d", cases[i].value, c->n, first,
                 cases[i].count, cases[i].first);
    }
}

TEST(a_variable_that_shows_no_gpu_by_mistake_is_refused)
{
    static const char *const values[] = {"all", "cuda:0", "gpu0", "0;1", "8", "GPU-41b2", "x,0"};
    AUTO(topo) struct topo *t = machine("dgx-h100");
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        AUTO(free) char *entry = xasprintf("CUDA_VISIBLE_DEVICES=%s", values[i]);
        char *base[] = {entry, NULL};
        struct gpu_assignment *c = NULL;
        struct err e = {0};
        CHECK_INT(gpu_assignment_make(&c, &(struct launch_spec){0}, t, base, &e), -EINVAL);
        CHECK(!c);
        CHECK_HAS(e.text, "': 'dgx-h100' has 8 GPUs");
        CHECK_INT(gpu_assignment_make(&c, &(struct launch_spec){.gpus = ""}, t, base, &e), 0);
        gpu_assignment_free(c);
    }
}

TEST(a_list_that_names_what_is_hidden_or_not_there_is_refused)
{
    static const struct {
        const char *gpus, *why;
    } cases[] = {{"2", "hidden by CUDA_VISIBLE_DEVICES"},
                 {"8", "unknown GPU '8': 'dgx-h100' has 8 GPUs"},
                 {"1,1", "listed twice"},
                 {"1,", "ends with a comma"},
                 {"x", "unknown GPU 'x'"}};
    AUTO(topo) struct topo *t = machine("dgx-h100");
    char *base[] = {(char *)"CUDA_VISIBLE_DEVICES=1,0", NULL};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct gpu_assignment *c = NULL;
        struct err e = {0};
        CHECK_INT(
            gpu_assignment_make(&c, &(struct launch_spec){.gpus = cases[i].gpus}, t, base, &e),
            -EINVAL);
        CHECK(!c);
        CHECK_HAS(e.text, cases[i].why);
    }
}

/* A rank's CUDA_VISIBLE_DEVICES; "-": not set. */
static void check_shown(const char *gpus, const char *expected)
{
    AUTO(topo) struct topo *t = machine("dgx-h100");
    char *base[] = {(char *)"CUDA_VISIBLE_DEVICES=1,0", NULL};
    struct launch_spec s = {.gpus = gpus};
    AUTO(gpu_assignment) struct gpu_assignment *c = NULL;
    AUTO(strv) char **env = xcalloc(1, sizeof *env);
    CHECK_INT(gpu_assignment_make(&c, &s, t, base, NULL), 0);
    gpu_assignment_show(&env, &(struct plan_rank){0}, &s, t, c, base);
    const char *value = env_get(env, "CUDA_VISIBLE_DEVICES");
    CHECK_STR(value ? value : "-", expected);
}

TEST(ranks_are_told_their_gpus_where_they_would_see_others)
{
    check_shown(NULL, "-");
    check_shown("1,0", "-");
    check_shown("0,1", "0,1");
    check_shown("0", "0");
    check_shown("", "");
}

TEST(more_ranks_than_gpus_have_to_be_allowed)
{
    AUTO(topo) struct topo *t = machine("dgx-h100");
    AUTO(gpu_assignment) struct gpu_assignment *c = NULL;
    struct launch_spec s = {.gpus = "0,1"};
    struct plan_node n = {.name = (char *)"a", .local_size = 3};
    struct err e = {0};
    CHECK_INT(gpu_assignment_make(&c, &s, t, NULL, NULL), 0);
    CHECK_INT(gpu_assignment_check(&n, &s, c, &e), -EINVAL);
    CHECK_HAS(e.text, "cannot assign GPUs to 3 ranks: the job has 2 GPUs on 'a'");
    s.oversubscribe = true;
    CHECK_INT(gpu_assignment_check(&n, &s, c, &e), 0);
}
