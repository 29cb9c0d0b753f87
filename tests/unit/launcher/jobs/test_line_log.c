/* ring: the last lines of ranks, read by another process while they are written. */
#include "launcher/jobs/line_log.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/rng.h"
#include "tests/unit/kit_temp_file.h"

static struct line_log *make(const struct place *p, int ranks)
{
    struct line_log *r = NULL;
    struct err e = {0};
    if (line_log_make(&r, p->path, ranks, &e) < 0)
        FAIL("%s", e.text);
    return r;
}

static struct line_log *reopen(const struct place *p)
{
    struct line_log *r = NULL;
    struct err e = {0};
    if (line_log_open(&r, p->path, &e) < 0)
        FAIL("%s", e.text);
    return r;
}

static void check_read(struct line_log *r, int rank, uint64_t *at, const char *want)
{
    AUTO(strbuf) struct strbuf b = {0};
    line_log_read(r, rank, at, &b);
    CHECK_STR(strbuf_str(&b), want);
}

TEST(lines_come_out_as_they_went_in_by_rank)
{
    struct place p = make_place();
    AUTO(line_log) struct line_log *w = make(&p, 3);
    AUTO(line_log) struct line_log *r = reopen(&p);
    uint64_t at[3] = {0};
    CHECK_INT(line_log_ranks(r), 3);
    check_read(r, 1, &at[1], "");
    line_log_add(w, 1, "one", 3);
    line_log_add(w, 2, "two", 3);
    line_log_add(w, 1, "", 0);
    check_read(r, 1, &at[1], "one\n\n");
    check_read(r, 2, &at[2], "two\n");
    check_read(r, 0, &at[0], "");
    line_log_add(w, 1, "more", 4);
    check_read(r, 1, &at[1], "more\n");
    check_read(r, 1, &at[1], "");
    remove_place(&p);
}

static void check_partial(const struct line_log *r, int rank, uint64_t at, const char *want)
{
    AUTO(strbuf) struct strbuf b = {0};
    line_log_read_partial(r, rank, at, &b);
    CHECK_STR(strbuf_str(&b), want);
}

TEST(an_unfinished_line_follows_the_lines_until_one_replaces_it)
{
    struct place p = make_place();
    AUTO(line_log) struct line_log *w = make(&p, 2);
    AUTO(line_log) struct line_log *r = reopen(&p);
    uint64_t at = 0;
    line_log_add(w, 1, "one", 3);
    line_log_set_partial(w, 1, "na", 2);
    line_log_set_partial(w, 1, "name? ", 6);
    check_partial(r, 1, at, ""); /* its lines are read first */
    check_read(r, 1, &at, "one\n");
    check_partial(r, 1, at, "name? ");
    check_partial(r, 0, 0, "");
    line_log_set_partial(w, 1, "50%", 3);
    check_partial(r, 1, at, "50%");
    line_log_add(w, 1, "50% done", 8);
    check_partial(r, 1, at, "");
    check_read(r, 1, &at, "50% done\n");
    check_partial(r, 1, at, "");
    remove_place(&p);
}

TEST(of_many_lines_the_last_whole_ones_are_kept)
{
    struct place p = make_place();
    AUTO(line_log) struct line_log *w = make(&p, 1);
    char line[32];
    for (int i = 0; i < 100000; i++)
        line_log_add(w, 0, line, (size_t)snprintf(line, sizeof line, "line %d", i));
    AUTO(strbuf) struct strbuf b = {0};
    uint64_t at = 0;
    line_log_read(w, 0, &at, &b);
    CHECK(b.len > (200 << 10) && b.len <= (256 << 10));
    CHECK(strncmp(strbuf_str(&b), "line ", 5) == 0);
    CHECK_STR(strbuf_str(&b) + b.len - 11, "line 99999\n");
    remove_place(&p);
}

TEST(of_a_line_that_is_longer_than_the_ring_the_end_is_kept)
{
    struct place p = make_place();
    AUTO(line_log) struct line_log *w = make(&p, 1 << 14); /* 4 KiB each */
    char line[10000];
    memset(line, 'a', sizeof line);
    line[sizeof line - 1] = 'z';
    line_log_add(w, 7, line, sizeof line);
    line_log_add(w, 7, "next", 4);
    AUTO(strbuf) struct strbuf b = {0};
    uint64_t at = 0;
    line_log_read(w, 7, &at, &b);
    CHECK_STR(strbuf_str(&b), "next\n");
    remove_place(&p);
}

TEST(a_rank_takes_the_room_that_its_lines_need)
{
    struct place p = make_place();
    AUTO(line_log) struct line_log *w = make(&p, 64);
    struct stat st;
    CHECK_INT(stat(p.path, &st), 0);
    CHECK(st.st_blocks * 512 <= 16 << 10);
    CHECK_INT(st.st_mode & 0777, 0600);
    line_log_add(w, 63, "x", 1);
    CHECK_INT(stat(p.path, &st), 0);
    CHECK(st.st_blocks * 512 <= 64 << 10);
    char line[1000];
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 500; i++)
        line_log_add(w, 63, line, sizeof line);
    CHECK_INT(stat(p.path, &st), 0);
    CHECK(st.st_blocks * 512 >= 256 << 10 && st.st_blocks * 512 <= 320 << 10);
    remove_place(&p);
}

TEST(on_a_full_disk_no_lines_are_kept_and_nothing_breaks)
{
    struct place p = make_place();
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", p.dir, "tmpfs", 0, "size=64k") < 0) { /* of this test alone */
        remove_place(&p);
        SKIP("only root can mount a small file system");
    }
    AUTO(line_log) struct line_log *w = make(&p, 2);
    char line[1000];
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 500; i++)
        line_log_add(w, i % 2, line, sizeof line);
    AUTO(strbuf) struct strbuf b = {0};
    uint64_t at = 0;
    line_log_read(w, 0, &at, &b);
    CHECK(b.len < 64 << 10 && b.len % 1001 == 0);
    umount2(p.dir, MNT_DETACH);
    remove_place(&p);
}

TEST(a_ring_that_cannot_be_made_leaves_nothing_behind)
{
    signal(SIGXFSZ, SIG_IGN);
    struct place p = make_place();
    struct rlimit small = {.rlim_cur = 8 << 10, .rlim_max = RLIM_INFINITY};
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct line_log *r = NULL;
    struct err e = {0};
    CHECK_INT(line_log_make(&r, p.path, 2, &e), -EFBIG);
    CHECK_HAS(e.text, p.path);
    CHECK(access(p.path, F_OK) < 0);
    remove_place(&p);
}

TEST(what_is_no_ring_is_refused)
{
    struct place p = make_place();
    struct line_log *r = NULL;
    struct err e = {0};
    CHECK_INT(line_log_open(&r, p.path, &e), -ENOENT);
    {
        AUTO(line_log) struct line_log *w = make(&p, 2);
        CHECK_INT(line_log_ranks(w), 2);
        CHECK_INT(line_log_make(&r, p.path, 2, &e), -EEXIST);
    }
    CHECK_INT(truncate(p.path, 5000), 0);
    CHECK_INT(line_log_open(&r, p.path, &e), -EBADMSG);
    CHECK_INT(truncate(p.path, 0), 0);
    CHECK_INT(line_log_open(&r, p.path, &e), -EBADMSG);
    remove_place(&p);
}

/* Lines that show if they are complete: "N:xxxx…" with N letters. */
static void write_lines(const struct place *p, uint64_t seed, int n)
{
    struct err e = {0};
    struct line_log *w = NULL;
    if (line_log_make(&w, p->path, 1 << 12, &e) < 0) /* 4 KiB each: overtaken often */
        _exit(1);
    struct rng rng;
    rng_seed(&rng, seed, 0);
    char line[1200];
    for (int i = 0; i < n; i++) {
        int len = (int)rng_below(&rng, 1000);
        int head = snprintf(line, sizeof line, "%d:", len);
        memset(line + head, 'x', (size_t)len);
        line_log_add(w, 5, line, (size_t)(head + len));
    }
    _exit(0);
}

static void check_lines(const char *text)
{
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        char *x;
        long len = strtol(line, &x, 10);
        if (*x != ':' || (long)strspn(x + 1, "x") != len || x[1 + len] != '\n')
            FAIL("torn: '%.60s'", line);
    }
}

TEST(a_reader_that_is_overtaken_sees_whole_lines_only)
{
    uint64_t seed = (uint64_t)getpid();
    printf("# seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    struct place p = make_place();
    pid_t writer = fork();
    if (writer == 0)
        write_lines(&p, seed, 200000);
    struct line_log *r = NULL;
    struct err e = {0};
    while (line_log_open(&r, p.path, &e) < 0) /* not made so far */
        CHECK(e.code == -ENOENT || e.code == -EBADMSG);
    uint64_t at = 0;
    int status = 0, reads = 0;
    while (waitpid(writer, &status, WNOHANG) == 0) {
        AUTO(strbuf) struct strbuf b = {0};
        line_log_read(r, 5, &at, &b);
        check_lines(strbuf_str(&b));
        reads += b.len > 0;
    }
    CHECK_INT(status, 0);
    CHECK(reads > 0);
    line_log_close(r);
    remove_place(&p);
}
