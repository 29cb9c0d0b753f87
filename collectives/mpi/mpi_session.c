#include "collectives/mpi/mpi_session.h"

#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/mem.h"

static struct {
    pid_t initialised_by; /* 0: not by us */
    int open;             /* communicators */
    bool dirty;
} session;

int mpi_failed(struct err *e, int code, const char *what)
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

/* MPI_Init has no deadline: it returns when all ranks have come. So a thread waits for it. */
struct init {
    pthread_mutex_t lock;
    pthread_cond_t came;
    bool done, left;
    int code;
};

static void init_free(struct init *i)
{
    pthread_cond_destroy(&i->came);
    pthread_mutex_destroy(&i->lock);
    free(i);
}

static void *run_init(void *arg)
{
    struct init *i = arg;
    int provided = 0;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    pthread_mutex_lock(&i->lock);
    i->done = true;
    i->code = code;
    bool left = i->left;
    pthread_cond_signal(&i->came);
    pthread_mutex_unlock(&i->lock);
    if (left)
        init_free(i);
    return NULL;
}

static int init_by(const struct timespec *end, int64_t timeout_ms, struct err *e)
{
    struct init *i = xzalloc(sizeof *i);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&i->lock, NULL);
    pthread_cond_init(&i->came, &attr);
    pthread_condattr_destroy(&attr);
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, run_init, i);
    if (rc != 0) {
        init_free(i);
        return err_set(e, -rc, "no thread for MPI_Init");
    }
    pthread_mutex_lock(&i->lock);
    while (!i->done && pthread_cond_timedwait(&i->came, &i->lock, end) != ETIMEDOUT)
        ;
    bool done = i->done;
    int code = i->code;
    i->left = !done;
    pthread_mutex_unlock(&i->lock);
    if (!done) {
        pthread_detach(thread);
        session.dirty = true;
        err_set(e, -ETIMEDOUT, "MPI_Init waits for other ranks for %lld ms already",
                (long long)timeout_ms);
        return err_hint(e, "each rank of the job must open the communicator, or call MPI_Init");
    }
    pthread_join(thread, NULL);
    init_free(i);
    return code == MPI_SUCCESS ? 0 : mpi_failed(e, code, "MPI_Init");
}

/* Open MPI loads its parts as plug-ins that look for libmpi's symbols globally, while we were
 * loaded locally: libmpi is opened once more, by the path that it has. */
static void make_global(void)
{
    Dl_info info;
    if (dladdr((void *)MPI_Init_thread, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
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
        make_global();
        struct timespec end;
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += (timeout_ms + 999) / 1000;
        int rc = init_by(&end, timeout_ms, e);
        if (rc < 0)
            return rc;
        session.initialised_by = getpid();
        atexit(at_exit);
    }
    session.open++;
    return 0;
}

void mpi_session_leave(bool clean)
{
    session.open--;
    session.dirty |= !clean;
}
