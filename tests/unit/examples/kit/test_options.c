/* The kit's command line: initial values, the forms of options, and names that begin like
 * others. */
#include "examples/kit/options.h"

#include "tests/unit/test.h"

struct settings {
    int count, batch, flag, color;
    float rate;
    const char *text;
};

#define ROW(...) OPTIONS_ROW(struct settings, __VA_ARGS__)
static const struct options_row rows[] = {
    ROW(FLAG, "flag", flag, NULL, 0, 0, "", ""),
    ROW(INT, "flag-count", count, "7", -1, 100, "N", ""),
    ROW(INT_OR_AUTO, "batch_size", batch, "16", 1, 64, "N|auto", ""),
    ROW(CHOICE, "color", color, "blue", 0, 0, "red blue light-blue", ""),
    ROW(REAL, "rate", rate, "0.5", 0, 1, "X", ""),
    ROW(TEXT, "text", text, NULL, 0, 0, "TEXT", ""),
};
static const struct options options = {"test", "", rows, sizeof rows / sizeof *rows};

static struct settings parse(char *first, char *second)
{
    struct settings s = {0};
    options_parse(&options, &s, (char *[]){(char[]){"test"}, first, second, NULL});
    return s;
}

TEST(rows_have_initial_values)
{
    struct settings s = parse(NULL, NULL);
    CHECK(s.count == 7 && s.batch == 16 && s.flag == 0 && s.color == 1 && s.text == NULL);
    CHECK_NEAR(s.rate, 0.5, 0);
}

TEST(options_have_values_in_both_forms)
{
    CHECK_INT(parse((char[]){"--flag-count=3"}, NULL).count, 3);
    CHECK_INT(parse((char[]){"--flag-count"}, (char[]){"-1"}).count, -1);
    CHECK_STR(parse((char[]){"--text=a=b"}, NULL).text, "a=b");
    CHECK_STR(parse((char[]){"--text="}, NULL).text, "");
    CHECK_STR(parse((char[]){"--text"}, (char[]){"--flag"}).text, "--flag");
    CHECK_INT(parse((char[]){"--color=red"}, (char[]){"--color=light-blue"}).color, 2);
}

TEST(values_may_have_the_forms_of_a_sweep)
{
    CHECK_INT(parse((char[]){"--flag_count=64.0"}, NULL).count, 64);
    CHECK_INT(parse((char[]){"--batch-size=auto"}, NULL).batch, 0);
    CHECK_INT(parse((char[]){"--batch_size=1e1"}, NULL).batch, 10);
    CHECK_NEAR(parse((char[]){"--rate=1"}, NULL).rate, 1, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(
            parse((char *[]){(char[]){"--flag=False"}, (char[]){"--flag=True"}}[i], NULL).flag, i);
        CHECK_INT(parse((char *[]){(char[]){"--flag=0"}, (char[]){"--flag"}}[i], NULL).flag, i);
    }
}
