#include "launcher/top/top_local.h"

#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/redact.h"
#include "launcher/guardian/process_tree.h"
#include "launcher/top/top_model.h"

enum { ANCESTORS_MAX = 64 };

/* ---- processes ------------------------------------------------------------------------------ */

static void read_user(char *out, size_t size, uid_t uid)
{
    struct passwd entry, *pw = NULL;
    char space[1024];
    if (getpwuid_r(uid, &entry, space, sizeof space, &pw) == 0 && pw)
        snprintf(out, size, "%s", pw->pw_name);
    else
        snprintf(out, size, "%d", (int)uid);
}

/* Reads the arguments, without secrets. */
static void read_command(char *out, size_t size, const char *path)
{
    AUTO(strbuf) struct strbuf line = {0}, b = {0};
    AUTO(strv) char **words = NULL;
    (void)file_read(&line, path, FILE_LINE_MAX); /* what is left of a process that has ended: "" */
    for (size_t at = 0; at < line.len; at += strlen(line.data + at) + 1)
        strv_push(&words, xstrdup(line.data + at));
    if (words)
        redact_command(&b, words);
    snprintf(out, size, "%s", strbuf_str(&b));
}

static int read_ancestors(pid_t *out, pid_t pid)
{
    int n = 0;
    struct process_tree_proc w = {.parent = pid};
    while (n < ANCESTORS_MAX && w.parent > 1 && process_tree_read(&w, w.parent) == 0)
        out[n++] = w.pid;
    return n;
}

static void read_origin(struct top_process *p, const struct registry_list *jobs)
{
    AUTO(free) char *job = NULL, *rank = NULL, *sweep = NULL, *trial = NULL;
    pid_t ancestors[ANCESTORS_MAX];
    (void)process_tree_env(&job, p->pid, "DROVER_JOB_ID");
    (void)process_tree_env(&rank, p->pid, "RANK");
    (void)process_tree_env(&sweep, p->pid, "DROVER_SWEEP");
    (void)process_tree_env(&trial, p->pid, "DROVER_TRIAL_ID");
    const struct top_origin from = {.job_id = job,
                                    .rank = rank,
                                    .sweep = sweep,
                                    .trial = trial,
                                    .ancestors = ancestors,
                                    .ancestor_count = read_ancestors(ancestors, p->pid)};
    top_model_assign(p, &from, jobs);
}

static void read_process(struct top_process *p, const struct gpu_sample *s, int i,
                         const struct registry_list *jobs)
{
    char path[64];
    struct stat st;
    *p = (struct top_process){.pid = s->processes[i].pid,
                              .memory_bytes = s->processes[i].bytes,
                              .trial = TOP_UNKNOWN,
                              .rank = TOP_UNKNOWN};
    snprintf(p->gpu_uuid, sizeof p->gpu_uuid, "%s", s->gpu.uuid);
    snprintf(path, sizeof path, "/proc/%d", p->pid);
    p->visible = p->pid > 0 && stat(path, &st) == 0;
    if (!p->visible)
        return;
    read_user(p->user, sizeof p->user, st.st_uid);
    snprintf(path, sizeof path, "/proc/%d/cmdline", p->pid);
    read_command(p->command, sizeof p->command, path);
    read_origin(p, jobs);
}

static void read_processes(struct top_node *out, const struct registry_list *jobs)
{
    size_t n = 0;
    for (int i = 0; i < out->gpu_count; i++)
        n += (size_t)out->gpus[i].process_count;
    out->processes = xcalloc(n, sizeof *out->processes);
    for (int i = 0; i < out->gpu_count; i++)
        for (int k = 0; k < out->gpus[i].process_count; k++)
            read_process(&out->processes[out->process_count++], &out->gpus[i], k, jobs);
}

/* ---- jobs and GPUs -------------------------------------------------------------------------- */

static void read_job(struct top_job *to, const struct registry_job *j)
{
    to->kind = j->kind;
    to->trial = j->kind == REGISTRY_TRIAL ? j->trial : TOP_UNKNOWN;
    to->ranks = j->ranks;
    to->age_ms = clock_ms_of(CLOCK_REALTIME) - j->started_ms;
    snprintf(to->id, sizeof to->id, "%s", j->id);
    snprintf(to->sweep, sizeof to->sweep, "%s", j->sweep ? j->sweep : "");
    snprintf(to->command, sizeof to->command, "%s", j->command);
}

/* Sets the problem, or shows the GPUs. */
static void read_gpus(struct top_node *out, struct job_monitor_reading *r, int late_ms)
{
    out->age_ms = clock_ms() - r->at_ms;
    snprintf(out->problem, sizeof out->problem, "%s", r->problem);
    if (!r->problem[0] && out->age_ms > late_ms)
        snprintf(out->problem, sizeof out->problem,
                 "the NVIDIA driver has not responded for %lld s", (long long)out->age_ms / 1000);
    if (out->problem[0])
        return;
    out->gpus = TAKE(r->samples);
    out->gpu_count = r->count;
}

void top_local_read(struct top_node *out, struct job_monitor *gpus, int late_ms)
{
    struct registry_list jobs;
    AUTO(job_monitor_reading) struct job_monitor_reading r = {0};
    registry_read(&jobs);
    job_monitor_latest(gpus, &r);
    if (gethostname(out->name, sizeof out->name - 1) < 0)
        snprintf(out->name, sizeof out->name, "this machine");
    read_gpus(out, &r, late_ms);
    read_processes(out, &jobs);
    out->jobs = xcalloc(jobs.count, sizeof *out->jobs);
    for (; (size_t)out->job_count < jobs.count; out->job_count++)
        read_job(&out->jobs[out->job_count], &jobs.at[out->job_count]);
    registry_end(&jobs);
}
