#include "hpo/worker/lease.h"

#include <string.h>

void lease_list_clear(struct lease_list *list)
{
    while (list->count > 0)
        lease_list_remove(list, list->at[0]);
    free(list->at);
}

/* ---- the list ------------------------------------------------------------------------------- */

struct lease *lease_list_find(const struct lease_list *list, int64_t id)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i]->id == id)
            return list->at[i];
    return NULL;
}

static bool is_waiting(const struct lease *l)
{
    return l->run ? trial_run_state(l->run) == TRIAL_RUN_WAITING
                  : reservation_state(l->reservation) == RESERVATION_WAITING;
}

/* It has a slot, or waits for one, and does not give it up. */
static bool wants_slot(const struct lease *l)
{
    if (!l->run) {
        enum reservation_state s = reservation_state(l->reservation);
        return s == RESERVATION_WAITING || s == RESERVATION_RESERVED || s == RESERVATION_JOINED ||
               s == RESERVATION_IDLE;
    }
    enum trial_run_state s = trial_run_state(l->run);
    return s == TRIAL_RUN_WAITING || s == TRIAL_RUN_PREPARING || s == TRIAL_RUN_RUNNING;
}

struct lease *lease_list_first_waiting(const struct lease_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_waiting(list->at[i]))
            return list->at[i];
    return NULL;
}

int lease_list_demand(const struct lease_list *list)
{
    int n = 0;
    for (size_t i = 0; i < list->count; i++)
        n += wants_slot(list->at[i]);
    return n;
}

bool lease_list_all_done(const struct lease_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (!list->at[i]->run || trial_run_state(list->at[i]->run) != TRIAL_RUN_DONE)
            return false; /* a reservation that is done is no longer in the list */
    return true;
}

static struct lease *add(struct lease_list *list, int64_t id)
{
    struct lease *l = xzalloc(sizeof *l);
    l->list = list;
    l->id = id;
    list->at = xrealloc(list->at, list->count + 1, sizeof *list->at);
    return list->at[list->count++] = l;
}

struct lease *lease_list_add_run(struct lease_list *list, int64_t id, json_t *data)
{
    struct lease *l = add(list, id);
    l->run = trial_run_new(list->context, id, data, list->done, l);
    return l;
}

struct lease *lease_list_add_reservation(struct lease_list *list, int64_t id)
{
    struct lease *l = add(list, id);
    l->reservation = reservation_new(list->context, id, list->done, l);
    return l;
}

void lease_list_remove(struct lease_list *list, struct lease *l)
{
    size_t i = 0;
    while (list->at[i] != l)
        i++;
    memmove(&list->at[i], &list->at[i + 1], (--list->count - i) * sizeof *list->at);
    trial_run_free(l->run);
    reservation_free(l->reservation);
    free(l);
}

/* From the end: a reservation may be removed in the call. */
void lease_list_preempt(struct lease_list *list, bool only_waiting)
{
    for (size_t i = list->count; i-- > 0;)
        if (!only_waiting || is_waiting(list->at[i]))
            lease_preempt(list->at[i]);
}

void lease_list_kill_all(struct lease_list *list)
{
    for (size_t i = list->count; i-- > 0;)
        lease_kill(list->at[i]);
}

json_t *lease_list_ids(const struct lease_list *list)
{
    json_t *ids = json_array();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new(ids, json_integer(list->at[i]->id));
    return ids;
}

void lease_list_resend(const struct lease_list *list)
{
    const struct lease_context *c = list->context;
    for (size_t i = 0; i < list->count; i++) {
        const struct lease *l = list->at[i];
        if (l->run) {
            outbox_each_sent(trial_run_outbox(l->run), c->send, c->arg);
            trial_run_resend(l->run);
        } else {
            reservation_resend(l->reservation);
        }
    }
}

void lease_list_each_unacknowledged(const struct lease_list *list, outbox_fn *fn, void *arg)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i]->run)
            outbox_each(trial_run_outbox(list->at[i]->run), fn, arg);
}

/* ---- one lease ------------------------------------------------------------------------------ */

void lease_start(struct lease *l, const struct node_slice *slice)
{
    if (l->run)
        trial_run_start(l->run, slice);
    else
        reservation_start(l->reservation, slice);
}

void lease_preempt(struct lease *l)
{
    if (l->run)
        trial_run_stop(l->run, true);
    else
        reservation_preempt(l->reservation);
}

void lease_stop(struct lease *l)
{
    if (l->run)
        trial_run_stop(l->run, false);
    else
        reservation_stop(l->reservation);
}

void lease_kill(struct lease *l)
{
    if (!l->run) {
        reservation_stop(l->reservation);
        return;
    }
    trial_run_kill(l->run);
    trial_run_stop(l->run, false); /* ends a run that waits for a slot */
}
