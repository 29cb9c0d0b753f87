#include "collectives/backends/mpi/mpi_session.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/bootstrap/task.h"
#include "common/mem.h"

/* The environment variable with which Open MPI finds the folder of its plug-ins. */
#define PLUGIN_DIR_ENV "OPAL_PKGLIBDIR"

enum { SETTLE_MS = 500 };

static struct {
    pid_t initialised_by; /* process in which this file called MPI_Init; 0: none */
    int open;             /* number of open communicators */
    bool dirty;           /* a communicator was left with pending calls */
    bool stuck;           /* a thread is blocked inside MPI */
} session;

int mpi_session_failed(struct err *e, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0, class = 0;
    MPI_Error_string(code, text, &len);
    MPI_Error_class(code, &class);
    return err_set(e, class == MPI_ERR_NO_MEM ? -ENOMEM : -EIO, "MPI: %s: %s", what, text);
}

/* MPI_Finalize() would wait for ranks that do not call it. The launcher must still learn
 * that this rank ends on purpose: MPI_Init() has attached the process to PMIx, and this detaches
 * it. */
static void leave_without_finalize(void)
{
    int (*finalize)(const void *info, size_t count) = dlsym(RTLD_DEFAULT, "PMIx_Finalize");
    if (finalize)
        finalize(NULL, 0);
}

/* Returns true if a thread of this process other than this one is running, or waits for a
 * processor. */
static bool another_thread_runs(void)
{
    DIR *tasks = opendir("/proc/self/task");
    bool runs = false;
    for (struct dirent *entry; tasks && !runs && (entry = readdir(tasks));) {
        char path[64], text[256] = "";
        snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", entry->d_name);
        AUTO(fd) int fd = atoi(entry->d_name) == getpid() ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        const char *state =
            fd >= 0 && read(fd, text, sizeof text - 1) > 0 ? strrchr(text, ')') : NULL;
        runs = state && state[1] && state[2] == 'R';
    }
    if (tasks)
        closedir(tasks);
    return runs;
}

/* In MPI_Init(), Open MPI 4 queues an event for its progress thread, and MPI_Finalize() unloads the
 * code that handles it. On a busy machine the thread may not have run in between: about one in 500
 * short runs then ends with SIGSEGV. An idle thread has handled its events. */
static void let_progress_thread_run(void)
{
    for (int i = 0; i < SETTLE_MS && another_thread_runs(); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void at_exit(void)
{
    int finalised = 0;
    if (session.initialised_by != getpid())
        return;
    if (session.open > 0 || session.dirty) {
        leave_without_finalize();
        return;
    }
    MPI_Finalized(&finalised);
    if (finalised)
        return;
    let_progress_thread_run();
    MPI_Finalize();
}

/* A call of MPI that has no deadline. */
struct blocking_call {
    struct task task; /* first */
    int (*call)(void *arg);
    void *arg;
    sigset_t signals; /* of the caller: programs that MPI starts inherit them */
    int code;
};

static void run(struct task *t)
{
    struct blocking_call *w = (struct blocking_call *)t;
    pthread_sigmask(SIG_SETMASK, &w->signals, NULL);
    w->code = w->call(w->arg);
}

int mpi_session_call(int (*call)(void *arg), void *arg, int64_t timeout_ms, const char *name,
                     struct err *e)
{
    if (session.stuck)
        return err_set(e, -EALREADY, "MPI is not usable after an earlier failure");
    struct blocking_call *w = xzalloc(sizeof *w);
    w->call = call;
    w->arg = arg;
    pthread_sigmask(SIG_SETMASK, NULL, &w->signals);
    task_start(&w->task, run);
    bool done = task_wait(&w->task, timeout_ms);
    int code = done ? w->code : MPI_SUCCESS;
    task_free(&w->task);
    if (!done) {
        session.dirty = session.stuck = true;
        err_set(e, -ETIMEDOUT, "%s: other ranks did not call it within %lld ms", name,
                (long long)timeout_ms);
        return err_hint(e, "every rank must make the same call");
    }
    return code == MPI_SUCCESS ? 0 : mpi_session_failed(e, code, name);
}

static int init(void *arg)
{
    int provided = 0;
    return MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
}

/* Makes the symbols of libmpi global, by opening libmpi again. Open MPI's plug-ins need this, but
 * libmpi was loaded locally with this plug-in. Returns the folder of Open MPI's plug-ins if drover
 * was installed as a bundle, which has them next to libmpi; the caller frees it. Returns NULL if
 * they are where Open MPI expects them, or the user has set the folder. */
static char *make_global(void)
{
    Dl_info info;
    if (!dladdr((void *)MPI_Init_thread, &info) || !info.dli_fname)
        return NULL;
    (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    const char *slash = strrchr(info.dli_fname, '/');
    if (!slash || getenv(PLUGIN_DIR_ENV))
        return NULL;
    AUTO(free) char *plugins = xasprintf("%.*s/mca", (int)(slash - info.dli_fname), info.dli_fname);
    return access(plugins, X_OK) == 0 ? TAKE(plugins) : NULL;
}

int mpi_session_enter(int64_t timeout_ms, struct err *e)
{
    int initialised = 0, finalised = 0;
    if (session.dirty)
        return err_set(e, -EALREADY, "MPI is not usable after an earlier failure");
    MPI_Finalized(&finalised);
    if (finalised)
        return err_set(e, -EALREADY, "MPI was finalised and cannot be initialised again");
    MPI_Initialized(&initialised);
    if (!initialised) {
        AUTO(free) char *plugins = make_global();
        if (plugins)
            setenv(PLUGIN_DIR_ENV, plugins, 1);
        int rc = mpi_session_call(init, NULL, timeout_ms, "MPI_Init", e);
        if (rc < 0) /* the environment is not changed: the thread may still read it */
            return rc;
        if (plugins) /* a child process may use another Open MPI */
            unsetenv(PLUGIN_DIR_ENV);
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
