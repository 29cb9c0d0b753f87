#include "launcher/engine/launch_observers.h"

#include <assert.h>

void launch_observers_add(struct launch_observers *l, const struct launch_events *ev, void *arg)
{
    assert(l->count < LAUNCH_OBSERVERS_MAX);
    l->at[l->count++] = (struct launch_observer){*ev, arg};
}

bool launch_observers_line(const struct launch_observers *l, int rank, enum launch_stream from,
                           const char *text, size_t len)
{
    bool more = true;
    for (int i = 0; i < l->count; i++)
        if (l->at[i].ev.line)
            more &= l->at[i].ev.line(l->at[i].arg, rank, from, text, len);
    return more;
}

void launch_observers_ended(struct launch_observers *l, const struct job_end *end)
{
    const struct launch_observers all = *l;
    l->count = 0; /* observers may be freed now, and a packet may still arrive */
    LAUNCH_OBSERVERS_EMIT(&all, ended, end);
}

void launch_observers_report(const struct launch_observers *l, int rank, const char *json,
                             size_t len)
{
    struct progress_packet p;
    if (!progress_packet_read(&p, json, len)) {
        LAUNCH_OBSERVERS_EMIT(l, report, rank, json, len);
        return;
    }
    LAUNCH_OBSERVERS_EMIT(l, progress, rank, &p);
    progress_packet_free(&p);
}
