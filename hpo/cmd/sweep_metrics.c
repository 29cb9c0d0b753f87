#include "hpo/cmd/sweep_metrics.h"

#include <math.h>

#include "common/clock.h"
#include "hpo/cmd/node_metrics.h"
#include "hpo/coordinator/worker_roster.h"
#include "hpo/trial/trial.h"
#include "launcher/metrics/metrics_server.h"

struct sweep_metrics {
    struct metrics_server *server;
    struct node_metrics *node; /* NULL: this host runs no trials */
    const char *sweep;
    const struct spec *spec;
    struct coordinator_view view;
    double started_s; /* since 1970 */
    int64_t ended[TRIAL_STATES], reports;
};

static double best_value(const struct sweep_metrics *m)
{
    int best = scheduler_best(m->view.sched);
    return best < 0 ? (double)NAN
                    : trial_value(scheduler_view(m->view.sched).trials[best], m->spec->value_last);
}

static void add_states(const struct sweep_metrics *m, struct metrics_text *t)
{
    const struct scheduler_counts n = scheduler_counts(m->view.sched);
    const struct {
        const char *state;
        int count;
    } states[] = {{"waiting", n.waiting},    {"running", n.running}, {"stopping", n.stopping},
                  {"paused", n.paused},      {"done", n.done},       {"pruned", n.pruned},
                  {"failed", n.failed},      {"oom", n.oom},         {"invalid", n.invalid},
                  {"cancelled", n.cancelled}};
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        const struct metrics_label labels[] = {{"sweep", m->sweep}, {"state", states[i].state}};
        metrics_text_add(t, METRICS_SWEEP_TRIALS, states[i].count, labels, 2);
    }
    for (int i = 0; i < TRIAL_STATES; i++) {
        const char *state = trial_state_name((enum trial_state)i);
        const struct metrics_label labels[] = {{"sweep", m->sweep}, {"state", state}};
        if (trial_is_ended((enum trial_state)i))
            metrics_text_add(t, METRICS_SWEEP_TRIALS_ENDED, (double)m->ended[i], labels, 2);
    }
}

static void fill(void *arg, struct metrics_text *t)
{
    const struct sweep_metrics *m = arg;
    const struct worker_roster_totals workers = worker_roster_totals(m->view.workers);
    int wanted = scheduler_counts(m->view.sched).total_wanted;
    const struct {
        enum metrics_name name;
        double value;
    } values[] = {
        {METRICS_SWEEP_START_TIME, m->started_s},
        {METRICS_SWEEP_PAUSED, scheduler_is_paused(m->view.sched)},
        {METRICS_SWEEP_TRIALS_WANTED, wanted < 0 ? (double)NAN : wanted},
        {METRICS_SWEEP_BEST_VALUE, best_value(m)},
        {METRICS_SWEEP_REPORTS, (double)m->reports},
        {METRICS_SWEEP_COMMITS, (double)m->view.totals->commits},
        {METRICS_SWEEP_WORKERS, workers.workers},
        {METRICS_SWEEP_WORKERS_LOST, m->view.totals->workers_lost},
        {METRICS_SWEEP_SLOTS, workers.slots},
        {METRICS_SWEEP_GPUS, workers.gpus},
    };
    const struct metrics_label labels[] = {{"sweep", m->sweep},
                                           {"metric", m->spec->metrics[0].name},
                                           {"method", m->spec->method->name}};
    metrics_text_add(t, METRICS_SWEEP_INFO, 1, labels, COUNT_OF(labels));
    for (size_t i = 0; i < COUNT_OF(values); i++)
        metrics_text_add(t, values[i].name, values[i].value, labels, 1);
    add_states(m, t);
    node_metrics_add(m->node, t);
}

void sweep_metrics_stored(struct sweep_metrics *m, const struct scheduler *s,
                          enum scheduler_record_kind kind, int trial)
{
    if (!m)
        return;
    m->reports += kind == SCHEDULER_REC_REPORT;
    if (kind == SCHEDULER_REC_ENDED)
        m->ended[scheduler_view(s).trials[trial]->state]++;
}

int sweep_metrics_open(struct sweep_metrics **out, const char *address, bool runs_trials,
                       struct err *e)
{
    AUTO(sweep_metrics) struct sweep_metrics *m = xzalloc(sizeof *m);
    int rc = metrics_server_open(&m->server, address, e);
    if (rc == 0 && runs_trials)
        rc = node_metrics_open(&m->node, NULL, e);
    if (rc < 0)
        return rc;
    *out = TAKE(m);
    return 0;
}

void sweep_metrics_start(struct sweep_metrics *m, const char *sweep, const struct spec *spec,
                         const struct coordinator_view *view)
{
    if (!m)
        return;
    m->sweep = sweep;
    m->spec = spec;
    m->view = *view;
    m->started_s = (double)clock_ms_of(CLOCK_REALTIME) / 1000;
    metrics_server_start(m->server, view->loop, fill, m);
}

void sweep_metrics_close(struct sweep_metrics *m)
{
    if (!m)
        return;
    metrics_server_close(m->server);
    node_metrics_close(m->node);
    free(m);
}

const char *sweep_metrics_url(const struct sweep_metrics *m)
{
    return metrics_server_url(m->server);
}
