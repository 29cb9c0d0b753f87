/* ft_options: the settings of ft_launcher. */
#include "launcher/run/ft_options.h"

#include "common/mem.h"
#include "launcher/jobs/section_learning.h"
#include "tests/unit/kit_root.h"
#include "tests/unit/kit_temp_file.h"

static struct section_limits limits;
static char *config;
static char **warnings;
static struct err error;
static struct strbuf learnt;

static int read_options(const struct ft_options *o)
{
    section_limits_free(&limits);
    strv_free(TAKE(warnings));
    free(TAKE(config));
    strbuf_free(&learnt);
    error = (struct err){0};
    return ft_options_read(&config, &limits, o, &warnings, &learnt, &error);
}

static void done(void)
{
    section_limits_free(&limits);
    strv_free(TAKE(warnings));
    free(TAKE(config));
    strbuf_free(&learnt);
}

static void write_file(const struct place *p, const char *text)
{
    FILE *f = fopen(p->path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST(without_settings_there_are_the_extension_s_defaults)
{
    CHECK_INT(read_options(&(struct ft_options){0}), 0);
    CHECK_INT(limits.count, 0);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_OUTSIDE], 0);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_HEARTBEAT], 45 * 60 * 1000);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_FIRST_HEARTBEAT], 60 * 60 * 1000);
    CHECK_STR(config, "{\"rank_section_timeouts\":{},\"rank_out_of_section_timeout\":null,"
                      "\"rank_heartbeat_timeout\":2700.0,\"initial_rank_heartbeat_timeout\":3600.0,"
                      "\"workload_check_interval\":5.0,\"safety_factor\":5.0}");
    done();
}

TEST(options_override_the_file_which_overrides_the_defaults)
{
    struct place p = make_place();
    write_file(&p, "exp:\n  - trainer: 1\n  - fault_tolerance:\n"
                   "      rank_section_timeouts: {setup: 60, step: 7}\n"
                   "      rank_heartbeat_timeout: null\n      rank_out_of_section_timeout: 30\n"
                   "      safety_factor: 3\n      log_level: DEBUG\n      what: 1\n");
    struct ft_options o = {.config_path = p.path};
    CHECK_INT(read_options(&o), 0);
    CHECK_INT(section_limits_of(&limits, "setup"), 60000);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_HEARTBEAT], 0);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_OUTSIDE], 30000);
    CHECK_HAS(config, "\"safety_factor\":3");
    CHECK_INT(strv_len(warnings), 1);
    CHECK_HAS(warnings[0], "'what' is unknown");
    o.value[FT_SECTION_TIMEOUTS] = "step:0.5,eval:none";
    o.value[FT_OUT_OF_SECTION_TIMEOUT] = "null";
    o.value[FT_INITIAL_HEARTBEAT_TIMEOUT] = "12";
    o.value[FT_SAFETY_FACTOR] = "2.5";
    CHECK_INT(read_options(&o), 0);
    CHECK_INT(section_limits_of(&limits, "setup"), 0); /* the option replaces the whole mapping */
    CHECK_INT(section_limits_of(&limits, "step"), 500);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_OUTSIDE], 0);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_FIRST_HEARTBEAT], 12000);
    CHECK_HAS(config, "{\"rank_section_timeouts\":{\"step\":0.5,\"eval\":null}");
    CHECK_HAS(config, "\"safety_factor\":2.5");
    done();
    remove_place(&p);
}

TEST(a_file_without_the_key_is_a_warning)
{
    struct place p = make_place();
    write_file(&p, "trainer: 1\n");
    CHECK_INT(read_options(&(struct ft_options){.config_path = p.path}), 0);
    CHECK_HAS(warnings[0], "no mapping 'fault_tolerance'");
    write_file(&p, "fault_tolerance: {rank_section_timeouts: null}\n");
    CHECK_INT(read_options(&(struct ft_options){.config_path = p.path}), 0);
    CHECK_HAS(config, "{\"rank_section_timeouts\":{}");
    done();
    remove_place(&p);
}

TEST(malformed_settings_are_refused)
{
    static const struct {
        const char *file, *value, *why;
        enum ft_setting setting;
    } rows[] = {
        {NULL, "step", "--ft-rank_section_timeouts: 'step'", FT_SECTION_TIMEOUTS},
        {NULL, "x", "--ft-rank_heartbeat_timeout: ", FT_HEARTBEAT_TIMEOUT},
        {NULL, "0", "--ft-safety_factor: ", FT_SAFETY_FACTOR},
        {NULL, "3x", "--ft-safety_factor: ", FT_SAFETY_FACTOR},
        {"fault_tolerance: {rank_heartbeat_timeout: soon}\n", NULL, "heartbeat", FT_SETTINGS},
        {"fault_tolerance: {rank_section_timeouts: {a: -1}}\n", NULL, "fault_tolerance: a",
         FT_SETTINGS},
        {"fault_tolerance: {safety_factor: null}\n", NULL, "safety_factor", FT_SETTINGS},
        {"fault_tolerance: [\n", NULL, ":2:", FT_SETTINGS},
    };
    struct place p = make_place();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ft_options o = {.config_path = rows[i].file ? p.path : NULL};
        if (rows[i].file)
            write_file(&p, rows[i].file);
        else
            o.value[rows[i].setting] = rows[i].value;
        CHECK_INT(read_options(&o), -EINVAL);
        CHECK_HAS(error.text, rows[i].why);
    }
    remove_place(&p);
    CHECK_INT(read_options(&(struct ft_options){.config_path = "/nowhere/ft.yaml"}), -ENOENT);
    done();
}

TEST(limits_that_are_not_given_are_learnt_with_the_safety_factor)
{
    const char *root = new_root();
    char *argv[] = {(char *)"./train.py", (char *)"--lr", (char *)"1", NULL};
    struct section_limits longest = {.other_ms[SECTION_LIMITS_OUTSIDE] = 2000,
                                     .other_ms[SECTION_LIMITS_HEARTBEAT] = 10000};
    setenv("XDG_STATE_HOME", root, 1);
    struct ft_options o = {.learn_argv = argv, .learn_wdir = "/home/ada"};
    CHECK_INT(read_options(&o), 0); /* nothing is known */
    CHECK_INT(learnt.len, 0);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_HEARTBEAT], 45 * 60 * 1000);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_OUTSIDE], 0);
    section_limits_set(&longest, "step", 4000);
    section_limits_set(&longest, "setup", 60000);
    CHECK_INT(section_learning_store(&longest, argv, "/home/ada", &error), 0);
    section_limits_free(&longest);
    o.value[FT_SECTION_TIMEOUTS] = "setup:90";
    o.value[FT_SAFETY_FACTOR] = "3";
    CHECK_INT(read_options(&o), 0);
    CHECK_STR(strbuf_str(&learnt), "step 12 s, no section 6 s, heartbeat 30 s");
    CHECK_INT(section_limits_of(&limits, "setup"), 90000);
    CHECK_INT(section_limits_of(&limits, "step"), 12000);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_OUTSIDE], 6000);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_HEARTBEAT], 30000);
    CHECK_INT(limits.other_ms[SECTION_LIMITS_FIRST_HEARTBEAT], 60 * 60 * 1000);
    CHECK_STR(config, "{\"rank_section_timeouts\":{\"setup\":90.0,\"step\":12.0},"
                      "\"rank_out_of_section_timeout\":6.0,\"rank_heartbeat_timeout\":30.0,"
                      "\"initial_rank_heartbeat_timeout\":3600.0,\"workload_check_interval\":5.0,"
                      "\"safety_factor\":3.0}");
    done();
    remove_root(root);
}
