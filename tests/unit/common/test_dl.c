#include "common/dl.h"

#include <dlfcn.h>

#include "tests/unit/test.h"

struct maths {
    double (*cosine)(double x);
    double (*newer)(double x);
    double (*renamed)(double x);
};

static const struct dl_symbol symbols[] = {
    {"cos", offsetof(struct maths, cosine), DL_REQUIRED},
    {"drover_no_such_function", offsetof(struct maths, newer), DL_OPTIONAL},
    {"drover_sine", offsetof(struct maths, renamed), DL_OPTIONAL},
    {"sin", offsetof(struct maths, renamed), DL_REQUIRED},
};

static void check_loads(const struct dl_library *l)
{
    struct maths m;
    memset(&m, 1, sizeof m);
    struct err e = {0};
    void *lib = NULL;
    if (dl_load(&m, &lib, l, &e) < 0)
        FAIL("%s", e.text);
    CHECK(m.cosine(0) == 1);
    CHECK(!m.newer);
    CHECK(m.renamed(0) == 0);
    dlclose(lib);
}

static int check_fails(const struct dl_library *l, struct err *e)
{
    struct maths m;
    memset(&m, 1, sizeof m);
    int rc = dl_load(&m, NULL, l, e);
    CHECK_INT(rc, e->code);
    CHECK(!m.cosine && !m.newer && !m.renamed);
    return rc;
}

TEST(the_functions_of_a_library_fill_a_table)
{
    check_loads(&(struct dl_library){.names = {"libm.so.6"}, DL_SYMBOLS(symbols)});
}

TEST(the_first_file_with_all_functions_is_taken)
{
    /* libdl exists and has no cos(). */
    check_loads(&(struct dl_library){.names = {"libdrover_none.so.1", "libdl.so.2", "libm.so.6"},
                                     DL_SYMBOLS(symbols)});
}

TEST(a_library_that_is_missing_is_named_with_the_way_out)
{
    struct err e = {0};
    const struct dl_library l = {.names = {"libdrover_none.so.13", "libdrover_none.so.12"},
                                 DL_SYMBOLS(symbols),
                                 .hint = "apt install none"};
    CHECK_INT(check_fails(&l, &e), -ENOENT);
    CHECK(strstr(e.text, "libdrover_none.so.13: cannot open"));
    CHECK_STR(e.hint, "apt install none");
    CHECK_INT(dl_load(&(struct maths){0}, NULL, &l, NULL), -ENOENT);
}

TEST(a_function_that_is_missing_is_named)
{
    struct err e = {0};
    const struct dl_library l = {.names = {"libdl.so.2", "libdrover_none.so.1"},
                                 DL_SYMBOLS(symbols)};
    CHECK_INT(check_fails(&l, &e), -ELIBBAD);
    CHECK(strstr(e.text, "undefined symbol: cos"));
    CHECK_STR(e.hint, "");
}

TEST(a_required_function_that_is_missing_leaves_no_half_table)
{
    static const struct dl_symbol with_last_missing[] = {
        {"cos", offsetof(struct maths, cosine), DL_REQUIRED},
        {"drover_sine", offsetof(struct maths, renamed), DL_REQUIRED},
    };
    struct err e = {0};
    const struct dl_library l = {.names = {"libm.so.6"}, DL_SYMBOLS(with_last_missing)};
    struct maths m = {0};
    CHECK_INT(dl_load(&m, NULL, &l, &e), -ELIBBAD);
    CHECK(!m.cosine && strstr(e.text, "undefined symbol: drover_sine"));
}

TEST(the_file_that_the_user_names_is_the_only_one_tried)
{
    const struct dl_library l = {
        .names = {"libm.so.6"}, .variable = "DROVER_TEST_LIB", DL_SYMBOLS(symbols)};
    struct err e = {0};
    setenv("DROVER_TEST_LIB", "/nowhere/lib.so", 1);
    CHECK_INT(check_fails(&l, &e), -ENOENT);
    CHECK(strstr(e.text, "DROVER_TEST_LIB: /nowhere/lib.so: cannot open"));
    setenv("DROVER_TEST_LIB", "", 1);
    check_loads(&l);
    setenv("DROVER_TEST_LIB", "libm.so.6", 1);
    check_loads(&l);
}

TEST(a_library_may_be_required_to_be_loaded_already)
{
    struct err e = {0};
    struct dl_library l = {.names = {"libdrover_none.so.1"},
                           .flags = RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD,
                           DL_SYMBOLS(symbols)};
    CHECK_INT(check_fails(&l, &e), -ENOENT);
    l.names[0] = "libm.so.6"; /* this program is linked with it */
    check_loads(&l);
}
