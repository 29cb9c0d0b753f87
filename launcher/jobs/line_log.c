#include "launcher/jobs/line_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum {
    ROOM_MAX = 256 << 10, /* per rank */
    ROOM_MIN = 4 << 10,
    ALL_MAX = 16 << 20, /* per job */
    CHUNK = 16 << 10,   /* how much of a rank's room is allocated at once */
    PAGE = 4 << 10,
    RANKS_MAX = 1 << 20
};

static const uint64_t MAGIC = 0x32676e6972766f64; /* "dovring2" */

/* The file begins with this; the ranks' rooms follow from the next page on. */
struct head {
    uint64_t magic;
    uint32_t ranks, room;
    struct {
        _Atomic uint64_t written; /* bytes so far; modulo room, the position of the next one */
        _Atomic uint64_t claimed; /* bytes up to here are being written over older ones */
        _Atomic uint64_t partial; /* the unfinished line behind `written`: its length, and in the
                                     upper half the number of its changes */
    } of[];                       /* by rank */
};

struct allocated {
    size_t bytes;
    bool full; /* the disk is full: no more lines are kept */
};

struct line_log {
    int fd;
    struct head *head;
    char *rooms;
    size_t size;                 /* of the mapping */
    struct allocated *allocated; /* by rank; only in the writer */
};

static size_t head_bytes(int ranks)
{
    size_t n = sizeof(struct head) + (size_t)ranks * 3 * sizeof(uint64_t);
    return (n + PAGE - 1) / PAGE * PAGE;
}

static uint32_t room_of(int ranks)
{
    uint32_t room = ROOM_MAX;
    while (room > ROOM_MIN && (uint64_t)room * (uint64_t)ranks > ALL_MAX)
        room /= 2;
    return room;
}

static int map(struct line_log *r, int protection, int ranks, uint32_t room)
{
    r->size = head_bytes(ranks) + (size_t)ranks * room;
    void *at = mmap(NULL, r->size, protection, MAP_SHARED, r->fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    r->head = at;
    r->rooms = (char *)at + head_bytes(ranks);
    return 0;
}

int line_log_make(struct line_log **out, const char *path, int ranks, struct err *e)
{
    AUTO(line_log) struct line_log *r = xzalloc(sizeof *r);
    uint32_t room = room_of(ranks);
    r->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (r->fd < 0)
        return err_set(e, -errno, "'%s': %s", path, strerror(errno));
    /* Allocated now, since a write to a page without disk space would raise SIGBUS. */
    int rc = -posix_fallocate(r->fd, 0, (off_t)head_bytes(ranks));
    if (rc == 0 && ftruncate(r->fd, (off_t)(head_bytes(ranks) + (size_t)ranks * room)) < 0)
        rc = -errno;
    if (rc == 0)
        rc = map(r, PROT_READ | PROT_WRITE, ranks, room);
    if (rc < 0) {
        unlink(path);
        return err_set(e, rc, "'%s': %s", path, strerror(-rc));
    }
    r->allocated = xcalloc((size_t)ranks, sizeof *r->allocated);
    r->head->ranks = (uint32_t)ranks;
    r->head->room = room;
    r->head->magic = MAGIC;
    *out = TAKE(r);
    return 0;
}

int line_log_open(struct line_log **out, const char *path, struct err *e)
{
    AUTO(line_log) struct line_log *r = xzalloc(sizeof *r);
    struct head h;
    struct stat st;
    r->fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (r->fd < 0)
        return err_set(e, -errno, "'%s': %s", path, strerror(errno));
    if (fstat(r->fd, &st) < 0 || pread(r->fd, &h, sizeof h, 0) != sizeof h || h.magic != MAGIC ||
        h.ranks == 0 || h.ranks > RANKS_MAX || h.room < ROOM_MIN || h.room > ROOM_MAX ||
        (size_t)st.st_size < head_bytes((int)h.ranks) + (size_t)h.ranks * h.room)
        return err_set(e, -EBADMSG, "'%s': not a line log", path);
    int rc = map(r, PROT_READ, (int)h.ranks, h.room);
    if (rc < 0)
        return err_set(e, rc, "'%s': %s", path, strerror(-rc));
    *out = TAKE(r);
    return 0;
}

void line_log_close(struct line_log *r)
{
    if (!r)
        return;
    if (r->head)
        munmap(r->head, r->size);
    if (r->fd >= 0)
        close(r->fd);
    free(r->allocated);
    free(r);
}

/* Allocates disk space for the rank's bytes up to `end`; false if the disk is full. It is allocated
 * step by step, since all of it at once would take longer than a short job. */
static bool has_room(struct line_log *r, int rank, uint64_t end)
{
    size_t room = r->head->room, wanted = end < room ? (size_t)end : room;
    struct allocated *t = &r->allocated[rank];
    off_t at = (off_t)(head_bytes((int)r->head->ranks) + (size_t)rank * room);
    while (!t->full && t->bytes < wanted) {
        size_t chunk = room < CHUNK ? room : CHUNK;
        t->full = posix_fallocate(r->fd, at + (off_t)t->bytes, (off_t)chunk) != 0;
        t->bytes += chunk;
    }
    return !t->full;
}

static void put(char *room, size_t size, uint64_t at, const char *bytes, size_t len)
{
    size_t from = (size_t)(at % size);
    size_t first = len < size - from ? len : size - from;
    memcpy(room + from, bytes, first);
    memcpy(room, bytes + first, len - first);
}

static void change_partial(struct line_log *r, int rank, size_t len)
{
    _Atomic uint64_t *partial = &r->head->of[rank].partial;
    uint64_t changes = atomic_load_explicit(partial, memory_order_relaxed) >> 32;
    atomic_store_explicit(partial, ((changes + 1) << 32) | len, memory_order_release);
}

void line_log_add(struct line_log *r, int rank, const char *text, size_t len)
{
    size_t size = r->head->room;
    if (len + 1 > size) {
        text += len + 1 - size;
        len = size - 1;
    }
    char *room = r->rooms + (size_t)rank * size;
    uint64_t at = atomic_load_explicit(&r->head->of[rank].written, memory_order_relaxed);
    if (!has_room(r, rank, at + len + 1))
        return;
    change_partial(r, rank, 0);
    atomic_store_explicit(&r->head->of[rank].claimed, at + len + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    put(room, size, at, text, len);
    put(room, size, at + len, "\n", 1);
    atomic_store_explicit(&r->head->of[rank].written, at + len + 1, memory_order_release);
}

/* The line is hidden while it is written, so that a reader never takes a mixture of two. */
void line_log_set_partial(struct line_log *r, int rank, const char *text, size_t len)
{
    size_t size = r->head->room;
    uint64_t at = atomic_load_explicit(&r->head->of[rank].written, memory_order_relaxed);
    if (len >= size || !has_room(r, rank, at + len))
        return;
    change_partial(r, rank, 0);
    atomic_store_explicit(&r->head->of[rank].claimed, at + len, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    put(r->rooms + (size_t)rank * size, size, at, text, len);
    change_partial(r, rank, len);
}

int line_log_ranks(const struct line_log *r)
{
    return (int)r->head->ranks;
}

static void get(struct strbuf *out, const char *room, size_t size, uint64_t at, uint64_t end)
{
    while (at < end) {
        size_t from = (size_t)(at % size);
        size_t n = size - from < end - at ? size - from : (size_t)(end - at);
        strbuf_add(out, room + from, n);
        at += n;
    }
}

void line_log_read(struct line_log *r, int rank, uint64_t *at, struct strbuf *out)
{
    size_t size = r->head->room;
    uint64_t end = atomic_load_explicit(&r->head->of[rank].written, memory_order_acquire);
    uint64_t from = end - *at > size ? end - size : *at;
    AUTO(strbuf) struct strbuf text = {0};
    get(&text, r->rooms + (size_t)rank * size, size, from, end);
    atomic_thread_fence(memory_order_acquire);
    uint64_t claimed = atomic_load_explicit(&r->head->of[rank].claimed, memory_order_relaxed);
    uint64_t sure = claimed > size ? claimed - size : 0; /* older bytes may be overwritten by now */
    size_t skip = sure > from ? (size_t)(sure - from) : 0;
    skip = skip < text.len ? skip : text.len;
    if (from + skip != *at) { /* lines were lost: begin with a complete one */
        const char *line = memchr(strbuf_str(&text) + skip, '\n', text.len - skip);
        skip = line ? (size_t)(line + 1 - strbuf_str(&text)) : text.len;
    }
    strbuf_add(out, strbuf_str(&text) + skip, text.len - skip);
    *at = end;
}

void line_log_read_partial(const struct line_log *r, int rank, uint64_t at, struct strbuf *out)
{
    size_t size = r->head->room;
    const _Atomic uint64_t *partial = &r->head->of[rank].partial;
    uint64_t before = atomic_load_explicit(partial, memory_order_acquire);
    size_t len = (size_t)(before & UINT32_MAX);
    if (len == 0 || len >= size ||
        atomic_load_explicit(&r->head->of[rank].written, memory_order_acquire) != at)
        return;
    AUTO(strbuf) struct strbuf text = {0};
    get(&text, r->rooms + (size_t)rank * size, size, at, at + len);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(partial, memory_order_relaxed) == before)
        strbuf_add(out, text.data, text.len);
}
