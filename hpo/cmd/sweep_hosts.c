#include "hpo/cmd/sweep_hosts.h"

#include <unistd.h>

#include "launcher/plan/allocation.h"

int sweep_hosts_find(struct sweep_hosts *w, char *const *options, int ranks, struct err *e)
{
    AUTO(hosts) struct hosts *allocated = NULL;
    *w = (struct sweep_hosts){.local_slots = -1};
    int rc = options ? 1 : allocation_find(&allocated, NULL, environ, e);
    if (rc <= 0)
        return rc;
    strv_push(&w->argv, xstrdup("drover sweep"));
    for (size_t i = 0; i < strv_len((char **)options); i++)
        strv_push(&w->argv, xstrdup(options[i]));
    strv_push(&w->argv, xstrdup("worker")); /* as remote_workers.c names the program */
    rc = run_options_parse(&w->run, "drover sweep", (int)strv_len(w->argv), w->argv, e);
    if (rc < 0)
        return rc;
    const struct hosts *all = w->run.hosts;
    w->fleet = (struct remote_workers_opts){
        .spec = &w->run.spec,
        .ranks = ranks,
        .limit = options != NULL /* an allocation's slots are tasks, not trials */};
    bool has_local = false;
    for (int i = 0; all && i < all->count; i++) {
        const struct host *h = &all->at[i];
        if (!h->here) {
            w->fleet.hosts = all;
            continue;
        }
        has_local = true;
        w->local_slots = remote_workers_slots(&w->fleet, h);
    }
    if (!has_local)
        w->local_slots = all ? 0 : -1;
    else if (w->local_slots == 0)
        w->local_slots = -1;
    return 0;
}

void sweep_hosts_free(struct sweep_hosts *w)
{
    if (w->argv)
        run_options_free(&w->run);
    strv_free(w->argv);
}
