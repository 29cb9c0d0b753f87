/* cmd_where - the nodes on which a sweep starts workers itself: those of a host file, of -H, or of
 * the allocation that we are in. */
#ifndef DROVER_SWEEP_HOSTS_H
#define DROVER_SWEEP_HOSTS_H

#include <stdbool.h>

#include "common/err.h"
#include "hpo/coordinator/remote_workers.h"
#include "launcher/run/cmd_run.h"

struct cmd_where {
    struct cmd_run_opts run; /* owns what `fleet` points to */
    char **line;
    struct fleet_config fleet; /* without hosts: all is here */
    int here;                  /* trials at once on this machine; 0: none, -1: as many as fit */
};

/* `words`: the options of `drover run` that say where (strv, or NULL); `ranks`: of a trial. To be
 * ended with cmd_where_free() in every case. Errors as cmd_run_parse(). */
int cmd_where_find(struct cmd_where *w, char *const *words, int ranks, struct err *e);
void cmd_where_free(struct cmd_where *w);
static inline void auto_where(struct cmd_where *w)
{
    cmd_where_free(w);
}

#endif
