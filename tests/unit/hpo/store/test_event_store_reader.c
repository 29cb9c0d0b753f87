/* test_event_store_reader - each way to read a store, and that none writes next to it. */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fnv_hash.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/store/event_store_internal.h"
#include "tests/unit/test.h"

static char dir[64], db[96];

static void in_new_dir(void)
{
    snprintf(dir, sizeof dir, "/tmp/test_reader.XXXXXX");
    CHECK(mkdtemp(dir));
    snprintf(db, sizeof db, "%s/sweep.db", dir);
}

static void sh(const char *fmt, ...)
{
    va_list ap;
    char command[400];
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    CHECK_INT(system(command), 0);
}

static struct event_store *opened(const char *path, enum event_store_mode mode)
{
    struct event_store *s = NULL;
    struct err e = {0};
    if (event_store_open(&s, path, mode, &e) < 0)
        FAIL("%s", e.text);
    return s;
}

static void append(struct event_store *s, int from, int to)
{
    struct err e = {0};
    for (int i = from; i < to; i++) {
        struct scheduler_record r = {SCHEDULER_REC_REPORT, 1000 + i, i, 1, NULL};
        r.data = json_pack("{s:i,s:{s:f}}", "step", i, "values", "loss", 0.1 * i);
        if (event_store_append(s, &r, 0, &e) < 0)
            FAIL("%s", e.text);
        json_decref(r.data);
    }
    CHECK_INT(event_store_put(s, "seed", "7", &e), 0);
    CHECK_INT(event_store_commit(s, &e), 0);
}

static int see(void *arg, const struct event_store_row *r, struct err *e)
{
    int *n = arg;
    CHECK_INT(r->trial, *n);
    CHECK_INT(r->seq, *n + 1);
    CHECK_INT(strlen(r->data), r->len);
    return ++*n > 0 ? 0 : -1;
}

static void check_reads(struct event_store *s, int *n, int want)
{
    struct err e = {0};
    int rc;
    while ((rc = event_store_read(s, see, n, &e)) > 0)
        ;
    if (rc < 0)
        FAIL("%s", e.text);
    CHECK_INT(*n, want);
    AUTO(free) char *seed = NULL;
    CHECK_INT(event_store_get(&seed, s, "seed", &e), 0);
    CHECK_STR(seed, "7");
}

/* The names of the files in a directory, in one line. */
static char *files(const char *path)
{
    struct dirent **list;
    struct strbuf b = {0};
    int n = scandir(path, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.')
            strbuf_printf(&b, "%s ", list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return strbuf_take(&b);
}

TEST(a_reader_follows_a_writer_and_gets_each_record_once)
{
    in_new_dir();
    AUTO(event_store) struct event_store *w = opened(db, EVENT_STORE_WRITE);
    append(w, 0, 10);
    AUTO(event_store) struct event_store *r = opened(db, EVENT_STORE_READ);
    CHECK_INT(r->way, EVENT_STORE_BY_WAL);
    int n = 0;
    check_reads(r, &n, 10);
    check_reads(r, &n, 10);
    append(w, 10, 12000); /* more than one short transaction */
    check_reads(r, &n, 12000);
    sh("rm -r %s", dir);
}

TEST(a_finished_sweep_is_read_from_its_file_alone)
{
    in_new_dir();
    struct event_store *w = opened(db, EVENT_STORE_WRITE);
    append(w, 0, 100);
    event_store_close(w);
    AUTO(free) char *before = files(dir);
    CHECK_STR(before, "sweep.db sweep.db-mark ");
    AUTO(event_store) struct event_store *r = opened(db, EVENT_STORE_READ);
    CHECK_INT(r->way, EVENT_STORE_BY_IMMUTABLE);
    int n = 0;
    check_reads(r, &n, 100);
    AUTO(free) char *after = files(dir);
    CHECK_STR(after, before);
    w = opened(db, EVENT_STORE_WRITE); /* the sweep goes on: the reader notices */
    append(w, 100, 150);
    check_reads(r, &n, 150);
    event_store_close(w);
    sh("rm -r %s", dir);
}

/* What a copy of a running sweep, or kill -9 and a copy, leaves: a WAL without its -shm. */
TEST(a_journal_that_may_not_be_recovered_is_applied_to_a_copy)
{
    in_new_dir();
    AUTO(event_store) struct event_store *w = opened(db, EVENT_STORE_WRITE);
    append(w, 0, 100);
    sh("mkdir %s/copy && cp %s %s-wal %s/copy/", dir, db, db, dir);
    AUTO(free) char *copy = xasprintf("%s/copy", dir), *file = xasprintf("%s/sweep.db", copy);
    AUTO(free) char *before = files(copy);
    AUTO(event_store) struct event_store *r = opened(file, EVENT_STORE_READ);
    CHECK_INT(r->way, EVENT_STORE_BY_COPY);
    int n = 0;
    check_reads(r, &n, 100);
    AUTO(free) char *after = files(copy);
    CHECK_STR(after, before);
    append(w, 100, 130);
    sh("cp %s %s-wal %s/copy/", db, db, dir); /* copied again */
    check_reads(r, &n, 130);
    AUTO(free) char *private_dir = xstrdup(r->copy_dir);
    event_store_close(TAKE(r));
    CHECK(access(private_dir, F_OK) < 0);
    sh("rm -r %s", dir);
}

TEST(the_feed_has_every_record_while_the_store_is_locked)
{
    in_new_dir();
    struct err e = {0};
    struct event_store *w = opened(db, EVENT_STORE_WRITE);
    append(w, 0, 10);
    CHECK_INT(event_store_feed_create(w, &e), 0);
    append(w, 10, 20);
    struct event_store_feed *f = NULL;
    CHECK_INT(event_store_feed_open(&f, db, &e), 0);
    CHECK_STR(event_store_feed_get(f, "seed"), "7");
    int n = 0;
    int64_t last_seq = 0;
    CHECK_INT(event_store_feed_read(f, &last_seq, see, &n, &e), 0);
    CHECK_INT(n, 20);
    append(w, 20, 30);
    fputs("{\"seq\":31,\"at_ms\":1,", w->feed); /* half a line */
    fflush(w->feed);
    CHECK_INT(event_store_feed_read(f, &last_seq, see, &n, &e), 0);
    CHECK_INT(n, 30);
    event_store_close(w);
    w = opened(db, EVENT_STORE_WRITE); /* the next writer makes the feed anew */
    CHECK_INT(event_store_feed_create(w, &e), 0);
    append(w, 30, 35);
    CHECK_INT(event_store_feed_read(f, &last_seq, see, &n, &e), 0);
    CHECK_INT(n, 35);
    event_store_feed_close(f);
    event_store_close(w);
    AUTO(free) char *after = files(dir);
    CHECK_STR(after, "sweep.db sweep.db-mark ");
    sh("rm -r %s", dir);
}

TEST(a_gap_in_the_feed_is_waited_for)
{
    in_new_dir();
    struct err e = {0};
    AUTO(free) char *path = xasprintf("%s.feed", db);
    FILE *file = fopen(path, "w");
    CHECK(file);
    for (int i = 0; i < 3; i++) {
        AUTO(free)
        char *open = xasprintf("{\"seq\":%d,\"at_ms\":1,\"kind\":\"report\",\"trial\":%d,"
                               "\"lease\":1,\"msg\":0,\"data\":{}",
                               i == 2 ? 5 : i + 1, i);
        fprintf(file, "%s,\"sum\":\"%016llx\"}\n", open,
                (unsigned long long)fnv_hash_text(FNV_HASH_INIT, open));
    }
    fclose(file);
    struct event_store_feed *f = NULL;
    CHECK_INT(event_store_feed_open(&f, db, &e), 0);
    int n = 0;
    int64_t last_seq = 0;
    CHECK_INT(event_store_feed_read(f, &last_seq, see, &n, &e), 0);
    CHECK_INT(event_store_feed_read(f, &last_seq, see, &n, &e), 0);
    CHECK_INT(n, 2);
    event_store_feed_close(f);
    sh("rm -r %s", dir);
}

/* ---- another sweep of the same name --------------------------------------------------------- */

static struct event_store *started(const char *instance, int records)
{
    struct err e = {0};
    struct event_store *w = opened(db, EVENT_STORE_WRITE);
    CHECK_INT(event_store_put(w, EVENT_STORE_META_INSTANCE, instance, &e), 0);
    append(w, 0, records);
    return w;
}

TEST(a_reader_does_not_mix_the_records_of_two_sweeps)
{
    in_new_dir();
    struct err e = {0};
    int n = 0;
    struct event_store *w = started("1", 10), *r = opened(db, EVENT_STORE_READ);
    CHECK_INT(event_store_read(r, see, &n, &e), 0);
    CHECK_INT(n, 10);
    event_store_close(w);
    sh("rm %s*", db);
    w = started("2", 20);
    CHECK_INT(event_store_read(r, see, &n, &e), -ESTALE);
    CHECK_HAS(e.text, "the sweep is another one now");
    CHECK_INT(n, 10);
    event_store_close(r);
    event_store_close(w);
    sh("rm -r %s", dir);
}

TEST(a_reader_of_the_feed_does_not_mix_the_records_of_two_sweeps)
{
    in_new_dir();
    struct err e = {0};
    struct event_store_feed *f = NULL;
    int n = 0;
    int64_t last_seq = 0;
    struct event_store *w = started("1", 10);
    CHECK_INT(event_store_feed_create(w, &e), 0);
    CHECK_INT(event_store_feed_open(&f, db, &e), 0);
    CHECK_INT(event_store_feed_read(f, &last_seq, see, &n, &e), 0);
    event_store_close(w);
    sh("rm %s*", db);
    w = started("2", 20);
    CHECK_INT(event_store_feed_create(w, &e), 0);
    CHECK_INT(event_store_feed_read(f, &last_seq, see, &n, &e), -ESTALE);
    CHECK_INT(n, 10);
    event_store_feed_close(f);
    event_store_close(w);
    sh("rm -r %s", dir);
}
