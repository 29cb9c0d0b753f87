/* sweep_options: the words of `drover sweep`, and those that exclude each other. */
#include "hpo/cmd/sweep_options.h"

#include "common/mem.h"
#include "tests/unit/test.h"

enum { WORDS_MAX = 6 };

TEST(restart_needs_a_file_and_excludes_resume)
{
    static const struct {
        char *words[WORDS_MAX];
        const char *error; /* NULL: accepted */
        bool restart;
    } cases[] = {
        {{(char *)"sweep", (char *)"s.yaml"}, NULL, false},
        {{(char *)"sweep", (char *)"s.yaml", (char *)"--restart"}, NULL, true},
        {{(char *)"sweep", (char *)"--restart", (char *)"s.yaml", (char *)"--name", (char *)"t"},
         NULL,
         true},
        {{(char *)"sweep", (char *)"s.yaml", (char *)"--restart", (char *)"--resume"},
         "exclude each other",
         false},
        {{(char *)"resume", (char *)"s", (char *)"--restart"}, "exclude each other", false},
        {{(char *)"sweep", (char *)"--restart"}, "no sweep file given", false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sweep_options o;
        struct err e = {0};
        char *argv[WORDS_MAX + 1] = {0};
        int argc = 0;
        for (; argc < WORDS_MAX && cases[i].words[argc]; argc++)
            argv[argc] = cases[i].words[argc];
        int rc = sweep_options_parse(&o, argc, argv, &e);
        CHECK_INT(rc, cases[i].error ? -EINVAL : 0);
        if (cases[i].error)
            CHECK_HAS(e.text, cases[i].error);
        else
            CHECK(o.restart == cases[i].restart && strcmp(o.file, "s.yaml") == 0);
        sweep_options_free(&o);
    }
}
