#include <glob.h>
#include <sys/stat.h>

#include "common/strbuf.h"
#include "launcher/run/features/feature.h"
#include "tests/unit/test.h"

static struct plan_rank ranks[] = {{.rank = 0}, {.rank = 1, .local_rank = 1}};
static const struct plan plan = {.ranks = ranks, .world_size = 2};

static char dir[64];

static uv_loop_t loop;
static struct feature_settings set;
static struct launch_spec spec;
static struct feature_run run_of_set = {.loop = &loop, .set = &set, .spec = &spec, .plan = &plan};

static int open_state(void **out, struct err *e)
{
    struct head {
        FEATURE_STATE;
    } *state = xzalloc(feature_redirect.size);
    state->run = &run_of_set;
    *out = state;
    return feature_redirect.open(state, e);
}

static void begin_attempt(void *r, int number)
{
    spec.restart_count = number;
    feature_redirect.attach(r);
}

/* Returns the directory of the job, which is the only one in `dir`. The caller frees it. */
static char *run_dir(void)
{
    AUTO(free) char *all = xasprintf("%s/*", dir);
    glob_t found;
    CHECK_INT(glob(all, 0, NULL, &found), 0);
    CHECK_INT(found.gl_pathc, 1);
    char *only = xstrdup(found.gl_pathv[0]);
    globfree(&found);
    return only;
}

static void *open_one(const char *redirects, const char *tee)
{
    snprintf(dir, sizeof dir, "/tmp/drover-test-redirect-%d", (int)getpid());
    set = (struct feature_settings){.redirect = {.dir = dir, .run_id = "job"}};
    void *r = NULL;
    struct err e = {0};
    if (redirects)
        CHECK_INT(feature_redirect_parse(&set.redirect.redirects, redirects, &e), 0);
    if (tee)
        CHECK_INT(feature_redirect_parse(&set.redirect.tee, tee, &e), 0);
    CHECK_INT(feature_redirect.check(&set, NULL, NULL), 1);
    CHECK_INT(uv_loop_init(&loop), 0);
    CHECK_INT(open_state(&r, &e), 0);
    begin_attempt(r, 0);
    return r;
}

static void close_one(void *r)
{
    feature_redirect.close(r);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
    free(r);
    feature_redirect_map_free(&set.redirect.redirects);
    feature_redirect_map_free(&set.redirect.tee);
}

/* The contents of the file; NULL if it does not exist. */
static const char *text_of(const char *run, const char *name)
{
    static char text[200];
    char path[300];
    snprintf(path, sizeof path, "%s/%s", run, name);
    AUTO(file) FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    return text;
}

static void clean(void)
{
    AUTO(free) char *command = xasprintf("rm -r '%s'", dir);
    CHECK_INT(system(command), 0);
}

/* Writes a line to its file. Returns true if it belongs on the console, too. */
static bool write_line(void *r, int rank, enum launch_stream from, const char *text, size_t len)
{
    CHECK(feature_redirect.events.line(r, rank, from, text, len));
    return feature_redirect.shows(r, rank, from);
}

TEST(what_is_redirected_is_in_files_and_what_is_teed_on_the_console_too)
{
    void *r = open_one("3", "1:1");
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "a\n", 1));
    CHECK(!write_line(r, 0, LAUNCH_STDERR, "b\r", 1));
    CHECK(write_line(r, 1, LAUNCH_STDOUT, "c\n", 1));
    CHECK(!write_line(r, 1, LAUNCH_STDERR, "end", 3));
    AUTO(free) char *run = run_dir();
    CHECK(strstr(run, "/job_") != NULL);
    close_one(r);
    CHECK_STR(text_of(run, "attempt_0/0/stdout.log"), "a\n");
    CHECK_STR(text_of(run, "attempt_0/0/stderr.log"), "b\r");
    CHECK_STR(text_of(run, "attempt_0/1/stdout.log"), "c\n");
    CHECK_STR(text_of(run, "attempt_0/1/stderr.log"), "end");
    clean();
}

TEST(a_file_is_live_and_has_a_line_that_has_begun_once)
{
    void *r = open_one("1", NULL);
    AUTO(free) char *run = run_dir();
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "a\n", 1));
    feature_redirect.events.partial_line(r, 0, LAUNCH_STDOUT, "b", 1);
    uv_run(&loop, UV_RUN_NOWAIT);
    CHECK_STR(text_of(run, "attempt_0/0/stdout.log"), "a\nb");
    feature_redirect.events.partial_line(r, 0, LAUNCH_STDOUT, "bc", 2);
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "bcd\n", 3));
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "e", 1));
    close_one(r);
    CHECK_STR(text_of(run, "attempt_0/0/stdout.log"), "a\nbcd\ne");
    clean();
}

TEST(a_stream_that_is_not_named_goes_to_the_console_alone)
{
    void *r = open_one("0:1", NULL);
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "a\n", 1));
    CHECK(write_line(r, 0, LAUNCH_STDERR, "b\n", 1));
    CHECK(write_line(r, 1, LAUNCH_STDOUT, "c\n", 1));
    AUTO(free) char *run = run_dir();
    begin_attempt(r, 1);
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "again\n", 5));
    close_one(r);
    CHECK_STR(text_of(run, "attempt_0/0/stdout.log"), "a\n");
    CHECK_STR(text_of(run, "attempt_1/0/stdout.log"), "again\n");
    CHECK(!text_of(run, "attempt_0/0/stderr.log") && !text_of(run, "attempt_0/1/stdout.log"));
    clean();
}

TEST(nothing_is_made_where_nothing_is_redirected)
{
    set = (struct feature_settings){.redirect = {.dir = "/nonexistent/x"}};
    CHECK_INT(feature_redirect.check(&set, NULL, NULL), 0);
    set.redirect.tee.all = 3;
    CHECK_INT(feature_redirect.check(&set, NULL, NULL), 1);
    struct err e = {0};
    void *r = NULL;
    CHECK(open_state(&r, &e) < 0 && strstr(e.text, "/nonexistent/x"));
    free(r);
}

TEST(a_file_that_cannot_be_made_leaves_its_lines_on_the_console)
{
    void *r = open_one("3", NULL);
    AUTO(free) char *run = run_dir();
    AUTO(free) char *taken = xasprintf("%s/attempt_1", run);
    AUTO(file) FILE *f = fopen(taken, "w");
    CHECK(f);
    begin_attempt(r, 1);
    CHECK(write_line(r, 0, LAUNCH_STDOUT, "a\n", 1));
    close_one(r);
    clean();
}

TEST(values_are_0_to_3_for_all_or_by_local_rank)
{
    static const struct {
        const char *text;
        int code;
    } cases[] = {{"0", 0},         {"3", 0},      {"0:1,5:2", 0},   {"4", -ERANGE},
                 {"x", -EINVAL},   {"", -EINVAL}, {"0:4", -ERANGE}, {"0:1,", -EINVAL},
                 {":1", -EINVAL},  {"1", 0},      {"0:", -EINVAL},  {"1,2", -EINVAL},
                 {"-1:3", -ERANGE}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct feature_redirect_map m = {0};
        struct err e = {0};
        if (feature_redirect_parse(&m, cases[i].text, &e) != cases[i].code)
            FAIL("'%s': %d %s", cases[i].text, e.code, e.text);
        feature_redirect_map_free(&m);
    }
}
