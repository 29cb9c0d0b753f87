#include "collectives/bench/local/pcie_link.h"

#include <math.h>

#include "common/file.h"
#include "common/mem.h"

static const double FIRST_GTS = 2.5; /* of generation 1; generations 2, 3 … have 5, 8, 16 … GT/s */

void pcie_link_read(struct pcie_link *out, const char *sysfs, int domain, int bus, int device)
{
    static const char *const names[] = {"current_link_speed", "current_link_width",
                                        "max_link_width"};
    double values[COUNT_OF(names)] = {0};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        AUTO(free)
        char *path = xasprintf("%s/bus/pci/devices/%04x:%02x:%02x.0/%s", sysfs, (unsigned)domain,
                               (unsigned)bus, (unsigned)device, names[i]);
        (void)file_scan(path, "%lf", &values[i]); /* 0 if there is none */
    }
    /* Generation 3 has 8 GT/s, which is less than twice 5 GT/s: log2 rounds to it. */
    *out = (struct pcie_link){.generation =
                                  values[0] > 0 ? (int)lround(log2(values[0] / FIRST_GTS)) + 1 : 0,
                              .width = (int)values[1],
                              .width_max = (int)values[2]};
}

double pcie_link_gbps(const struct pcie_link *l)
{
    if (l->generation < 1 || l->width < 1)
        return 0;
    double gts = l->generation <= 2 ? FIRST_GTS * l->generation : 8 * pow(2, l->generation - 3);
    double encoding = l->generation <= 2   ? 8.0 / 10
                      : l->generation <= 5 ? 128.0 / 130
                                           : 242.0 / 256;
    return gts * encoding / 8 * l->width;
}
