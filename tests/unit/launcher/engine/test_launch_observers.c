/* launch_observers: which observers get an event, and that `ended` is the last event. */
#include <string.h>

#include "launcher/engine/launch_internal.h"
#include "tests/unit/test.h"

struct seen {
    int lines, reports, sections, ends;
    bool pauses;
};

static bool on_line(void *arg, int rank, enum launch_stream from, const char *text, size_t len)
{
    struct seen *s = arg;
    s->lines++;
    return !s->pauses;
}

static void on_report(void *arg, int rank, const char *json, size_t len)
{
    ((struct seen *)arg)->reports++;
}

static void on_progress(void *arg, int rank, const struct progress_packet *p)
{
    ((struct seen *)arg)->sections++;
}

static void on_ended(void *arg, const struct job_end *end)
{
    ((struct seen *)arg)->ends++;
}

static const struct launch_events all = {
    .line = on_line, .report = on_report, .progress = on_progress, .ended = on_ended};
static const struct launch_events some = {.line = on_line};

static void report(const struct launch_observers *l, const char *json)
{
    launch_observers_report(l, 0, json, strlen(json));
}

TEST(each_observer_gets_the_events_that_it_has_functions_for)
{
    struct launch_observers l = {0};
    struct seen first = {0}, second = {.pauses = true};
    launch_observers_add(&l, &all, &first);
    CHECK(launch_observers_line(&l, 0, LAUNCH_STDOUT, "a", 1));
    launch_observers_add(&l, &some, &second);
    CHECK(!launch_observers_line(&l, 0, LAUNCH_STDOUT, "b", 1));
    report(&l, "{\"loss\":1}");
    report(&l, "{\"kind\":\"disconnect\"}");
    CHECK_INT(first.lines, 2);
    CHECK_INT(first.reports, 1);
    CHECK_INT(first.sections, 1);
    CHECK_INT(second.lines, 1);
    CHECK_INT(second.reports + second.sections, 0);
}

/* The bridge of a job whose clients disconnect late still sends packets about them. */
TEST(no_event_follows_the_end)
{
    struct launch_observers l = {0};
    struct seen s = {0};
    const struct job_end end = {0};
    launch_observers_add(&l, &all, &s);
    launch_observers_ended(&l, &end);
    CHECK(launch_observers_line(&l, 0, LAUNCH_STDOUT, "a", 1));
    report(&l, "{\"loss\":1}");
    report(&l, "{\"kind\":\"disconnect\"}");
    launch_observers_ended(&l, &end);
    CHECK_INT(s.ends, 1);
    CHECK_INT(s.lines + s.reports + s.sections, 0);
}
