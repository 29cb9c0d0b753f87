/* cmd_ps - `drover ps`: lists the running jobs of this user on this node, the finished ones, or the
 * stored baselines. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/command.h"
#include "common/duration.h"
#include "common/strbuf.h"
#include "common/utf8.h"
#include "launcher/jobs/baseline_store.h"
#include "launcher/jobs/commands.h"
#include "launcher/jobs/history_jobs.h"
#include "launcher/jobs/registry.h"

struct ps_opts {
    bool json, baselines, done;
};

static const struct opt options[] = {
    OPT_FLAG(0, "json", "print one line of JSON per job or baseline", struct ps_opts, json),
    OPT_FLAG(0, "done", "list the finished jobs with GPUs, newest first", struct ps_opts, done),
    OPT_FLAG(0, "baselines", "list the stored baselines of drover run --baseline", struct ps_opts,
             baselines),
    OPT_END,
};

static void print_table(const struct registry_list *l)
{
    int width = 3;
    for (size_t i = 0; i < l->count; i++)
        width = (int)strlen(l->at[i].id) > width ? (int)strlen(l->at[i].id) : width;
    printf("%-*s  %5s  %7s  %s\n", width, "JOB", "RANKS", "FOR", "COMMAND");
    for (size_t i = 0; i < l->count; i++) {
        const struct registry_job *j = &l->at[i];
        char age[24];
        duration_format(age, sizeof age, (int64_t)time(NULL) - j->started_ms / 1000);
        char ranks[16] = "-"; /* a sweep has none of its own */
        if (j->kind != REGISTRY_SWEEP)
            snprintf(ranks, sizeof ranks, "%d", j->ranks);
        AUTO(strbuf) struct strbuf command = {0};
        utf8_add_line(&command, j->command);
        printf("%-*s  %5s  %7s  %s\n", width, j->id, ranks, age, strbuf_str(&command));
    }
}

static void print_json(json_t *j)
{
    AUTO(free) char *line = json_line(j);
    puts(line);
    json_decref(j);
}

static void list_jobs(bool json)
{
    struct registry_list l;
    registry_read(&l);
    for (size_t i = 0; json && i < l.count; i++)
        print_json(registry_json(&l.at[i]));
    if (!json)
        print_table(&l);
    registry_end(&l);
}

static void print_baselines(const struct baseline_list *l)
{
    int width = 4;
    for (size_t i = 0; i < l->count; i++)
        width = (int)strlen(l->at[i].name) > width ? (int)strlen(l->at[i].name) : width;
    printf("%-*s  %18s  %9s  %5s  %5s  %7s  %s\n", width, "NAME", "THROUGHPUT", "STEP", "CPU",
           "GPU", "AGE", "HARDWARE");
    for (size_t i = 0; i < l->count; i++) {
        const struct baseline *m = &l->at[i];
        char age[24], step[24] = "-", cpu[24] = "-", gpu[24] = "-";
        duration_format(age, sizeof age, (int64_t)time(NULL) - m->stored_ms / 1000);
        if (m->step_s > 0)
            snprintf(step, sizeof step, "%.4g ms", m->step_s * 1000);
        if (m->cpu >= 0)
            snprintf(cpu, sizeof cpu, "%.0f %%", m->cpu * 100);
        if (m->gpu >= 0)
            snprintf(gpu, sizeof gpu, "%.0f %%", m->gpu * 100);
        AUTO(strbuf) struct strbuf name = {0}, rate = {0}, hardware = {0};
        utf8_add_line(&name, m->name);
        baseline_add_rate(&rate, m);
        utf8_add_line(&hardware, m->hardware);
        printf("%-*s  %18s  %9s  %5s  %5s  %7s  %s\n", width, strbuf_str(&name), strbuf_str(&rate),
               step, cpu, gpu, age, strbuf_str(&hardware));
    }
}

static int list_baselines(bool json, struct err *e)
{
    struct baseline_list l;
    int rc = baseline_store_read(&l, NULL, e);
    for (size_t i = 0; json && i < l.count; i++)
        print_json(baseline_json(&l.at[i]));
    if (rc == 0 && !json)
        print_baselines(&l);
    baseline_store_end(&l);
    return rc;
}

/* Writes a figure of a finished job, or "-" if it is unknown. */
static void print_figure(char *out, size_t size, const char *format, double value)
{
    snprintf(out, size, "-");
    if (value >= 0)
        snprintf(out, size, format, value);
}

static void print_done(const struct history_jobs *l)
{
    static const double gib = 1 << 30, kwh = 3.6e6;
    bool marked = false;
    int width = 3;
    for (size_t i = 0; i < l->count; i++)
        width = (int)strlen(l->at[i].job) > width ? (int)strlen(l->at[i].job) : width;
    printf("%-*s  %7s  %7s  %6s  %4s  %5s  %9s  %9s  %8s  %s\n", width, "JOB", "ENDED", "FOR",
           "STATUS", "GPUS", "UTIL", "PEAK", "ENERGY", "COST", "PROGRAM");
    for (size_t i = 0; i < l->count; i++) {
        const struct history_job *j = &l->at[i];
        char ended[24], duration[24], utilisation[24], peak[32], energy[32], cost[32];
        duration_format(ended, sizeof ended, (int64_t)time(NULL) - j->end_ms / 1000);
        duration_format(duration, sizeof duration, (j->end_ms - j->begin_ms) / 1000);
        print_figure(utilisation, sizeof utilisation, "%.0f %%",
                     j->utilisation < 0 ? -1 : j->utilisation * 100);
        bool of_all = j->peak_of_all && j->peak_bytes >= 0;
        marked |= of_all;
        print_figure(peak, sizeof peak, of_all ? "%.1f GiB*" : "%.1f GiB",
                     (double)j->peak_bytes / gib);
        print_figure(energy, sizeof energy, "%.3f kWh", j->energy_j / kwh);
        print_figure(cost, sizeof cost, "%.2f", j->cost);
        AUTO(strbuf) struct strbuf program = {0};
        utf8_add_line(&program, j->program);
        printf("%-*s  %7s  %7s  %6d  %4d  %5s  %9s  %9s  %8s  %s\n", width, j->job, ended, duration,
               j->status, j->gpus, utilisation, peak, energy, cost, strbuf_str(&program));
    }
    if (marked)
        puts("* of all processes on the GPU: the driver did not list those of the job");
    puts("only jobs with GPUs that ran for 5 s or more are listed; drover runs lists all");
}

static int list_done(bool json, struct err *e)
{
    struct history_jobs l;
    int rc = history_jobs_read(&l, NULL, e);
    for (size_t i = 0; json && i < l.count; i++)
        print_json(history_jobs_json(&l.at[i]));
    if (rc == 0 && !json)
        print_done(&l);
    history_jobs_end(&l);
    return rc;
}

static int run(char **no_words, void *into, struct err *e)
{
    const struct ps_opts *o = into;
    if (o->baselines && o->done)
        return err_set(e, -EINVAL, "--baselines and --done exclude each other");
    if (!o->baselines && !o->done) {
        list_jobs(o->json);
        return 0;
    }
    int rc = o->done ? list_done(o->json, e) : list_baselines(o->json, e);
    return rc < 0 ? EXIT_STATUS_FAILED : 0;
}

int cmd_ps(int argc, char **argv)
{
    static const struct command command = {
        .help = {.program = "drover ps",
                 .usage = "[--baselines | --done] [--json]",
                 .summary =
                     "Lists your running jobs that were started on this node, the sweeps "
                     "that are coordinated here, and their trials; or, with --done, the figures "
                     "of finished jobs.",
                 .examples = "drover ps\ndrover ps --done\ndrover ps --baselines"},
        .options = options,
        .run = run};
    struct ps_opts o = {0};
    return command_run(&command, &o, argc, argv);
}
