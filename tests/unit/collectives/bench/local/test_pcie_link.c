/* pcie_link: what sysfs says, and the rate that follows from it. */
#include "collectives/bench/local/pcie_link.h"

#include <math.h>
#include <sys/stat.h>

#include "common/mem.h"

#include "tests/unit/test.h"

static void put(const char *folder, const char *name, const char *text)
{
    AUTO(free) char *path = xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST(a_link_is_read_and_one_that_is_not_there_is_unknown)
{
    char root[] = "/tmp/drover-pcie-XXXXXX";
    CHECK(mkdtemp(root));
    AUTO(free) char *make = xasprintf("mkdir -p %s/bus/pci/devices/0001:1b:00.0", root);
    AUTO(free) char *folder = xasprintf("%s/bus/pci/devices/0001:1b:00.0", root);
    AUTO(free) char *clean = xasprintf("/bin/rm -rf %s", root);
    CHECK_INT(system(make), 0);
    put(folder, "current_link_speed", "32.0 GT/s PCIe\n");
    put(folder, "current_link_width", "8\n");
    put(folder, "max_link_width", "16\n");
    struct pcie_link l;
    pcie_link_read(&l, root, 1, 0x1b, 0);
    CHECK_INT(l.generation, 5);
    CHECK_INT(l.width, 8);
    CHECK_INT(l.width_max, 16);
    pcie_link_read(&l, root, 0, 0x1b, 0);
    CHECK_INT(l.generation, 0);
    CHECK(pcie_link_gbps(&l) == 0);
    put(folder, "current_link_speed", "Unknown\n"); /* as in some virtual machines */
    pcie_link_read(&l, root, 1, 0x1b, 0);
    CHECK_INT(l.generation, 0);
    CHECK_INT(system(clean), 0);
}

TEST(the_rate_follows_from_generation_and_width)
{
    static const struct {
        int generation, width;
        double
            gbps; /* per direction: PCI Express Base Specification 6.0, table 1-1, with encoding */
    } cases[] = {{1, 1, 0.25},  {2, 16, 8},   {3, 16, 15.75}, {4, 16, 31.51}, {5, 16, 63.02},
                 {5, 8, 31.51}, {6, 16, 121}, {0, 16, 0},     {4, 0, 0}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct pcie_link l = {.generation = cases[i].generation, .width = cases[i].width};
        CHECK(fabs(pcie_link_gbps(&l) - cases[i].gbps) < 0.01 * cases[i].gbps + 1e-9);
    }
}

TEST(each_speed_has_its_generation)
{
    static const char *const speeds[] = {"2.5", "5.0", "8.0", "16.0", "32.0", "64.0"};
    char root[] = "/tmp/drover-pcie-XXXXXX";
    CHECK(mkdtemp(root));
    AUTO(free) char *make = xasprintf("mkdir -p %s/bus/pci/devices/0000:01:00.0", root);
    AUTO(free) char *folder = xasprintf("%s/bus/pci/devices/0000:01:00.0", root);
    AUTO(free) char *clean = xasprintf("/bin/rm -rf %s", root);
    CHECK_INT(system(make), 0);
    for (size_t i = 0; i < COUNT_OF(speeds); i++) {
        AUTO(free) char *text = xasprintf("%s GT/s PCIe\n", speeds[i]);
        struct pcie_link l;
        put(folder, "current_link_speed", text);
        pcie_link_read(&l, root, 0, 1, 0);
        CHECK_INT(l.generation, i + 1);
    }
    CHECK_INT(system(clean), 0);
}
