/* job_usage - what a job did with its GPUs, CPUs, disks and network: accumulates samples, and
 * summarises them. Pure; its memory depends on the number of GPUs only, not on that of samples. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "launcher/gpu/gpu_sample.h"

enum {
    JOB_USAGE_UNKNOWN = -1,     /* of every figure below */
    JOB_USAGE_IDLE_PERCENT = 5, /* a GPU with less utilisation is idle */
    JOB_USAGE_XIDS = 8          /* the first ones of a GPU are kept */
};

/* Counters of a machine; UNKNOWN if the kernel does not report them. */
struct host_sample {
    double cpu_s, cpu_busy_s, cpu_wait_s; /* of the ranks' CPUs: all time, busy, waiting for I/O */
    int64_t disk_read_bytes, disk_written_bytes;
    int64_t net_received_bytes, net_sent_bytes; /* Ethernet and InfiniBand */
    int64_t net_max_bytes_per_s;                /* what these links carry per direction */
};

struct job_usage;
struct job_usage *job_usage_new(void);
struct job_usage *job_usage_copy(const struct job_usage *u);
void job_usage_free(struct job_usage *u);
AUTO_DEFINE(job_usage, struct job_usage *, job_usage_free)

/* Adds samples of GPUs, or of the machine, which were taken at `at_s` (monotonic). */
void job_usage_add(struct job_usage *u, double at_s, const struct gpu_sample *samples, int count);
void job_usage_add_host(struct job_usage *u, double at_s, const struct host_sample *h);
/* Ends a period: what the counters count until the next sample does not belong to the job. */
void job_usage_pause(struct job_usage *u);

/* Returns how long all of the job's `gpus` GPUs have been idle without a pause, up to the last
 * sample. Returns 0 if one is busy, or has no samples now, or if its utilisation is unknown. */
double job_usage_idle_s(const struct job_usage *u, int gpus);

struct job_usage_xid {
    int code;
    double at_s; /* of the sample after it, as in job_usage_add() */
};

struct job_usage_gpu {
    char uuid[96], name[96];
    double utilisation; /* mean share of the time in which a kernel ran, 0 to 1 */
    double idle_share;  /* share of the samples below JOB_USAGE_IDLE_PERCENT */
    double longest_idle_s;
    /* Memory used by the job's processes, and by all; and the GPU's size. If the driver never
     * listed one of the job, the first is the second. */
    int64_t peak_bytes, all_peak_bytes, total_bytes;
    bool peak_of_all;
    double energy_j;
    double power_share;     /* mean power / its limit */
    double power_w, sm_mhz; /* means */
    int temperature_c;      /* highest */
    double throttled_share; /* of the samples with GPU_THROTTLED … */
    double hot_share;       /* … and with GPU_HOT */
    int64_t ecc_errors;     /* new uncorrected ones */
    struct job_usage_xid xids[JOB_USAGE_XIDS];
    int xid_count;
    double link_share; /* mean traffic / capacity of its busiest link (PCIe, NVLink), in the
                          direction with less traffic */
};

struct job_usage_summary {
    struct job_usage_gpu *gpus; /* in the order of their first samples */
    int count;
    int samples;         /* of the GPU with the most samples */
    double seconds;      /* from the first to the last sample, without pauses */
    double utilisation;  /* mean of the GPUs that report it */
    int worst;           /* the GPU with the lowest utilisation; -1: unknown */
    int fullest;         /* the GPU whose peak is the largest share of its memory; -1: unknown */
    double memory_share; /* the largest all_peak_bytes / total_bytes of the GPUs */
    double energy_j;     /* of the GPUs that report it */
    double power_share;  /* mean of the GPUs that report it */
    double cpu_busy, cpu_wait; /* shares of the ranks' CPUs */
    double link_share;         /* the largest of the GPUs' links and the network */
    int64_t disk_read_bytes, disk_written_bytes, net_received_bytes, net_sent_bytes;
};

/* Summarises the samples so far. The caller calls job_usage_summary_end(). */
void job_usage_summarise(struct job_usage_summary *out, const struct job_usage *u);
void job_usage_summary_end(struct job_usage_summary *s);
