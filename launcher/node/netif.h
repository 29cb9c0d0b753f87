/* netif - network interfaces of this machine, as jobs over several nodes need them.
 *
 * Internal interfaces lead to containers and virtual machines of this machine: docker0, virbr0, …
 * Every node may have them, with the same address. */
#ifndef DROVER_NETIF_H
#define DROVER_NETIF_H

#include <stdbool.h>

/* Returns whether an interface with that name is internal. Pure. */
bool netif_is_internal(const char *name);

/* Returns the name of the interface that has this numeric address; the caller frees it. NULL: none
 * has it. `*internal` (unless `internal` is NULL) becomes the comma-separated names of internal
 * interfaces that are up, which the caller frees; NULL: none. */
char *netif_by_address(const char *address, char **internal);

/* Appends (strv) every address at which another machine may reach this one: of interfaces that are
 * up and neither loopback nor internal, without link-local addresses. IPv4 first. */
void netif_addresses(char ***out);

#endif
