#include "launcher/top/top_json.h"

#include <math.h>
#include <stdio.h>

#include "launcher/gpu/gpu_facts.h"

static json_t *known(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *text_or_null(const char *text)
{
    return *text ? json_text(text) : json_null();
}

/* ---- write ---------------------------------------------------------------------------------- */

static json_t *gpu_json(const struct gpu_sample *s)
{
    json_t *o = json_pack("{s:o, s:o, s:o}", "uuid", json_text(s->gpu.uuid), "model",
                          json_text(s->gpu.name), "index", known(s->gpu.index));
    for (int f = 0; f < GPU_FACTS; f++) {
        const struct gpu_row *r = &gpu_rows[f];
        if (r->json)
            json_object_set_new(o, r->json,
                                !s->known[f]               ? json_null()
                                : r->unit == GPU_MILLIWATT ? json_number(gpu_facts_number(s, f))
                                                           : json_integer(s->value[f]));
    }
    return o;
}

static json_t *process_json(const struct top_process *p)
{
    return json_pack("{s:o, s:i, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "gpu",
                     json_text(p->gpu_uuid), "pid", p->pid, "memory_bytes", known(p->memory_bytes),
                     "visible", p->visible, "user", text_or_null(p->user), "command",
                     text_or_null(p->command), "job", text_or_null(p->job), "sweep",
                     text_or_null(p->sweep), "trial", known(p->trial), "rank", known(p->rank));
}

static json_t *job_json(const struct top_job *j)
{
    return json_pack("{s:o, s:s, s:o, s:o, s:i, s:o, s:I}", "id", json_text(j->id), "kind",
                     registry_kind_names[j->kind], "sweep", text_or_null(j->sweep), "trial",
                     known(j->trial), "ranks", j->ranks, "command", json_text(j->command), "age_ms",
                     (json_int_t)j->age_ms);
}

json_t *top_json(const struct top_node *n)
{
    json_t *gpus = json_array(), *processes = json_array(), *jobs = json_array();
    for (int i = 0; i < n->gpu_count; i++)
        json_array_append_new(gpus, gpu_json(&n->gpus[i]));
    for (int i = 0; i < n->process_count; i++)
        json_array_append_new(processes, process_json(&n->processes[i]));
    for (int i = 0; i < n->job_count; i++)
        json_array_append_new(jobs, job_json(&n->jobs[i]));
    return json_pack("{s:i, s:o, s:o, s:I, s:o, s:o, s:o}", "v", 1, "node", json_text(n->name),
                     "problem", text_or_null(n->problem), "age_ms", (json_int_t)n->age_ms, "gpus",
                     gpus, "processes", processes, "jobs", jobs);
}

/* ---- read ----------------------------------------------------------------------------------- */

/* Null and a missing key leave the value as it is. */
static void read_text(char *out, size_t size, const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    if (text)
        snprintf(out, size, "%s", text);
}

static int64_t read_int(const json_t *o, const char *key, int64_t otherwise)
{
    const json_t *v = json_object_get(o, key);
    return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

static void read_gpu(struct gpu_sample *s, const json_t *o)
{
    read_text(s->gpu.uuid, sizeof s->gpu.uuid, o, "uuid");
    read_text(s->gpu.name, sizeof s->gpu.name, o, "model");
    s->gpu.index = (int)read_int(o, "index", 0);
    for (int f = 0; f < GPU_FACTS; f++) {
        const json_t *j = gpu_rows[f].json ? json_object_get(o, gpu_rows[f].json) : NULL;
        double v;
        if (j && json_as_number(&v, j) == 0)
            gpu_sample_set(s, (enum gpu_fact)f,
                           gpu_rows[f].unit == GPU_MILLIWATT ? llround(v * 1000)
                                                             : json_integer_value(j));
    }
}

static void read_process(struct top_process *p, const json_t *o)
{
    read_text(p->gpu_uuid, sizeof p->gpu_uuid, o, "gpu");
    read_text(p->user, sizeof p->user, o, "user");
    read_text(p->command, sizeof p->command, o, "command");
    read_text(p->job, sizeof p->job, o, "job");
    read_text(p->sweep, sizeof p->sweep, o, "sweep");
    p->pid = (int)read_int(o, "pid", 0);
    p->memory_bytes = read_int(o, "memory_bytes", TOP_UNKNOWN);
    p->visible = json_is_true(json_object_get(o, "visible"));
    p->trial = (int)read_int(o, "trial", TOP_UNKNOWN);
    p->rank = (int)read_int(o, "rank", TOP_UNKNOWN);
}

static void read_job(struct top_job *j, const json_t *o)
{
    const char *kind = json_string_value(json_object_get(o, "kind"));
    for (size_t i = 0; kind && i < REGISTRY_KINDS; i++)
        if (strcmp(registry_kind_names[i], kind) == 0)
            j->kind = (enum registry_kind)i;
    read_text(j->id, sizeof j->id, o, "id");
    read_text(j->sweep, sizeof j->sweep, o, "sweep");
    read_text(j->command, sizeof j->command, o, "command");
    j->trial = (int)read_int(o, "trial", TOP_UNKNOWN);
    j->ranks = (int)read_int(o, "ranks", 0);
    j->age_ms = read_int(o, "age_ms", 0);
}

/* Returns room for the entries of an array. */
static void *make_list(int *count, const json_t *o, const char *key, size_t size)
{
    size_t n = json_array_size(json_object_get(o, key));
    *count = (int)n;
    return xcalloc(n, size);
}

int top_json_read(struct top_node *out, const json_t *j, struct err *e)
{
    const char *name;
    size_t i;
    json_t *one;
    int rc = json_require_str(&name, j, "node", e);
    if (rc == 0)
        rc = json_require_int(&out->age_ms, j, "age_ms", e);
    if (rc < 0)
        return rc;
    read_text(out->name, sizeof out->name, j, "node");
    read_text(out->problem, sizeof out->problem, j, "problem");
    out->gpus = make_list(&out->gpu_count, j, "gpus", sizeof *out->gpus);
    json_array_foreach (json_object_get(j, "gpus"), i, one)
        read_gpu(&out->gpus[i], one);
    out->processes = make_list(&out->process_count, j, "processes", sizeof *out->processes);
    json_array_foreach (json_object_get(j, "processes"), i, one)
        read_process(&out->processes[i], one);
    out->jobs = make_list(&out->job_count, j, "jobs", sizeof *out->jobs);
    json_array_foreach (json_object_get(j, "jobs"), i, one)
        read_job(&out->jobs[i], one);
    return 0;
}
