/* netif - this machine's network interfaces, as far as jobs over several nodes need them.
 *
 * Inner interfaces lead to containers and virtual machines of this machine alone: docker0, virbr0,
 * … Every node may have them, with the same address. */
#ifndef DROVER_NETIF_H
#define DROVER_NETIF_H

#include <stdbool.h>

/* Whether an interface of that name is an inner one. Pure. */
bool netif_is_inner(const char *name);

/* The names, apart by commas, of inner interfaces that are up. To be freed; NULL: there are none.
 */
char *netif_inner(void);

/* The name of the interface that has this numeric address. To be freed; NULL: none has. */
char *netif_of(const char *address);

/* Appends (strv) every address at which another machine may find this one: of interfaces that are
 * up, neither loopback nor inner; no link-local ones. IPv4 first. */
void netif_addresses(char ***out);

#endif
