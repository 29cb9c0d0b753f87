/* nccl_gpu - the GPU of the NCCL stand-in: one thread per stream executes its work in order. */
#pragma once

#include <nccl.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "collectives/backends/nccl/nccl_kernels.h"
#include "collectives/comm/ulps.h"
#include "tests/fake/nccl_cuda.h"
#include "tests/fake/nccl_values.h"

enum {
    RANKS_MAX = 8,
    SLOT_BYTES = 32 << 20,
    BOX_BYTES = 64 << 10,
    OPS_MAX = 256,
    GRAPH_MAX = 4096,
    PATH_BYTES = 512
};

/* A message in transit, one piece at a time. */
struct box {
    atomic_uint full;
    size_t total, bytes; /* of the message, and of this piece */
    char data[BOX_BYTES];
};

/* When the last rank arrives, the turn changes. */
struct gate {
    atomic_uint arrived, turn;
};

struct shared {
    struct gate gpus, hosts; /* the streams meet in a collective, the callers in a connect */
    struct box boxes[RANKS_MAX][RANKS_MAX]; /* from, to */
    char slots[RANKS_MAX][SLOT_BYTES];      /* each rank's input; the file is sparse */
};

enum {
    ALL_REDUCE,
    BROADCAST,
    REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    SEND,
    RECV
};

struct op {
    int kind, root;
    const void *in;
    void *out;
    size_t n;
    ncclDataType_t type;
    ncclRedOp_t op;
    long double factor; /* of this rank's input; 0: no factor */
    size_t moved;       /* bytes of a send or receive so far */
};

/* Operations that start together, or a kernel of nccl_kernels.h. */
struct work {
    ncclComm_t comm; /* NULL: a kernel */
    cudaStream_t stream;
    struct nccl_kernels_premul premul; /* one of the two has elements */
    struct nccl_kernels_compare compare;
    size_t n;
    struct op ops[OPS_MAX];
    struct work *next;
};

struct ncclComm {
    struct shared *at;
    char path[PATH_BYTES];
    int rank, size, children;
    bool blocking, finalized;
    unsigned connect_turn;        /* connected when shared.turn differs */
    unsigned used;                /* kinds of calls so far; the first one of a kind connects */
    int calls;                    /* begun, in groups counted once … */
    atomic_int on_stream;         /* … and those of them that are on the stream */
    int kept;                     /* number of its works in graphs */
    atomic_int pending;           /* works that the GPU has not executed yet */
    atomic_int inside;            /* threads that are inside a call */
    atomic_bool busy;             /* not blocking: the last call is not complete yet */
    atomic_bool aborted, revoked; /* both end its work; a revoked one can be shrunk */
    _Atomic ncclResult_t broken;
};

/* ---- the GPU: one thread per stream --------------------------------------------------------- */
struct CUstream_st {
    struct CUstream_st *other; /* all streams of this library */
    pthread_mutex_t lock;
    pthread_cond_t queued;
    struct work *first, **last;
    atomic_int left;
    bool runs;
};

static struct CUstream_st default_stream = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                            .queued = PTHREAD_COND_INITIALIZER};

static struct CUstream_st *_Atomic streams = &default_stream;

/* Returns NULL for a stream of another library, tests/cudahost: what is on it is complete. */
static struct CUstream_st *stream_of(cudaStream_t s)
{
    if (!s || s == cudaStreamLegacy || s == cudaStreamPerThread)
        return &default_stream;
    struct CUstream_st *q = streams;
    while (q && q != s)
        q = q->other;
    return q;
}

EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    *out = calloc(1, sizeof **out);
    (*out)->other = streams;
    while (!atomic_compare_exchange_weak(&streams, &(*out)->other, *out))
        ;
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_cond_init(&(*out)->queued, NULL);
    return flags == cudaStreamNonBlocking ? cudaSuccess : cudaErrorInvalidValue;
}

/* As CUDA: the work that is on the stream is still executed, so its memory stays. */
EXPORT cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    return refused_of_stream(s) ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

struct CUgraph_st {
    struct work *works[GRAPH_MAX];
    size_t n;
};

EXPORT cudaError_t cudaStreamQuery(cudaStream_t s)
{
    if (refused_of_stream(s))
        return cudaErrorStreamCaptureUnsupported;
    struct CUstream_st *q = stream_of(s);
    return simulates("hang") || (q && atomic_load(&q->left)) ? cudaErrorNotReady : cudaSuccess;
}

static void perform(struct work *w);

static void *run_stream(void *arg)
{
    struct CUstream_st *s = arg;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (!s->first)
            pthread_cond_wait(&s->queued, &s->lock);
        struct work *w = s->first;
        s->first = w->next;
        if (!s->first)
            s->last = &s->first;
        pthread_mutex_unlock(&s->lock);
        if (simulates("late"))
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        perform(w);
        if (w->comm)
            atomic_fetch_sub(&w->comm->pending, 1);
        atomic_fetch_sub(&s->left, 1);
        free(w);
    }
    return arg;
}

static int kept_works; /* in all graphs */

static void keep(cudaGraph_t g, struct work *w)
{
    g->works[g->n++] = w;
    if (w->comm) {
        w->comm->kept++;
        kept_works++;
    }
}

/* Returns false if the stream's capture is invalid. */
static bool put_on_stream(struct work *w)
{
    struct CUstream_st *s = stream_of(w->stream);
    if (!s) { /* in the order of that stream, whose next work comes after this call */
        perform(w);
        free(w);
        return true;
    }
    if (capture.graph && capture.stream == w->stream) {
        bool fits = !capture.invalid && capture.graph->n < GRAPH_MAX;
        if (fits)
            keep(capture.graph, w);
        else
            free(w);
        return fits;
    }
    w->next = NULL;
    if (w->comm)
        atomic_fetch_add(&w->comm->pending, 1);
    atomic_fetch_add(&s->left, 1);
    pthread_mutex_lock(&s->lock);
    if (!s->runs) {
        pthread_t thread;
        s->runs = pthread_create(&thread, NULL, run_stream, s) == 0;
        s->last = &s->first;
    }
    *s->last = w;
    s->last = &w->next;
    pthread_cond_signal(&s->queued);
    pthread_mutex_unlock(&s->lock);
    return true;
}

EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    while (cudaStreamQuery(s) == cudaErrorNotReady)
        sched_yield();
    return cudaStreamQuery(s);
}

EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind, cudaStream_t s)
{
    cudaError_t rc = simulates("hang") ? cudaSuccess : cudaStreamSynchronize(s);
    if (rc == cudaSuccess)
        memcpy(to, from, bytes);
    return rc;
}

EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    bool legacy = !s || s == cudaStreamLegacy;
    if (refused(capture.graph != NULL) || legacy)
        return cudaErrorStreamCaptureUnsupported;
    capture.graph = calloc(1, sizeof *capture.graph);
    capture.stream = s;
    capture.mode = mode;
    capture.thread = pthread_self();
    capture.invalid = false;
    return cudaSuccess;
}

static cudaError_t drop(cudaGraph_t g)
{
    for (size_t i = 0; i < g->n; i++) {
        if (g->works[i]->comm) {
            g->works[i]->comm->kept--;
            kept_works--;
        }
        free(g->works[i]);
    }
    free(g);
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    return refused_around_streams() ? cudaErrorStreamCaptureUnsupported : drop(g);
}

EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    cudaGraph_t g = capture.graph;
    *out = NULL;
    if (!g || s != capture.stream)
        return cudaErrorStreamCaptureUnmatched;
    if (!in_capturing_thread() && capture.mode != cudaStreamCaptureModeRelaxed)
        return cudaErrorStreamCaptureWrongThread;
    capture.graph = NULL;
    if (!capture.invalid)
        *out = g;
    else
        drop(g);
    return capture.invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

static struct work *copy_of(const struct work *w)
{
    struct work *c = malloc(sizeof *c);
    memcpy(c, w, sizeof *c);
    return c;
}

EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t g,
                                                 unsigned long long flags)
{
    if (refused_around_streams())
        return cudaErrorStreamCaptureUnsupported;
    cudaGraph_t copy = calloc(1, sizeof *copy);
    for (size_t i = 0; i < g->n; i++)
        keep(copy, copy_of(g->works[i]));
    *out = (cudaGraphExec_t)copy;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g)
{
    return cudaGraphDestroy((cudaGraph_t)g);
}

EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    cudaGraph_t g = (cudaGraph_t)exec;
    if (refused_of_stream(s) || refused_around_streams())
        return cudaErrorStreamCaptureUnsupported;
    if (simulates("log"))
        fprintf(stderr, "fake: a graph of %zu\n", g->n);
    for (size_t i = 0; i < g->n; i++)
        put_on_stream(copy_of(g->works[i]));
    return cudaSuccess;
}

/* ---- kernels: nccl_kernels.h, with DROVER_NCCL_KERNELS -------------------------------------- */
EXPORT int nccl_kernels_usable(int device)
{
    return refused_around_streams() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

static int launch(struct work k)
{
    struct work *w = copy_of(&k);
    if (simulates("log"))
        fprintf(stderr, "fake: a kernel\n");
    return put_on_stream(w) ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
}
EXPORT int nccl_kernels_run_premul(const struct nccl_kernels_premul *k, void *stream)
{
    return launch((struct work){.stream = stream, .premul = *k});
}
EXPORT int nccl_kernels_run_compare(const struct nccl_kernels_compare *k, void *stream)
{
    return launch((struct work){.stream = stream, .compare = *k});
}

static void run_kernel(const struct work *w)
{
    const struct nccl_kernels_premul *m = &w->premul;
    const struct nccl_kernels_compare *c = &w->compare;
    for (size_t i = 0; i < m->n; i++) {
        uint64_t x = 0;
        memcpy(&x, (const char *)m->in + i * m->element, m->element);
        x = premul_one(m->type, x, m->factor);
        memcpy((char *)m->out + i * m->element, &x, m->element);
    }
    for (size_t i = 0; i < c->n; i++) {
        uint64_t got = 0, expected = 0;
        memcpy(&got, (const char *)c->got + i * c->element, c->element);
        memcpy(&expected, (const char *)c->pattern + i % c->period * c->element, c->element);
        if (ulps_differ(got, expected, c->element, c->ulps) && c->out->count++ == 0)
            c->out->first = i;
    }
}

/* ---- NCCL: on the GPU ----------------------------------------------------------------------- */
static unsigned arrive(struct gate *g, int size)
{
    unsigned turn = atomic_load(&g->turn);
    if (atomic_fetch_add(&g->arrived, 1) + 1 == (unsigned)size) {
        atomic_store(&g->arrived, 0);
        atomic_fetch_add(&g->turn, 1);
    }
    return turn;
}

static bool stopped(ncclComm_t c)
{
    return atomic_load(&c->aborted) || atomic_load(&c->revoked);
}

/* Waits for all ranks of the communicator; false if it is aborted or revoked. */
static bool meet(ncclComm_t c, struct gate *g)
{
    for (unsigned turn = arrive(g, c->size); atomic_load(&g->turn) == turn; sched_yield())
        if (stopped(c))
            return false;
    return true;
}

static bool barrier(ncclComm_t c)
{
    return meet(c, &c->at->gpus);
}

/* A mean of floats is a sum of products with 1/n, each rounded to the type, as in NCCL. */
static long double mean(ncclComm_t c, size_t at, ncclDataType_t t)
{
    long double n = rounded(1.0L / c->size, t), x = 0;
    for (int r = 0; r < c->size; r++)
        x = rounded(x + rounded(get(c->at->slots[r], at, t) * n, t), t);
    return x;
}

/* Whole numbers in long double, which holds 64 bits; floats in double, so that they are rounded to
 * their type once. */
static long double reduced(ncclComm_t c, const struct op *k, size_t at)
{
    if (k->op == ncclAvg && k->type >= ncclFloat16)
        return mean(c, at, k->type);
    long double x = get(c->at->slots[0], at, k->type);
    for (int r = 1; r < c->size; r++)
        x = combine(x, get(c->at->slots[r], at, k->type), k->op, k->type);
    return k->op == ncclAvg ? x / c->size : x;
}

/* Returns how many of n elements NCCL (up to 2.30) writes if one rank multiplies them: each block
 * of its kernel has n / blocks of them, rounded down and then up to 16 bytes. */
static size_t written_alone(size_t n, size_t bytes)
{
    size_t blocks = (n * bytes + 16383) / 16384, pack = 16 / bytes;
    blocks = blocks < 32 ? blocks : 32;
    size_t each = (n / blocks + pack - 1) / pack * pack;
    return n < blocks * each ? n : blocks * each;
}

static void reduce_into(ncclComm_t c, const struct op *k, size_t first)
{
    bool alone = c->size == 1 && k->factor != 0;
    size_t n = alone ? written_alone(k->n, bytes_of(k->type)) : k->n;
    for (size_t i = 0; i < n; i++)
        set(k->out, i, k->type, reduced(c, k, first + i));
    if (simulates("wrong") || faulty("wrong_p2p", "NCCL_P2P_DISABLE") ||
        faulty("wrong_shm", "NCCL_SHM_DISABLE"))
        set(k->out, 0, k->type, get(k->out, 0, k->type) + 1);
}

/* Every rank's input is in its slot. */
static void take_result(ncclComm_t c, const struct op *k)
{
    size_t bytes = k->n * bytes_of(k->type), own = (size_t)c->rank * bytes;
    bool root = c->rank == k->root;
    switch (k->kind) {
    case REDUCE:
        if (!root)
            return;
        /* fall through */
    case ALL_REDUCE:
        reduce_into(c, k, 0);
        return;
    case REDUCE_SCATTER:
        reduce_into(c, k, (size_t)c->rank * k->n);
        return;
    case BROADCAST:
        memcpy(k->out, c->at->slots[k->root], bytes);
        return;
    case SCATTER:
        memcpy(k->out, c->at->slots[k->root] + own, bytes);
        return;
    default:
        for (int r = 0; r < c->size && (root || k->kind != GATHER); r++)
            memcpy((char *)k->out + (size_t)r * bytes,
                   c->at->slots[r] + (k->kind == ALL_TO_ALL ? own : 0), bytes);
    }
}

static ncclResult_t collective(ncclComm_t c, const struct op *k)
{
    bool wide = k->kind == REDUCE_SCATTER || k->kind == ALL_TO_ALL || k->kind == SCATTER;
    size_t sent = k->n * bytes_of(k->type) * (wide ? (size_t)c->size : 1);
    if (sent > SLOT_BYTES || c->size > RANKS_MAX)
        return ncclInvalidArgument;
    if ((k->kind != BROADCAST && k->kind != SCATTER) || c->rank == k->root)
        memcpy(c->at->slots[c->rank], k->in, sent);
    for (size_t i = 0; k->factor != 0 && i < sent / bytes_of(k->type); i++)
        set(c->at->slots[c->rank], i, k->type, get(k->in, i, k->type) * k->factor);
    if (!barrier(c))
        return ncclSystemError;
    take_result(c, k);
    return barrier(c) ? ncclSuccess : ncclSystemError;
}

static bool is_done(const struct op *k)
{
    return k->kind < SEND || k->moved == k->n * bytes_of(k->type);
}

/* Moves a piece if the box is ready. */
static ncclResult_t move_piece(ncclComm_t c, struct op *k)
{
    bool sends = k->kind == SEND;
    struct box *b = sends ? &c->at->boxes[c->rank][k->root] : &c->at->boxes[k->root][c->rank];
    size_t total = k->n * bytes_of(k->type), left = total - k->moved;
    if (atomic_load(&b->full) == (sends ? 1U : 0U))
        return ncclSuccess;
    if (sends) {
        b->total = total;
        b->bytes = left < BOX_BYTES ? left : BOX_BYTES;
        memcpy(b->data, (const char *)k->in + k->moved, b->bytes);
    } else {
        if (b->total != total)
            return ncclInvalidUsage;
        memcpy((char *)k->out + k->moved, b->data, b->bytes);
    }
    k->moved += b->bytes;
    atomic_store(&b->full, sends);
    return ncclSuccess;
}

/* Messages between two ranks keep their order: earlier ones must be complete. */
static bool is_next(const struct work *w, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (w->ops[k].kind == w->ops[i].kind && w->ops[k].root == w->ops[i].root &&
            !is_done(&w->ops[k]))
            return false;
    return !is_done(&w->ops[i]);
}

static ncclResult_t messages(struct work *w)
{
    bool left = true;
    while (left) {
        left = false;
        for (size_t i = 0; i < w->n; i++) {
            ncclResult_t rc = is_next(w, i) ? move_piece(w->comm, &w->ops[i]) : ncclSuccess;
            if (rc != ncclSuccess)
                return rc;
            left |= !is_done(&w->ops[i]);
        }
        if (stopped(w->comm))
            return ncclSystemError;
        sched_yield();
    }
    return ncclSuccess;
}

static void perform(struct work *w)
{
    if (!w->comm) {
        run_kernel(w);
        return;
    }
    ncclResult_t rc = stopped(w->comm) ? ncclSystemError : ncclSuccess;
    for (size_t i = 0; i < w->n && rc == ncclSuccess; i++)
        if (w->ops[i].kind < SEND)
            rc = collective(w->comm, &w->ops[i]);
    if (rc == ncclSuccess)
        rc = messages(w);
    if (rc != ncclSuccess && !stopped(w->comm))
        atomic_store(&w->comm->broken, rc);
}
