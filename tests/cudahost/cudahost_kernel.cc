/* cudahost_kernel - runs a kernel's blocks one after the other, and a block's threads as fibers.
 *
 * A fiber runs threads until one waits; that thread keeps the fiber, and another fiber takes the
 * next threads. So threads that never wait cost no switch. With the race detector, each thread has
 * a fiber of its own, whose stack returns to the system, or reports would name its reuse. */
#include "cudahost.h"
#include "cudahost_internal.h"

#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

enum state { FRESH, READY, AT_BARRIER, IN_WARP, ENDED };
enum { PAGE_BYTES = 4096, STACK_BYTES = 128 << 10, BLOCK_MAX = 1024, ARRAYS_MAX = 32 };

struct fiber {
    ucontext_t context;
    char *stack;
    void *tsan, *asan;
};
struct thread {
    cudahost_thread t;
    state at;
    fiber *on;
    cudahost_site site; /* where it waits */
    cudahost_warp_call call;
    unsigned long long result;
};

/* Arrays of fixed size: memory that one fiber allocates and another one frees would be reported. */
static struct {
    cudahost_site site;
    void (*body)(void *);
    void *arguments;
    size_t count; /* threads of a block */
    thread threads[BLOCK_MAX];
    unsigned turns[BLOCK_MAX]; /* the order of the threads; those from `next` on are fresh */
    size_t next;
    fiber *idle[BLOCK_MAX];
    size_t idle_count;
    struct {
        cudahost_site site;
        void *p;
        size_t bytes;
    } arrays[ARRAYS_MAX]; /* shared memory of the block */
    size_t array_count;
    thread *running;
    pthread_t host; /* the thread of the host that executes the kernel */
    order *end;     /* what the threads of the launch did */
    ucontext_t home;
    void *home_tsan, *home_asan;
    const void *home_stack;
    size_t home_bytes;
} now;
const cudahost_thread *cudahost_now;

bool kernel_is_running(void)
{
    return now.running && pthread_equal(now.host, pthread_self());
}

bool kernel_owns(const void *p)
{
    return (uintptr_t)p - (uintptr_t)now.running->on->stack < STACK_BYTES;
}

static unsigned number_of(const thread *t)
{
    return (unsigned)(t - now.threads);
}

int cudahost_lane(void)
{
    return (int)(number_of(now.running) % 32);
}

static void fail_at(const thread *t, cudahost_site site, const char *what)
{
    char place[400];
    uint3 b = t->t.block, at = t->t.thread;
    snprintf(place, sizeof place, "%s:%d", site.file, site.line);
    cudahost_stop(place, "%s in %s, block (%u,%u,%u), thread (%u,%u,%u): %s", site.what,
                  now.site.what, b.x, b.y, b.z, at.x, at.y, at.z, what);
}

void cudahost_fail(cudahost_site site, const char *what)
{
    fail_at(now.running, site, what);
    abort();
}

/* ---- fibers --------------------------------------------------------------------------------- */
static void leave(void)
{
    fiber *f = now.running->on;
    now.running = NULL;
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&f->asan, now.home_stack, now.home_bytes);
    fiber_enter(now.home_tsan);
    swapcontext(&f->context, &now.home);
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(f->asan, &now.home_stack, &now.home_bytes);
}

static void run_thread(thread *t, fiber *f)
{
    t->on = f;
    now.running = t;
    cudahost_now = &t->t;
    now.body(now.arguments);
    order_release(now.end);
    t->at = ENDED;
}

static fiber *starting;

static void fiber_main(void)
{
    fiber *f = starting;
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(NULL, &now.home_stack, &now.home_bytes);
    for (;;) {
        thread *t;
        do {
            t = &now.threads[now.turns[now.next++]];
            run_thread(t, f);
        } while (!f->tsan && now.next < now.count);
        now.idle[now.idle_count++] = f;
        leave();
    }
}

static void enter(fiber *f)
{
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&now.home_asan, f->stack, STACK_BYTES);
    fiber_enter(f->tsan);
    swapcontext(&now.home, &f->context);
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(now.home_asan, NULL, NULL);
}

/* The structure is below the stack. */
static fiber *fiber_make(void)
{
    void *p = mmap(NULL, PAGE_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        cudahost_stop(now.site.file, "no memory for the stack of a thread");
    fiber *f = (fiber *)p;
    f->stack = (char *)p + PAGE_BYTES;
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = NULL;
    makecontext(&f->context, fiber_main, 0);
    f->tsan = fiber_new();
    return f;
}

/* Starts fresh threads until one waits, or all have ended. */
static void start_threads(void)
{
    starting = now.idle_count ? now.idle[--now.idle_count] : fiber_make();
    enter(starting);
}

static void resume(thread *t)
{
    now.running = t;
    cudahost_now = &t->t;
    t->at = READY;
    enter(t->on);
}

/* ---- what threads call ---------------------------------------------------------------------- */
static void wait_in(state s, cudahost_site site)
{
    thread *t = now.running;
    t->at = s;
    t->site = site;
    leave();
}

void cudahost_barrier(cudahost_site site)
{
    wait_in(AT_BARRIER, site);
}

unsigned long long cudahost_warp(cudahost_site site, cudahost_warp_call call)
{
    thread *t = now.running;
    if (!(call.mask >> cudahost_lane() & 1))
        cudahost_fail(site, "the mask lacks the calling lane");
    t->call = call;
    wait_in(IN_WARP, site);
    return t->result;
}

static void *array_of(cudahost_site site, size_t bytes)
{
    size_t total = bytes;
    for (size_t i = 0; i < now.array_count; i++) {
        total += now.arrays[i].bytes;
        if (now.arrays[i].site.line == site.line && !strcmp(now.arrays[i].site.what, site.what))
            return now.arrays[i].p;
    }
    if (total > 48 << 10 || now.array_count == ARRAYS_MAX)
        cudahost_fail(site, "more than 48 KiB of shared memory");
    void *p = memory_new(MEMORY_SHARED, bytes);
    now.arrays[now.array_count++] = {site, p, bytes};
    order_release((order *)p);
    return p;
}

/* The stream allocates, since no thread of the block is before the others. */
void *cudahost_shared(cudahost_site site, size_t bytes)
{
    void *me = fiber_now();
    fiber_enter(now.home_tsan);
    void *p = array_of(site, bytes);
    fiber_enter(me);
    order_acquire((order *)p);
    return p;
}

void *cudahost_arguments(size_t bytes)
{
    return memory_new(MEMORY_ARGUMENTS, bytes);
}

/* ---- the end of a wait
 * --------------------------------------------------------------------------- */
/* What each of the threads did so far is before what any of them does from now on. */
static void order_threads(thread *const threads[], size_t n)
{
    order *o = (order *)calloc(1, sizeof *o);
    for (size_t pass = 0; now.home_tsan && pass < 2; pass++)
        for (size_t i = 0; i < n; i++) {
            fiber_enter(threads[i]->on->tsan);
            pass == 0 ? order_release(o) : order_acquire(o);
        }
    fiber_enter(now.home_tsan);
    free(o);
}

/* Lets the threads go if all are at one barrier. */
static bool pass_barrier(void)
{
    size_t waiting = 0;
    thread *first = NULL, *ended = NULL, *all[BLOCK_MAX];
    for (size_t i = 0; i < now.count; i++) {
        thread *t = &now.threads[i];
        waiting += t->at == AT_BARRIER;
        if (t->at == AT_BARRIER && !first)
            first = t;
        if (t->at == ENDED)
            ended = t;
        else if (t->at != AT_BARRIER)
            return false;
    }
    if (!waiting)
        return false;
    if (ended)
        fail_at(ended, first->site, "it has ended, and others wait here");
    for (size_t i = 0; i < now.count; i++) {
        if (now.threads[i].site.line != first->site.line)
            fail_at(&now.threads[i], now.threads[i].site,
                    "another thread waits at another barrier");
        now.threads[i].at = READY;
        all[i] = &now.threads[i];
    }
    order_threads(all, now.count);
    return true;
}

/* The lanes of `have` are in the same call. */
static void finish_call(thread *const lanes[32], unsigned have, cudahost_kind kind)
{
    unsigned ballot = 0;
    thread *met[32];
    size_t count = 0;
    for (int l = 0; l < 32; l++) {
        if (!(have >> l & 1))
            continue;
        met[count++] = lanes[l];
        ballot |= lanes[l]->call.value ? 1u << l : 0;
    }
    if (kind == CUDAHOST_SYNCWARP)
        order_threads(met, count);
    for (size_t i = 0; i < count; i++) {
        thread *t = met[i];
        if (kind == CUDAHOST_SHUFFLE && !(have >> (t->call.from & 31) & 1))
            fail_at(t, t->site, "it reads a lane that has ended, or that is not in the mask");
        t->result = kind == CUDAHOST_SHUFFLE ? lanes[t->call.from & 31]->call.value : ballot;
        t->at = READY;
    }
}

/* Lets the lanes of a warp go that have met in a call: all of the mask that have not ended. */
static bool pass_warp(size_t warp)
{
    thread *lanes[32] = {};
    unsigned alive = 0;
    for (size_t l = 0; l < 32 && warp * 32 + l < now.count; l++) {
        lanes[l] = &now.threads[warp * 32 + l];
        alive |= lanes[l]->at != ENDED ? 1u << l : 0;
    }
    for (thread *t : lanes) {
        if (!t || t->at != IN_WARP)
            continue;
        unsigned have = 0;
        for (int l = 0; l < 32; l++)
            if (lanes[l] && lanes[l]->at == IN_WARP && lanes[l]->call.mask == t->call.mask &&
                lanes[l]->site.line == t->site.line && lanes[l]->call.kind == t->call.kind)
                have |= 1u << l;
        if (have != (t->call.mask & alive))
            continue;
        finish_call(lanes, have, t->call.kind);
        return true;
    }
    return false;
}

/* ---- blocks --------------------------------------------------------------------------------- */
static struct {
    bool is_read, is_random, is_reverse;
    unsigned long long seed;
} order_of_threads;

static unsigned random_below(unsigned n)
{
    unsigned long long *s = &order_of_threads.seed;
    *s = *s * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)((*s >> 33) % n);
}

void cudahost_order(const char *order)
{
    order_of_threads.is_read = true;
    order_of_threads.is_reverse = order && *order == 'r';
    order_of_threads.is_random = order && *order >= '0' && *order <= '9';
    order_of_threads.seed = order_of_threads.is_random ? strtoull(order, NULL, 10) : 0;
}

static void choose_turns(void)
{
    for (unsigned i = 0; i < now.count; i++)
        now.turns[i] = order_of_threads.is_reverse ? (unsigned)now.count - 1 - i : i;
    for (unsigned i = (unsigned)now.count - 1; order_of_threads.is_random && i > 0; i--)
        std::swap(now.turns[i], now.turns[random_below(i + 1)]);
}

static void begin_block(dim3 grid, dim3 dim, uint3 block)
{
    now.count = (size_t)dim.x * dim.y * dim.z;
    now.next = 0;
    for (unsigned i = 0; i < now.count; i++) {
        now.threads[i].at = FRESH;
        now.threads[i].t = {{i % dim.x, i / dim.x % dim.y, i / dim.x / dim.y}, block, dim, grid};
    }
    choose_turns();
}

/* Frees what the threads used, as a thread that is after all of them and before none. So the next
 * block is not ordered after this one. */
static void end_block(void)
{
    static void *janitor = fiber_new();
    fiber_enter(janitor);
    order_acquire(now.end);
    for (size_t i = 0; i < now.array_count; i++)
        memory_free(now.arrays[i].p);
    now.array_count = 0;
    for (; janitor && now.idle_count; now.idle_count--) {
        fiber *f = now.idle[now.idle_count - 1];
        __tsan_destroy_fiber(f->tsan);
        munmap(f, PAGE_BYTES + STACK_BYTES);
    }
    fiber_enter(now.home_tsan);
}

static bool run_ready(void)
{
    bool ran = false;
    choose_turns();
    for (size_t i = 0; i < now.count; i++) {
        thread *t = &now.threads[now.turns[i]];
        for (; t->at == READY; ran = true)
            resume(t);
    }
    return ran;
}

static void run_block(dim3 grid, dim3 dim, uint3 block)
{
    begin_block(grid, dim, block);
    while (now.next < now.count)
        start_threads();
    for (bool moves = true; moves;) {
        moves = pass_barrier();
        for (size_t w = 0; w * 32 < now.count; w++)
            while (pass_warp(w))
                moves = true;
        moves |= run_ready();
    }
    for (size_t i = 0; i < now.count; i++)
        if (now.threads[i].at != ENDED)
            fail_at(&now.threads[i], now.threads[i].site, "it waits forever: others do not come");
    end_block();
}

static bool is_valid(dim3 grid, dim3 dim)
{
    size_t threads = (size_t)dim.x * dim.y * dim.z;
    return threads > 0 && threads <= BLOCK_MAX && dim.z <= 64 && grid.x > 0 &&
           grid.x <= INT32_MAX && grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535;
}

static void run_grid(dim3 grid, dim3 dim)
{
    size_t blocks = (size_t)grid.x * grid.y * grid.z;
    size_t first = order_of_threads.is_random ? random_below((unsigned)blocks) : 0;
    for (size_t i = 0; i < blocks; i++) {
        size_t b = order_of_threads.is_reverse ? blocks - 1 - i : (first + i) % blocks;
        run_block(grid, dim,
                  {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                   (unsigned)(b / grid.x / grid.y)});
    }
}

void cudahost_run(cudahost_site site, dim3 grid, dim3 dim, cudaStream_t stream, void *arguments,
                  void (*body)(void *))
{
    if (!order_of_threads.is_read)
        cudahost_order(getenv("CUDAHOST_ORDER"));
    if (getenv("CUDAHOST_LOG"))
        fprintf(stderr, "cudahost: launch of %s\n", site.what);
    if (!is_valid(grid, dim)) {
        stream_set_error(cudaErrorInvalidConfiguration);
        memory_free(arguments);
        return;
    }
    stream_do(stream, CALLER, [=] {
        now.site = site;
        now.body = body;
        now.arguments = arguments;
        now.home_tsan = fiber_now();
        now.host = pthread_self();
        now.end = (order *)calloc(1, sizeof *now.end);
        run_grid(grid, dim);
        order_acquire(now.end);
        free(now.end);
        memory_free(arguments);
    });
}
