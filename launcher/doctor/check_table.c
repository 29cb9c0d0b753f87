#include "launcher/doctor/check.h"

#include <string.h>

#include "common/mem.h"
#include "launcher/doctor/checks/checks.h"

enum { GROUPS = 7, CHECKS_MAX = 80 };

static const struct check *group(size_t i, size_t *count)
{
    static const struct check *(*const groups[GROUPS])(size_t *) = {
        checks_host, checks_driver, checks_gpu, checks_link, checks_soft, checks_net, checks_store};
    return groups[i](count);
}

const struct check *check_table(size_t *count)
{
    static struct check all[CHECKS_MAX]; /* the rows of all groups, one after the other */
    static size_t n;
    for (size_t g = 0; g < GROUPS && n < CHECKS_MAX && !(n > 0 && g == 0); g++) {
        size_t rows;
        const struct check *first = group(g, &rows);
        for (size_t i = 0; i < rows && n < CHECKS_MAX; i++)
            all[n++] = first[i];
    }
    *count = n;
    return all;
}

const struct check *check_find(const char *id)
{
    size_t n;
    const struct check *rows = check_table(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].id, id) == 0)
            return &rows[i];
    return NULL;
}
