#include "collectives/bench/cmd/json_stream.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "common/file.h"
#include "common/json.h"
#include "tests/unit/kit_temp_file.h"

/* The calls below are drover's, too. Each of them first looks at the file as a reader would who
 * comes at this moment, or as one who finds what a killed process left. */
static const char *watched;
static off_t room = INT_MAX; /* the size of a file that fills the disk */
static bool on_nfs, without_links, without_reserves, is_torn;
static int looks;

static json_t *read_document(const char *path)
{
    AUTO(free) char *text = file_text(path);
    json_t *d = text ? json_loads(text, 0, NULL) : NULL;
    if (text && !d)
        FAIL("'%s' has no whole document: %s", path, text);
    return d;
}

static void look(void)
{
    looks += watched != NULL;
    if (watched && !is_torn)
        json_decref(read_document(watched));
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    bool is_disk = watched && fd > STDERR_FILENO;
    if (!is_disk)
        return syscall(SYS_write, fd, bytes, len);
    look();
    off_t left = room - lseek(fd, 0, SEEK_CUR);
    size_t part = (off_t)len < left ? len : (size_t)left;
    ssize_t n = part ? syscall(SYS_write, fd, bytes, part) : (errno = ENOSPC, -1);
    is_torn = part < len && without_reserves;
    look();
    return n;
}

int fallocate(int fd, int mode, off_t at, off_t len)
{
    look();
    errno = without_reserves ? EOPNOTSUPP : ENOSPC;
    return without_reserves || at + len > room ? -1
                                               : (int)syscall(SYS_fallocate, fd, mode, at, len);
}

int ftruncate(int fd, off_t len)
{
    look();
    return (int)syscall(SYS_ftruncate, fd, len);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    look();
    if (on_nfs) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

int link(const char *from, const char *to)
{
    look();
    if (without_links) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static json_t *tail_of(size_t len)
{
    char text[1000];
    memset(text, 'x', sizeof text);
    return json_pack("{s:o}", "end", json_stringn(text, len));
}

static struct json_stream *begin(const char *path, size_t tail_len)
{
    struct json_stream *s = NULL;
    AUTO(json) json_t *head = json_pack("{s:i}", "version", 3), *tail = tail_of(tail_len);
    CHECK_INT(json_stream_open_file(&s, path, NULL), 0);
    CHECK_INT(json_stream_begin(s, head, "results", tail, NULL), 0);
    return s;
}

static int add(struct json_stream *s, const char *text, size_t tail_len, struct err *e)
{
    AUTO(json) json_t *item = json_pack("{s:s}", "name", text), *tail = tail_of(tail_len);
    return json_stream_add(s, item, tail, e);
}

/* Checks the document, and that nothing is behind it. */
static void check_document(const char *path, size_t results, size_t tail_len)
{
    AUTO(json) json_t *d = read_document(path);
    AUTO(free) char *text = file_text(path);
    CHECK_INT(json_array_size(json_object_get(d, "results")), results);
    CHECK_INT(json_string_length(json_object_get(d, "end")), tail_len);
    CHECK_STR(text + strlen(text) - 3, "\n}\n");
}

TEST(a_file_has_a_whole_document_before_and_after_each_call_that_changes_it)
{
    struct place p = make_place();
    watched = p.path;
    AUTO(json_stream) struct json_stream *s = begin(p.path, 900);
    CHECK_INT(add(s, "a", 20, NULL), 0);
    check_document(p.path, 1, 20);
    CHECK_INT(add(s, "b", 999, NULL), 0);
    check_document(p.path, 2, 999);
    CHECK_INT(add(s, "c", 5, NULL), 0);
    AUTO(json) json_t *tail = tail_of(0);
    CHECK_INT(json_stream_end(s, tail, NULL), 0);
    check_document(p.path, 3, 0);
    CHECK(looks >= 4 * 3);
    remove_place(&p);
}

TEST(on_a_full_disk_the_document_stays_as_it_was)
{
    for (int i = 0; i < 2; i++) {
        struct place p = make_place();
        struct err e = {0};
        watched = p.path;
        without_reserves = i == 1; /* then a part is written before the disk is full */
        AUTO(json_stream) struct json_stream *s = begin(p.path, 10);
        CHECK_INT(add(s, "a", 10, NULL), 0);
        room = 500;
        CHECK_INT(add(s, "b", 900, &e), -ENOSPC);
        CHECK_HAS(e.text, "No space left on device");
        room = INT_MAX;
        check_document(p.path, 1, 10);
        CHECK_INT(add(s, "c", 0, NULL), 0);
        check_document(p.path, 2, 0);
        remove_place(&p);
    }
}

TEST(a_file_that_exists_is_not_written_over)
{
    struct place p = make_place();
    AUTO(free) char *zero = xasprintf("%s.0", p.path), *one = xasprintf("%s.1", p.path);
    for (int how = 0; how < 3; how++) {
        on_nfs = how > 0;
        without_links = how > 1;
        CHECK_INT(file_write(p.path, "1", 1, 0666), 0);
        json_stream_close(begin(p.path, 1));
        json_stream_close(begin(p.path, 2));
        AUTO(free) char *text = file_text(p.path);
        CHECK_STR(text, "1");
        check_document(zero, 0, 1);
        check_document(one, 0, 2);
        unlink(zero);
        unlink(one);
    }
    remove_place(&p); /* nothing else is left */
}

TEST(a_document_that_was_not_begun_leaves_no_file)
{
    struct place p = make_place();
    struct json_stream *s = NULL;
    CHECK_INT(json_stream_open_file(&s, p.path, NULL), 0);
    json_stream_close(s);
    remove_place(&p);
}
