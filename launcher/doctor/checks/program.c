#include "launcher/doctor/checks/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "common/mem.h"
#include "common/python.h"

/* ---- the file ------------------------------------------------------------------------------- */

/* Returns 0 if the file can be run, else an errno. */
static int try_file(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    return access(path, X_OK) < 0 ? errno : 0;
}

char *program_find(const char *name)
{
    const char *dirs = getenv("PATH");
    int error = ENOENT;
    if (strchr(name, '/') || !dirs) {
        error = try_file(name);
        errno = error;
        return error ? NULL : xstrdup(name);
    }
    for (const char *dir = dirs; dir; dir = strchr(dir, ':')) {
        dir += dir > dirs || *dir == ':';
        int len = (int)strcspn(dir, ":");
        AUTO(free) char *path = xasprintf("%.*s%s%s", len, dir, len ? "/" : "", name);
        int rc = try_file(path);
        if (rc == 0)
            return TAKE(path);
        error = rc == EACCES ? EACCES : error;
    }
    errno = error;
    return NULL;
}

/* "#!INTERPRETER ARGUMENT". A carriage return before the newline is part of the last word. */
static void read_script(struct program_file *out, const char *line)
{
    line += strspn(line, " \t");
    size_t len = strcspn(line, " \t\n");
    snprintf(out->interpreter, sizeof out->interpreter, "%.*s", (int)len, line);
    line += len + strspn(line + len, " \t");
    if (strncmp(line, "-S", 2) == 0)
        line += 2 + strspn(line + 2, " \t");
    snprintf(out->argument, sizeof out->argument, "%.*s", (int)strcspn(line, " \t\n"), line);
}

/* Reads the loader's path from the segment PT_INTERP. */
static void read_loader(struct program_file *out, int fd, const Elf64_Ehdr *h)
{
    for (unsigned i = 0; i < h->e_phnum; i++) {
        Elf64_Phdr p;
        if (pread(fd, &p, sizeof p, (off_t)(h->e_phoff + i * sizeof p)) != sizeof p)
            return;
        if (p.p_type != PT_INTERP || p.p_filesz >= sizeof out->interpreter)
            continue;
        ssize_t n = pread(fd, out->interpreter, p.p_filesz, (off_t)p.p_offset);
        out->interpreter[n < 0 ? 0 : n] = '\0';
    }
}

int program_read(struct program_file *out, const char *path)
{
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    union {
        char text[4096];
        Elf64_Ehdr elf;
    } head = {{0}};
    memset(out, 0, sizeof *out);
    ssize_t n = fd < 0 ? -1 : pread(fd, head.text, sizeof head.text - 1, 0);
    if (n < 0)
        return -errno;
    if (n > 2 && memcmp(head.text, "#!", 2) == 0) {
        read_script(out, head.text + 2);
    } else if ((size_t)n >= sizeof head.elf && memcmp(head.text, ELFMAG, SELFMAG) == 0) {
        out->machine = head.elf.e_machine;
        if (head.elf.e_ident[EI_CLASS] == ELFCLASS64 && head.elf.e_phentsize == sizeof(Elf64_Phdr))
            read_loader(out, fd, &head.elf);
    }
    return 0;
}

/* ---- Python --------------------------------------------------------------------------------- */

char *program_python(char *const *command)
{
    if (command && command[0] && python_is_script(command[0])) /* drover run does the same */
        return program_find("python3");
    AUTO(free) char *path = command && command[0] ? program_find(command[0]) : NULL;
    AUTO(free) struct program_file *f = xzalloc(sizeof *f);
    if (!path || python_is_interpreter(path))
        return TAKE(path);
    if (program_read(f, path) < 0 || f->machine)
        return NULL;
    if (python_is_interpreter(f->interpreter))
        return program_find(f->interpreter);
    return python_is_interpreter(f->argument) ? program_find(f->argument) : NULL;
}

static void add_matches(char ***out, const char *pattern)
{
    glob_t g = {0};
    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++)
            strv_push(out, xstrdup(g.gl_pathv[i]));
    globfree(&g);
}

/* Returns "python3.11", or "python3*" if the file's name does not say the version. */
static char *version_of(const char *python)
{
    char real[PATH_MAX];
    const char *base = realpath(python, real) ? strrchr(real, '/') : NULL;
    return xstrdup(base && strncmp(base + 1, "python3.", 8) == 0 ? base + 1 : "python3*");
}

char *program_prefix(const char *path)
{
    AUTO(free) char *prefix = xstrdup(path);
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(prefix, '/');
        if (!slash)
            return NULL;
        *slash = '\0';
    }
    return TAKE(prefix);
}

void program_packages(char ***out, const char *python, const char *pattern)
{
    static const char *const places[] = {"lib/%s/site-packages", "local/lib/%s/dist-packages",
                                         "lib64/%s/site-packages", "lib/python3/dist-packages"};
    AUTO(free) char *version = version_of(python);
    const char *paths = getenv("PYTHONPATH"), *home = getenv("HOME");
    for (const char *p = paths; p && *p; p += strspn(p, ":")) {
        int len = (int)strcspn(p, ":");
        AUTO(free) char *in = xasprintf("%.*s/%s", len, p, pattern);
        add_matches(out, in);
        p += len;
    }
    AUTO(free) char *prefix = program_prefix(python);
    for (size_t i = 0; prefix && i < COUNT_OF(places); i++) {
        AUTO(free) char *place = xasprintf(places[i], version);
        AUTO(free) char *in = xasprintf("%s/%s/%s", prefix, place, pattern);
        add_matches(out, in);
    }
    AUTO(free)
    char *user = xasprintf("%s/.local/lib/%s/site-packages/%s", home ? home : "", version, pattern);
    if (home)
        add_matches(out, user);
}
