#include "collectives/float16.h"

#include <math.h>

#include "tests/unit/test.h"

TEST(every_half_comes_back_as_it_was)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        float x = half_to_float((uint16_t)h);
        if (isnan(x) ? !isnan(half_to_float(half_from_float(x))) : half_from_float(x) != h)
            FAIL("half %04x becomes %a becomes %04x", h, (double)x, half_from_float(x));
    }
}

TEST(every_bfloat16_comes_back_as_it_was)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        float x = bfloat16_to_float((uint16_t)h);
        if (isnan(x) ? !isnan(bfloat16_to_float(bfloat16_from_float(x)))
                     : bfloat16_from_float(x) != h)
            FAIL("bfloat16 %04x becomes %a", h, (double)x);
    }
}

TEST(known_halves_have_their_values)
{
    CHECK(half_to_float(0x3c00) == 1.0f);
    CHECK(half_to_float(0xc000) == -2.0f);
    CHECK(half_to_float(0x7bff) == 65504.0f);
    CHECK(half_to_float(0x0001) == 0x1p-24f);
    CHECK(half_to_float(0x0400) == 0x1p-14f);
    CHECK(half_to_float(0x3555) == 0x1.554p-2f); /* nearest to 1/3 */
}

/* Against the definition: the nearest of two neighbours, and of two as near, the even one. */
TEST(halves_are_rounded_to_nearest_ties_to_even)
{
    for (unsigned h = 0; h < 0x7bff; h++) {
        float low = half_to_float((uint16_t)h), high = half_to_float((uint16_t)(h + 1));
        float middle = (low + high) / 2; /* exact: 12 bits */
        CHECK_INT(half_from_float(middle), h & 1 ? h + 1 : h);
        CHECK_INT(half_from_float(nextafterf(middle, 0)), h);
        CHECK_INT(half_from_float(nextafterf(middle, INFINITY)), h + 1);
        CHECK_INT(half_from_float(-middle), 0x8000 | (h & 1 ? h + 1 : h));
    }
    CHECK_INT(half_from_float(65519.996f), 0x7bff);
    CHECK_INT(half_from_float(65520.0f), 0x7c00);
    CHECK_INT(half_from_float(INFINITY), 0x7c00);
}

TEST(bfloat16s_are_rounded_to_nearest_ties_to_even)
{
    for (unsigned h = 0; h < 0x7f7f; h++) {
        float low = bfloat16_to_float((uint16_t)h), high = bfloat16_to_float((uint16_t)(h + 1));
        float middle = low + (high - low) / 2;
        CHECK_INT(bfloat16_from_float(middle), h & 1 ? h + 1 : h);
        CHECK_INT(bfloat16_from_float(nextafterf(middle, 0)), h);
        CHECK_INT(bfloat16_from_float(nextafterf(middle, INFINITY)), h + 1);
    }
    CHECK_INT(bfloat16_from_float(INFINITY), 0x7f80);
    CHECK_INT(bfloat16_from_float(-INFINITY), 0xff80);
}
