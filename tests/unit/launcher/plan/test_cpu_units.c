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
