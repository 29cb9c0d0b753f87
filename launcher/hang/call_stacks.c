#include "launcher/hang/call_stacks.h"

#include <assert.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "common/own_process.h"
#include "common/strbuf.h"
#include "launcher/hang/stack_text.h"
#include "launcher/plan/env.h"
#include "launcher/watch/mpi_singletons.h"

enum { READ_BYTES = 4096, TEXT_MAX = 1 << 20 };

struct tool {
    struct call_stacks *owner;
    uv_process_t process;
    uv_pipe_t out;
    struct strbuf text;
    bool used;   /* the two handles are in the loop */
    bool exited; /* the process has exited */
    bool eof;    /* its output is at end of file */
    bool python; /* the tool is py-spy … */
    bool lacks;  /* … or it would be, if it were installed */
    char scratch[READ_BYTES];
};

struct call_stacks {
    struct tool tools[CALL_STACKS_MAX];
    int count;
    uv_timer_t limit; /* deadline of all tools; expires at once if no tool could be started */
    int open;         /* handles */
    bool reported;
    void (*done)(void *arg, const char *const *texts); /* NULL: call_stacks_free() was called */
    void *arg;
};

static void on_closed(uv_handle_t *h)
{
    struct call_stacks *s = h->data;
    if (--s->open > 0)
        return;
    for (int i = 0; i < s->count; i++)
        strbuf_free(&s->tools[i].text);
    free(s);
}

/* Appends gdb's frames, or the first thread of py-spy's output, which is the main one. Limits the
 * number of lines and their length. Of the variables, which follow their frame, only a hash stays:
 * of those from the outermost collective outwards. */
static void add_frames(struct strbuf *b, const struct tool *t)
{
    int lines = 0, threads = 0;
    uint64_t state = 0;
    bool waits = false;
    for (const char *p = strbuf_str(&t->text); *p && lines < CALL_STACKS_LINES_MAX;) {
        size_t len = strcspn(p, "\n");
        threads += strncmp(p, "Thread ", 7) == 0;
        bool variable = t->python ? strncmp(p, "        ", 8) == 0 : p[0] == '=';
        bool shown = t->python ? len > 0 && threads < 2 && !variable : p[0] == '#';
        if (shown) {
            char name[32];
            size_t line = b->len;
            strbuf_printf(b, "%.*s\n",
                          (int)(len < CALL_STACKS_LINE_BYTES ? len : CALL_STACKS_LINE_BYTES), p);
            if (stack_text_collective(name, sizeof name, strbuf_str(b) + line)) {
                waits = true;
                state = 0;
            }
        }
        for (size_t i = 0; i < len && variable && waits && threads < 2; i++)
            state = (state ^ (unsigned char)p[i]) * 1099511628211U; /* FNV-1a */
        lines += shown;
        p += len + (p[len] != '\0');
    }
    if (waits)
        strbuf_printf(b, "state: %016llx\n", (unsigned long long)state);
}

static void report(struct call_stacks *s)
{
    struct strbuf shown[CALL_STACKS_MAX] = {{0}};
    const char *texts[CALL_STACKS_MAX];
    if (s->reported || !s->done)
        return;
    s->reported = true;
    uv_timer_stop(&s->limit);
    int n = s->count;
    bool advised = false;
    for (int i = 0; i < n; i++) {
        add_frames(&shown[i], &s->tools[i]);
        if (s->tools[i].lacks && !advised)
            strbuf_puts(&shown[i], "try: python3 -m pip install py-spy, which shows the lines of "
                                   "Python\n");
        advised |= s->tools[i].lacks;
        texts[i] = strbuf_str(&shown[i]);
    }
    s->done(s->arg, texts);
    for (int i = 0; i < n; i++)
        strbuf_free(&shown[i]);
}

static void report_when_done(struct call_stacks *s)
{
    for (int i = 0; i < s->count; i++)
        if (!s->tools[i].exited || !s->tools[i].eof)
            return;
    report(s);
}

static void on_limit(uv_timer_t *t)
{
    report(t->data);
}

static void on_tool_exit(uv_process_t *p, int64_t status, int sig)
{
    struct tool *t = (struct tool *)((char *)p - offsetof(struct tool, process));
    t->exited = true;
    report_when_done(t->owner);
}

static struct tool *tool_of(uv_stream_t *out)
{
    return (struct tool *)((char *)out - offsetof(struct tool, out));
}

static void on_alloc(uv_handle_t *h, size_t wanted, uv_buf_t *buf)
{
    struct tool *t = tool_of((uv_stream_t *)h);
    *buf = uv_buf_init(t->scratch, sizeof t->scratch);
}

static void on_read(uv_stream_t *out, ssize_t n, const uv_buf_t *buf)
{
    struct tool *t = tool_of(out);
    if (n > 0 && t->text.len < TEXT_MAX)
        strbuf_add(&t->text, buf->base, (size_t)n);
    if (n >= 0)
        return;
    uv_read_stop(out);
    t->eof = true;
    report_when_done(t->owner);
}

static int spawn_tool(struct tool *t, uv_loop_t *loop, const char *const *argv, char **env)
{
    uv_stdio_container_t io[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&t->out},
        {.flags = UV_IGNORE}};
    uv_process_options_t o = {.exit_cb = on_tool_exit,
                              .file = argv[0],
                              .args = (char **)argv,
                              .env = env,
                              .stdio = io,
                              .stdio_count = 3};
    return uv_spawn(loop, &t->process, &o);
}

static void close_handle(struct call_stacks *s, uv_handle_t *h)
{
    h->data = s;
    uv_close(h, on_closed);
}

static bool is_installed(const char *name)
{
    AUTO(free) char *path = NULL;
    return own_process_find_program(&path, name, getenv("PATH")) == 0;
}

/* Programs may change their name: PyTorch calls its main thread "pt_main_thread". */
static bool is_python(pid_t pid)
{
    char path[64], exe[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    return strstr(exe, "/python") != NULL;
}

/* Starts py-spy or gdb for one process. If neither is installed, its text stays empty. */
static void start_tool(struct tool *t, uv_loop_t *loop, const struct rank_status *of, char **env)
{
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)of->at.pid);
    const char *py_spy[] = {"py-spy", "dump", "--nonblocking", "--pid", pid, NULL};
    const char *native[] = {"py-spy", "dump", "--native", "--locals", "--pid", pid, NULL};
    /* With each frame the registers that it has saved (x86-64) and the beginning of its variables
     */
    const char *gdb[] = {"gdb",
                         "-nx",
                         "-batch",
                         "-p",
                         pid,
                         "-ex",
                         "set width 0",
                         "-ex",
                         "thread apply 1 frame apply 24 -c printf \"=%lx %lx %lx %lx %lx %lx %lx "
                         "%lx %lx %lx\\n\", $rbx, $rbp, $r12, $r13, $r14, $r15, ((long *)$sp)[0], "
                         "((long *)$sp)[1], ((long *)$sp)[2], ((long *)$sp)[3]",
                         NULL};
    t->exited = t->eof = true;
    bool python = strncmp(of->at.name, "python", 6) == 0 || is_python(of->at.pid);
    t->python = python && is_installed("py-spy");
    t->lacks = python && !t->python;
    if (!t->python && !is_installed("gdb"))
        return;
    t->used = true;
    t->owner->open += 2;
    uv_pipe_init(loop, &t->out, 0);
    char library[64];
    bool polls = of->at.state == 'R' && mpi_singletons_mapped(library, sizeof library, of->at.pid);
    int rc = spawn_tool(t, loop, !t->python ? gdb : polls ? native : py_spy, env);
    if (rc == 0)
        rc = uv_read_start((uv_stream_t *)&t->out, on_alloc, on_read);
    if (rc < 0)
        log_debug("stack of process %s: %s", pid, uv_strerror(rc));
    else
        t->exited = t->eof = false;
}

struct call_stacks *call_stacks_capture(uv_loop_t *loop, const struct rank_status *of, int n,
                                        void (*done)(void *arg, const char *const *texts),
                                        void *arg)
{
    assert(n <= CALL_STACKS_MAX);
    struct call_stacks *s = xzalloc(sizeof *s);
    s->done = done;
    s->arg = arg;
    s->count = n;
    s->open = 1;
    uv_timer_init(loop, &s->limit);
    s->limit.data = s;
    AUTO(strv) char **env = strv_copy(environ);
    env_set(&env, "DEBUGINFOD_URLS", "%s", ""); /* otherwise gdb fetches symbols from the network */
    bool any = false;
    for (int i = 0; i < n; i++) {
        s->tools[i].owner = s;
        start_tool(&s->tools[i], loop, &of[i], env);
        any |= !s->tools[i].exited;
    }
    uv_timer_start(&s->limit, on_limit, any ? CALL_STACKS_LIMIT_MS : 0, 0);
    return s;
}

void call_stacks_free(struct call_stacks *s)
{
    if (!s)
        return;
    s->done = NULL;
    for (int i = 0; i < s->count; i++) {
        struct tool *t = &s->tools[i];
        if (!t->used)
            continue;
        if (!t->exited)
            uv_process_kill(&t->process, SIGKILL);
        close_handle(s, (uv_handle_t *)&t->process);
        close_handle(s, (uv_handle_t *)&t->out);
    }
    close_handle(s, (uv_handle_t *)&s->limit);
}
