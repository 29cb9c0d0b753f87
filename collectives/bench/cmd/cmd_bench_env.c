#include "collectives/bench/cmd/cmd_bench_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/opt.h"
#include "common/strbuf.h"

enum { MATRIX_BYTES_MAX = 64 << 20 };

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* Reads a number of at least `min` from a variable. Leaves `*out` unchanged if the variable is not
 * set. */
static int read_number(double *out, const char *name, double min, const char *what, struct err *e)
{
    const char *text = variable(name);
    char *end = NULL;
    double value = text ? strtod(text, &end) : *out;
    if (text && (end == text || *end || !(value >= min) || isinf(value)))
        return err_set(e, -EINVAL, "%s: '%s' is not %s", name, text, what);
    *out = value;
    return 0;
}

/* Reads DROVER_BENCH_INJECT, which is for tests: "RANK:ELEMENT[:FAULT]". */
static int read_inject(struct bench_opts *o, struct err *e)
{
    static const char *const faults[] = {"bit", "before", "after", "absent"};
    const char *text = variable("DROVER_BENCH_INJECT");
    char fault[16] = "bit";
    o->inject_rank = -1;
    if (!text)
        return 0;
    bool valid = sscanf(text, "%d:%d:%15s", &o->inject_rank, &o->inject_at, fault) >= 2;
    for (size_t i = 0; i < COUNT_OF(faults) && valid && o->inject_at >= 0; i++)
        if (strcmp(fault, faults[i]) == 0) {
            o->inject = (enum buffers_fault)i;
            return 0;
        }
    return err_set(e, -EINVAL,
                   "DROVER_BENCH_INJECT: '%s' is not RANK:ELEMENT[:before|:after|:absent]", text);
}

static int read_matrix(struct traffic *t, const char *path, double scale, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    int rc = file_read(&text, path, MATRIX_BYTES_MAX);
    rc = rc < 0 ? err_set(e, -EINVAL, "%s", strerror(-rc))
                : traffic_read(t, strbuf_str(&text), scale, e);
    return rc < 0 ? err_wrap(e, "NCCL_TESTS_ALLTOALLV_MATRIX_FILE: '%s'", path) : 0;
}

/* Reads the variables for the traffic of alltoallv. Other collectives do not use them. */
static int read_traffic(struct cmd_bench_opts *o, struct err *e)
{
    struct bench_opts *b = &o->bench;
    double scale = 1;
    if (b->coll != COLLECTIVE_ALL_TO_ALL_V)
        return 0;
    b->traffic.spread = 1;
    if (read_number(&b->traffic.spread, "NCCL_TESTS_ALLTOALLV_SPREAD", -HUGE_VAL,
                    "a number (0 to 1)", e) < 0 ||
        read_number(&scale, "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 0, "a factor", e) < 0)
        return e->code;
    b->traffic.spread = fmin(fmax(b->traffic.spread, 0), 1); /* as nccl-tests does */
    const char *summary = variable("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY");
    if (summary && atoi(summary))
        strv_push(&o->warnings, xstrdup("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY is ignored"));
    const char *path = variable("NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
    if (!path)
        return 0;
    if (b->min_bytes == b->max_bytes)
        return read_matrix(&b->traffic, path, scale, e);
    err_set(e, -EINVAL, "-b and -e differ, but NCCL_TESTS_ALLTOALLV_MATRIX_FILE says what is sent");
    return err_hint(e, "-b 32M -e 32M");
}

int cmd_bench_env_read(struct cmd_bench_opts *o, struct err *e)
{
    const char *device = variable("NCCL_TESTS_DEVICE");
    o->first_device = -1;
    if (read_inject(&o->bench, e) < 0 ||
        read_number(&o->min_busbw, "NCCL_TESTS_MIN_BW", -1, "a rate in GB/s", e) < 0 ||
        (device && opt_int(&o->first_device, "NCCL_TESTS_DEVICE", device, -1, 1 << 20, e) < 0) ||
        rank_groups_read(&o->bench.split, variable("NCCL_TESTS_SPLIT"),
                         variable("NCCL_TESTS_SPLIT_MASK"), e) < 0)
        return e->code;
    return read_traffic(o, e);
}

void cmd_bench_env_pass(char ***env)
{
    static const char *const names[] = {
        "NCCL_TESTS_DEVICE",
        "NCCL_TESTS_SPLIT",
        "NCCL_TESTS_SPLIT_MASK",
        "NCCL_TESTS_ALLTOALLV_SPREAD",
        "NCCL_TESTS_ALLTOALLV_MATRIX_FILE",
        "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE",
        CMD_BENCH_CONTROL_ENV,
    };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (variable(names[i]))
            strv_push(env, xasprintf("%s=%s", names[i], variable(names[i])));
}
