#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/child.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/python.h"
#include "common/strbuf.h"
#include "launcher/doctor/checks/checks.h"
#include "launcher/doctor/checks/nccl_library.h"
#include "launcher/doctor/checks/program.h"
#include "launcher/doctor/core/sysroot.h"

/* ---- soft.nccl ------------------------------------------------------------------------------ */

/* Returns the first library of the list with another version than `version`, or NULL. Sets `*other`
 * to that version. */
static const char *different(char **other, char *const *list, const char *version)
{
    for (; list && *list; list++) {
        AUTO(free) char *v = nccl_library_version(*list);
        if (v && strcmp(v, version) != 0) {
            *other = TAKE(v);
            return *list;
        }
    }
    return NULL;
}

static void check_nccl(struct check_result *r, struct check_env *env)
{
    static const char source[] = "ncclGetVersion()";
    struct nccl_library l;
    nccl_library_find(&l, env->command);
    const char *used = nccl_library_used(&l), *hidden;
    AUTO(free) char *version = used ? nccl_library_version(used) : NULL;
    AUTO(free) char *other = NULL;
    if (!used) {
        check_skip(r, "no libnccl.so.2 in the search path of the program");
    } else if (!version) {
        check_bad(r, CHECK_FAIL, "a library that can be loaded", "dlopen()", "%s cannot be loaded",
                  used);
    } else if ((hidden = different(&other, l.wheels, version))) {
        check_bad(r, CHECK_FAIL, "one version", source, "%s (%s) hides %s (%s)", used, version,
                  hidden, other);
        if (l.loader)
            check_advise(r, "unset LD_LIBRARY_PATH, or remove %.*s from it",
                         (int)(strrchr(used, '/') - used), used);
    } else if ((hidden = different(&other, l.loader, version))) {
        check_bad(r, CHECK_FAIL, "one version", source, "%s (%s) and %s (%s)", used, version,
                  hidden, other);
        check_advise(r, "remove one of the two directories from LD_LIBRARY_PATH");
    } else {
        check_ok(r, source, "%s (%s)", version, used);
    }
    nccl_library_clear(&l);
}

/* ---- soft.mpi ------------------------------------------------------------------------------- */

/* Returns the name of an MPI library in a line of the loader: "libmpi.so.40 => /usr/lib/…", or an
 * error text that names the library that is missing. NULL: the line is about another library. */
static char *mpi_name(const char *line)
{
    const char *name = strstr(line, "libmpi.so");
    name = name ? name : strstr(line, "libmpich.so");
    bool listed = name && name == line + strspn(line, " \t");
    bool missing = name && strstr(line, "loading shared librar");
    return listed || missing ? xstrndup(name, strcspn(name, " :")) : NULL;
}

/* Finds the MPI library that a file loads: `LOADER --list FILE` prints what the file would load, as
 * ldd does. Sets `*path` to its path, or to NULL if the loader does
 * not find it. Returns its name, or NULL if the file loads none. Both are the caller's. */
static char *mpi_library(char **path, const char *loader, const char *file)
{
    char *argv[] = {(char *)loader, (char *)"--list", (char *)file, NULL}, *name = NULL;
    AUTO(child_result) struct child_result r = {0};
    *path = NULL;
    if (child_run(&r, &(struct child_opts){.argv = argv, .out = CHILD_PIPE, .messages = CHILD_OUT},
                  NULL) < 0)
        return NULL;
    for (char *rest = r.out.data, *line; (line = strsep(&rest, "\n"));) {
        char at[PATH_MAX];
        if (name || !(name = mpi_name(line)))
            continue;
        if (sscanf(line, "%*s => %4095s", at) == 1 && at[0] == '/')
            *path = realpath(at, NULL);
    }
    return name;
}

/* Returns the file whose libraries say which MPI the command uses: the program or, for Python, the
 * extension of mpi4py. Sets `*loader` to the dynamic loader. */
static char *mpi_user(char **loader, char *const *command)
{
    AUTO(free) struct program_file *p = xzalloc(sizeof *p);
    AUTO(free) char *python = program_python(command);
    AUTO(free) char *file = python ? xstrdup(python) : program_find(command[0]);
    if (!file || program_read(p, file) < 0 || !p->machine || !p->interpreter[0])
        return NULL;
    *loader = xstrdup(p->interpreter);
    if (!python)
        return TAKE(file);
    AUTO(strv) char **found = NULL;
    program_packages(&found, python, "mpi4py/MPI*.so");
    return found ? xstrdup(found[0]) : NULL;
}

/* Returns true if the launcher `mpirun` (a real path) belongs to the library: both are installed in
 * one prefix and, where several MPIs share it, of one kind. */
static bool belongs(const char *mpirun, const char *library, const char *soname)
{
    const char *base = strrchr(mpirun, '/') + 1;
    AUTO(free) char *prefix = xstrndup(mpirun, (size_t)(base - 1 - mpirun));
    char *slash = strrchr(prefix, '/');
    if (!slash)
        return true;
    *slash = '\0';
    size_t len = strlen(prefix);
    if (strncmp(library, prefix, len) != 0 || strncmp(library + len, "/lib", 4) != 0)
        return false;
    bool mpich = strstr(soname, "libmpich") || strcmp(soname, "libmpi.so.12") == 0;
    bool hydra = strstr(base, "hydra") || strstr(base, "mpich");
    bool open_mpi = strstr(base, "orterun") || strstr(base, "prte") || strstr(base, "openmpi");
    return mpich ? !open_mpi : !hydra;
}

static void judge_mpi(struct check_result *r, const char *soname, const char *library)
{
    static const char source[] = "the loader's list (ldd)";
    AUTO(free) char *found = program_find("mpirun");
    AUTO(free) char *mpirun = found ? realpath(found, NULL) : NULL;
    if (!library) {
        check_bad(r, CHECK_FAIL, "found", source, "%s: not found", soname);
        check_advise(r, "load the module of the MPI that the program was built with, or add its "
                        "directory to LD_LIBRARY_PATH");
    } else if (!mpirun) {
        check_ok(r, source, "%s", library);
    } else if (belongs(mpirun, library, soname)) {
        check_ok(r, source, "%s, %s", library, mpirun);
    } else {
        check_bad(r, CHECK_FAIL, "mpirun and libmpi of one installation", source,
                  "the program loads %s, and mpirun is %s", library, mpirun);
    }
}

static void check_mpi(struct check_result *r, struct check_env *env)
{
    AUTO(free) char *loader = NULL;
    AUTO(free) char *library = NULL;
    if (!env->command || !env->command[0])
        return check_skip(r, "no program was given (drover doctor -- PROGRAM)");
    AUTO(free) char *file = mpi_user(&loader, env->command);
    AUTO(free) char *soname = file ? mpi_library(&library, loader, file) : NULL;
    if (soname)
        judge_mpi(r, soname, library);
    else
        check_skip(r, "the program loads no MPI");
}

/* ---- soft.env ------------------------------------------------------------------------------- */

struct harmful {
    const char *name;
    const char *value; /* the harmful value; NULL: any but "" and "0" */
    const char *cost;
};

static const struct harmful harmful[] = {
    {"NCCL_P2P_DISABLE", NULL, "GPUs of a node exchange data through main memory"},
    {"NCCL_SHM_DISABLE", NULL, "ranks of a node exchange data through the network"},
    {"NCCL_IB_DISABLE", NULL, "nodes exchange data over TCP instead of RDMA"},
    {"NCCL_DEBUG", "TRACE", "NCCL writes a line per operation"},
    {"CUDA_LAUNCH_BLOCKING", NULL, "each kernel waits for the one before it"},
    {"NSIGHT_CUDA_DEBUGGER", NULL, "the debugger stops and slows each kernel"},
};

static bool is_listed(const char *name)
{
    static const char *const prefixes[] = {"NCCL_", "TORCH_", "CUDA_", "OMP_", "NSIGHT_", NULL};
    return strv_begins(prefixes, name);
}

struct switches {
    struct strbuf bad, advice, others;
    char *files[3]; /* startup files, to say which one sets a variable */
};

/* Returns the first startup file that contains the name, or NULL. */
static const char *setter_of(char *const *files, const char *name)
{
    for (; *files; files++) {
        AUTO(free) char *text = file_text(*files);
        if (text && strstr(text, name))
            return *files;
    }
    return NULL;
}

/* Sorts one setting, "NAME=VALUE". `file` is where it was read; NULL: the environment. */
static void take_setting(struct switches *s, const char *setting, const char *file)
{
    size_t len = strcspn(setting, "=");
    if (setting[len] != '=' || !is_listed(setting))
        return;
    const char *value = setting + len + 1;
    for (size_t i = 0; i < COUNT_OF(harmful); i++) {
        const struct harmful *h = &harmful[i];
        if (strlen(h->name) != len || strncmp(h->name, setting, len) != 0 ||
            (h->value ? strcasecmp(value, h->value) != 0 : !*value || strcmp(value, "0") == 0))
            continue;
        const char *where = file ? file : setter_of(s->files, h->name);
        strbuf_printf(&s->bad, "%s%s", s->bad.len ? ", " : "", setting);
        strbuf_printf(&s->advice, "%s%s%s", s->advice.len ? "; " : "", file ? "remove " : "unset ",
                      h->name);
        if (where)
            strbuf_printf(&s->advice, " (in %s)", where);
        strbuf_printf(&s->advice, ": %s", h->cost);
        return;
    }
    strbuf_printf(&s->others, "%s%s", s->others.len ? ", " : "", setting);
}

static void take_file(struct switches *s, const char *path)
{
    AUTO(free) char *text = file_text(path);
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        line[strcspn(line, "\r")] = '\0';
        take_setting(s, line + strspn(line, " \t"), path);
    }
}

static void check_env_vars(struct check_result *r, struct check_env *env)
{
    const char *home = getenv("HOME"), *conf = getenv("NCCL_CONF_FILE");
    AUTO(free) char *site = sysroot_path("/etc/nccl.conf");
    AUTO(free) char *environment = sysroot_path("/etc/environment");
    AUTO(free) char *bashrc = xasprintf("%s/.bashrc", home ? home : "");
    AUTO(free) char *own = conf ? xstrdup(conf) : xasprintf("%s/.nccl.conf", home ? home : "");
    struct switches s = {.files = {home ? bashrc : environment, environment}};
    for (char **e = environ; *e; e++)
        take_setting(&s, *e, NULL);
    take_file(&s, site);
    if (home || conf)
        take_file(&s, own);
    static const char source[] = "the environment, /etc/nccl.conf, ~/.nccl.conf";
    if (s.bad.len) {
        check_bad(r, CHECK_FAIL, "not set", source, "%s", strbuf_str(&s.bad));
        check_advise(r, "%s", strbuf_str(&s.advice));
    } else {
        check_ok(r, source, "%s", s.others.len ? strbuf_str(&s.others) : "none");
    }
    strbuf_free(&s.bad);
    strbuf_free(&s.advice);
    strbuf_free(&s.others);
}

/* ---- soft.prog ------------------------------------------------------------------------------ */

/* Returns ELF's number of this machine's architecture; 0: unknown. */
static unsigned own_machine(void)
{
    static const struct {
        const char *name;
        unsigned machine;
    } known[] = {{"x86_64", EM_X86_64}, {"aarch64", EM_AARCH64}, {"ppc64le", EM_PPC64}};
    struct utsname u;
    for (size_t i = 0; uname(&u) == 0 && i < COUNT_OF(known); i++)
        if (strcmp(u.machine, known[i].name) == 0)
            return known[i].machine;
    return 0;
}

/* Returns the script of `python [-OPTION ...] FILE.py`, or NULL if the command has none. */
static const char *script_of(char *const *command)
{
    for (size_t i = 1; command[i]; i++) {
        if (strcmp(command[i], "-m") == 0 || strcmp(command[i], "-c") == 0)
            return NULL;
        if (command[i][0] != '-')
            return python_is_script(command[i]) ? command[i] : NULL;
    }
    return NULL;
}

static void judge_file(struct check_result *r, const char *path, const struct program_file *f)
{
    unsigned own = own_machine();
    if (f->machine && own && f->machine != own && f->machine != EM_386) {
        check_bad(r, CHECK_FAIL, "a program of this machine's architecture", path,
                  "%s is for another architecture (ELF machine %u, here %u)", path, f->machine,
                  own);
        check_advise(r, "build the program for this node, or leave the node out");
    } else if (f->interpreter[0] && access(f->interpreter, X_OK) < 0) {
        size_t len = strlen(f->interpreter);
        bool cr = f->interpreter[len - 1] == '\r';
        check_bad(r, CHECK_FAIL, "its interpreter", path, "%s needs %.*s: %s", path,
                  (int)(cr ? len - 1 : len), f->interpreter,
                  cr ? "the line ends with a carriage return" : strerror(errno));
        if (cr)
            check_advise(r, "sed -i 's/\\r$//' %s", path);
        else
            check_advise(r, "install %s on this node", f->interpreter);
    } else {
        check_ok(r, "PATH, the program's file", "%s", path);
    }
}

static void check_prog(struct check_result *r, struct check_env *env)
{
    if (!env->command || !env->command[0])
        return check_skip(r, "no program was given (drover doctor -- PROGRAM)");
    const char *name = env->command[0];
    bool by_python = python_is_script(name) && access(name, X_OK) < 0 && access(name, R_OK) == 0;
    AUTO(free) char *path = program_find(by_python ? "python3" : name); /* as drover run */
    AUTO(free) struct program_file *f = xzalloc(sizeof *f);
    if (!path) {
        bool denied = errno == EACCES;
        check_bad(r, CHECK_FAIL, "a program", strchr(name, '/') ? "access()" : "PATH", "%s: %s",
                  name, strerror(errno));
        if (denied)
            check_advise(r, "chmod +x %s", name);
        return;
    }
    AUTO(free) char *python = program_python(env->command);
    const char *script = python ? script_of(env->command) : NULL;
    if (script && access(script, R_OK) < 0)
        check_bad(r, CHECK_FAIL, "a program", "access()", "%s: %s", script, strerror(errno));
    else if (program_read(f, path) < 0) /* it may be executable without being readable */
        check_ok(r, "PATH", "%s", path);
    else
        judge_file(r, path, f);
}

const struct check checks_soft[] = {
    {"soft.nccl", "NCCL of the program", CHECK_REPORT, check_nccl,
     .why = "All ranks must load one version of NCCL. A library in LD_LIBRARY_PATH hides the one "
            "that PyTorch was built with.",
     .advice = "leave one libnccl.so.2 in the search path"},
    {"soft.mpi", "MPI of the program", CHECK_QUICK, check_mpi,
     .why = "With the launcher of another MPI, each rank is a job of its own, or does not start.",
     .advice = "load one MPI (module load), and build the program with it"},
    {"soft.env", "leftover switches", CHECK_REPORT, check_env_vars,
     .why =
         "Variables that were set to find a fault stay in startup files, and make later jobs slow.",
     .advice = "unset the variables"},
    {"soft.prog", "the program on this node", CHECK_QUICK, check_prog,
     .why = "A node without the program, or with one for another architecture, ends the job with "
            "status 126 or 127.",
     .advice = "copy the program to this node, or use a path that all nodes share"},
    {0},
};
