#include "launcher/node/cpu_bind.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>

#include "common/mem.h"
#include "launcher/node/topo.h"
#include "tests/unit/test.h"

static void status_line(const char *field, char *out, size_t size)
{
    AUTO(file) FILE *f = fopen("/proc/thread-self/status", "re");
    char line[512];
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, field, strlen(field)) == 0) {
            char *value = line + strlen(field) + strspn(line + strlen(field), ": \t");
            value[strcspn(value, "\n")] = '\0';
            snprintf(out, size, "%s", value);
        }
}

/* Returns the highest number of a list in the file. */
static int last_of(const char *field)
{
    char list[512] = "";
    status_line(field, list, sizeof list);
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    CHECK_INT(cpu_list_parse(set, list, NULL), 0);
    return hwloc_bitmap_last(set);
}

TEST(a_forked_child_has_the_cpus_that_it_is_given)
{
    AUTO(free) char *list = xasprintf("%d", last_of("Cpus_allowed_list"));
    AUTO(cpu_bind) struct cpu_bind b = {0};
    CHECK_INT(cpu_bind_parse(&b, list, NULL, NULL), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char seen[64] = "";
        if (cpu_bind_apply(&b) != 0)
            _exit(2);
        status_line("Cpus_allowed_list", seen, sizeof seen);
        _exit(strcmp(seen, list) != 0);
    }
    int status = -1;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK_INT(status, 0);
}

TEST(memory_is_bound_or_the_refusal_is_told_apart)
{
    int node = last_of("Mems_allowed_list");
    AUTO(free) char *list = xasprintf("%d", node);
    AUTO(cpu_bind) struct cpu_bind b = {0};
    CHECK_INT(cpu_bind_parse(&b, NULL, list, NULL), 0);
    int rc = cpu_bind_apply(&b), mode = -1;
    if (rc == CPU_BIND_NO_MEMORY_POLICY)
        SKIP("this container allows no memory policy");
    CHECK_INT(rc, 0);
    unsigned long nodes[16] = {0};
    CHECK_INT(syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8, NULL, 0), 0);
    CHECK_INT(mode, MPOL_BIND);
    CHECK_INT(nodes[node / 64], 1L << node % 64);
}

TEST(more_than_1024_cpus_are_fine)
{
    AUTO(cpu_bind) struct cpu_bind b = {0};
    CHECK_INT(cpu_bind_parse(&b, "0,1500-1501,4095", "0,70", NULL), 0);
    const cpu_set_t *cpus = (const cpu_set_t *)b.cpus.bits;
    CHECK_INT(CPU_COUNT_S(b.cpus.words * sizeof(long), cpus), 4);
    CHECK(CPU_ISSET_S(4095, b.cpus.words * sizeof(long), cpus));
    CHECK_INT(b.nodes.bits[0], 1);
    CHECK_INT(b.nodes.bits[1], 1 << 6);
    CHECK_INT(b.nodes.words, 2);
}

TEST(nothing_given_changes_nothing)
{
    AUTO(cpu_bind) struct cpu_bind b = {0};
    char before[256] = "", after[256] = "";
    status_line("Cpus_allowed_list", before, sizeof before);
    CHECK_INT(cpu_bind_parse(&b, NULL, NULL, NULL), 0);
    CHECK_INT(cpu_bind_apply(&b), 0);
    status_line("Cpus_allowed_list", after, sizeof after);
    CHECK_STR(after, before);
}

TEST(cpus_that_are_not_there_are_refused)
{
    AUTO(cpu_bind) struct cpu_bind b = {0};
    CHECK_INT(cpu_bind_parse(&b, "65000", NULL, NULL), 0);
    CHECK_INT(cpu_bind_apply(&b), -EINVAL);
}

TEST(a_malformed_list_is_named_and_leaves_the_output_alone)
{
    struct cpu_bind b = {.cpus = {.words = 77}};
    struct err e = {0};
    CHECK_INT(cpu_bind_parse(&b, "0-", NULL, &e), -EINVAL);
    CHECK_HAS(e.text, "'0-'");
    CHECK_INT(cpu_bind_parse(&b, "0", "x", &e), -EINVAL);
    CHECK_HAS(e.text, "NUMA nodes");
    CHECK_INT(b.cpus.words, 77);
}
