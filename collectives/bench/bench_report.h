/* bench_report - the output of `drover bench`: nccl-tests' table (which scripts parse), JSON, or
 * CSV. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/bench/analysis/stats.h"
#include "collectives/bench/buffers.h"
#include "common/mem.h"
#include "common/strbuf.h"

struct bench_opts;

struct bench_report_head {
    const struct bench_opts *o; /* borrowed */
    const char *version;        /* the backend's */
    const char *backend;
    int ranks, groups;
    bool stamps;       /* -S: each row ends with the time of day */
    bool per_iter;     /* -I: columns for single iterations, … */
    int skip;          /* -K: … without the first ones */
    char *const *args; /* the command line, strv */
};

/* A rank's line under "Using devices". A plain value that ranks send to each other. */
struct bench_report_device {
    int rank, group, pid;
    char host[64];
    struct backend_device
        is; /* the GPU; on the CPU, the local rank, the processor, and the memory */
};

/* The out-of-place or in-place result of a size. */
struct bench_report_placement {
    bool checked;
    double seconds;                            /* time of all ranks together, combined as -a says */
    double cpu_seconds;                        /* the same, but only until the work was started */
    double algbw, busbw;                       /* GB/s */
    double rank_min_seconds, rank_max_seconds; /* of the fastest and the slowest rank */
    uint64_t wrong;                            /* elements of all ranks */
    int wrong_rank;                            /* the first rank with wrong elements; -1: none */
    struct buffers_wrong first_wrong;          /* what that rank found */
    struct stats stats;         /* of single iterations, in seconds; not measured if .n is 0 */
    const double *samples;      /* stats.n elements, in seconds; borrowed */
    const double *rank_samples; /* for each sample, one time per rank; borrowed; NULL: not kept */
    bool unstable;              /* --max-time ended before the median was stable */
};

struct bench_report_summary {
    uint64_t bad;     /* number of placements and ranks with wrong elements */
    double avg_busbw; /* GB/s */
    const char *coll;
    double min_busbw; /* expected avg_busbw, GB/s; <= 0: none */
};

struct bench_report_row {
    size_t bytes, count;
    const char *type, *op;                      /* op: "none" if the collective moves data only */
    int root;                                   /* -1: no root */
    struct bench_report_placement placement[2]; /* out of place, in place */
    struct bench_report_summary so_far;         /* of the rows up to this one */
};

/* Returns true if the average is at least 90 % of min_busbw. */
bool bench_report_reaches_min(const struct bench_report_summary *f);

/* Append text in nccl-tests' layout. */
void bench_report_head_text(struct strbuf *out, const struct bench_report_head *h,
                            const struct bench_report_device *devices);
void bench_report_row_text(struct strbuf *out, const struct bench_report_head *h,
                           const struct bench_report_row *r);
void bench_report_summary_text(struct strbuf *out, const struct bench_report_summary *f);

/* Returns the version of NCCL as a number (22809); 0: another backend. */
int bench_report_nccl(const struct bench_report_head *h);

/* Writes the time of day in nccl-tests' form. */
enum { BENCH_REPORT_TIME_BYTES = 32 };
void bench_report_time(char out[BENCH_REPORT_TIME_BYTES]);

/* Append comma-separated values: a line of titles; one line per placement of a row. */
void bench_report_csv_titles(struct strbuf *out);
void bench_report_csv_row(struct strbuf *out, const struct bench_report_row *r);

/* Appends a line per placement with wrong elements, for people; nothing if all are right. */
void bench_report_wrong_text(struct strbuf *out, const struct bench_report_row *r, int ranks);

/* ---- bench_report_json.c: the results as one JSON document -------------------------------------
 * drover's form, or that of nccl-tests' -J. nccl-tests writes the whole environment; drover writes
 * NCCL's and CUDA's variables only, since the others may hold secrets. */
struct bench_report_json;
struct bench_report_json *bench_report_json_new(const struct bench_report_head *h,
                                                const struct bench_report_device *devices,
                                                bool nccl_tests);
/* Returns the row as JSON, a new object. */
json_t *bench_report_json_row(const struct bench_report_json *j, const struct bench_report_row *r);
/* Adds a key and its value to the keys after the rows. Takes over `value`. */
void bench_report_json_set(struct bench_report_json *j, const char *key, json_t *value);
/* Return the document in parts: the keys before the rows (borrowed), the name of the list of rows,
 * and the keys after the rows (a new object). `error` says what ended the run early; it may be
 * NULL. */
const json_t *bench_report_json_head(const struct bench_report_json *j);
const char *bench_report_json_list(const struct bench_report_json *j);
json_t *bench_report_json_tail(const struct bench_report_json *j,
                               const struct bench_report_summary *f, const char *error);
/* Returns the whole document with an array of rows, a new object. */
json_t *bench_report_json_document(const struct bench_report_json *j, json_t *rows,
                                   const struct bench_report_summary *f);
void bench_report_json_free(struct bench_report_json *j);
AUTO_DEFINE(bench_report_json, struct bench_report_json *, bench_report_json_free)
