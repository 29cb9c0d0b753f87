/* section_learning: limits that follow from the stored times of earlier jobs. */
#include "launcher/jobs/section_learning.h"

#include "tests/unit/kit_root.h"

static char *argv[] = {(char *)"/opt/train.py", (char *)"--lr", (char *)"1", NULL};

static void store(const char *section, int64_t ms, int64_t outside_ms)
{
    struct section_limits longest = {.other_ms[SECTION_LIMITS_OUTSIDE] = outside_ms};
    struct err e = {0};
    section_limits_set(&longest, section, ms);
    CHECK_INT(section_learning_store(&longest, argv, NULL, &e), 0);
    section_limits_free(&longest);
}

static const char *read_limits(struct section_limits *l, char *const *command)
{
    static struct strbuf text;
    struct err e = {0};
    strbuf_free(&text);
    CHECK_INT(section_learning_read(l, &text, command, NULL, SECTION_LEARNING_FACTOR, &e), 0);
    return strbuf_str(&text);
}

TEST(the_longest_time_of_all_jobs_is_multiplied)
{
    const char *root = new_root();
    setenv("XDG_STATE_HOME", root, 1);
    struct section_limits l = {0};
    CHECK_STR(read_limits(&l, argv), "");
    store("step", 3000, 1500);
    store("step", 2000, 2500); /* each keeps its own maximum */
    CHECK_STR(read_limits(&l, argv), "step 15 s, no section 12.5 s");
    CHECK_INT(section_limits_of(&l, "step"), 15000);
    CHECK_INT(l.other_ms[SECTION_LIMITS_OUTSIDE], 12500);
    section_limits_free(&l);
    remove_root(root);
}

TEST(a_limit_is_not_shorter_than_the_shortest_and_what_the_user_says_stays)
{
    const char *root = new_root();
    setenv("XDG_STATE_HOME", root, 1);
    struct section_limits l = {.other_ms[SECTION_LIMITS_OUTSIDE] = 100};
    struct err e = {0};
    store("step", 20, 50);
    store("eval", 7000, 50);
    store("setup", 9000, 50);
    CHECK_INT(section_limits_parse(&l, "eval:null,setup:1", &e), 0);
    CHECK_STR(read_limits(&l, argv), "step 5 s");
    CHECK_INT(section_limits_of(&l, "step"), SECTION_LEARNING_MIN_MS);
    CHECK_INT(section_limits_of(&l, "eval"), 0);
    CHECK_INT(section_limits_of(&l, "setup"), 1000);
    CHECK_INT(l.other_ms[SECTION_LIMITS_OUTSIDE], 100);
    section_limits_free(&l);
    remove_root(root);
}

TEST(another_program_or_other_options_have_no_limits_but_another_batch_size_has)
{
    const char *root = new_root();
    setenv("XDG_STATE_HOME", root, 1);
    struct section_limits l = {0};
    store("step", 3000, 0);
    char *other[] = {(char *)"/opt/train.py", (char *)"--lr", (char *)"2", NULL};
    char *program[] = {(char *)"/opt/eval.py", (char *)"--lr", (char *)"1", NULL};
    CHECK_STR(read_limits(&l, other), "");
    CHECK_STR(read_limits(&l, program), "");
    char *batch[] = {(char *)"/opt/train.py", (char *)"--lr", (char *)"1",
                     (char *)"--batch-size",  (char *)"8",    NULL};
    CHECK_STR(read_limits(&l, batch), "step 15 s");
    section_limits_free(&l);
    remove_root(root);
}
