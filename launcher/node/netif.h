/* netif - this machine's network interfaces, as far as jobs over several nodes need them.
 *
 * Inner interfaces lead to containers and virtual machines of this machine alone: docker0, virbr0,
 * … Every node may have them, with the same address. */
#ifndef DROVER_NETIF_H
#define DROVER_NETIF_H

#include <stdbool.h>

/* Whether an interface of that name is an inner one. Pure. */
bool netif_is_internal(const char *name);

/* The name of the interface that has this numeric address. To be freed; NULL: none has. In `inner`,
 * unless NULL, the names, apart by commas, of inner interfaces that are up: NULL where there are
 * none, else to be freed, too. */
char *netif_by_address(const char *address, char **inner);

/* Appends (strv) every address at which another machine may find this one: of interfaces that are
 * up, neither loopback nor inner; no link-local ones. IPv4 first. */
void netif_addresses(char ***out);

#endif
