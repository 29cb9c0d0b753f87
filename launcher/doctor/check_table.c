#include <assert.h>

#include "common/mem.h"
#include "launcher/doctor/active/active_checks.h"
#include "launcher/doctor/checks/checks.h"

const struct check *check_table(void)
{
    static const struct check *const groups[] = {
        checks_host_limits, checks_host_files, checks_host_kernel, checks_driver,
        checks_gpu,         checks_gpu_each,   checks_link,        checks_soft,
        checks_net,         checks_store,      active_checks};
    static struct check all[CHECKS]; /* filled by the first call */
    size_t n = 0;
    for (size_t g = all[0].id ? COUNT_OF(groups) : 0; g < COUNT_OF(groups); g++)
        for (const struct check *c = groups[g]; c->id; c++) {
            assert(n < CHECKS);
            all[n++] = *c;
        }
    assert(n == 0 || n == CHECKS);
    return all;
}
