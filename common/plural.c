#include "common/plural.h"

const char *plural_s(long long n)
{
    return n == 1 ? "" : "s";
}
