/* events: whole lines of JSON at the end of a file, and nothing worse than a warning when it is
 * full. */
#include "launcher/jobs/job_events.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/strbuf.h"
#include "tests/unit/kit_temp_file.h"

static struct job_events *open_it(const struct place *p)
{
    struct job_events *ev = NULL;
    struct err e = {0};
    if (job_events_open(&ev, p->path, &e) < 0)
        FAIL("%s", e.text);
    return ev;
}

/* The lines of the file; `*count` of them. To be freed (strv_free). */
static char **lines_of(const struct place *p, size_t *count)
{
    AUTO(file) FILE *f = fopen(p->path, "re");
    CHECK(f);
    char **all = NULL, *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
        CHECK(line[n - 1] == '\n');
        strv_push(&all, xstrndup(line, (size_t)n - 1));
    }
    free(line);
    *count = strv_len(all);
    return all;
}

static json_t *parsed(const char *line)
{
    struct err e = {0};
    json_t *j = NULL;
    if (json_parse(&j, line, strlen(line), &e) < 0)
        FAIL("%s in '%s'", e.text, line);
    return j;
}

TEST(a_time_is_utc_with_milliseconds)
{
    char text[25];
    job_events_time(text, 1700000000007);
    CHECK_STR(text, "2023-11-14T22:13:20.007Z");
    job_events_time(text, 0);
    CHECK_STR(text, "1970-01-01T00:00:00.000Z");
}

TEST(an_event_is_one_line_with_its_time_and_job)
{
    struct place p = make_place();
    struct job_events *ev = open_it(&p);
    job_events_write(ev, "exit", "j1", json_pack("{s:i}", "rank", 3));
    job_events_write(ev, "ended", "j1", NULL);
    job_events_close(ev);
    size_t n = 0;
    AUTO(strv) char **lines = lines_of(&p, &n);
    CHECK_INT(n, 2);
    AUTO(json) json_t *first = parsed(lines[0]);
    CHECK_INT(json_object_size(first), 4);
    CHECK_STR(json_string_value(json_object_get(first, "event")), "exit");
    CHECK_STR(json_string_value(json_object_get(first, "job")), "j1");
    CHECK_INT(json_integer_value(json_object_get(first, "rank")), 3);
    CHECK_INT(strlen(json_string_value(json_object_get(first, "time"))), 24);
    remove_place(&p);
}

TEST(what_is_in_the_file_stays)
{
    struct place p = make_place();
    for (int i = 0; i < 3; i++) {
        AUTO(job_events) struct job_events *ev = open_it(&p);
        job_events_write(ev, "planned", "j", NULL);
    }
    size_t n = 0;
    AUTO(strv) char **lines = lines_of(&p, &n);
    CHECK_INT(n, 3);
    CHECK(lines[2]);
    remove_place(&p);
}

static void *write_many(void *ev)
{
    for (int i = 0; i < 500; i++)
        job_events_write(ev, "lines", "j", json_pack("{s:i}", "n", i));
    return NULL;
}

TEST(several_writers_of_one_file_never_tear_a_line)
{
    struct place p = make_place();
    AUTO(job_events) struct job_events *a = open_it(&p);
    AUTO(job_events) struct job_events *b = open_it(&p);
    pthread_t other;
    CHECK_INT(pthread_create(&other, NULL, write_many, a), 0);
    write_many(b);
    pthread_join(other, NULL);
    size_t n = 0;
    AUTO(strv) char **lines = lines_of(&p, &n);
    CHECK_INT(n, 1000);
    for (size_t i = 0; i < n; i++) {
        AUTO(json) json_t *j = parsed(lines[i]);
        CHECK(json_is_object(j));
    }
    remove_place(&p);
}

TEST(a_full_disk_costs_events_but_no_line_behind_them)
{
    signal(SIGXFSZ, SIG_IGN); /* a limit of the file's size is a disk that is full */
    struct place p = make_place();
    AUTO(job_events) struct job_events *ev = open_it(&p);
    job_events_write(ev, "planned", "j", NULL);
    struct stat st;
    CHECK_INT(stat(p.path, &st), 0);
    struct rlimit was, small;
    getrlimit(RLIMIT_FSIZE, &was);
    small = was;
    small.rlim_cur = (rlim_t)st.st_size + 10;
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
    job_events_write(ev, "exit", "j", NULL); /* ten bytes of it */
    job_events_write(ev, "exit", "j", NULL); /* nothing */
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &was), 0);
    job_events_write(ev, "ended", "j", NULL);
    size_t n = 0;
    AUTO(strv) char **lines = lines_of(&p, &n);
    CHECK_INT(n, 3);
    CHECK_INT(strlen(lines[1]), 10);
    AUTO(json) json_t *last = parsed(lines[2]);
    CHECK_STR(json_string_value(json_object_get(last, "event")), "ended");
    remove_place(&p);
}

TEST(a_file_that_cannot_be_made_is_named)
{
    struct job_events *ev = NULL;
    struct err e = {0};
    CHECK_INT(job_events_open(&ev, "/no/such/directory/x", &e), -ENOENT);
    CHECK_HAS(e.text, "'/no/such/directory/x'");
    CHECK(!ev);
}

TEST(a_pipe_without_a_reader_does_not_hold_up_the_job)
{
    struct place p = make_place();
    CHECK_INT(mkfifo(p.path, 0600), 0);
    struct job_events *ev = NULL;
    struct err e = {0};
    CHECK_INT(job_events_open(&ev, p.path, &e), -ENXIO);
    CHECK_HAS(e.text, "no reader");
    remove_place(&p);
}

TEST(without_a_file_nothing_is_written)
{
    job_events_write(NULL, "exit", "j", json_pack("{s:i}", "rank", 3)); /* and nothing leaks */
}
