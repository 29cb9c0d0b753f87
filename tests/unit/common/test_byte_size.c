#include "common/byte_size.h"

#include "tests/unit/test.h"

TEST(sizes_are_powers_of_1024)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"8", 8},          {"0", 0},       {"4K", 4096},
                {"16M", 16 << 20}, {"1.5k", 1536}, {"8G", UINT64_C(8) << 30},
                {"2MiB", 2 << 20}, {"3KB", 3072},  {"7B", 7}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t got = 0;
        CHECK_INT(byte_size_parse(&got, good[i].text, NULL), 0);
        CHECK_INT(got, good[i].bytes);
    }
}

TEST(what_is_no_size_is_named_and_leaves_the_output_alone)
{
    static const char *const bad[] = {"", "x", "4Q", "-1", "1M5", "nan", "99999999999E", "inf"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t got = 77;
        struct err e = {0};
        CHECK(byte_size_parse(&got, bad[i], &e) < 0);
        CHECK_INT(got, 77);
        CHECK_HAS(e.text, bad[i]);
    }
}

TEST(sizes_are_printed_short)
{
    char b[16];
    CHECK_STR(byte_size_format(b, sizeof b, 0), "0 B");
    CHECK_STR(byte_size_format(b, sizeof b, 1023), "1023 B");
    CHECK_STR(byte_size_format(b, sizeof b, 16 << 20), "16 MiB");
    CHECK_STR(byte_size_format(b, sizeof b, 1536), "1.5 KiB");
}
