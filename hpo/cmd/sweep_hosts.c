#include "hpo/cmd/sweep_hosts.h"

#include <unistd.h>

#include "launcher/plan/allocation.h"

int cmd_where_find(struct cmd_where *w, char *const *words, int ranks, struct err *e)
{
    AUTO(hosts) struct hosts *given = NULL;
    *w = (struct cmd_where){.here = -1};
    int rc = words ? 1 : alloc_find(&given, NULL, environ, e);
    if (rc <= 0)
        return rc;
    strv_push(&w->line, xstrdup("drover sweep"));
    for (size_t i = 0; i < strv_len((char **)words); i++)
        strv_push(&w->line, xstrdup(words[i]));
    strv_push(&w->line, xstrdup("worker")); /* the program, as fleet.c has it */
    rc = cmd_run_parse(&w->run, "drover sweep", (int)strv_len(w->line), w->line, e);
    if (rc < 0)
        return rc;
    const struct hosts *all = w->run.hosts;
    w->fleet = (struct fleet_config){
        .spec = &w->run.spec, .ranks = ranks, .limit = words != NULL /* tasks are no trials */};
    bool here = false;
    for (int i = 0; all && i < all->count; i++) {
        const struct host *h = &all->at[i];
        if (!h->here) {
            w->fleet.hosts = all;
            continue;
        }
        here = true;
        w->here = fleet_places(&w->fleet, h);
    }
    if (!here)
        w->here = all ? 0 : -1;
    else if (w->here == 0)
        w->here = -1;
    return 0;
}

void cmd_where_free(struct cmd_where *w)
{
    if (w->line)
        cmd_run_opts_free(&w->run);
    strv_free(w->line);
}
