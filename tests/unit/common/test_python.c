#include "common/python.h"

#include "tests/unit/test.h"

TEST(an_interpreter_is_python_with_a_version_or_the_marks_of_a_build)
{
    static const char *const yes[] = {"python",      "python3",          "python3.12",
                                      "python3.13t", "/usr/bin/python2", "./python3-dbg",
                                      "python3d",    "../env/bin/python"};
    static const char *const no[] = {"",        "pytho",        "pythonic",       "ipython3",
                                     "cpython", "python3.py",   "python3-config", "/python3/bin/sh",
                                     "pypy3",   "train.python", "python/"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!python_is_interpreter(yes[i]))
            FAIL("'%s' is an interpreter", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (python_is_interpreter(no[i]))
            FAIL("'%s' is no interpreter", no[i]);
}

TEST(a_script_has_a_name_and_the_ending_py)
{
    CHECK(python_is_script("train.py"));
    CHECK(python_is_script("a/b.c.py"));
    CHECK(!python_is_script(".py"));
    CHECK(!python_is_script("train.pyc"));
    CHECK(!python_is_script("py"));
    CHECK(!python_is_script(""));
}
