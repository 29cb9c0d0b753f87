#include "hpo/cmd/worker_metrics.h"

#include <math.h>

#include "common/clock.h"
#include "hpo/cmd/node_metrics.h"
#include "launcher/metrics/metrics_server.h"

enum result { OK, FAILED, STOPPED, RESULTS };

struct worker_metrics {
    struct metrics_server *server; /* NULL: the worker ends */
    struct node_metrics *node;
    const char *id;
    char *sweep;      /* NULL: it has not joined */
    double started_s; /* since 1970 */
    int slots, running;
    int64_t ended[RESULTS];
};

static enum result result_of(const json_t *r)
{
    bool failed = json_integer_value(json_object_get(r, "status")) != 0 ||
                  json_integer_value(json_object_get(r, "signal")) != 0;
    return json_is_true(json_object_get(r, "stopped")) ? STOPPED : failed ? FAILED : OK;
}

static void fill(void *arg, struct metrics_text *t)
{
    static const char *const results[RESULTS] = {"ok", "failed", "stopped"};
    const struct worker_metrics *m = arg;
    const struct {
        enum metrics_name name;
        double value;
    } values[] = {
        {METRICS_WORKER_START_TIME, m->started_s},
        {METRICS_WORKER_SLOTS, m->sweep ? m->slots : (double)NAN},
        {METRICS_WORKER_TRIALS_RUNNING, m->running},
    };
    const struct metrics_label labels[] = {{"worker", m->id}, {"sweep", m->sweep}};
    metrics_text_add(t, METRICS_WORKER_INFO, 1, labels, 2);
    for (size_t i = 0; i < COUNT_OF(values); i++)
        metrics_text_add(t, values[i].name, values[i].value, labels, 1);
    for (int i = 0; i < RESULTS; i++) {
        const struct metrics_label result[] = {{"worker", m->id}, {"result", results[i]}};
        metrics_text_add(t, METRICS_WORKER_TRIALS_ENDED, (double)m->ended[i], result, 2);
    }
    node_metrics_add(m->node, t);
}

void worker_metrics_notice(struct worker_metrics *m, const struct worker_notice *n)
{
    if (!m)
        return;
    switch (n->kind) {
    case WORKER_NOTICE_OPENED:
        metrics_server_start(m->server, n->loop, fill, m);
        break;
    case WORKER_NOTICE_WAITING:
        break;
    case WORKER_NOTICE_JOINED:
        free(m->sweep);
        m->sweep = xstrdup(n->sweep ? n->sweep : "");
        m->slots = n->slots;
        break;
    case WORKER_NOTICE_STARTED:
        m->running++;
        break;
    case WORKER_NOTICE_ENDED:
        m->running--;
        m->ended[result_of(n->result)]++;
        break;
    case WORKER_NOTICE_CLOSING:
        metrics_server_close(TAKE(m->server));
        break;
    }
}

int worker_metrics_open(struct worker_metrics **out, const char *address, const char *id,
                        const char *gpus, struct err *e)
{
    AUTO(worker_metrics) struct worker_metrics *m = xzalloc(sizeof *m);
    m->id = id;
    m->started_s = (double)clock_ms_of(CLOCK_REALTIME) / 1000;
    int rc = metrics_server_open(&m->server, address, e);
    if (rc == 0)
        rc = node_metrics_open(&m->node, gpus, e);
    if (rc < 0)
        return rc;
    *out = TAKE(m);
    return 0;
}

void worker_metrics_close(struct worker_metrics *m)
{
    if (!m)
        return;
    metrics_server_close(m->server);
    node_metrics_close(m->node);
    free(m->sweep);
    free(m);
}

const char *worker_metrics_url(const struct worker_metrics *m)
{
    return metrics_server_url(m->server);
}
