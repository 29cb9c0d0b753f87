#include "common/byte_size.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char units[] = "KMGTPE";

int byte_size_parse(uint64_t *out_bytes, const char *text, struct err *e)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || !isfinite(value))
        return err_set(e, -EINVAL, "'%s' is not a size (like 8, 64K, 16M, 1G)", text);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit && *unit) {
        value *= (double)(UINT64_C(1) << (10 * (unit - units + 1)));
        end++;
        if (*end == 'i')
            end++;
    }
    if (*end == 'B' || *end == 'b')
        end++;
    if (*end)
        return err_set(e, -EINVAL, "'%s' is not a size (like 8, 64K, 16M, 1G)", text);
    if (value < 0 || value >= 0x1p64)
        return err_set(e, -ERANGE, "size '%s' is out of range", text);
    *out_bytes = (uint64_t)value;
    return 0;
}

char *byte_size_format(char *buf, size_t len, uint64_t bytes)
{
    if (bytes < 1024) {
        snprintf(buf, len, "%u B", (unsigned)bytes);
        return buf;
    }
    double value = (double)bytes;
    int unit = -1;
    do {
        value /= 1024;
        unit++;
    } while (value >= 1024 && unit < (int)strlen(units) - 1);
    snprintf(buf, len, value == floor(value) ? "%.0f %ciB" : "%.1f %ciB", value, units[unit]);
    return buf;
}
