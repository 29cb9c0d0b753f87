/* gpu_facts - the values of a GPU that drover knows: one row each, from NVML's function to what
 * `drover top --json`, the table of `drover top` and --metrics show. Pure but for the calls. */
#pragma once

#include <stdatomic.h>

#include "launcher/gpu/gpu_sample.h"
#include "launcher/gpu/nvml.h"

/* What a value is read for; a set. */
enum gpu_purpose {
    GPU_LIST = 0x1,   /* what GPUs there are */
    GPU_LINKS = 0x2,  /* their NVLinks */
    GPU_USE = 0x4,    /* who uses them */
    GPU_SAMPLE = 0x8, /* what they do, again and again */
    GPU_HEALTH = 0x10,
    GPU_HEALTH_LONG = 0x20, /* what takes long */
    GPU_ANY = 0x3f
};

enum gpu_unit { GPU_NUMBER, GPU_SIGNED, GPU_MILLIWATT, GPU_MEMORY_BYTES };

enum { GPU_OUTPUTS_MAX = 4 }; /* of one call */

/* How samples of a value become one figure of a job; the figure is unknown without samples. */
enum gpu_summary {
    GPU_SUM_NONE,
    GPU_SUM_MEAN,
    GPU_SUM_PEAK,
    GPU_SUM_GROWTH, /* of a counter */
    GPU_SUM_LAST
};

struct gpu_metric { /* a value as --metrics shows it: in W, DCGM's MiB, or its own unit */
    const char *name, *type, *help;
};

struct gpu_column {      /* a column of the table of `drover top`: "value", or "value/limit unit" */
    const char *title;   /* NULL: it is not a column */
    int least, priority; /* as in top_column */
    const char *format;  /* of a number in W, GiB or its own unit; NULL: a word for the bits */
    enum gpu_fact limit; /* 0: none */
    const char *unit;    /* of a value with a limit */
};

struct gpu_row;
typedef int gpu_read_fn(const struct nvml *n, nvml_device d, const struct gpu_row *r,
                        struct gpu_sample *s, unsigned long long *v);

struct gpu_row {
    const char *function; /* NVML's name */
    gpu_read_fn *read;    /* NULL: a further output of the row above */
    unsigned purposes;
    unsigned part; /* of the GPU: an argument of the function */
    bool once;     /* it does not change */
    enum gpu_unit unit;
    enum gpu_summary summary;
    const char *json; /* key of `drover top --json` */
    int place;        /* of the metric in the text of --metrics, from 1; 0: it is not one */
    struct gpu_metric metric;
    struct gpu_column column;
};

extern const struct gpu_row gpu_rows[GPU_FACTS];

/* Reads the values for some purposes from a GPU or MIG instance. `at` (may be NULL) is the value
 * whose call is in progress. Those that do not change are read only if they are not known. */
void gpu_facts_read(const struct nvml *n, nvml_device d, struct gpu_sample *s, unsigned purposes,
                    atomic_int *at);
/* Reads one value again. */
void gpu_facts_read_one(const struct nvml *n, nvml_device d, struct gpu_sample *s, enum gpu_fact f);

/* Reads GPU_FACT_XIDS. `*events` is the GPU's set of events, which the first call makes; from then
 * on they count. Unknown without the functions, and for a MIG instance. */
void gpu_facts_read_xids(const struct nvml *n, nvml_device d, void **events, struct gpu_sample *s);

/* Returns the value in W, bytes or its own unit; NaN if it is unknown. */
double gpu_facts_number(const struct gpu_sample *s, enum gpu_fact f);

/* Writes the bus id as gpu.bus_id has it. */
void gpu_facts_bus_id(char *out, size_t size, const struct nvml_pci *p);

/* Returns true if NVML's code says that a value is not available for this GPU, user or driver. All
 * other codes but NVML_SUCCESS are errors. */
bool gpu_facts_is_unavailable(int rc);
