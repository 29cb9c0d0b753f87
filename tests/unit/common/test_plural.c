#include "common/plural.h"

#include "tests/unit/test.h"

TEST(only_one_is_singular)
{
    CHECK_STR(plural_s(1), "");
    CHECK_STR(plural_s(0), "s");
    CHECK_STR(plural_s(2), "s");
    CHECK_STR(plural_s(-1), "s");
}
