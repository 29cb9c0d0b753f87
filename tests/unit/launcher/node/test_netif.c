/* netif: names of internal interfaces, and addresses of this machine. */
#include "launcher/node/netif.h"

#include <string.h>

#include "common/mem.h"
#include "tests/unit/test.h"

TEST(bridges_of_containers_and_virtual_machines_are_inner_and_cards_are_not)
{
    static const char *const inner[] = {"docker0", "br-1f2e3d", "virbr0", "lxcbr0", "lxdbr0",
                                        "podman0", "flannel.1", "cni0",   "cali12", "veth9a8b"};
    static const char *const outer[] = {"eth0", "ib0", "enp3s0f1", "bond0", "br0", "wlan0", "lo"};
    for (size_t i = 0; i < COUNT_OF(inner); i++)
        CHECK(netif_is_internal(inner[i]));
    for (size_t i = 0; i < COUNT_OF(outer); i++)
        CHECK(!netif_is_internal(outer[i]));
}

TEST(an_address_names_its_interface_and_a_strange_one_none)
{
    AUTO(free) char *name = netif_by_address("127.0.0.1", NULL);
    CHECK_STR(name, "lo");
    CHECK(!netif_by_address("192.0.2.1", NULL)); /* reserved for documentation: RFC 5737 */
    CHECK(!netif_by_address("no address", NULL));
}

TEST(addresses_for_others_are_those_of_interfaces_that_lead_out)
{
    AUTO(strv) char **found = NULL;
    netif_addresses(&found);
    for (size_t i = 0; found && found[i]; i++) {
        AUTO(free) char *name = netif_by_address(found[i], NULL);
        CHECK(name && strcmp(name, "lo") != 0 && !netif_is_internal(name));
        CHECK(strncmp(found[i], "127.", 4) != 0 && strncmp(found[i], "fe80:", 5) != 0);
    }
}

TEST(inner_interfaces_are_listed_by_name_alone)
{
    AUTO(free) char *names = NULL;
    AUTO(free) char *lo = netif_by_address("127.0.0.1", &names);
    for (char *rest = names, *one; rest && (one = strsep(&rest, ","));)
        CHECK(netif_is_internal(one));
}
