#include "launcher/doctor/doctor_bundle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/child.h"
#include "common/file.h"
#include "common/mem.h"
#include "common/redact.h"
#include "common/strbuf.h"
#include "launcher/doctor/topo_print.h"

extern char **environ;

static const char *const names[] = {"report.txt", "report.json", "topo.txt", "environment.txt",
                                    "system.txt"};

/* ---- the files ------------------------------------------------------------------------------ */

static void put_environment(struct strbuf *b)
{
    for (char **v = environ; *v; v++) {
        size_t len = strcspn(*v, "=");
        strbuf_add(b, *v, len);
        strbuf_puts(b, "=");
        if (redact_is_secret_name(*v, len))
            strbuf_puts(b, "***");
        else if ((*v)[len])
            redact_text(b, *v + len + 1);
        strbuf_puts(b, "\n");
    }
}

static void put_limit(struct strbuf *b, const char *name, __rlimit_resource_t which)
{
    struct rlimit r;
    if (getrlimit(which, &r) == 0)
        strbuf_printf(b, "%s: %lld of %lld\n", name, (long long)r.rlim_cur, (long long)r.rlim_max);
}

static void put_system(struct strbuf *b)
{
    struct utsname u;
    strbuf_puts(b, "drover " DROVER_VERSION "\n");
    if (uname(&u) == 0)
        strbuf_printf(b, "%s %s %s\n", u.sysname, u.release, u.machine);
    put_limit(b, "open files", RLIMIT_NOFILE);
    put_limit(b, "processes", RLIMIT_NPROC);
    put_limit(b, "locked memory", RLIMIT_MEMLOCK);
    put_limit(b, "stack", RLIMIT_STACK);
}

static void put_json(struct strbuf *b, const struct doctor_report *r)
{
    json_t *j = doctor_report_json(r);
    AUTO(free) char *line = json_line(j);
    json_decref(j);
    strbuf_printf(b, "%s\n", line);
}

static int write_file(const char *dir, const char *name, const struct strbuf *b, struct err *e)
{
    AUTO(free) char *path = xasprintf("%s/%s", dir, name);
    int rc = file_write(path, b->data, b->len, 0600);
    return rc < 0 ? err_set(e, rc, "%s: %s", path, strerror(-rc)) : 0;
}

static int write_files(const char *dir, const struct doctor_report *r, const struct topo *t,
                       struct err *e)
{
    struct strbuf b[COUNT_OF(names)] = {0};
    doctor_report_text(&b[0], r, true);
    put_json(&b[1], r);
    topo_print(&b[2], t);
    put_environment(&b[3]);
    put_system(&b[4]);
    int rc = 0;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (rc == 0)
            rc = write_file(dir, names[i], &b[i], e);
        strbuf_free(&b[i]);
    }
    return rc;
}

/* ---- the archive ---------------------------------------------------------------------------- */

static int run_tar(const char *dir, const char *path, struct err *e)
{
    char *argv[] = {"tar", "-czf", (char *)path, "-C", (char *)dir, ".", NULL};
    struct child_result r = {0};
    if (child_run(&r, &(struct child_opts){.argv = argv, .out = CHILD_KEEP, .messages = CHILD_KEEP},
                  e) < 0) {
        err_wrap(e, "--bundle");
        return err_hint(e, "install tar");
    }
    return r.status == 0 ? 0 : err_set(e, -EIO, "--bundle: tar could not write %s", path);
}

static void remove_files(const char *dir)
{
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        AUTO(free) char *path = xasprintf("%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

int doctor_bundle_write(const struct doctor_report *r, const struct topo *t, const char *path,
                        struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    AUTO(free) char *dir = xasprintf("%s/drover-doctor-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return err_set(e, -errno, "--bundle: %s: %s", dir, strerror(errno));
    mode_t before = umask(077);
    int rc = write_files(dir, r, t, e);
    if (rc == 0)
        rc = run_tar(dir, path, e);
    umask(before);
    remove_files(dir);
    return rc;
}
