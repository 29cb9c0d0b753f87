/* topo_known: which XML counts as the same machine, and how many are kept. That machines share
 * their topologies is in test_topo.c. */
#include "launcher/node/topo_known.h"

#include <string.h>

#include "tests/unit/test.h"

static hwloc_topology_t find(struct topo_known *k, const char *xml)
{
    return topo_known_find(k, xml, strlen(xml));
}

/* Adds the XML; only the cache keeps the result. */
static hwloc_topology_t add(struct topo_known *k, const char *xml)
{
    hwloc_topology_t hw;
    CHECK_INT(hwloc_topology_init(&hw), 0);
    topo_known_add(k, xml, strlen(xml), hw);
    topo_known_release(hw);
    return hw;
}

TEST(what_is_a_machines_own_makes_no_difference_and_all_else_does)
{
    static const char xml[] = "<object type=\"Machine\">\t<info name=\"HostName\" value=\"a\"/>\t"
                              "<info name=\"CPUModel\" value=\"x\"/>\t"
                              "<object type=\"NUMANode\" os_index=\"0\" local_memory=\"4096\">\t"
                              "<page_type size=\"4096\" count=\"1\"/></object></object>";
    static const struct {
        const char *xml;
        bool same;
    } others[] = {
        {"<object type=\"Machine\">\t<info name=\"HostName\" value=\"b\"/>\t"
         "<info name=\"CPUModel\" value=\"x\"/>\t"
         "<info name=\"LinuxCgroup\" value=\"/b\"/>\t"
         "<object type=\"NUMANode\" os_index=\"0\" local_memory=\"8192\">\t"
         "<page_type size=\"4096\" count=\"2\"/></object></object>",
         true},
        {"<object type=\"Machine\">\t<info name=\"HostName\" value=\"a\"/>\t"
         "<info name=\"CPUModel\" value=\"y\"/>\t"
         "<object type=\"NUMANode\" os_index=\"0\" local_memory=\"4096\">\t"
         "<page_type size=\"4096\" count=\"1\"/></object></object>",
         false},
        {"<object type=\"Machine\">\t<info name=\"HostName\" value=\"a\"/>\t"
         "<info name=\"CPUModel\" value=\"x\"/>\t"
         "<object type=\"NUMANode\" os_index=\"1\" local_memory=\"4096\">\t"
         "<page_type size=\"4096\" count=\"1\"/></object></object>",
         false},
        {"<", false},
        {"<object type=\"NUMANode\" local_memory=\"", false},
        {"", false},
    };
    AUTO(topo_known) struct topo_known *k = topo_known_new();
    CHECK(!find(k, xml));
    hwloc_topology_t hw = add(k, xml);
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        hwloc_topology_t found = find(k, others[i].xml);
        CHECK(found == (others[i].same ? hw : NULL));
        topo_known_release(found);
    }
}

TEST(a_job_with_many_kinds_of_machines_keeps_the_last_ones)
{
    enum { MANY = 100 };
    AUTO(topo_known) struct topo_known *k = topo_known_new();
    for (int i = 0; i < MANY; i++) {
        AUTO(free) char *xml = xasprintf("<object type=\"%d\"/>", i);
        add(k, xml);
    }
    hwloc_topology_t last = find(k, "<object type=\"99\"/>");
    CHECK(last);
    topo_known_release(last);
    CHECK(!find(k, "<object type=\"0\"/>"));
}
