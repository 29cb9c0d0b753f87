/* netif - this machine's network interfaces, as far as ranks on several nodes have to be told. */
#ifndef DROVER_NETIF_H
#define DROVER_NETIF_H

/* The names, apart by commas, of interfaces that are up and lead to containers and virtual machines
 * of this machine alone: docker0, virbr0, … Every node has them, with the same address. To be
 * freed; NULL: there are none. */
char *netif_inner(void);

#endif
