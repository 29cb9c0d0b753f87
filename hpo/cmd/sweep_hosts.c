#include "hpo/cmd/sweep_hosts.h"

#include <unistd.h>

#include "launcher/plan/allocation.h"

int sweep_hosts_find(struct sweep_hosts *w, char *const *words, int ranks, struct err *e)
{
    AUTO(hosts) struct hosts *given = NULL;
    *w = (struct sweep_hosts){.here = -1};
    int rc = words ? 1 : allocation_find(&given, NULL, environ, e);
    if (rc <= 0)
        return rc;
    strv_push(&w->line, xstrdup("drover sweep"));
    for (size_t i = 0; i < strv_len((char **)words); i++)
        strv_push(&w->line, xstrdup(words[i]));
    strv_push(&w->line, xstrdup("worker")); /* the program, as fleet.c has it */
    rc = run_options_parse(&w->run, "drover sweep", (int)strv_len(w->line), w->line, e);
    if (rc < 0)
        return rc;
    const struct hosts *all = w->run.hosts;
    w->fleet = (struct remote_workers_opts){
        .spec = &w->run.spec, .ranks = ranks, .limit = words != NULL /* tasks are no trials */};
    bool here = false;
    for (int i = 0; all && i < all->count; i++) {
        const struct host *h = &all->at[i];
        if (!h->here) {
            w->fleet.hosts = all;
            continue;
        }
        here = true;
        w->here = remote_workers_slots(&w->fleet, h);
    }
    if (!here)
        w->here = all ? 0 : -1;
    else if (w->here == 0)
        w->here = -1;
    return 0;
}

void sweep_hosts_free(struct sweep_hosts *w)
{
    if (w->line)
        run_options_free(&w->run);
    strv_free(w->line);
}
