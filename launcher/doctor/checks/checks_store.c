#include "launcher/doctor/checks/checks.h"

const struct check *checks_store(size_t *count)
{
    static const struct check rows[1];
    *count = 0;
    return rows;
}
