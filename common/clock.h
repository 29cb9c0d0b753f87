/* clock - the current time in seconds, in milliseconds or as a timespec. Functions without the
 * parameter `clock` use a monotonic clock, which never goes back. Use them for deadlines and
 * durations. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline struct timespec clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t;
}

static inline int64_t clock_ms_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + (uint32_t)t.tv_nsec / 1000000;
}

static inline int64_t clock_ms(void)
{
    return clock_ms_of(CLOCK_MONOTONIC);
}

/* Returns the same as clock_ms(), but up to some milliseconds late. A call takes a quarter of the
 * time of clock_ms(). */
static inline int64_t clock_coarse_ms(void)
{
    return clock_ms_of(CLOCK_MONOTONIC_COARSE);
}

static inline double clock_s(void)
{
    struct timespec t = clock_now();
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Called every `period_ms` or more often. Returns for how long this process did not run since the
 * last call, at *seen_ms: it was stopped, or its machine was paused. 0: it ran. Sets *seen_ms to
 * `now_ms`. After a pause all timers are due, before what peers sent during it is read. */
static inline int64_t clock_pause_ms(int64_t *seen_ms, int64_t now_ms, int64_t period_ms)
{
    int64_t since_ms = now_ms - *seen_ms;
    *seen_ms = now_ms;
    return since_ms > 3 * period_ms ? since_ms : 0;
}

/* Returns the time that is `ms` milliseconds after now, in the form that pthread_cond_timedwait()
 * takes. */
static inline struct timespec clock_in_ms(int64_t ms)
{
    struct timespec t = clock_now();
    int64_t ns = t.tv_nsec + ms % 1000 * 1000000;
    t.tv_sec += ms / 1000 + ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    return t;
}
