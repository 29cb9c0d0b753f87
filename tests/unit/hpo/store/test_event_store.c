/* event_store: committed records are kept, others are dropped, and damage is reported. */
#include "hpo/store/event_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "tests/unit/test.h"

static char dir[64], path[96];

static void in_new_dir(void)
{
    strcpy(dir, "/tmp/test_store.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/sweep.db", dir);
}

static void remove_dir(void)
{
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    CHECK_INT(system(cmd), 0);
}

static struct event_store *opened(enum event_store_mode mode)
{
    struct event_store *s = NULL;
    struct err e = {0};
    if (event_store_open(&s, path, mode, &e) < 0)
        FAIL("%s", e.text);
    return s;
}

static void run_sql(const char *sql)
{
    sqlite3 *db;
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void append(struct event_store *s, int trial, int64_t lease, int64_t msg)
{
    struct err e = {0};
    struct scheduler_record r = {SCHEDULER_REC_REPORT, 1000 + trial, trial, lease, NULL};
    r.data = json_pack("{s:i,s:{s:f}}", "step", trial, "values", "loss", 0.1 * trial);
    if (event_store_append(s, &r, msg, &e) < 0)
        FAIL("%s", e.text);
    json_decref(r.data);
}

struct seen {
    int n;
    struct scheduler_record last;
    int64_t last_msg;
    double last_loss;
};

static int see(void *arg, const struct scheduler_record *r, int64_t msg, struct err *e)
{
    struct seen *seen = arg;
    CHECK_INT(r->trial, seen->n); /* in order */
    seen->n++;
    seen->last = *r;
    seen->last_msg = msg;
    seen->last_loss = json_real_value(json_object_get(json_object_get(r->data, "values"), "loss"));
    return seen->n == 100 ? err_set(e, -ECANCELED, "enough") : 0;
}

static struct seen replayed(struct event_store *s)
{
    struct seen seen = {0};
    struct err e = {0};
    CHECK_INT(event_store_replay(s, see, &seen, &e), 0);
    return seen;
}

TEST(records_come_back_as_they_went_in)
{
    in_new_dir();
    struct err e = {0};
    AUTO(event_store) struct event_store *s = opened(EVENT_STORE_WRITE);
    for (int i = 0; i < 5; i++)
        append(s, i, 10 + i, 20 + i);
    CHECK_INT(event_store_commit(s, &e), 0);
    event_store_close(TAKE(s));
    s = opened(EVENT_STORE_WRITE);
    struct seen seen = replayed(s);
    CHECK_INT(seen.n, 5);
    CHECK_INT(seen.last.kind, SCHEDULER_REC_REPORT);
    CHECK_INT(seen.last.at_ms, 1004);
    CHECK_INT(seen.last.lease, 14);
    CHECK_INT(seen.last_msg, 24);
    CHECK_NEAR(seen.last_loss, 0.4, 0);
    remove_dir();
}

TEST(a_turn_is_stored_whole_or_not_at_all)
{
    in_new_dir();
    struct err e = {0};
    AUTO(event_store) struct event_store *s = opened(EVENT_STORE_WRITE);
    append(s, 0, 1, 0);
    CHECK_INT(event_store_commit(s, &e), 0);
    append(s, 1, 1, 0);
    append(s, 2, 1, 0);
    event_store_close(TAKE(s)); /* no commit */
    s = opened(EVENT_STORE_WRITE);
    CHECK_INT(replayed(s).n, 1);
    remove_dir();
}

TEST(meta_values_are_kept_and_replaced)
{
    in_new_dir();
    struct err e = {0};
    AUTO(event_store) struct event_store *s = opened(EVENT_STORE_WRITE);
    AUTO(free) char *none = NULL, *value = NULL;
    CHECK_INT(event_store_get(&none, s, "file", &e), 0);
    CHECK(none == NULL);
    CHECK_INT(event_store_put(s, "file", "a", &e), 0);
    CHECK_INT(event_store_put(s, "file", "method: grid\n", &e), 0);
    CHECK_INT(event_store_commit(s, &e), 0);
    CHECK_INT(event_store_get(&value, s, "file", &e), 0);
    CHECK_STR(value, "method: grid\n");
    remove_dir();
}

TEST(others_read_while_the_coordinator_writes)
{
    in_new_dir();
    struct err e = {0};
    AUTO(event_store) struct event_store *w = opened(EVENT_STORE_WRITE);
    append(w, 0, 1, 0);
    CHECK_INT(event_store_commit(w, &e), 0);
    append(w, 1, 1, 0);
    AUTO(event_store) struct event_store *r = opened(EVENT_STORE_READ);
    CHECK_INT(replayed(r).n, 1);
    CHECK_INT(event_store_commit(w, &e), 0);
    CHECK_INT(replayed(r).n, 2);
    remove_dir();
}

TEST(a_replay_ends_with_what_its_reader_says)
{
    in_new_dir();
    struct err e = {0};
    AUTO(event_store) struct event_store *s = opened(EVENT_STORE_WRITE);
    for (int i = 0; i < 150; i++)
        append(s, i, 1, 0);
    CHECK_INT(event_store_commit(s, &e), 0);
    struct seen seen = {0};
    CHECK_INT(event_store_replay(s, see, &seen, &e), -ECANCELED);
    CHECK_INT(seen.n, 100);
    remove_dir();
}

TEST(reading_what_is_not_there_makes_nothing)
{
    in_new_dir();
    struct err e = {0};
    struct event_store *s = NULL;
    CHECK_INT(event_store_open(&s, path, EVENT_STORE_READ, &e), -ENOENT);
    CHECK(access(path, F_OK) < 0);
    remove_dir();
}

static int open_error(struct err *e)
{
    struct event_store *s = NULL;
    int rc = event_store_open(&s, path, EVENT_STORE_WRITE, e);
    CHECK(s == NULL);
    return rc;
}

TEST(a_file_that_is_no_store_is_refused)
{
    in_new_dir();
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 500; i++)
        fputs("this is not a database\n", f);
    fclose(f);
    struct err e = {0};
    CHECK_INT(open_error(&e), -EBADMSG);
    CHECK_HAS(e.text, path);
    remove(path);

    run_sql("CREATE TABLE t(x)");
    CHECK_INT(open_error(&e), -EBADMSG);
    CHECK_HAS(e.text, "not a database of drover");
    remove_dir();
}

TEST(a_store_of_a_newer_drover_is_left_alone)
{
    in_new_dir();
    event_store_close(opened(EVENT_STORE_WRITE));
    run_sql("PRAGMA user_version=99");
    struct err e = {0};
    CHECK_INT(open_error(&e), -ENOTSUP);
    CHECK_HAS(e.text, "newer drover");
    remove_dir();
}

static int64_t format(void)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &st, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_step(st), SQLITE_ROW);
    int64_t version = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return version;
}

TEST(a_store_of_the_first_format_goes_on_and_is_the_newer_ones_from_then_on)
{
    in_new_dir();
    struct err e = {0};
    run_sql("BEGIN; PRAGMA application_id=1685221238; PRAGMA user_version=1;"
            "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);"
            "CREATE TABLE record(seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL,"
            "  kind TEXT NOT NULL, trial INTEGER NOT NULL, lease INTEGER NOT NULL,"
            "  msg INTEGER NOT NULL, data TEXT NOT NULL);"
            "INSERT INTO meta VALUES('seed', '7');"
            "INSERT INTO record VALUES(1, 5, 'report', 0, 3, 2, '{\"values\":{\"loss\":0.5}}');"
            "COMMIT");
    AUTO(event_store) struct event_store *s = opened(EVENT_STORE_READ);
    CHECK_INT(replayed(s).n, 1);
    event_store_close(TAKE(s));
    CHECK_INT(format(), 1); /* a reader changes nothing */
    s = opened(EVENT_STORE_WRITE);
    AUTO(free) char *seed = NULL;
    CHECK_INT(event_store_get(&seed, s, "seed", &e), 0);
    CHECK_STR(seed, "7");
    struct scheduler_record asked = {SCHEDULER_REC_COMMAND, 6, 1, 0, NULL};
    CHECK_INT(event_store_append(s, &asked, 0, &e), 0);
    CHECK_INT(event_store_commit(s, &e), 0);
    event_store_close(TAKE(s));
    s = opened(EVENT_STORE_READ);
    struct seen seen = replayed(s);
    CHECK_INT(seen.n, 2);
    CHECK_INT(seen.last.kind, SCHEDULER_REC_COMMAND);
    event_store_close(TAKE(s));
    CHECK_INT(format(), 4);
    remove_dir();
}

TEST(a_damaged_store_is_noticed)
{
    in_new_dir();
    struct err e = {0};
    struct event_store *s = opened(EVENT_STORE_WRITE);
    for (int i = 0; i < 2000; i++)
        append(s, i, 1, 0);
    CHECK_INT(event_store_commit(s, &e), 0);
    event_store_close(s);
    int fd = open(path, O_WRONLY);
    char noise[4096];
    memset(noise, 0xa5, sizeof noise);
    for (int page = 3; page < 10; page++)
        CHECK_INT(pwrite(fd, noise, sizeof noise, page * 4096L), sizeof noise);
    close(fd);
    CHECK_INT(open_error(&e), -EBADMSG);
    CHECK_HAS(e.hint, ".recover");
    remove_dir();
}

TEST(a_record_that_makes_no_sense_is_damage)
{
    in_new_dir();
    event_store_close(opened(EVENT_STORE_WRITE));
    run_sql("INSERT INTO record VALUES(1,1,'danced',0,0,0,'{}',NULL)");
    AUTO(event_store) struct event_store *s = opened(EVENT_STORE_READ);
    struct seen seen = {0};
    struct err e = {0};
    CHECK_INT(event_store_replay(s, see, &seen, &e), -EBADMSG);
    CHECK_HAS(e.text, "record 1");
    remove_dir();
}

TEST(a_full_disk_is_an_error_and_the_store_takes_no_more)
{
    in_new_dir();
    struct err e = {0};
    AUTO(event_store) struct event_store *s = opened(EVENT_STORE_WRITE);
    append(s, 0, 1, 0);
    CHECK_INT(event_store_commit(s, &e), 0);
    signal(SIGXFSZ, SIG_IGN);
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){70000, 70000}), 0);
    int rc = 0;
    for (int i = 1; i < 5000 && rc == 0; i++) {
        struct scheduler_record r = {SCHEDULER_REC_REPORT, 0, i, 1, json_object()};
        rc = event_store_append(s, &r, 0, &e);
        json_decref(r.data);
        if (rc == 0)
            rc = event_store_commit(s, &e);
    }
    CHECK(rc < 0);
    struct scheduler_record r = {.kind = SCHEDULER_REC_CREATED};
    CHECK_INT(event_store_append(s, &r, 0, &e), -EIO);
    CHECK_INT(event_store_commit(s, &e), -EIO);
    remove_dir();
}

TEST(a_changed_record_does_not_match_its_checksum)
{
    static const char *const changes[] = {"at_ms=at_ms+1", "kind='ended'",
                                          "trial=7",       "lease=2",
                                          "msg=1",         "data=replace(data,'0.1','0.2')"};
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        in_new_dir();
        struct event_store *w = opened(EVENT_STORE_WRITE);
        append(w, 0, 1, 0);
        append(w, 1, 1, 0);
        CHECK_INT(event_store_commit(w, NULL), 0);
        event_store_close(w);
        AUTO(free) char *sql = xasprintf("UPDATE record SET %s WHERE seq=2", changes[i]);
        run_sql(sql);
        AUTO(event_store) struct event_store *s = opened(EVENT_STORE_READ);
        struct seen seen = {0};
        struct err e = {0};
        CHECK_INT(event_store_replay(s, see, &seen, &e), -EBADMSG);
        CHECK_HAS(e.text, "record 2 does not match its checksum");
        remove_dir();
    }
}

static int contradicts(void *arg, const struct scheduler_record *r, int64_t msg, struct err *e)
{
    return err_set(e, -EINVAL, "lease 9 was never granted");
}

TEST(a_record_that_contradicts_the_others_is_named)
{
    in_new_dir();
    AUTO(event_store) struct event_store *w = opened(EVENT_STORE_WRITE);
    append(w, 0, 1, 0);
    CHECK_INT(event_store_commit(w, NULL), 0);
    struct err e = {0};
    CHECK_INT(event_store_replay(w, contradicts, NULL, &e), -EBADMSG);
    CHECK_HAS(e.text, "sweep.db: damaged: record 1: lease 9 was never granted");
    remove_dir();
}

static __fsword_t simulated; /* the number of a file system; 0: that of the file */

/* Replaces libc's for the whole program. */
int statfs(const char *file, struct statfs *out)
{
    int rc = (int)syscall(SYS_statfs, file, out);
    out->f_type = simulated ? simulated : out->f_type;
    return rc;
}

TEST(a_store_on_a_network_file_system_has_no_wal_and_readers_get_a_feed)
{
    static const __fsword_t numbers[] = {0x6969, 0xff534d42, 0x19830326}; /* NFS, CIFS, BeeGFS */
    for (size_t i = 0; i <= COUNT_OF(numbers); i++) {
        bool local = i == COUNT_OF(numbers);
        char wal[128], feed[128];
        in_new_dir();
        snprintf(wal, sizeof wal, "%s-wal", path);
        snprintf(feed, sizeof feed, "%s.feed", path);
        simulated = local ? 0 : numbers[i];
        struct event_store *s = opened(EVENT_STORE_WRITE);
        append(s, 0, 1, 1);
        CHECK_INT(event_store_commit(s, NULL), 0);
        CHECK(access(wal, F_OK) == (local ? 0 : -1));
        CHECK(access(feed, F_OK) == (local ? -1 : 0));
        event_store_close(s);
        simulated = 0;
        remove_dir();
    }
}
