#include "launcher/top/top_json.h"

#include <stddef.h>
#include <stdio.h>

/* The values of a GPU. Those that are unknown, which are negative, are null. */
enum type { INT, INT64, REAL };
struct value {
    const char *key;
    enum type type;
    size_t offset;
};
#define VALUE(key, type, field)                       \
    {                                                 \
        key, type, offsetof(struct gpu_sample, field) \
    }

static const struct value gpu_values[] = {
    VALUE("index", INT, index),
    VALUE("utilisation_percent", INT, busy_percent),
    VALUE("memory_used_bytes", INT64, memory_used_bytes),
    VALUE("memory_total_bytes", INT64, memory_total_bytes),
    VALUE("power_w", REAL, power_w),
    VALUE("power_limit_w", REAL, power_limit_w),
    VALUE("sm_clock_mhz", INT, sm_mhz),
    VALUE("temperature_c", INT, temperature_c),
    VALUE("throttle_reasons", INT64, throttle_reasons),
};

static const char *const kinds[] = {
    [REGISTRY_JOB] = "job", [REGISTRY_SWEEP] = "sweep", [REGISTRY_TRIAL] = "trial"};

static json_t *known(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *text_or_null(const char *text)
{
    return *text ? json_text(text) : json_null();
}

/* ---- write ---------------------------------------------------------------------------------- */

static json_t *gpu_json(const struct gpu_sample *g)
{
    json_t *o = json_pack("{s:o, s:o}", "uuid", json_text(g->uuid), "model", json_text(g->name));
    for (size_t i = 0; i < COUNT_OF(gpu_values); i++) {
        const struct value *v = &gpu_values[i];
        const void *at = (const char *)g + v->offset;
        double real = v->type == REAL ? *(const double *)at : -1;
        json_t *j = v->type == INT     ? known(*(const int *)at)
                    : v->type == INT64 ? known(*(const int64_t *)at)
                    : real < 0         ? json_null()
                                       : json_number(real);
        json_object_set_new(o, v->key, j);
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
                     kinds[j->kind], "sweep", text_or_null(j->sweep), "trial", known(j->trial),
                     "ranks", j->ranks, "command", json_text(j->command), "age_ms",
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

static void read_gpu(struct gpu_sample *g, const json_t *o)
{
    read_text(g->uuid, sizeof g->uuid, o, "uuid");
    read_text(g->name, sizeof g->name, o, "model");
    for (size_t i = 0; i < COUNT_OF(gpu_values); i++) {
        const struct value *v = &gpu_values[i];
        void *at = (char *)g + v->offset;
        const json_t *j = json_object_get(o, v->key);
        double real;
        if (json_as_number(&real, j) < 0)
            continue;
        if (v->type == INT)
            *(int *)at = (int)json_integer_value(j);
        else if (v->type == INT64)
            *(int64_t *)at = json_integer_value(j);
        else
            *(double *)at = real;
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
    for (size_t i = 0; kind && i < COUNT_OF(kinds); i++)
        if (strcmp(kinds[i], kind) == 0)
            j->kind = (enum registry_kind)i;
    read_text(j->id, sizeof j->id, o, "id");
    read_text(j->sweep, sizeof j->sweep, o, "sweep");
    read_text(j->command, sizeof j->command, o, "command");
    j->trial = (int)read_int(o, "trial", TOP_UNKNOWN);
    j->ranks = (int)read_int(o, "ranks", 0);
    j->age_ms = read_int(o, "age_ms", 0);
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
    json_array_foreach (json_object_get(j, "gpus"), i, one)
        read_gpu(top_node_add_gpu(out), one);
    json_array_foreach (json_object_get(j, "processes"), i, one)
        read_process(top_node_add_process(out), one);
    json_array_foreach (json_object_get(j, "jobs"), i, one)
        read_job(top_node_add_job(out), one);
    return 0;
}
