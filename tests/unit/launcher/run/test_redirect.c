#include "launcher/run/redirect.h"

#include <sys/stat.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

static struct plan_rank ranks[] = {{.rank = 0}, {.rank = 1, .local_rank = 1}};
static const struct plan plan = {.ranks = ranks, .world_size = 2};

static char dir[64];

static struct redirect *open_one(const char *redirects, const char *tee, struct redirect_spec *s)
{
    snprintf(dir, sizeof dir, "/tmp/drover-test-redirect-%d", (int)getpid());
    *s = (struct redirect_spec){.dir = dir, .run_id = "job"};
    struct redirect *r = NULL;
    struct err e = {0};
    if (redirects)
        CHECK_INT(redirect_parse(&s->redirects, redirects, &e), 0);
    if (tee)
        CHECK_INT(redirect_parse(&s->tee, tee, &e), 0);
    CHECK_INT(redirect_open(&r, s, &e), 0);
    redirect_plan(r, &plan, 0);
    return r;
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
static bool write_line(struct redirect *r, int rank, enum launch_stream from, const char *text,
                       size_t len)
{
    redirect_line(r, rank, from, text, len);
    return redirect_shows(r, rank, from);
}

TEST(what_is_redirected_is_in_files_and_what_is_teed_on_the_console_too)
{
    struct redirect_spec s;
    struct redirect *r = open_one("3", "1:1", &s);
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "a\n", 1));
    CHECK(!write_line(r, 0, LAUNCH_STDERR, "b\r", 1));
    CHECK(write_line(r, 1, LAUNCH_STDOUT, "c\n", 1));
    CHECK(!write_line(r, 1, LAUNCH_STDERR, "end", 3));
    AUTO(free) char *run = xstrdup(redirect_dir(r));
    CHECK(strstr(run, "/job_") != NULL);
    redirect_close(r);
    CHECK_STR(text_of(run, "attempt_0/0/stdout.log"), "a\n");
    CHECK_STR(text_of(run, "attempt_0/0/stderr.log"), "b\r");
    CHECK_STR(text_of(run, "attempt_0/1/stdout.log"), "c\n");
    CHECK_STR(text_of(run, "attempt_0/1/stderr.log"), "end");
    redirect_map_free(&s.redirects);
    redirect_map_free(&s.tee);
    clean();
}

TEST(a_file_is_live_and_has_a_line_that_has_begun_once)
{
    struct redirect_spec s;
    struct redirect *r = open_one("1", NULL, &s);
    AUTO(free) char *run = xstrdup(redirect_dir(r));
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "a\n", 1));
    redirect_partial_line(r, 0, LAUNCH_STDOUT, "b", 1);
    redirect_flush(r);
    CHECK_STR(text_of(run, "attempt_0/0/stdout.log"), "a\nb");
    redirect_partial_line(r, 0, LAUNCH_STDOUT, "bc", 2);
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "bcd\n", 3));
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "e", 1));
    redirect_close(r);
    CHECK_STR(text_of(run, "attempt_0/0/stdout.log"), "a\nbcd\ne");
    redirect_map_free(&s.redirects);
    clean();
}

TEST(a_stream_that_is_not_named_goes_to_the_console_alone)
{
    struct redirect_spec s;
    struct redirect *r = open_one("0:1", NULL, &s);
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "a\n", 1));
    CHECK(write_line(r, 0, LAUNCH_STDERR, "b\n", 1));
    CHECK(write_line(r, 1, LAUNCH_STDOUT, "c\n", 1));
    AUTO(free) char *run = xstrdup(redirect_dir(r));
    redirect_plan(r, &plan, 1);
    CHECK(!write_line(r, 0, LAUNCH_STDOUT, "again\n", 5));
    redirect_close(r);
    CHECK_STR(text_of(run, "attempt_0/0/stdout.log"), "a\n");
    CHECK_STR(text_of(run, "attempt_1/0/stdout.log"), "again\n");
    CHECK(!text_of(run, "attempt_0/0/stderr.log") && !text_of(run, "attempt_0/1/stdout.log"));
    redirect_map_free(&s.redirects);
    clean();
}

TEST(nothing_is_made_where_nothing_is_redirected)
{
    struct redirect_spec s = {.dir = "/nonexistent/x"};
    struct redirect *r = NULL;
    CHECK_INT(redirect_open(&r, &s, NULL), 0);
    CHECK(!r);
    CHECK(redirect_shows(NULL, 0, LAUNCH_STDOUT));
    s.tee.all = 3;
    struct err e = {0};
    CHECK(redirect_open(&r, &s, &e) < 0 && strstr(e.text, "/nonexistent/x"));
}

TEST(a_file_that_cannot_be_made_leaves_its_lines_on_the_console)
{
    struct redirect_spec s;
    struct redirect *r = open_one("3", NULL, &s);
    AUTO(free) char *taken = xasprintf("%s/attempt_1", redirect_dir(r));
    AUTO(file) FILE *f = fopen(taken, "w");
    CHECK(f);
    redirect_plan(r, &plan, 1);
    CHECK(write_line(r, 0, LAUNCH_STDOUT, "a\n", 1));
    redirect_close(r);
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
        struct redirect_map m = {0};
        struct err e = {0};
        if (redirect_parse(&m, cases[i].text, &e) != cases[i].code)
            FAIL("'%s': %d %s", cases[i].text, e.code, e.text);
        redirect_map_free(&m);
    }
}
