/* launch_observers - the list of a job's observers, called in the order of subscription. */
#pragma once

#include "launcher/engine/launch.h"

struct launch_observer {
    struct launch_events ev;
    void *arg;
};

struct launch_observers {
    struct launch_observer at[LAUNCH_OBSERVERS_MAX];
    int count;
};

/* Calls the function `event` of every observer that has one. */
#define LAUNCH_OBSERVERS_EMIT(list, event, ...)                    \
    do {                                                           \
        for (int emit_i = 0; emit_i < (list)->count; emit_i++) {   \
            const struct launch_observer *o = &(list)->at[emit_i]; \
            if (o->ev.event)                                       \
                o->ev.event(o->arg, __VA_ARGS__);                  \
        }                                                          \
    } while (0)

/* Copies `ev`. Aborts if the list is full. */
void launch_observers_add(struct launch_observers *l, const struct launch_events *ev, void *arg);
/* Emits a line to all observers. Returns false if any of them requests a pause. */
bool launch_observers_line(const struct launch_observers *l, int rank, enum launch_stream from,
                           const char *text, size_t len);
/* Emits `ended`, and empties the list, since no event may follow. The last observer may free the
 * job that contains the list. */
void launch_observers_ended(struct launch_observers *l, const struct job_end *end);
/* Emits a packet of a rank's report channel, as `report` or as `progress`. */
void launch_observers_report(const struct launch_observers *l, int rank, const char *json,
                             size_t len);
