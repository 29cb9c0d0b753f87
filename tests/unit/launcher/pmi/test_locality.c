#include "launcher/pmi/pmix_job_info.h"

#include "launcher/node/cpu_list.h"
#include "tests/unit/test.h"

/* Checks the locality on a machine of two packages, each with a NUMA node, an L3, and two cores
 * with two threads. */
static void check(const char *cpus, const char *expected)
{
    hwloc_topology_t t;
    AUTO(bitmap) hwloc_bitmap_t set = hwloc_bitmap_alloc();
    hwloc_topology_init(&t);
    hwloc_topology_set_synthetic(
        t, "pack:2 [numa] l3:1 l2:2 l1d:1 core:1 pu:2(indexes=0,4,1,5,2,6,3,7)");
    CHECK_INT(hwloc_topology_load(t), 0);
    CHECK_INT(cpu_list_parse(set, cpus, NULL), 0);
    char *found = pmix_job_info_locality(t, set);
    CHECK_STR(found, expected);
    free(found);
    hwloc_topology_destroy(t);
}

TEST(a_core_is_in_its_caches_package_and_numa_node)
{
    check("1,5", "NM0:SK0:L30:L21:L11:CR1:HT2-3");
}

TEST(indexes_are_logical)
{
    check("4", "NM0:SK0:L30:L20:L10:CR0:HT1");
    check("3", "NM1:SK1:L31:L23:L13:CR3:HT6");
}

TEST(cpus_of_several_packages_have_all_of_them)
{
    check("0,2", "NM0-1:SK0-1:L30-1:L20,2:L10,2:CR0,2:HT0,4");
}
