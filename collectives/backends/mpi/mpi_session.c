#include "collectives/backends/mpi/mpi_session.h"

#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"

/* Open MPI's own variable. */
#define PARTS "OPAL_PKGLIBDIR"

static struct {
    pid_t initialised_by; /* 0: not by us */
    int open;             /* communicators */
    bool dirty;           /* one of them was given up */
    bool stuck;           /* a thread is inside MPI and does not come back */
} session;

int mpi_session_failed(struct err *e, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0, class = 0;
    MPI_Error_string(code, text, &len);
    MPI_Error_class(code, &class);
    return err_set(e, class == MPI_ERR_NO_MEM ? -ENOMEM : -EIO, "MPI: %s: %s", what, text);
}

static void at_exit(void)
{
    int finalised = 0;
    if (session.initialised_by != getpid() || session.open > 0 || session.dirty)
        return;
    MPI_Finalized(&finalised);
    if (!finalised)
        MPI_Finalize();
}

/* A call that has no deadline. Whoever of the two threads comes last frees it. */
struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t came;
    int (*call)(void *arg);
    void *arg;
    bool done, left;
    int code;
};

static void waiting_free(struct waiting *w)
{
    pthread_cond_destroy(&w->came);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void *run(void *arg)
{
    struct waiting *w = arg;
    int code = w->call(w->arg);
    pthread_mutex_lock(&w->lock);
    w->done = true;
    w->code = code;
    bool left = w->left;
    pthread_cond_signal(&w->came);
    pthread_mutex_unlock(&w->lock);
    if (left)
        waiting_free(w);
    return NULL;
}

int mpi_session_call(int (*call)(void *arg), void *arg, int64_t timeout_ms, const char *name,
                     struct err *e)
{
    if (session.stuck)
        return err_set(e, -EALREADY, "MPI was given up after a failure");
    struct timespec end = clock_in_ms(timeout_ms);
    struct waiting *w = xzalloc(sizeof *w);
    w->call = call;
    w->arg = arg;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->came, &attr);
    pthread_condattr_destroy(&attr);
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, run, w);
    if (rc != 0) {
        waiting_free(w);
        return err_set(e, -rc, "no thread for %s", name);
    }
    pthread_mutex_lock(&w->lock);
    while (!w->done && pthread_cond_timedwait(&w->came, &w->lock, &end) != ETIMEDOUT)
        ;
    bool done = w->done;
    int code = w->code;
    w->left = !done;
    pthread_mutex_unlock(&w->lock);
    if (!done) {
        pthread_detach(thread);
        session.dirty = session.stuck = true;
        err_set(e, -ETIMEDOUT, "%s waits for other ranks for %lld ms already", name,
                (long long)timeout_ms);
        return err_hint(e, "each of the ranks must make the call that this one made");
    }
    pthread_join(thread, NULL);
    waiting_free(w);
    return code == MPI_SUCCESS ? 0 : mpi_session_failed(e, code, name);
}

static int init(void *arg)
{
    int provided = 0;
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
}

/* Open MPI loads its parts as plug-ins that look for libmpi's symbols globally, while we were
 * loaded locally: libmpi is opened once more, by the path that it has. Returns where a bundle has
 * them, beside libmpi; NULL: they are where Open MPI expects them, or the user says where. */
static char *make_global(void)
{
    Dl_info info;
    if (!dladdr((void *)MPI_Init_thread, &info) || !info.dli_fname)
        return NULL;
    (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    const char *slash = strrchr(info.dli_fname, '/');
    if (!slash || getenv(PARTS))
        return NULL;
    AUTO(free) char *parts = xasprintf("%.*s/mca", (int)(slash - info.dli_fname), info.dli_fname);
    return access(parts, X_OK) == 0 ? TAKE(parts) : NULL;
}

int mpi_session_enter(int64_t timeout_ms, struct err *e)
{
    int initialised = 0, finalised = 0;
    if (session.dirty)
        return err_set(e, -EALREADY, "MPI was given up after a failure");
    MPI_Finalized(&finalised);
    if (finalised)
        return err_set(e, -EALREADY, "MPI was finalised already, and cannot be begun again");
    MPI_Initialized(&initialised);
    if (!initialised) {
        AUTO(free) char *parts = make_global();
        if (parts)
            setenv(PARTS, parts, 1);
        int rc = mpi_session_call(init, NULL, timeout_ms, "MPI_Init", e);
        if (rc < 0) /* its thread may still read the environment */
            return rc;
        if (parts) /* a child may have another Open MPI */
            unsetenv(PARTS);
        session.initialised_by = getpid();
        atexit(at_exit);
    }
    session.open++;
    return 0;
}

void mpi_session_hold(void)
{
    session.open++;
}

void mpi_session_leave(bool clean)
{
    session.open--;
    session.dirty |= !clean;
}
