/* report - what `drover bench` prints: the text of nccl-tests, which people's scripts parse, JSON,
 * or CSV. */
#ifndef DROVER_BENCH_REPORT_H
#define DROVER_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/bench/buffers.h"
#include "collectives/bench/stats.h"
#include "common/mem.h"
#include "common/strbuf.h"

struct bench_report_head {
    const char *version; /* the backend's */
    const char *backend;
    const char *coll; /* "all_reduce" */
    int ranks, groups;
    uint64_t min_bytes, max_bytes, step; /* a factor, or bytes */
    bool step_is_factor;
    int warmups, iters, checks, agg;
    int blocking;      /* -z */
    int graph;         /* -G */
    int unalign;       /* -u */
    bool cpu_time;     /* times are those of starting the work */
    bool stamps;       /* -S: each row ends with the time of day */
    bool per_iter;     /* -I: columns of single iterations, … */
    int skip;          /* … without so many at the begin (-K) */
    char *const *args; /* the command line, strv */
};

/* One rank's line under "Using devices". A plain value that ranks send to each other. */
struct bench_report_device {
    int rank, group, pid, index, pci_domain, pci_bus, pci_device;
    uint64_t free_bytes; /* of a GPU's memory; 0: not known */
    char host[64];
    char name[128];
};

struct bench_report_placement { /* out-of-place, or in-place */
    bool ran;                   /* false: this backend cannot */
    bool checked;
    double seconds;                            /* as -a says */
    double algbw, busbw;                       /* GB/s */
    double rank_min_seconds, rank_max_seconds; /* the fastest and the slowest rank's */
    uint64_t wrong;                            /* elements, over all ranks */
    int wrong_rank;                            /* the first that has some; -1: none */
    struct buffers_wrong first_wrong;          /* what it has */
    struct stats stats;                        /* seconds of single iterations; .n 0: not taken */
    const double *samples;                     /* of which they are; borrowed */
    const double *rank_samples; /* for each of them every rank's; borrowed, NULL: not kept */
    bool unstable;              /* they were still moving when time was over */
};

struct bench_report_row {
    size_t bytes, count;
    const char *type, *op; /* "none" where nothing is computed */
    int root;              /* -1 where there is none */
    struct bench_report_placement placement[2];
};

struct bench_report_summary {
    uint64_t bad; /* halves of rows times ranks that had wrong elements */
    double avg_busbw;
    const char *coll;
    double min_busbw; /* that it should have, within a tenth; 0: not said */
};

/* False where the average is below nine tenths of what it should be. */
bool bench_report_has_samples(const struct bench_report_summary *f);

/* nccl-tests' layout, appended. */
void bench_report_head_text(struct strbuf *out, const struct bench_report_head *h,
                            const struct bench_report_device *devices);
void bench_report_row_text(struct strbuf *out, const struct bench_report_head *h,
                           const struct bench_report_row *r);
void bench_report_summary_text(struct strbuf *out, const struct bench_report_summary *f);

/* The version of the head's NCCL as a number (22809), or 0. */
int bench_report_nccl(const struct bench_report_head *h);

/* The time of day, as nccl-tests writes it. */
enum { BENCH_REPORT_TIME_BYTES = 32 };
void bench_report_time(char out[BENCH_REPORT_TIME_BYTES]);

/* The same as comma-separated values: a line of titles, then one for each half of a row. */
void bench_report_csv_titles(struct strbuf *out);
void bench_report_csv_row(struct strbuf *out, const struct bench_report_row *r);

/* What is wrong with a row, in a line for people each; nothing where all is right. */
void bench_report_wrong_text(struct strbuf *out, const struct bench_report_row *r, int ranks);

/* ---- report_json.c: the same as one JSON document; ours, or nccl-tests' (its -J) ---------------
 * nccl-tests' has the whole environment, here it has only what is NCCL's and CUDA's: the rest is
 * nobody's business. */
struct bench_report_json;
struct bench_report_json *bench_report_json_new(const struct bench_report_head *h,
                                                const struct bench_report_device *devices,
                                                bool nccl_tests);
void bench_report_json_row(struct bench_report_json *j, const struct bench_report_row *r);
/* Adds `value`, which is taken over, to the document. */
void bench_report_json_set(struct bench_report_json *j, const char *key, json_t *value);
/* The document, to be freed by the caller. */
char *bench_report_json_end(struct bench_report_json *j, const struct bench_report_summary *f);
void bench_report_json_free(struct bench_report_json *j);
AUTO_DEFINE(bench_report_json, struct bench_report_json *, bench_report_json_free)

#endif
