#include "hpo/cmd/node_metrics.h"

#include "launcher/metrics/metrics_text.h"
#include "launcher/node/topo.h"
#include "launcher/plan/gpu_assignment.h"
#include "launcher/watch/job_monitor.h"

struct node_metrics {
    struct job_monitor *monitor; /* NULL: no GPUs */
    char *host;
};

int node_metrics_open(struct node_metrics **out, const char *gpus, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    AUTO(gpu_assignment) struct gpu_assignment *usable = NULL;
    AUTO(strv) char **uuids = NULL;
    int rc = topo_load(&t, e);
    if (rc == 0)
        rc = gpu_assignment_make(&usable, &(struct launch_spec){.gpus = gpus}, t, environ, e);
    if (rc < 0)
        return rc;
    for (int i = 0; i < usable->n; i++)
        strv_push(&uuids, xstrdup(usable->at[i].uuid));
    struct node_metrics *n = xzalloc(sizeof *n);
    n->host = xstrdup(topo_name(t));
    if (uuids)
        n->monitor = job_monitor_open(uuids, NULL, NULL, NULL);
    *out = n;
    return 0;
}

void node_metrics_close(struct node_metrics *n)
{
    if (!n)
        return;
    job_monitor_close(n->monitor);
    free(n->host);
    free(n);
}

void node_metrics_add(const struct node_metrics *n, struct metrics_text *t)
{
    AUTO(job_monitor_reading) struct job_monitor_reading gpus;
    job_monitor_latest(n ? n->monitor : NULL, &gpus);
    if (gpus.count > 0)
        metrics_text_add_gpus(t, gpus.samples, gpus.count, n->host);
}
