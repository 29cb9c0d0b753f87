/* The GPUs of the node's ranks: a monitor samples them, and each of its readings is sent. */
#include "launcher/remote/agent/agent_internal.h"

enum { POLL_MS = 500 };

static void send_reading(struct agent *a)
{
    AUTO(free) char *text = job_monitor_export(a->gpus, &a->gpus_sent);
    if (text)
        agent_send(a, json_pack("{s:s}", "t", "gpus"), text, strlen(text));
}

static void on_timer(uv_timer_t *t)
{
    send_reading(t->data);
}

void agent_gpus_send_last(struct agent *a)
{
    if (!a->gpus || a->gpus_refreshed)
        return;
    a->gpus_refreshed = true;
    job_monitor_refresh(a->gpus, JOB_MONITOR_REFRESH_MS);
    send_reading(a);
}

void agent_gpus_on_sample_gpus(struct agent *a, const struct control_frame *f)
{
    AUTO(strv) char **uuids = NULL;
    size_t i;
    json_t *uuid;
    json_array_foreach (json_object_get(f->head, "uuids"), i, uuid)
        if (json_is_string(uuid))
            strv_push(&uuids, xstrdup(json_string_value(uuid)));
    if (!uuids || !a->spec.plan || a->gpus)
        return;
    a->gpus = job_monitor_open(uuids, "", a->spec.plan->job_id, NULL);
    uv_timer_start(&a->gpus_timer, on_timer, POLL_MS, POLL_MS);
}

void agent_gpus_close(struct agent *a)
{
    job_monitor_close(TAKE(a->gpus));
    uv_close((uv_handle_t *)&a->gpus_timer, NULL);
}
