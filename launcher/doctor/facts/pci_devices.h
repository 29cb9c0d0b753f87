/* pci_devices - the machine's PCI devices in sysfs, for the checks of GPUs and links. */
#pragma once

#include <stdbool.h>

/* Returns the bus ids ("0000:1b:00.0") of NVIDIA's GPUs, except those that are passed through to
 * virtual machines (a strv); NULL: none. */
char **pci_devices_gpus(void);

/* Returns the name of a device's driver, or NULL. The caller frees it. */
char *pci_devices_driver(const char *bus_id);

/* Returns the bus ids of the bridges above a device, from the root port down, and then its own (a
 * strv); NULL: unknown. */
char **pci_devices_path(const char *bus_id);

/* Returns true if the machine is a virtual one. */
bool pci_devices_in_virtual_machine(void);

/* Returns true if this process is in a container, which may hide devices and processes. */
bool pci_devices_hidden_by_container(void);
