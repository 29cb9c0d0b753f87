/* section_limits: time limits as users and packets write them. */
#include "launcher/watch/section_limits.h"

#include "tests/unit/test.h"

TEST(sections_have_the_limits_of_their_names)
{
    struct section_limits l = {0};
    struct err e = {0};
    CHECK(!section_limits_any(&l));
    CHECK_INT(section_limits_parse(&l, "setup:10m, step:1.5,eval:null,a:b:3,none:,x:None", &e), 0);
    CHECK_INT(section_limits_of(&l, "setup"), 600000);
    CHECK_INT(section_limits_of(&l, "step"), 1500);
    CHECK_INT(section_limits_of(&l, "eval"), 0);
    CHECK_INT(section_limits_of(&l, "a:b"), 3000);
    CHECK_INT(section_limits_of(&l, "none"), 0);
    CHECK_INT(section_limits_of(&l, "other"), 0);
    CHECK_INT(l.count, 6);
    CHECK(section_limits_any(&l));
    CHECK_INT(section_limits_parse(&l, "step:2,eval:4", &e), 0); /* again: the others stay */
    CHECK_INT(section_limits_of(&l, "step"), 2000);
    CHECK_INT(section_limits_of(&l, "eval"), 4000);
    CHECK_INT(section_limits_of(&l, "setup"), 600000);
    CHECK_INT(section_limits_parse(&l, "", &e), 0);
    struct section_limits copy;
    section_limits_copy(&copy, &l);
    section_limits_free(&l);
    CHECK_INT(section_limits_of(&copy, "a:b"), 3000);
    section_limits_free(&copy);
}

TEST(malformed_limits_are_refused_and_set_nothing)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"step", "'step' is not SECTION:TIME"},
        {":3", "':3' is not SECTION:TIME"},
        {"step:3,", "'' is not SECTION:TIME"},
        {"step:3,step:4", "section 'step' is named twice"},
        {"step:fast", "section 'step': "},
        {"step:0", "section 'step': '0' is not a time limit"},
        {"step:-1", "section 'step': "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct section_limits l = {0};
        struct err e = {0};
        CHECK_INT(section_limits_parse(&l, rows[i].text, &e), -EINVAL);
        CHECK_HAS(e.text, rows[i].why);
        CHECK_INT(l.count, 0);
        section_limits_free(&l);
    }
}

TEST(an_object_changes_the_limits_that_it_has)
{
    static const char text[] = "{\"sections\":{\"step\":0.5,\"eval\":null},\"heartbeat\":null}";
    struct section_limits l = {.other_ms[SECTION_LIMITS_HEARTBEAT] = 7,
                               .other_ms[SECTION_LIMITS_FIRST_HEARTBEAT] = 8};
    struct err e = {0};
    AUTO(json) json_t *from = NULL;
    section_limits_set(&l, "setup", 9);
    CHECK_INT(json_parse(&from, text, strlen(text), &e), 0);
    CHECK_INT(section_limits_read(&l, from, &e), 0);
    CHECK_INT(section_limits_of(&l, "step"), 500);
    CHECK_INT(section_limits_of(&l, "setup"), 9);
    CHECK_INT(l.other_ms[SECTION_LIMITS_HEARTBEAT], 0);
    CHECK_INT(l.other_ms[SECTION_LIMITS_FIRST_HEARTBEAT], 8);
    section_limits_free(&l);
}

TEST(an_object_with_other_types_is_refused)
{
    static const char *const texts[] = {"{\"heartbeat\":\"x\"}", "{\"sections\":3}",
                                        "{\"sections\":{\"a\":-1}}", "{\"out_of_section\":0}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct section_limits l = {0};
        struct err e = {0};
        AUTO(json) json_t *from = NULL;
        CHECK_INT(json_parse(&from, texts[i], strlen(texts[i]), &e), 0);
        CHECK_INT(section_limits_read(&l, from, &e), -EINVAL);
        section_limits_free(&l);
    }
}
