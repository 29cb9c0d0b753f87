#include "launcher/plan/cpu_units.h"

#include "tests/unit/kit_machine.h"
#include "tests/unit/test.h"

/* xeon-2s: 2 packages with one NUMA node each, 8 cores per package, 2 threads per core. */
TEST(cores_come_in_the_machines_order_with_the_objects_that_they_stand_in)
{
    AUTO(topo) struct topo *t = machine("xeon-2s");
    AUTO(cpu_units) struct cpu_units *cores = cpu_units_of(t, topo_allowed(t), false);
    AUTO(cpu_units) struct cpu_units *threads = cpu_units_of(t, topo_allowed(t), true);
    CHECK_INT(threads->count, 2 * cores->count);
    CHECK_INT(hwloc_bitmap_weight(cores->at[0].cpus), 2);
    CHECK_INT(hwloc_bitmap_weight(threads->at[0].cpus), 1);
    CHECK_INT(cores->at[0].in[CPU_UNITS_PACKAGE], 0);
    CHECK_INT(cores->at[cores->count - 1].in[CPU_UNITS_PACKAGE], 1);
    CHECK_INT(cores->at[cores->count - 1].numa_os, 1);
    CHECK_INT(threads->at[1].in[CPU_UNITS_CORE], 0);
    for (int i = 0; i < cores->count; i++)
        CHECK_INT(cores->at[i].in[CPU_UNITS_UNIT], i);
}

TEST(only_what_the_job_may_use_counts)
{
    AUTO(topo) struct topo *t = machine("xeon-2s");
    AUTO(bitmap) hwloc_bitmap_t one = hwloc_bitmap_alloc();
    hwloc_bitmap_set(one, 0);
    AUTO(cpu_units) struct cpu_units *units = cpu_units_of(t, one, false);
    CHECK_INT(units->count, 1);
    CHECK(hwloc_bitmap_isequal(units->at[0].cpus, one));
    hwloc_bitmap_zero(one);
    AUTO(cpu_units) struct cpu_units *none = cpu_units_of(t, one, false);
    CHECK_INT(none->count, 0);
}

TEST(a_range_is_cut_where_the_object_changes_and_widened_to_all_of_it)
{
    AUTO(topo) struct topo *t = machine("xeon-2s");
    AUTO(cpu_units) struct cpu_units *units = cpu_units_of(t, topo_allowed(t), false);
    AUTO(free) int *cut = xcalloc((size_t)units->count + 1, sizeof *cut);
    int half = units->count / 2;
    CHECK_INT(cpu_units_cut(cut, units, (struct cpu_units_range){half - 1, 3}, CPU_UNITS_PACKAGE),
              2);
    CHECK_INT(cut[0], half - 1);
    CHECK_INT(cut[1], half);
    CHECK_INT(cut[2], half + 2);
    CHECK_INT(cpu_units_cut(cut, units, (struct cpu_units_range){0, units->count}, CPU_UNITS_CORE),
              units->count);
    struct cpu_units_range all =
        cpu_units_around(units, (struct cpu_units_range){half + 1, 1}, CPU_UNITS_NUMA);
    CHECK_INT(all.first, half);
    CHECK_INT(all.n, half);
}

/* xeon-2s: 2 packages of 8 cores, whose threads are i and i + 16. */
TEST(slots_name_cores_cores_of_a_package_and_threads)
{
    static const struct {
        const char *text, *cpus, *error; /* of the two, one is NULL */
    } cases[] = {
        {"0", "0,16", NULL},
        {"1-2,15", "1-2,15,17-18,31", NULL},
        {"1:0,2", "8,10,24,26", NULL},
        {"1:*", "8-15,24-31", NULL},
        {"*", "0-31", NULL},
        {"0:7;1:7", "7,15,23,31", NULL},
        {"p0,17", "0,17", NULL},
        {"P3", "3", NULL},
        {"16", NULL, "core 16: the node of 'xeon-2s' has cores 0 to 15"},
        {"1:8", NULL, "core 8: a package of 'xeon-2s' has cores 0 to 7"},
        {"2:0", NULL, "'xeon-2s' has no package 2"},
        {"x:0", NULL, "package: 'x' is not a number"},
        {"-1:0", NULL, "package: -1 is out of range (at least 0)"},
        {"p32", NULL, "'xeon-2s' has no such CPU that this process may use"},
        {"a", NULL, ""},
        {"", NULL, ""},
        {"0;", NULL, ""},
    };
    AUTO(topo) struct topo *t = machine("xeon-2s");
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct err e = {0};
        AUTO(free) char *got = NULL, *prefix = xasprintf("slots '%s': ", cases[i].text);
        int rc = cpu_units_parse(set, t, cases[i].text, &e);
        CHECK_INT(rc, cases[i].cpus ? 0 : -EINVAL);
        if (rc == 0) {
            CHECK(hwloc_bitmap_list_asprintf(&got, set) > 0);
            CHECK_STR(got, cases[i].cpus);
        } else {
            CHECK_HAS(e.text, prefix);
            CHECK_HAS(e.text, cases[i].error);
        }
    }
}
