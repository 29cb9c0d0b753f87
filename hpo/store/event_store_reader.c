/* event_store_reader - reads a store without writing files next to it. There are four ways:
 *
 *     -wal and -shm exist            together with the writer, or after one that was killed
 *     no journal has content         only the file: SQLite then takes no lock and needs no -shm
 *     a journal, but the above fail  a copy: this process may not recover the original
 *     the writer has locked it       the feed */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/durable.h"
#include "hpo/store/event_store_internal.h"

enum { BUSY_MS = 5000, COPIES_MAX = 5 };

static const char *const journals[] = {"-wal", "-journal"};

/* Returns the size of the file whose name is `path` followed by `suffix`; 0 if it does not
 * exist. */
static int64_t size_of(const char *path, const char *suffix, int64_t *mtime_ns, int64_t *inode)
{
    AUTO(free) char *file = xasprintf("%s%s", path, suffix);
    struct stat st = {0};
    if (stat(file, &st) < 0)
        st = (struct stat){0};
    *mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if (inode)
        *inode = (int64_t)st.st_ino;
    return st.st_size;
}

/* Records the present state of the files. Returns true if it differs from the recorded one. */
static bool look(struct event_store *s)
{
    int64_t size[2], mtime_ns[2], inode = 0, unused = 0;
    bool wal = size_of(s->path, journals[0], &mtime_ns[1], NULL) > 0;
    size[0] = size_of(s->path, "", &mtime_ns[0], &inode);
    size[1] = size_of(s->path, journals[!wal], &mtime_ns[1], &unused);
    bool changed = inode != s->seen.inode || memcmp(size, s->seen.size, sizeof size) != 0 ||
                   memcmp(mtime_ns, s->seen.mtime_ns, sizeof mtime_ns) != 0;
    memcpy(s->seen.size, size, sizeof size);
    memcpy(s->seen.mtime_ns, mtime_ns, sizeof mtime_ns);
    s->seen.inode = inode;
    return changed;
}

static int copy_file(const char *from, const char *to, struct err *e)
{
    AUTO(fd) int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0 && errno == ENOENT)
        return 0;
    AUTO(fd) int out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n = out < 0 ? -1 : 1;
    while (n > 0)
        n = sendfile(out, in, NULL, 1 << 20);
    return n < 0 ? err_set(e, -errno, "copy of %s: %s", from, strerror(errno)) : 0;
}

static void remove_copy(struct event_store *s)
{
    static const char *const files[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; s->copy_dir && i < COUNT_OF(files); i++) {
        AUTO(free) char *file = xasprintf("%s/sweep.db%s", s->copy_dir, files[i]);
        (void)unlink(file); /* it may not exist */
    }
    if (s->copy_dir)
        (void)rmdir(s->copy_dir);
    free(TAKE(s->copy_dir));
}

/* Copies the store and its journal to a private directory. A writer may be at work, so this is
 * repeated until the originals do not change while they are copied. */
static int make_copy(struct event_store *s, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    AUTO(free) char *dir = xasprintf("%s/drover-read-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return err_set(e, -errno, "%s: %s", dir, strerror(errno));
    s->copy_dir = TAKE(dir);
    (void)look(s);
    for (int i = 0; i < COPIES_MAX; i++) {
        AUTO(free) char *db = xasprintf("%s/sweep.db", s->copy_dir);
        int rc = copy_file(s->path, db, e);
        for (size_t j = 0; rc == 0 && j < COUNT_OF(journals); j++) {
            AUTO(free) char *from = xasprintf("%s%s", s->path, journals[j]);
            AUTO(free) char *to = xasprintf("%s%s", db, journals[j]);
            rc = copy_file(from, to, e);
        }
        if (rc < 0 || !look(s))
            return rc;
    }
    err_set(e, -EBUSY, "%s: is written while it is copied", s->path);
    return err_hint(e, "try again, or read it where you may write next to it");
}

/* Opens a file and reads it, which takes SQLite's locks for the first time. */
static int try_open(struct event_store *s, const char *path, int flags, const char *how,
                    int busy_ms, struct err *e)
{
    int64_t version = 0;
    int rc = event_store_open_db(s, path, flags, how, busy_ms, e);
    if (rc == 0)
        rc = event_store_check_format(s, &version, e);
    if (rc == 0)
        rc = event_store_prepare_read(s, version, e);
    if (rc == 0 && version >= EVENT_STORE_MARK_SINCE)
        rc = event_store_check_meta(s, true, e);
    if (rc < 0)
        event_store_close_db(s);
    return rc;
}

static int open_copy(struct event_store *s, struct err *e)
{
    int rc = make_copy(s, e);
    AUTO(free) char *db = xasprintf("%s/sweep.db", s->copy_dir ? s->copy_dir : "");
    if (rc == 0)
        rc = try_open(s, db, SQLITE_OPEN_READWRITE, "", 0, e);
    s->way = EVENT_STORE_BY_COPY;
    return rc;
}

static bool exists(const char *path, const char *suffix)
{
    AUTO(free) char *file = xasprintf("%s%s", path, suffix);
    return access(file, F_OK) == 0;
}

/* Returns true for an error of access, which a copy does not have. Returns false for damage or a
 * newer format. */
static bool copy_helps(int rc)
{
    return rc == -EACCES || rc == -EROFS || rc == -EPERM || rc == -EIO || rc == -EBUSY;
}

/* Opens a store on a network file system. There the writer has an exclusive lock while it runs. */
static int open_network(struct event_store *s, struct err *e)
{
    s->way = EVENT_STORE_BY_WAL;
    int rc = try_open(s, s->path, SQLITE_OPEN_READONLY, "?mode=ro", 0, e);
    if (rc != -EBUSY)
        return copy_helps(rc) ? open_copy(s, e) : rc;
    struct err why = {0};
    s->way = EVENT_STORE_BY_FEED;
    if (event_store_feed_open(&s->feed_reader, s->path, &why) == 0)
        return 0;
    s->way = EVENT_STORE_BY_WAL; /* another program has the lock for a moment */
    return try_open(s, s->path, SQLITE_OPEN_READONLY, "?mode=ro", BUSY_MS, e);
}

int event_store_open_reader(struct event_store *s, struct err *e)
{
    if (access(s->path, R_OK) < 0)
        return err_set(e, -errno, "%s: %s", s->path, strerror(errno));
    event_store_read_mark(s);
    (void)look(s);
    if (durable_network(s->path))
        return open_network(s, e);
    int rc = -EACCES;
    if (exists(s->path, "-wal") && exists(s->path, "-shm")) {
        s->way = EVENT_STORE_BY_WAL;
        rc = try_open(s, s->path, SQLITE_OPEN_READONLY, "?mode=ro", BUSY_MS, e);
    } else if (s->seen.size[1] == 0) {
        s->way = EVENT_STORE_BY_IMMUTABLE;
        rc = try_open(s, s->path, SQLITE_OPEN_READONLY, "?immutable=1", BUSY_MS, e);
    }
    return copy_helps(rc) ? open_copy(s, e) : rc;
}

int event_store_replaced(const char *path, struct err *e)
{
    return err_set(e, -ESTALE, "%s: the sweep is another one now", path);
}

int event_store_refresh_reader(struct event_store *s, struct err *e)
{
    bool fixed = s->way == EVENT_STORE_BY_IMMUTABLE || s->way == EVENT_STORE_BY_COPY;
    int64_t inode = s->seen.inode;
    if (s->way == EVENT_STORE_BY_FEED || !look(s) || (!fixed && inode == s->seen.inode))
        return 0;
    AUTO(free) char *was = NULL, *is = NULL;
    int rc = event_store_get(&was, s, EVENT_STORE_META_INSTANCE, e);
    if (rc < 0)
        return rc;
    event_store_close_db(s);
    remove_copy(s);
    rc = event_store_open_reader(s, e);
    if (rc == 0)
        rc = event_store_get(&is, s, EVENT_STORE_META_INSTANCE, e);
    return rc == 0 && was && (!is || strcmp(was, is) != 0) ? event_store_replaced(s->path, e) : rc;
}

void event_store_close_reader(struct event_store *s)
{
    event_store_feed_close(TAKE(s->feed_reader));
    remove_copy(s);
}
