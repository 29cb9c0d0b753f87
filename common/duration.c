#include "common/duration.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static const struct {
    const char *name;
    double seconds;
} units[] = {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}, {"ms", 1e-3}};

/* Reads "90" or "1h30m". Returns false if the text is neither. */
static bool read_parts(double *out_s, const char *text)
{
    double total = 0;
    size_t next = 0; /* index of the largest unit that may follow */
    for (const char *p = text; p == text || *p;) {
        char *end = NULL;
        size_t digits = strspn(p, "0123456789."); /* strtod() accepts more than these */
        double number = strtod(p, &end);
        if (digits == 0 || end != p + digits)
            return false;
        size_t len = strcspn(end, "0123456789."), i = next;
        while (i < COUNT_OF(units) &&
               (strlen(units[i].name) != len || strncmp(units[i].name, end, len) != 0))
            i++;
        bool plain = len == 0 && p == text;
        if (i == COUNT_OF(units) && !plain)
            return false;
        total += number * (plain ? 1 : units[i].seconds);
        next = i + 1;
        p = end + len;
    }
    *out_s = total;
    return isfinite(total);
}

int duration_parse(double *out_s, const char *text, struct err *e)
{
    double seconds = 0;
    if (!read_parts(&seconds, text)) {
        err_set(e, -EINVAL, "'%s' is not a duration", text);
        err_hint(e, "seconds, or a number with a unit: 90, 500ms, 10m, 1h30m, 2d");
        return -EINVAL;
    }
    *out_s = seconds;
    return 0;
}

char *duration_format(char *buf, size_t size, int64_t s)
{
    long long n = s < 0 ? 0 : s;
    if (n < 60)
        snprintf(buf, size, "%llds", n);
    else if (n < 3600)
        snprintf(buf, size, "%lldm%02llds", n / 60, n % 60);
    else if (n < 86400)
        snprintf(buf, size, "%lldh%02lldm", n / 3600, n / 60 % 60);
    else
        snprintf(buf, size, "%lldd%02lldh", n / 86400, n / 3600 % 24);
    return buf;
}
