#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/backends/nccl/nccl_internal.h"
#include "collectives/backends/nccl/nccl_precheck.h"
#include "common/clock.h"
#include "common/log.h"

enum {
    FAILED_WAIT_MS = 5000, /* time that a rank that cannot participate waits for the others */
    /* Number of ranks per id; the listener of the id's owner accepts their first connections */
    RANKS_PER_ID = 128,
    FP8_VERSION = 22400, /* NCCL 2.24 has the 8-bit floats, … */
    FP8_CAPABILITY = 9,  /* … and reduces them on GPUs from this compute capability on */
};

static int no_gpu(const struct cuda_lib *cuda, cudaError_t rc, struct err *e)
{
    int driver = 0, runtime = 0; /* 12040 is 12.4; 0: no driver */
    err_set(e, -ENODEV, "no usable GPU: %s", cuda->cudaGetErrorString(rc));
    if (cuda->cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0 ||
        cuda->cudaRuntimeGetVersion(&runtime) != cudaSuccess || driver / 1000 >= runtime / 1000)
        return err_hint(e, "check the driver with nvidia-smi; backend mpi needs no GPU");
    return err_hint(e,
                    "the driver supports CUDA %d.%d, libcudart is %d.%d; set DROVER_CUDART_LIB and "
                    "DROVER_NCCL_LIB to files for CUDA %d",
                    driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10,
                    driver / 1000);
}

static int find_device(struct backend_comm *c, const struct backend_opts *o, struct err *e)
{
    int count = 0;
    cudaError_t rc = c->cuda->cudaGetDeviceCount(&count);
    if (rc != cudaSuccess)
        return no_gpu(c->cuda, rc, e);
    if (count == 0)
        return err_set(e, -ENODEV, "no visible GPU (see CUDA_VISIBLE_DEVICES)");
    c->device = o->device >= 0 ? o->device : o->local_rank % count;
    if (c->device >= count)
        return err_set(e, -ENODEV, "GPU %d is out of range (0 to %d)", c->device, count - 1);
    rc = c->cuda->cudaSetDevice(c->device);
    if (rc == cudaSuccess)
        rc = c->cuda->cudaMalloc(&c->scratch, sizeof(int));
    return nccl_loader_cuda(e, c->cuda, rc, "first use of the GPU");
}

int nccl_use_stream(struct backend_comm *c, void *stream, struct err *e)
{
    c->own_stream = stream == BACKEND_OWN_STREAM;
    c->stream = c->own_stream ? NULL : stream;
    cudaError_t rc = c->own_stream
                         ? c->cuda->cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking)
                         : cudaSuccess;
    return nccl_loader_cuda(e, c->cuda, rc, "creating a stream");
}

/* Returns the rank that creates the k-th of n ids. */
static int id_owner(int k, int n, int size)
{
    return (int)((int64_t)k * size / n);
}

static bool owns_id(const struct backend_comm *c, int n)
{
    for (int k = 0; k < n; k++)
        if (id_owner(k, n, c->size) == c->rank)
            return true;
    return false;
}

/* Reads the library's version, and creates an id if this rank owns one. */
static int read_library(struct backend_comm *c, int *version, ncclUniqueId *id, int n,
                        struct err *e)
{
    ncclResult_t rc = c->nccl->ncclGetVersion(version);
    if (rc == ncclSuccess && nccl_precheck_interfaces(getenv("NCCL_SOCKET_IFNAME"), e) < 0)
        return -EINVAL;
    if (rc == ncclSuccess && owns_id(c, n))
        rc = c->nccl->ncclGetUniqueId(id);
    if (rc != ncclSuccess)
        return nccl_loader_nccl(e, c->nccl, rc, "creating the job's id");
    char short_version[NCCL_PRECHECK_VERSION_BYTES];
    nccl_precheck_version(short_version, *version);
    snprintf(c->version, sizeof c->version, "%s (headers %d.%d.%d)", short_version, NCCL_MAJOR,
             NCCL_MINOR, NCCL_PATCH);
    int major = 0;
    (void)c->cuda->cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, c->device);
    if (*version >= FP8_VERSION && major >= FP8_CAPABILITY)
        c->caps |= BACKEND_FP8;
    return 0;
}

static int id_count(const struct backend_comm *c)
{
    bool several = c->nccl && c->nccl->init_scalable;
    return several ? (c->size + RANKS_PER_ID - 1) / RANKS_PER_ID : 1;
}

/* Finds the device and the libraries. These steps need no other rank. */
static int prepare(struct backend_comm *c, const struct backend_opts *o,
                   struct nccl_precheck_rank_info *mine, ncclUniqueId *id, struct err *e)
{
    int rc = nccl_loader_open_cuda(&c->cuda, e);
    if (rc == 0)
        rc = find_device(c, o, e);
    if (rc == 0)
        rc = nccl_use_stream(c, o->stream, e);
    if (rc == 0)
        rc = nccl_loader_open_nccl(&c->nccl, o->lib_path, e);
    if (rc < 0)
        return rc;
    (void)c->cuda->cudaDeviceGetPCIBusId(mine->bus, sizeof mine->bus, c->device);
    c->caps = BACKEND_DEVICE_MEMORY | BACKEND_NO_INPLACE_A2A | BACKEND_REGISTERS;
    c->caps |= c->nccl->all_to_all ? BACKEND_HAS_ALL_TO_ALL : 0;
    c->caps |= c->nccl->gather ? BACKEND_HAS_GATHER : 0;
    c->caps |= c->nccl->scatter ? BACKEND_HAS_SCATTER : 0;
    return read_library(c, &mine->version, id, id_count(c), e);
}

static int first_on_host(const struct nccl_precheck_rank_info *infos, int rank)
{
    int r = 0;
    while (infos[r].host != infos[rank].host)
        r++;
    return r;
}

/* Checks the prerequisites of all ranks, drops capabilities that some of them lack, and collects
 * the ids, in the same order on all ranks. */
static int check_ranks(struct backend_comm *c, const struct bootstrap_ops *boot, ncclUniqueId *ids,
                       int n, struct err *e)
{
    AUTO(free) struct nccl_precheck_rank_info *infos = xcalloc((size_t)c->size, sizeof *infos);
    int local_ranks = 0;
    for (int r = 0; r < c->size; r++) {
        int rc = boot->get(boot->arg, r, "card", &infos[r], sizeof infos[r], e);
        if (rc < 0)
            return rc;
    }
    for (int r = 0; r < c->size; r++)
        local_ranks += infos[r].host == infos[c->rank].host;
    int rc = nccl_precheck_check(infos, c->size, e);
    for (int k = 0; k < n && rc == 0; k++)
        rc = boot->get(boot->arg, id_owner(k, n, c->size), "id", &ids[k], sizeof ids[k], e);
    c->caps = nccl_precheck_caps(infos, c->size);
    if (rc == 0 && c->rank == first_on_host(infos, c->rank))
        nccl_precheck_shm(local_ranks);
    return rc;
}

/* Exchanges the information of all ranks, with a deadline, since NCCL itself would wait forever for
 * a missing rank. A rank that cannot participate also takes part in the exchange, to report its
 * error, which is `rc` and `e`. */
static int exchange(struct backend_comm *c, const struct backend_opts *o,
                    struct nccl_precheck_rank_info *mine, ncclUniqueId *ids, int rc, struct err *e)
{
    if (c->size == 1)
        return rc;
    const struct bootstrap_ops *boot = o->bootstrap;
    int64_t wait_ms = o->open_ms;
    mine->caps = c->caps;
    if (rc < 0) {
        snprintf(mine->trouble, sizeof mine->trouble, "%.199s", e ? e->text : strerror(-rc));
        wait_ms = wait_ms < FAILED_WAIT_MS ? wait_ms : FAILED_WAIT_MS;
    }
    struct err why = {0};
    int n = rc < 0 ? 1 : id_count(c);
    int failed = boot->put(boot->arg, "card", mine, sizeof *mine, &why);
    if (failed == 0 && rc == 0 && owns_id(c, n))
        failed = boot->put(boot->arg, "id", &ids[0], sizeof ids[0], &why);
    if (failed == 0)
        failed = boot->fence(boot->arg, wait_ms, &why);
    if (rc < 0)
        return rc; /* its own error is more specific */
    if (failed == 0)
        failed = check_ranks(c, boot, ids, n, &why);
    if (failed < 0 && e)
        *e = why;
    return failed;
}

struct init_job {
    struct nccl_job job;
    int n;
    ncclUniqueId ids[];
};

static ncclResult_t call_init(struct nccl_job *j)
{
    struct init_job *i = (struct init_job *)j;
    const struct backend_comm *c = &j->c;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    return i->n > 1
               ? c->nccl->init_scalable(&j->made, c->size, c->rank, i->n, i->ids, &config)
               : c->nccl->ncclCommInitRankConfig(&j->made, c->size, i->ids[0], c->rank, &config);
}

/* Names the ranks that do not report, all of which took part in the exchange before. A rank that
 * stopped since then is the reason that NCCL waits. */
static int connect_timed_out(const struct backend_comm *c, const struct backend_opts *o,
                             struct err *e)
{
    const struct bootstrap_ops *boot = o->bootstrap;
    int64_t wait_ms = o->open_ms < FAILED_WAIT_MS ? o->open_ms : FAILED_WAIT_MS;
    struct err missing = {0};
    if (c->size > 1 && boot->fence(boot->arg, wait_ms, &missing) < 0) {
        err_set(e, -ETIMEDOUT, "NCCL: connecting the ranks: timed out: %s", missing.text);
        return err_hint(e, "check the missing ranks");
    }
    return err_hint(e, "all ranks started, but do not reach each other: see NCCL_SOCKET_IFNAME, "
                       "and NCCL_DEBUG=INFO");
}

/* NCCL has no handle to abort while it connects: a thread that is still connecting at the deadline
 * is left behind. */
static int connect_ranks(struct backend_comm *c, const struct backend_opts *o,
                         const ncclUniqueId *ids, int n, struct err *e)
{
    struct init_job *i = nccl_job_new(c, sizeof *i + (size_t)n * sizeof *ids);
    AUTO(nccl_job) struct nccl_job *j = &i->job;
    i->n = n;
    memcpy(i->ids, ids, (size_t)n * sizeof *ids);
    int rc = nccl_job_run(j, call_init, o->open_ms, "connecting the ranks", e);
    if (rc == 0)
        c->comm = j->made;
    return rc == -ETIMEDOUT ? connect_timed_out(c, o, e) : rc;
}

/* ---- split and shrink ----------------------------------------------------------------------- */

struct part_job {
    struct nccl_job job;
    bool shrinks;
    int color, key;
    int n_without;
    int without[];
};

enum { SHRINK_ABORT = 1 }; /* NCCL_SHRINK_ABORT, which older headers lack */

static ncclResult_t call_part(struct nccl_job *j)
{
    struct part_job *p = (struct part_job *)j;
    const struct backend_comm *c = &j->c;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    return p->shrinks ? c->nccl->shrink(c->comm, p->without, p->n_without, &j->made, &config,
                                        c->revoked ? 0 : SHRINK_ABORT)
                      : c->nccl->ncclCommSplit(c->comm, p->color, p->key, &j->made, &config);
}

/* Sets *made to the new NCCL communicator; NULL: this rank is not a member. */
static int connect_part(ncclComm_t *made, struct backend_comm *c, const struct backend_subgroup *p,
                        struct err *e)
{
    int64_t end_ms = clock_ms() + p->open_ms;
    if (!nccl_await_end(c, p->open_ms))
        return err_set(e, -ETIMEDOUT, "NCCL: stopping the work: timed out");
    struct part_job *q = nccl_job_new(c, sizeof *q + (size_t)p->n_without * sizeof q->without[0]);
    AUTO(nccl_job) struct nccl_job *j = &q->job;
    q->shrinks = p->n_without > 0; /* NCCL rejects a shrink without excluded ranks */
    q->color = p->size ? p->color : NCCL_SPLIT_NOCOLOR;
    q->key = p->without ? p->rank : p->key;
    q->n_without = p->n_without;
    if (q->shrinks)
        memcpy(q->without, p->without, (size_t)p->n_without * sizeof q->without[0]);
    int rc =
        nccl_job_run(j, call_part, end_ms - clock_ms(), p->without ? "shrinking" : "splitting", e);
    c->stuck |= rc == -ETIMEDOUT;
    if (rc == 0)
        *made = j->made;
    return rc;
}

int nccl_subgroup(struct backend_comm **out, struct backend_comm *c,
                  const struct backend_subgroup *p, struct err *e)
{
    if (p->without && ((p->n_without > 0 && !c->nccl->shrink) || !c->comm)) {
        err_set(e, -ENOTSUP, "%s cannot shrink a communicator%s", c->version,
                c->nccl->shrink ? " that has failed" : "");
        return err_hint(e, "NCCL 2.28; or start the job again without these ranks");
    }
    AUTO(nccl_comm) struct backend_comm *made = xzalloc(sizeof *made);
    *made = (struct backend_comm){.nccl = c->nccl, .cuda = c->cuda};
    made->rank = p->rank;
    made->size = p->size;
    made->device = c->device;
    made->open_ms = p->open_ms;
    made->caps = c->caps;
    memcpy(made->version, c->version, sizeof made->version);
    made->used.peers = xcalloc((size_t)made->size, sizeof *made->used.peers);
    int rc = connect_part(&made->comm, c, p, e);
    c->shrunk = p->without;
    if (rc == 0)
        rc = nccl_use_stream(made, c->own_stream ? BACKEND_OWN_STREAM : c->stream, e);
    if (rc == 0)
        rc = nccl_mem_alloc(made, sizeof(int), BACKEND_SCRATCH, &made->scratch, e);
    if (rc == 0)
        *out = made->comm ? TAKE(made) : NULL;
    return rc;
}

/* ---- open ----------------------------------------------------------------------------------- */

int nccl_open(struct backend_comm **out, const struct backend_opts *o, struct err *e)
{
    AUTO(nccl_comm) struct backend_comm *c = xzalloc(sizeof *c);
    log_open(log_program()); /* the plug-in has a log level of its own: $DROVER_LOG */
    c->rank = o->rank;
    c->size = o->size;
    c->open_ms = o->open_ms;
    c->used.peers = xcalloc((size_t)c->size, sizeof *c->used.peers);
    struct nccl_precheck_rank_info mine;
    memset(&mine, 0, sizeof mine);
    nccl_precheck_host(&mine);
    AUTO(free)
    ncclUniqueId *ids = xcalloc((size_t)(c->size + RANKS_PER_ID - 1) / RANKS_PER_ID, sizeof *ids);
    int rc = prepare(c, o, &mine, &ids[0], e);
    rc = exchange(c, o, &mine, ids, rc, e);
    if (rc == 0)
        rc = connect_ranks(c, o, ids, id_count(c), e);
    if (rc < 0)
        return rc;
    *out = TAKE(c);
    return 0;
}
