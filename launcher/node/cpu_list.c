#include "launcher/node/cpu_list.h"

#include <ctype.h>
#include <errno.h>

enum { LIST_MAX = 65535 };

/* Reads the number at *p and moves *p past it. Returns -1 if there is no number, or if it is too
 * large. */
static long read_number(const char **p)
{
    char *end = NULL;
    long n = isdigit((unsigned char)**p) ? strtol(*p, &end, 10) : -1;
    *p = end ? end : *p;
    return n <= LIST_MAX ? n : -1;
}

/* Is stricter than hwloc_bitmap_list_sscanf(), which accepts "0-3x" and "3-1", since users type
 * these lists. */
int cpu_list_parse(hwloc_bitmap_t set, const char *text, struct err *e)
{
    AUTO(bitmap) hwloc_bitmap_t b = hwloc_bitmap_alloc();
    const char *p = text;
    do {
        long first = read_number(&p), last = first;
        if (*p == '-') {
            p++;
            last = read_number(&p);
        }
        if (first < 0 || last < first || (*p != ',' && *p != '\0'))
            return err_set(e, -EINVAL, "'%s' is not a list of numbers (such as 0-3,8)", text);
        hwloc_bitmap_set_range(b, (unsigned)first, (int)last);
    } while (*p++ == ',');
    hwloc_bitmap_copy(set, b);
    return 0;
}
