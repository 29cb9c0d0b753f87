#include "launcher/doctor/core/check.h"

#include <assert.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/doctor/active/active_checks.h"
#include "launcher/doctor/checks/checks.h"

enum { CHECKS_MAX = 80 };

static struct check all[CHECKS_MAX]; /* the rows of all groups; filled by the first call */
static size_t count;

const struct check *check_table(void)
{
    static const struct check *(*const groups[])(size_t *) = {
        checks_host, checks_driver, checks_gpu,   checks_link,
        checks_soft, checks_net,    checks_store, active_checks};
    for (size_t g = count ? COUNT_OF(groups) : 0, rows; g < COUNT_OF(groups); g++) {
        const struct check *first = groups[g](&rows);
        assert(count + rows <= CHECKS_MAX);
        memcpy(all + count, first, rows * sizeof *all);
        count += rows;
    }
    return all;
}

size_t check_table_count(void)
{
    (void)check_table();
    return count;
}
