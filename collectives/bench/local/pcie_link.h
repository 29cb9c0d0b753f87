/* pcie_link - the PCIe link of a device, as sysfs shows it: its speed and its width. */
#pragma once

struct pcie_link {
    int generation, width; /* as negotiated; an idle device may lower the generation. 0: unknown */
    int width_max;         /* what the device supports; 0: unknown */
};

/* Reads the link of the function 0 of a device below `sysfs`, which is "/sys" outside of tests. */
void pcie_link_read(struct pcie_link *out, const char *sysfs, int domain, int bus, int device);

/* Returns what the link carries in one direction, in GB/s, with its encoding (8b/10b up to
 * generation 2, 128b/130b up to 5, FLIT from 6 on) and without the headers of packets, which cost
 * about 10 % more. 0: unknown. */
double pcie_link_gbps(const struct pcie_link *l);
