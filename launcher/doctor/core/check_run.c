#include "launcher/doctor/core/check_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/child.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/mem.h"
#include "launcher/node/limits.h"

enum { RESULT_BYTES_MAX = 64 << 10 };

struct run {
    const struct check *rows;
    size_t count;
    struct check_result *results;
    struct check_env *env;
};

static bool is_part(const struct run *r, const struct check *c)
{
    return c->run && c->when >= r->env->least;
}

/* Returns the need of a row that failed or was skipped, or NULL. A row that is not part of this run
 * does not count. */
static const char *unmet_need(const struct run *r, const struct check *c)
{
    for (size_t n = 0; n < CHECK_NEEDS_MAX && c->needs[n]; n++)
        for (size_t i = 0; i < r->count; i++)
            if (strcmp(r->rows[i].id, c->needs[n]) == 0 && r->results[i].value &&
                r->results[i].state >= CHECK_FAIL)
                return c->needs[n];
    return NULL;
}

static bool has_failed(const struct run *r, const char *id)
{
    for (size_t i = 0; i < r->count; i++)
        if (strcmp(r->rows[i].id, id) == 0)
            return r->results[i].value && r->results[i].state == CHECK_FAIL;
    return false;
}

/* ---- in the child --------------------------------------------------------------------------- */

static void send_result(int sock, const struct check *c, const struct check_result *r)
{
    AUTO(json) json_t *j = check_result_json(r, c->id, NULL);
    AUTO(free) char *line = json_line(j);
    if (!line || send(sock, line, strlen(line), MSG_NOSIGNAL) < 0)
        _exit(1);
}

/* An abandoned child, or a child of a check that cannot be killed, must not keep the output of
 * drover open: a reader of it would wait for the end. */
static void leave_std_fds(void)
{
    AUTO(fd) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
}

static _Noreturn void run_child(struct run *r, size_t from, int sock)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    leave_std_fds();
    for (size_t i = from; i < r->count; i++) {
        const struct check *c = &r->rows[i];
        struct check_result *result = &r->results[i];
        if (!is_part(r, c))
            continue;
        const char *unmet = unmet_need(r, c);
        int64_t begin = clock_ms();
        r->env->driver_failed = has_failed(r, "drv.loads");
        r->env->row = c;
        if (unmet)
            check_skip(result, "needs %s", unmet);
        else
            c->run(result, r->env);
        result->ms = (int)(clock_ms() - begin);
        send_result(sock, c, result);
    }
    _exit(0);
}

/* ---- in the parent -------------------------------------------------------------------------- */

/* Waits for the result of a check. Returns false if the child did not send it in time; `died` is
 * then true if the child has ended. */
static bool receive(struct check_result *out, int sock, int deadline_ms, bool *died)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int64_t end = clock_ms() + deadline_ms, left;
    int n = 0;
    while ((left = end - clock_ms()) > 0 && (n = poll(&p, 1, (int)left)) < 0 && errno == EINTR)
        ;
    *died = false;
    if (n <= 0)
        return false;
    AUTO(free) char *bytes = xzalloc(RESULT_BYTES_MAX);
    ssize_t len = recv(sock, bytes, RESULT_BYTES_MAX, 0);
    AUTO(json) json_t *j = NULL;
    *died = len <= 0 || json_parse(&j, bytes, (size_t)len, NULL) < 0;
    if (*died)
        return false;
    check_result_read(out, j);
    return true;
}

static int start_child(struct run *r, size_t from, int *sock, pid_t *pid, struct err *e)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        err_set(e, -errno, "doctor: socketpair: %s", strerror(errno));
        return limits_explain(e, "");
    }
    *pid = fork();
    if (*pid == 0) {
        close(ends[0]);
        run_child(r, from, ends[1]);
    }
    close(ends[1]);
    *sock = ends[0];
    if (*pid > 0)
        return 0;
    err_set(e, -errno, "doctor: fork: %s", strerror(errno));
    close(*sock);
    return limits_explain(e, "");
}

static void fail_without_result(struct check_result *r, const struct check *c, bool died,
                                int deadline_ms)
{
    if (died)
        check_bad(r, CHECK_FAIL, "an answer", c->what, "the check crashed");
    else
        check_bad(r, CHECK_FAIL, "an answer", c->what, "no answer within %d ms", deadline_ms);
    r->ms = died ? 0 : deadline_ms;
}

/* Receives results until one is missing. Returns the row that comes next. */
static size_t receive_all(struct run *r, size_t from, int sock)
{
    for (size_t i = from; i < r->count; i++) {
        bool died;
        if (!is_part(r, &r->rows[i]))
            continue;
        if (receive(&r->results[i], sock, r->env->deadline_ms, &died))
            continue;
        fail_without_result(&r->results[i], &r->rows[i], died, r->env->deadline_ms);
        return i + 1;
    }
    return r->count;
}

int check_run(struct check_result *out, const struct check *rows, size_t count,
              struct check_env *env, struct err *e)
{
    struct run r = {.rows = rows, .count = count, .results = out, .env = env};
    for (size_t i = 0; i < r.count; i++)
        out[i] = (struct check_result){.state = CHECK_SKIP};
    for (size_t next = 0; next < r.count;) {
        int sock = -1;
        pid_t pid = 0;
        int rc = start_child(&r, next, &sock, &pid, e);
        if (rc < 0)
            return rc;
        next = receive_all(&r, next, sock);
        close(sock);
        child_kill(pid);
    }
    return 0;
}
