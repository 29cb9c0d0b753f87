#include "launcher/node/topo_path.h"

#include "tests/unit/test.h"

/* A machine with one network card: its PCI class, vendor and device, and the name and hwloc type of
 * the card's driver, if it has one. */
static bool has_fabric(const char *pci, const char *name, int osdev_type)
{
    AUTO(free)
    char *driver =
        name ? xasprintf("<object type='OSDev' name='%s' osdev_type='%d'/>", name, osdev_type)
             : xstrdup("");
    AUTO(free)
    char *xml = xasprintf(
        "<?xml version='1.0' encoding='UTF-8'?>\n<!DOCTYPE topology SYSTEM 'hwloc2.dtd'>\n"
        "<topology version='2.0'><object type='Machine' os_index='0' cpuset='0x1' "
        "complete_cpuset='0x1' allowed_cpuset='0x1' nodeset='0x1' complete_nodeset='0x1' "
        "allowed_nodeset='0x1'><object type='NUMANode' os_index='0' cpuset='0x1' "
        "complete_cpuset='0x1' nodeset='0x1' complete_nodeset='0x1' local_memory='1024'/>"
        "<object type='PU' os_index='0' cpuset='0x1' complete_cpuset='0x1' nodeset='0x1' "
        "complete_nodeset='0x1'/><object type='Bridge' bridge_type='0-1' depth='0' "
        "bridge_pci='0000:[00-01]'><object type='PCIDev' pci_busid='0000:01:00.0' "
        "pci_type='%s [0000:0000] 00' pci_link_speed='0.0'>%s</object></object></object>"
        "</topology>",
        pci, driver);
    for (char *c = xml; *c; c++)
        if (*c == '\'')
            *c = '"';
    char path[] = "/tmp/drover-test-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, xml, strlen(xml)) == (ssize_t)strlen(xml));
    close(fd);
    AUTO(topo) struct topo *t = NULL;
    struct err e = {0};
    if (topo_load_file(&t, path, &e) < 0)
        FAIL("%s", e.text);
    unlink(path);
    return topo_has_fabric(t);
}

enum { NETWORK = 2, OPENFABRICS = 3 };

TEST(a_machine_has_a_fabric_if_a_card_has_a_driver_or_a_class_for_it)
{
    CHECK(has_fabric("0200 [8086:159b]", "irdma0", OPENFABRICS)); /* RoCE on an Ethernet card */
    CHECK(has_fabric("0207 [15b3:101b]", NULL, 0));               /* its driver comes later */
    CHECK(has_fabric("0208 [8086:24f0]", NULL, 0));               /* Omni-Path */
    CHECK(has_fabric("0200 [15b3:101d]", "eth0", NETWORK));       /* ConnectX: RoCE is possible */
    CHECK(has_fabric("0200 [17db:0501]", "hsn0", NETWORK));       /* Slingshot */
    CHECK(has_fabric("0200 [1d0f:efa1]", NULL, 0));               /* EFA */
}

TEST(an_ethernet_card_is_not_a_fabric)
{
    CHECK(!has_fabric("0200 [8086:1572]", "eth0", NETWORK));
    CHECK(!has_fabric("0200 [1d0f:ec20]", "ens5", NETWORK)); /* Amazon's ENA */
    CHECK(!has_fabric("0200 [1af4:1041]", "eth0", NETWORK)); /* virtio */
}

TEST(recorded_machines_have_a_fabric_or_not)
{
    AUTO(topo) struct topo *with = NULL, *without = NULL;
    CHECK_INT(topo_load_file(&with, "tests/plan/machines/dgx-a100-fabric.xml", NULL), 0);
    CHECK_INT(topo_load_file(&without, "tests/plan/machines/vm-2core.xml", NULL), 0);
    CHECK(topo_has_fabric(with));
    CHECK(!topo_has_fabric(without));
}
