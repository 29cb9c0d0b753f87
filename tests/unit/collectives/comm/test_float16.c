#include "collectives/comm/float16.h"

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

/* Compares with the definition: the nearest of two neighbours; the even one if both are equally
 * near. */
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

TEST(every_8_bit_float_comes_back_as_it_was)
{
    for (unsigned f = 0; f < 0x100; f++) {
        float x = f8e4m3_to_float((uint8_t)f), y = f8e5m2_to_float((uint8_t)f);
        if (isnan(x) ? (f & 0x7f) != 0x7f : f8e4m3_from_float(x) != f)
            FAIL("e4m3 %02x becomes %a becomes %02x", f, (double)x, f8e4m3_from_float(x));
        if (isnan(y) ? (f & 0x7f) < 0x7d : !isinf(y) && f8e5m2_from_float(y) != f)
            FAIL("e5m2 %02x becomes %a becomes %02x", f, (double)y, f8e5m2_from_float(y));
    }
}

TEST(known_8_bit_floats_have_their_values)
{
    CHECK(f8e4m3_to_float(0x38) == 1.0f && f8e4m3_to_float(0xc4) == -3.0f);
    CHECK(f8e4m3_to_float(0x7e) == 448.0f && f8e4m3_to_float(0x01) == 0x1p-9f);
    CHECK(f8e5m2_to_float(0x3c) == 1.0f && f8e5m2_to_float(0x7b) == 57344.0f);
    CHECK(f8e5m2_to_float(0x01) == 0x1p-16f && isinf(f8e5m2_to_float(0x7c)));
    for (unsigned f = 0; f < 0x7c; f++) /* e5m2 is the upper half of a half */
        CHECK(f8e5m2_to_float((uint8_t)f) == half_to_float((uint16_t)(f << 8)));
}

TEST(floats_of_8_bits_are_rounded_to_nearest_ties_to_even_and_stop_at_the_largest)
{
    for (unsigned f = 0; f < 0x7e; f++) {
        float low = f8e4m3_to_float((uint8_t)f), high = f8e4m3_to_float((uint8_t)(f + 1));
        float middle = (low + high) / 2;
        CHECK_INT(f8e4m3_from_float(middle), f & 1 ? f + 1 : f);
        CHECK_INT(f8e4m3_from_float(nextafterf(middle, 0)), f);
        CHECK_INT(f8e4m3_from_float(-nextafterf(middle, INFINITY)), 0x80 | (f + 1));
    }
    for (unsigned f = 0; f < 0x7b; f++) {
        float low = f8e5m2_to_float((uint8_t)f), high = f8e5m2_to_float((uint8_t)(f + 1));
        float middle = (low + high) / 2;
        CHECK_INT(f8e5m2_from_float(middle), f & 1 ? f + 1 : f);
        CHECK_INT(f8e5m2_from_float(nextafterf(middle, INFINITY)), f + 1);
    }
    CHECK_INT(f8e4m3_from_float(1e9f), 0x7e);
    CHECK_INT(f8e5m2_from_float(-INFINITY), 0xfb);
    CHECK_INT(f8e4m3_from_float(NAN) & 0x7f, 0x7f);
}
