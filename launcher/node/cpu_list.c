/* topo_list - cpu_list_parse(): hwloc's sets without its discovery, which `drover rank` does not
 * have. */
#include <ctype.h>
#include <errno.h>

#include "launcher/node/topo.h"

enum { LIST_MAX = 65535 };

/* A number at *p, which moves behind it; -1 where there is none or it is too large. */
static long number(const char **p)
{
    if (!isdigit((unsigned char)**p))
        return -1;
    long n = 0;
    for (; isdigit((unsigned char)**p) && n <= LIST_MAX; (*p)++)
        n = n * 10 + (**p - '0');
    return n <= LIST_MAX ? n : -1;
}

/* hwloc_bitmap_list_sscanf() takes "0-3x" and "3-1"; what a person typed is read more strictly. */
int cpu_list_parse(hwloc_bitmap_t set, const char *text, struct err *e)
{
    AUTO(bitmap) hwloc_bitmap_t b = hwloc_bitmap_alloc();
    const char *p = text;
    do {
        long first = number(&p), last = first;
        if (*p == '-') {
            p++;
            last = number(&p);
        }
        if (first < 0 || last < first || (*p != ',' && *p != '\0'))
            return err_set(e, -EINVAL, "'%s' is no list of numbers like 0-3,8", text);
        hwloc_bitmap_set_range(b, (unsigned)first, (int)last);
    } while (*p++ == ',');
    hwloc_bitmap_copy(set, b);
    return 0;
}
