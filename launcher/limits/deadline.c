#include "launcher/limits/deadline.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "common/duration.h"
#include "common/mem.h"

/* Reads the whole text by one of the formats. */
static bool read_by(struct tm *out, const char *text, const char *const *formats, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tm tm = *out;
        const char *end = strptime(text, formats[i], &tm);
        if (end && !*end) {
            *out = tm;
            return true;
        }
    }
    return false;
}

static double to_s(struct tm tm, bool utc)
{
    tm.tm_isdst = -1;
    return (double)(utc ? timegm(&tm) : mktime(&tm)); /* both accept a day after the month's last */
}

static bool read_time(double *out_s, const char *text, double now_s)
{
    static const char *const times[] = {"%H:%M", "%H:%M:%S"};
    static const char *const dates[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S",
                                        "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"};
    size_t len = strlen(text);
    bool utc = len > 0 && text[len - 1] == 'Z';
    AUTO(free) char *local = xstrndup(text, len - utc);
    time_t now = (time_t)now_s;
    struct tm today = {0}, date = {0};
    if (!(utc ? gmtime_r(&now, &today) : localtime_r(&now, &today)))
        return false;
    today.tm_sec = 0;
    if (read_by(&today, local, times, COUNT_OF(times))) {
        *out_s = to_s(today, utc);
        today.tm_mday++;
        if (*out_s <= now_s)
            *out_s = to_s(today, utc);
        return true;
    }
    bool found = read_by(&date, local, dates, COUNT_OF(dates));
    *out_s = to_s(date, utc);
    return found;
}

int deadline_parse(double *out_s, const char *text, double now_s, struct err *e)
{
    double s = 0;
    if (duration_parse(&s, text, NULL) == 0) {
        *out_s = now_s + s;
        return 0;
    }
    if (!read_time(&s, text, now_s)) {
        err_set(e, -EINVAL, "'%s' is not a time", text);
        return err_hint(e, "18:00, 2026-11-26T08:00, or a duration from now: 8h");
    }
    if (s <= now_s)
        return err_set(e, -ERANGE, "'%s' has passed", text);
    *out_s = s;
    return 0;
}
