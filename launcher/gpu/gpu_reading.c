#include "launcher/gpu/gpu_reading.h"

#include <errno.h>
#include <stdio.h>

#include "common/json.h"

static json_t *sample_json(const struct gpu_sample *s)
{
    json_t *values = json_array();
    for (int f = 0; f < GPU_FACTS; f++)
        if (s->known[f])
            json_array_append_new(values, json_pack("[i, I]", f, (json_int_t)s->value[f]));
    return json_pack("{s:i, s:o, s:o, s:o, s:o}", "index", s->gpu.index, "uuid",
                     json_text(s->gpu.uuid), "name", json_text(s->gpu.name), "bus",
                     json_text(s->gpu.bus_id), "values", values);
}

char *gpu_reading_write(const struct gpu_sample *samples, int count)
{
    AUTO(json) json_t *all = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(all, sample_json(&samples[i]));
    return json_line(all);
}

static int read_sample(struct gpu_sample *s, const json_t *o)
{
    const char *uuid, *name, *bus;
    json_t *values, *pair;
    size_t i;
    if (json_unpack((json_t *)o, "{s:i, s:s, s:s, s:s, s:o}", "index", &s->gpu.index, "uuid", &uuid,
                    "name", &name, "bus", &bus, "values", &values) < 0)
        return -EINVAL;
    snprintf(s->gpu.uuid, sizeof s->gpu.uuid, "%s", uuid);
    snprintf(s->gpu.name, sizeof s->gpu.name, "%s", name);
    snprintf(s->gpu.bus_id, sizeof s->gpu.bus_id, "%s", bus);
    s->gpu.numa = -1;
    json_array_foreach (values, i, pair) {
        json_int_t fact = json_integer_value(json_array_get(pair, 0));
        const json_t *value = json_array_get(pair, 1);
        if (fact < 0 || fact >= GPU_FACTS || !json_is_integer(value))
            return -EINVAL;
        gpu_sample_set(s, (enum gpu_fact)fact, json_integer_value(value));
    }
    return 0;
}

int gpu_reading_read(struct gpu_sample **out, int *count, const char *text, size_t len,
                     struct err *e)
{
    AUTO(json) json_t *all = NULL;
    int rc = json_parse(&all, text, len, e);
    size_t n = json_array_size(all);
    if (rc == 0 && (!json_is_array(all) || n > GPU_READING_MAX))
        rc = err_set(e, -EINVAL, "not a list of them");
    if (rc < 0) {
        (void)err_wrap(e, "samples of GPUs"); /* without `e` it has no code */
        return rc;
    }
    AUTO(free) struct gpu_sample *samples = xcalloc(n, sizeof *samples);
    for (size_t i = 0; i < n; i++)
        if (read_sample(&samples[i], json_array_get(all, i)) < 0)
            return err_set(e, -EINVAL, "samples of GPUs: entry %zu is malformed", i);
    *out = TAKE(samples);
    *count = (int)n;
    return 0;
}
