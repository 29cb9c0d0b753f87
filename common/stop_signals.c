#include "common/stop_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "common/mem.h"

bool stop_signals_count(int sig, int64_t since_ms, bool foreground)
{
    bool key = foreground && (sig == SIGINT || sig == SIGQUIT);
    return since_ms < 0 || since_ms >= (key ? STOP_SIGNALS_KEY_MS : STOP_SIGNALS_REPEAT_MS);
}

/* Returns whether this process belongs to the foreground of its terminal, which then signals it for
 * Ctrl-C. Its standard descriptors may be files even so. */
static bool is_foreground(void)
{
    AUTO(fd) int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    return terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
}

bool stop_signals_from_keys(void)
{
    return isatty(STDERR_FILENO) && is_foreground();
}

static void on_signal(uv_signal_t *handle, int sig)
{
    struct stop_signals *s = handle->data;
    int64_t now = (int64_t)uv_now(handle->loop);
    if (!stop_signals_count(sig, s->last_ms < 0 ? -1 : now - s->last_ms, is_foreground()))
        return;
    bool again = s->last_ms >= 0;
    s->on_request(s->arg, sig, again);
    /* After the call, which may take long: the signal to the group may wait for its end. */
    uv_update_time(handle->loop);
    s->last_ms = (int64_t)uv_now(handle->loop);
}

void stop_signals_open(struct stop_signals *s, uv_loop_t *loop,
                       void (*on_request)(void *arg, int sig, bool again), void *arg)
{
    static const int numbers[STOP_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    *s = (struct stop_signals){.last_ms = -1, .on_request = on_request, .arg = arg};
    for (int i = 0; i < STOP_SIGNALS; i++) {
        struct sigaction inherited;
        uv_signal_init(loop, &s->handles[i]);
        s->handles[i].data = s;
        if (sigaction(numbers[i], NULL, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
            uv_signal_start(&s->handles[i], on_signal, numbers[i]);
    }
}

void stop_signals_close(struct stop_signals *s)
{
    for (int i = 0; i < STOP_SIGNALS; i++)
        uv_close((uv_handle_t *)&s->handles[i], NULL);
}
