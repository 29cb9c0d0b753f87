#include "launcher/hang/stack_text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/job/rank_list.h"

enum { FIRST_FRAMES = 4, NAME_BYTES = 96 };

struct frame {
    char name[NAME_BYTES];  /* function */
    char place[NAME_BYTES]; /* "train.py:212"; "": unknown */
    bool own;               /* of the program, not of an interpreter or a library */
};

static bool contains_one(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strstr(text, *words))
            return true;
    return false;
}

static bool starts_with_one(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strncmp(text, *words, strlen(*words)) == 0)
            return true;
    return false;
}

static void set_place(struct frame *f, const char *path, size_t len)
{
    for (size_t i = len; i > 0; i--)
        if (path[i - 1] == '/') {
            path += i;
            len -= i;
            break;
        }
    snprintf(f->place, sizeof f->place, "%.*s", (int)len, path);
}

/* "#3  0x0000 in func (args=…) at a/file.c:12" or "… from /lib/libc.so.6" */
static bool read_gdb(struct frame *f, const char *line)
{
    static const char *const interpreter[] = {
        "_Py",          "Py",       "py",           "cfunction_", "method_",  "vectorcall",
        "slot_",        "builtin_", "type_call",    "run_",       "object_",  "_start",
        "__libc_",      "clone",    "start_thread", "_dl_",       "ffi_",     "lock_",
        "os_",          "time_",    "fcntl_",       "select_",    "__GI_",    "__",
        "gen_",         "context_", "function_",    "??",         "partial_", "property_",
        "do_call_core", "run_mod",  "pymain_",      NULL};
    /* Debian has its sources in these folders. */
    static const char *const libc[] = {"../sysdeps/", "./nptl/",   "../nptl/", "./misc/",
                                       "./io/",       "./socket/", "./posix/", "./stdlib/",
                                       "./csu/",      "../csu/",   "./time/",  NULL};
    if (*line++ != '#')
        return false;
    line += strspn(line, "0123456789");
    line += strspn(line, " ");
    const char *in = strncmp(line, "0x", 2) == 0 ? strstr(line, " in ") : NULL;
    const char *name = in ? in + 4 : line;
    snprintf(f->name, sizeof f->name, "%.*s", (int)strcspn(name, " ("), name);
    const char *at = strstr(name, ") at ");
    if (at)
        set_place(f, at + 5, strlen(at + 5));
    f->own = !strstr(name, ") from ") && !(at && starts_with_one(at + 5, libc)) &&
             !starts_with_one(f->name, interpreter);
    if (!f->own)
        f->place[0] = '\0';
    return true;
}

/* "    func (path/file.py:12)" */
static bool read_py_spy(struct frame *f, const char *line)
{
    static const char *const libraries[] = {
        "/site-packages/", "/dist-packages/",   "/lib/python", "(<", "(torch/",
        "(threading.py",   "(multiprocessing/", ".so",         NULL};
    const char *open = strrchr(line, '('), *end = strrchr(line, ')');
    if (strncmp(line, "    ", 4) != 0 || !open || !end || end < open)
        return false;
    snprintf(f->name, sizeof f->name, "%.*s", (int)strcspn(line + 4, " ("), line + 4);
    f->own = !contains_one(open, libraries);
    if (f->own && strchr(open, ':'))
        set_place(f, open + 1, (size_t)(end - open - 1));
    return true;
}

static bool read_frame(struct frame *f, const char *line, size_t len)
{
    char text[512];
    snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : sizeof text - 1), line);
    *f = (struct frame){0};
    return text[0] == '#' ? read_gdb(f, text) : read_py_spy(f, text);
}

/* Returns the name of the collective that a frame is, or NULL. */
static const char *collective_of(const struct frame *f)
{
    static const char *const python[] = {"all_reduce",
                                         "all_gather",
                                         "all_gather_into_tensor",
                                         "all_gather_object",
                                         "all_to_all",
                                         "all_to_all_single",
                                         "barrier",
                                         "monitored_barrier",
                                         "broadcast",
                                         "broadcast_object_list",
                                         "reduce",
                                         "reduce_scatter",
                                         "reduce_scatter_tensor",
                                         "gather",
                                         "scatter",
                                         "send",
                                         "recv",
                                         "irecv",
                                         "isend",
                                         "init_process_group",
                                         "new_group",
                                         "destroy_process_group",
                                         NULL};
    const char *name = strncmp(f->name, "PMPI_", 5) == 0 ? f->name + 1 : f->name;
    if (strncmp(name, "c10d::", 6) == 0) /* PyTorch's own stack, if there is none of Python */
        return strstr(name, "RecvWork")   ? "recv"
               : strstr(name, "SendWork") ? "send"
               : strstr(name, "Store")    ? "store"
               : strstr(name, "Work::")   ? "a collective"
                                          : NULL;
    if (strncmp(name, "MPI_", 4) == 0 || strncmp(name, "drover_", 7) == 0 ||
        strncmp(name, "gloo::all", 9) == 0)
        return name;
    if (strncmp(name, "nccl", 4) == 0 && isupper((unsigned char)name[4]) &&
        strncmp(name, "ncclGroup", 9) != 0)
        return name;
    for (size_t i = 0; !f->own && python[i]; i++)
        if (strcmp(name, python[i]) == 0)
            return name;
    return NULL;
}

/* Returns the line of the outermost collective, or NULL, and its name. */
static const char *find_collective(char *out, size_t size, const char *stack)
{
    const char *found = NULL;
    struct frame f;
    out[0] = '\0';
    for (const char *p = stack; *p;) {
        size_t len = strcspn(p, "\n");
        const char *name = read_frame(&f, p, len) ? collective_of(&f) : NULL;
        if (name) {
            snprintf(out, size, "%s", name); /* frames follow from the innermost one on */
            found = p;
        }
        p += len + (p[len] != '\0');
    }
    return found;
}

bool stack_text_collective(char *out, size_t size, const char *stack)
{
    return find_collective(out, size, stack) != NULL;
}

/* The numbers of frames differ if the innermost ones do. */
bool stack_text_same_wait(const char *earlier, const char *later)
{
    char name[NAME_BYTES];
    const char *a = find_collective(name, sizeof name, earlier);
    const char *b = find_collective(name, sizeof name, later);
    while (a && b && *a && *b) {
        if (*a == '#' && *b == '#') {
            a += 1 + strspn(a + 1, "0123456789");
            b += 1 + strspn(b + 1, "0123456789");
        }
        size_t len = strcspn(a, "\n");
        if (len != strcspn(b, "\n") || memcmp(a, b, len) != 0)
            return false;
        a += len + (a[len] != '\0');
        b += len + (b[len] != '\0');
    }
    return a && b && !*a && !*b;
}

bool stack_text_place(char *out, size_t size, const char *stack)
{
    struct frame f;
    out[0] = '\0';
    for (const char *p = stack; *p && !out[0];) {
        size_t len = strcspn(p, "\n");
        if (read_frame(&f, p, len) && f.own && f.place[0])
            snprintf(out, size, "%s", f.place);
        p += len + (p[len] != '\0');
    }
    return out[0] != '\0';
}

static void write_frame(struct strbuf *b, const struct frame *f)
{
    strbuf_puts(b, f->name);
    if (f->place[0])
        strbuf_printf(b, " (%s)", f->place);
    strbuf_putc(b, '\n');
}

void stack_text_trim(struct strbuf *b, const char *stack)
{
    static const char *const python[] = {"Py", "_Py", "??", NULL};
    struct frame f;
    struct strbuf first = {0};
    size_t before = b->len;
    int frames = 0;
    for (const char *p = stack; *p;) {
        size_t len = strcspn(p, "\n");
        if (read_frame(&f, p, len)) {
            if (f.own || collective_of(&f))
                write_frame(b, &f);
            else if (!starts_with_one(f.name, python) && frames++ < FIRST_FRAMES)
                write_frame(&first, &f);
        }
        p += len + (p[len] != '\0');
    }
    if (b->len == before)
        strbuf_puts(b, strbuf_str(&first));
    strbuf_free(&first);
}

void stack_text_write_all(struct strbuf *b, const char *const *stacks, int ranks, int first_rank)
{
    AUTO(free) struct strbuf *own = xcalloc((size_t)ranks, sizeof *own);
    AUTO(free) bool *same = xcalloc((size_t)ranks, sizeof *same);
    const char *advice = NULL;
    for (int i = 0; i < ranks; i++) {
        if (!stacks[i])
            continue;
        stack_text_trim(&own[i], stacks[i]);
        advice = advice ? advice : strstr(stacks[i], "try: ");
    }
    for (int i = 0; i < ranks; i++) {
        if (own[i].len == 0)
            continue;
        for (int k = 0; k < ranks; k++)
            same[k] = own[k].len > 0 && strcmp(strbuf_str(&own[k]), strbuf_str(&own[i])) == 0;
        strbuf_puts(b, "  stack of ");
        rank_list_write(b, same, ranks, first_rank);
        strbuf_puts(b, ":\n");
        strbuf_indent(b, strbuf_str(&own[i]));
        for (int k = ranks - 1; k >= i; k--)
            if (same[k])
                strbuf_free(&own[k]);
    }
    for (int i = 0; i < ranks; i++) /* those without a frame */
        strbuf_free(&own[i]);
    if (advice)
        strbuf_printf(b, "  %.*s\n", (int)strcspn(advice, "\n"), advice);
}
