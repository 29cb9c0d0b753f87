#include "launcher/io/terminal_modes.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "common/mem.h"

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/* Used by a signal handler, too. */
static struct {
    volatile sig_atomic_t changed; /* the terminal has this process's modes */
    bool known;                    /* `before` is set */
    struct termios before;
    const char *farewell;
    struct sigaction actions[COUNT_OF(crashes)];
} modes;

bool terminal_modes_in_foreground(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

bool terminal_modes_changed(void)
{
    return modes.changed;
}

void terminal_modes_forget(void)
{
    modes.changed = 0;
}

void terminal_modes_restore(void)
{
    if (modes.changed && terminal_modes_in_foreground())
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &modes.before);
    modes.changed = 0;
}

void terminal_modes_change(void)
{
    struct termios own;
    if (modes.changed || !isatty(STDIN_FILENO) || !terminal_modes_in_foreground() ||
        tcgetattr(STDIN_FILENO, &own) < 0)
        return;
    if (!modes.known || (own.c_lflag & ICANON)) /* otherwise they are this process's already */
        modes.before = own;
    modes.known = true;
    own.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: Ctrl-C and Ctrl-Z are signals */
    own.c_cc[VMIN] = 0;                        /* a read returns at once */
    own.c_cc[VTIME] = 0;
    modes.changed = 1;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &own);
}

ssize_t terminal_modes_read(char *keys, size_t size)
{
    terminal_modes_change();
    return modes.changed && terminal_modes_in_foreground() ? read(STDIN_FILENO, keys, size) : 0;
}

static void leave(void)
{
    terminal_modes_restore();
    if (modes.farewell)
        (void)!write(STDOUT_FILENO, modes.farewell, strlen(modes.farewell));
    modes.farewell = NULL;
}

static void on_crash(int number)
{
    leave();
    for (size_t i = 0; i < COUNT_OF(crashes); i++)
        if (crashes[i] == number)
            (void)sigaction(number, &modes.actions[i], NULL);
    (void)raise(number);
}

/* Only an action that is the default is replaced: a sanitizer or a debugger has its own. */
void terminal_modes_watch(const char *farewell)
{
    struct sigaction own = {.sa_handler = on_crash};
    modes.farewell = farewell;
    for (size_t i = 0; i < COUNT_OF(crashes); i++)
        if (sigaction(crashes[i], NULL, &modes.actions[i]) == 0 &&
            modes.actions[i].sa_handler == SIG_DFL)
            (void)sigaction(crashes[i], &own, NULL);
    static bool registered;
    if (!registered)
        (void)atexit(leave);
    registered = true;
}

void terminal_modes_unwatch(void)
{
    terminal_modes_restore();
    modes.farewell = NULL;
    for (size_t i = 0; i < COUNT_OF(crashes); i++)
        (void)sigaction(crashes[i], &modes.actions[i], NULL);
}
