/* inspector - the dumps of NCCL Inspector (NCCL's plug-in plugins/profiler/inspector, and
 * ext-profiler/inspector before 2.29.7): busbw per rank and communicator of a job.
 *
 * A process writes HOST-pidPID.log, one JSON object per operation and line: `header` (id, rank,
 * n_ranks, nnodes; comm_name since 2.30), `metadata` (hostname, pid, …) and `coll_perf` or, since
 * 2.30, `p2p_perf`. The time of an operation is that of its kernel on the GPU, so a rank that comes
 * late has short operations, and the others wait in theirs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"

/* The operations of one rank in one communicator. */
struct inspector_row {
    char *comm, *name, *host; /* hash of the communicator, its name ("unknown": none) */
    int64_t rank, ranks, pid;
    bool p2p; /* send and recv, which are apart from collectives */
    int64_t ops;
    double bytes, seconds;
    double traffic_gb; /* sum of busbw x time */
};

struct inspector {
    struct inspector_row *rows;
    size_t count;
    double min_bytes;                /* smaller operations are left out */
    int64_t lines, broken, left_out; /* lines that were read; of these, not understood; too small */
};

/* Adds a line without its newline. An invalid line counts as broken and changes nothing
 * else; it returns -EINVAL then, and `e` says why. */
int inspector_add(struct inspector *t, const char *line, size_t len, struct err *e);
void inspector_free(struct inspector *t);

/* Sorts the rows by communicator, kind and rank: as the functions below need them. */
void inspector_sort(struct inspector *t);

/* Returns the busbw of a row, GB/s: the mean over time; 0 if no operation has a time. */
double inspector_busbw(const struct inspector_row *r);

/* What the rows of a communicator say, which begin at `begin`. */
struct inspector_group {
    size_t end;     /* behind its last row */
    double median;  /* of the ranks' busbw, GB/s; 0: no operation has a time */
    size_t slowest; /* the row with the lowest busbw; `end`: no operation has a time */
    size_t late;    /* the row whose operations take less than 80 % of the median; `end`: none */
    int64_t missing, first_missing; /* ranks without a dump, and the first of them */
};
struct inspector_group inspector_judge(const struct inspector *t, size_t begin);

/* Appends a table, and lines that name the slowest rank of each communicator. */
void inspector_show(struct strbuf *out, const struct inspector *t);
/* Returns the same as JSON: docs/drover-bench.md (new reference). */
json_t *inspector_json(const struct inspector *t);
