#include "hpo/spec/resources.h"

#include <errno.h>
#include <math.h>

#include "common/byte_size.h"
#include "common/mem.h"

static const double gpus_min = 0.01;

static int read_gpus(double *out, const struct config_node *n, struct err *e)
{
    double gpus = *out;
    if (config_node_real(&gpus, n, "gpus", e) < 0)
        return -EINVAL;
    bool share = gpus >= gpus_min && gpus < 1;
    if (!share && !(gpus >= 0 && gpus <= RESOURCES_MAX && gpus == floor(gpus))) {
        struct config_node at = config_node_member(n, "gpus");
        config_node_error(&at, e, "'gpus' must be whole GPUs, or a share of one from %g to 1",
                          gpus_min);
        return err_hint(e, "gpus: 2, or gpus: 0.25 for four trials on each GPU");
    }
    *out = gpus;
    return 0;
}

static int read_memory(int64_t *out, const struct config_node *n, struct err *e)
{
    struct config_node at = config_node_member(n, "memory");
    uint64_t bytes = (uint64_t)*out;
    const char *text = json_string_value(at.value);
    if (!at.value)
        return 0;
    if (json_is_integer(at.value) && json_integer_value(at.value) >= 0)
        bytes = (uint64_t)json_integer_value(at.value);
    else if (!text || byte_size_parse(&bytes, text, NULL) < 0 || bytes > INT64_MAX) {
        config_node_error(&at, e, "'memory' must be a size");
        return err_hint(e, "memory: 16G, main memory for all ranks of a trial on a node");
    }
    *out = (int64_t)bytes;
    return 0;
}

int resources_read(struct resources *r, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"nodes", "ranks", "gpus", "cpus", "memory"};
    if (!n->value)
        return 0;
    if (config_node_only_keys(n, keys, COUNT_OF(keys), "resources", e) < 0 ||
        config_node_int(&r->nodes, n, "nodes", 1, RESOURCES_NODES_MAX, e) < 0 ||
        config_node_int(&r->ranks, n, "ranks", 1, RESOURCES_MAX, e) < 0 ||
        read_gpus(&r->gpus, n, e) < 0 ||
        config_node_int(&r->cpus, n, "cpus", 0, RESOURCES_MAX, e) < 0)
        return -EINVAL;
    return read_memory(&r->memory_bytes, n, e);
}

json_t *resources_json(const struct resources *r)
{
    return json_pack("{s:i, s:i, s:o, s:i, s:I}", "nodes", r->nodes, "ranks", r->ranks, "gpus",
                     r->gpus < 1 && r->gpus > 0 ? json_real(r->gpus)
                                                : json_integer((json_int_t)r->gpus),
                     "cpus", r->cpus, "memory", (json_int_t)r->memory_bytes);
}

struct resources resources_of(const json_t *j)
{
    return (struct resources){
        .nodes = (int)json_integer_value(json_object_get(j, "nodes")),
        .ranks = (int)json_integer_value(json_object_get(j, "ranks")),
        .gpus = json_number_value(json_object_get(j, "gpus")),
        .cpus = (int)json_integer_value(json_object_get(j, "cpus")),
        .memory_bytes = json_integer_value(json_object_get(j, "memory")),
    };
}
