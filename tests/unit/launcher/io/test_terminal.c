#include "launcher/io/terminal.h"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>

#include "common/log.h"
#include "common/strbuf.h"
#include "tests/unit/test.h"

#define ENTER "\033[?1049h"
#define LEAVE "\033[?25h\033[?1049l"

enum { WAIT_MS = 60000, EXIT_IN_LOOP = 7 };

/* ---- the program on the terminal ------------------------------------------------------------ */

struct program {
    enum terminal_kind kind;
    struct terminal *terminal;
    char keys[16];
    bool done;
};

/* q ends the program in order, e exits, c crashes, p prints a line, l logs one. */
static void on_keys(void *arg, const char *keys, size_t len)
{
    struct program *p = arg;
    for (size_t i = 0; i < len; i++) {
        p->keys[strlen(p->keys)] = keys[i];
        p->done |= keys[i] == 'q';
        if (keys[i] == 'e')
            exit(EXIT_IN_LOOP);
        if (keys[i] == 'c')
            abort();
        if (keys[i] == 'p')
            terminal_print(p->terminal, "printed line\n");
        if (keys[i] == 'l')
            log_warn("logged line");
    }
}

static void on_frame(void *arg)
{
    struct program *p = arg;
    int columns, rows;
    terminal_size(p->terminal, &columns, &rows);
    AUTO(free) char *text = xasprintf("<%dx%d keys=%s>", columns, rows, p->keys);
    if (p->kind == TERMINAL_SCREEN) {
        terminal_paint_screen(p->terminal, text, strlen(text));
        return;
    }
    char **lines = NULL;
    strv_push(&lines, xstrdup("first line"));
    strv_push(&lines, xstrdup(text));
    terminal_paint_block(p->terminal, lines);
}

static void on_message(void *arg, const char *line)
{
    struct program *p = arg;
    snprintf(p->keys, sizeof p->keys, "message");
}

static void run_program(enum terminal_kind kind)
{
    static const struct terminal_events events = {on_keys, on_frame, on_message};
    struct program p = {.kind = kind};
    setenv("TERM", "xterm", 1);
    if (!terminal_usable(kind))
        _exit(99);
    p.terminal = terminal_open(uv_default_loop(), kind, &events, &p);
    while (!p.done)
        uv_run(uv_default_loop(), UV_RUN_ONCE);
    terminal_stop(p.terminal);
    uv_run(uv_default_loop(), UV_RUN_NOWAIT);
    if (kind == TERMINAL_BLOCK)
        terminal_print(p.terminal, "after the end\n");
    terminal_free(p.terminal);
    _exit(0);
}

/* ---- the user ------------------------------------------------------------------------------- */

struct user {
    int terminal;
    pid_t pid;
    struct strbuf seen;
};

static void start(struct user *u, enum terminal_kind kind)
{
    const struct winsize size = {.ws_row = 24, .ws_col = 80};
    *u = (struct user){0};
    u->pid = forkpty(&u->terminal, NULL, NULL, &size);
    CHECK(u->pid >= 0);
    if (u->pid == 0)
        run_program(kind);
}

/* Returns false at the end of the output. */
static bool read_more(struct user *u)
{
    char part[4096];
    struct pollfd p = {.fd = u->terminal, .events = POLLIN};
    if (poll(&p, 1, WAIT_MS) != 1)
        FAIL("nothing more came after: %s", strbuf_str(&u->seen));
    ssize_t n = read(u->terminal, part, sizeof part);
    if (n > 0)
        strbuf_add(&u->seen, part, (size_t)n);
    return n > 0;
}

/* Waits for a text, and forgets the output up to its end. */
static void await(struct user *u, const char *text)
{
    const char *at;
    while (!(at = strstr(strbuf_str(&u->seen), text)))
        if (!read_more(u))
            FAIL("the program ended before '%s': %s", text, strbuf_str(&u->seen));
    AUTO(free) char *rest = xstrdup(at + strlen(text));
    strbuf_reset(&u->seen);
    strbuf_puts(&u->seen, rest);
}

static void press(struct user *u, char key)
{
    CHECK(write(u->terminal, &key, 1) == 1);
}

static bool is_raw(const struct user *u)
{
    struct termios modes;
    CHECK(tcgetattr(u->terminal, &modes) == 0);
    return !(modes.c_lflag & ICANON) && !(modes.c_lflag & ECHO);
}

/* Waits for the end. Returns the status of waitpid(). */
static int finish(struct user *u)
{
    int status = 0;
    while (read_more(u))
        ;
    CHECK(waitpid(u->pid, &status, 0) == u->pid);
    CHECK(!is_raw(u));
    return status;
}

static void end(struct user *u)
{
    close(u->terminal);
    strbuf_free(&u->seen);
}

TEST(a_screen_shows_keys_and_its_size_and_leaves_the_terminal_as_it_was)
{
    struct user u;
    start(&u, TERMINAL_SCREEN);
    await(&u, ENTER);
    await(&u, "<80x24 keys=>");
    press(&u, 'a');
    await(&u, "<80x24 keys=a>");
    CHECK(is_raw(&u));
    CHECK(ioctl(u.terminal, TIOCSWINSZ, &(struct winsize){.ws_row = 10, .ws_col = 40}) == 0);
    await(&u, "<40x10 keys=a>");
    press(&u, 'l');
    await(&u, "<40x10 keys=message>"); /* the line itself is not on the screen */
    CHECK(strstr(strbuf_str(&u.seen), "logged line") == NULL);
    press(&u, 'q');
    await(&u, LEAVE);
    CHECK_INT(finish(&u), 0);
    end(&u);
}

TEST(an_exit_and_a_crash_restore_the_screen_and_the_modes)
{
    for (int crash = 0; crash < 2; crash++) {
        struct user u;
        start(&u, TERMINAL_SCREEN);
        await(&u, "keys=>");
        press(&u, crash ? 'c' : 'e');
        await(&u, LEAVE);
        int status = finish(&u);
        CHECK(crash ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT
                    : WIFEXITED(status) && WEXITSTATUS(status) == EXIT_IN_LOOP);
        end(&u);
    }
}

TEST(lines_appear_above_a_block_and_the_end_removes_it)
{
    struct user u;
    start(&u, TERMINAL_BLOCK);
    await(&u, "first line\033[K\r\n<79x23 keys=>\033[K\r\n");
    press(&u, 'p');
    await(&u, "\033[2A\rprinted line\033[K\r\nfirst line\033[K\r\n<79x23 keys=p>");
    press(&u, 'l');
    await(&u, "logged line\033[K\r\nfirst line");
    await(&u, "keys=pl>");
    press(&u, 'q');
    await(&u, "\033[2A\r\033[K\r\n\033[J\033[A");
    await(&u, "after the end\r\n");
    CHECK_INT(finish(&u), 0);
    CHECK_STR(strbuf_str(&u.seen), "");
    end(&u);
}
