/* netif - the network interfaces of this machine that jobs over several nodes may use.
 *
 * Internal interfaces (docker0, virbr0, …) lead only to containers and virtual machines of this
 * machine. Several nodes may have such an interface with the same address. */
#pragma once

#include <stdbool.h>

/* Returns true if an interface with this name is internal. Pure. */
bool netif_is_internal(const char *name);

/* Returns the name of the interface that has this numeric address, or NULL if none has it. The
 * caller frees the name. Unless `internal` is NULL, sets `*internal` to the comma-separated names
 * of the internal interfaces that are up, or to NULL if there are none. The caller frees it. */
char *netif_by_address(const char *address, char **internal);

/* Appends to the strv `out` every address at which another machine may reach this one; IPv4
 * addresses come first. These are the addresses of interfaces that are up and neither loopback nor
 * internal. Link-local addresses are left out. */
void netif_addresses(char ***out);
