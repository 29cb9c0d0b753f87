/* test_damaged_store - each field of each kind of record, replaced by every other kind of value:
 * the coordinator and the readers open the store, or name the record that is damaged. */
#include <errno.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/reader/sweep_columns.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/store/event_store.h"
#include "hpo/store/stored_sweep.h"
#include "tests/unit/test.h"

static const char sweep[] =
    "method: bayes\nprogram: t.sh\nmetric: {name: loss}\nearly_terminate: {type: asha}\n"
    "parameters:\n  lr: {min: 0.0, max: 1.0}\n  act: {values: [relu, tanh]}\n"
    "  opt: {parameters: {beta: {min: 0.0, max: 1.0}}}\n";

/* One record of each kind, and what leads to it. */
static const struct row {
    const char *kind;
    int trial, lease, msg;
    const char *data;
} rows[] = {
    {"created", 0, 0, 0,
     "{\"params\":{\"lr\":0.5,\"act\":\"relu\",\"opt\":{\"beta\":0.25}},\"learnt\":{\"a\":[1]}}"},
    {"created", 1, 0, 0,
     "{\"params\":{\"lr\":0.25,\"act\":\"tanh\",\"opt\":{\"beta\":1}},\"added\":true}"},
    {"leased", 0, 1, 0, "{\"worker\":\"a.1\",\"node\":\"c1\",\"with\":[\"b.2\"]}"},
    {"report", 0, 1, 1, "{\"step\":1,\"values\":{\"loss\":0.5,\"acc\":3}}"},
    {"report", 0, 1, 2, "{\"step\":2,\"values\":{\"loss\":\"nan\"}}"},
    {"pausing", 0, 1, 0, "{\"why\":\"asha\"}"},
    {"paused", 0, 1, 3, "{\"seconds\":1.5}"},
    {"leased", 0, 2, 0, "{\"worker\":\"a.1\",\"node\":null}"},
    {"requeued", 0, 2, 4, "{\"why\":\"lost\",\"spent\":true,\"error\":\"lost it\"}"},
    {"leased", 0, 3, 0, "{\"worker\":\"b.2\",\"node\":\"c2\"}"},
    {"report", 0, 3, 1, "{\"step\":1,\"values\":{\"loss\":0.25}}"},
    {"stopping", 0, 3, 0, "{\"why\":\"timeout\"}"},
    {"ended", 0, 3, 2,
     "{\"state\":\"failed\",\"value\":0.25,\"seconds\":2.5,\"why\":\"timeout\",\"error\":\"x\"}"},
    {"asked", -1, 0, 0, "{\"ask\":\"1f\",\"verb\":\"retry\",\"trials\":3,\"now\":true}"},
    {"retried", 0, 3, 0, "{}"},
};

/* JSON of each kind, among it what no writer of drover makes. NULL: the member is missing. */
static const char *const values[] = {
    NULL,
    "null",
    "true",
    "0",
    "-1",
    "2147483647",
    "9223372036854775807",
    "-9223372036854775808",
    "1e30",
    "1e308",
    "-0.5",
    "\"nan\"",
    "\"inf\"",
    "\"\"",
    "\"\\u0000x\"",
    "\"\xff\"",
    "\"done\"",
    "\"running\"",
    "[]",
    "[1,\"a\",null]",
    "{}",
    "{\"lr\":{\"lr\":1}}",
    "{\"opt\":3,\"opt.beta\":{}}",
    "{\"loss\":1e308,\"\":2}",
    "{\"loss\":1000000000000000000000000000000}",
    "1e999",
    "[[[[",
    "nonsense",
};

/* Values of the columns, as SQL. */
static const char *const cells[] = {
    "0",
    "-1",
    "2",
    "99",
    "2147483647",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775807-1",
    "1.5",
    "1e300",
    "''",
    "'ended'",
    "'no word'",
    "x'00ff'",
    "'{}'",
    "'[]'",
    "'{'",
    "'{\"a\":1}trailing'",
};

static char dir[64], path[96];
static int worked, refused;
static struct strbuf images[4]; /* the bytes of a store of each format */

static void sql(sqlite3 *db, const char *text)
{
    char *error = NULL;
    if (sqlite3_exec(db, text, NULL, NULL, &error) != SQLITE_OK)
        FAIL("%s: %s", text, error);
}

static void create_store(int format)
{
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    AUTO(free)
    char *schema = xasprintf(
        "PRAGMA synchronous=OFF; BEGIN; PRAGMA application_id=1685221238; PRAGMA user_version=%d;"
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);"
        "CREATE TABLE record(seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, kind TEXT NOT NULL,"
        " trial INTEGER NOT NULL, lease INTEGER NOT NULL, msg INTEGER NOT NULL,"
        " data TEXT NOT NULL%s)",
        format, format >= 3 ? ", sum INTEGER" : "");
    sql(db, schema);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        AUTO(free)
        char *insert = xasprintf(
            "INSERT INTO record(at_ms,kind,trial,lease,msg,data) VALUES(%d,'%s',%d,%d,%d,'%s')",
            1000 + (int)i, r->kind, r->trial, r->lease, r->msg, r->data);
        sql(db, insert);
    }
    sql(db, "COMMIT");
    sqlite3_close(db);
}

static void begin(void)
{
    snprintf(dir, sizeof dir, "/tmp/test_damage.XXXXXX");
    CHECK(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/sweep.db", dir);
    worked = refused = 0;
}

static void end(void)
{
    AUTO(free) char *command = xasprintf("rm -r %s", dir);
    CHECK_INT(system(command), 0);
    for (size_t i = 0; i < COUNT_OF(images); i++)
        strbuf_free(&images[i]);
}

/* A new store of the format, faster than create_store() from the second time on. */
static void write_store(int format)
{
    struct strbuf *b = &images[format];
    if (b->len == 0) {
        char bytes[4096];
        create_store(format);
        AUTO(file) FILE *f = fopen(path, "re");
        for (size_t n; (n = fread(bytes, 1, sizeof bytes, f)) > 0;)
            strbuf_add(b, bytes, n);
    }
    AUTO(file) FILE *f = fopen(path, "we");
    CHECK_INT(fwrite(b->data, 1, b->len, f), b->len);
}

static int replay_one(void *arg, const struct scheduler_record *r, int64_t msg, struct err *e)
{
    return scheduler_replay(arg, r, e);
}

/* As the coordinator opens it. */
static int replay(const struct spec *s, struct err *e)
{
    AUTO(event_store) struct event_store *store = NULL;
    struct scheduler *sched = NULL;
    CHECK_INT(scheduler_new(&sched, s, e), 0);
    int rc = event_store_open(&store, path, EVENT_STORE_READ, e);
    if (rc == 0)
        rc = event_store_replay(store, replay_one, sched, e);
    if (rc == 0) {
        scheduler_replayed(sched, 2000);
        for (int i = 0; i < (int)scheduler_view(sched).count; i++)
            json_decref(scheduler_trial_json(sched, i));
    }
    scheduler_free(sched);
    return rc;
}

/* As a reader opens and shows it. */
static int show(const struct spec *s, struct err *e)
{
    AUTO(event_store) struct event_store *store = NULL;
    AUTO(sweep_columns) struct sweep_columns *c = sweep_columns_new(s);
    int rc = event_store_open(&store, path, EVENT_STORE_READ, e);
    if (rc == 0)
        while ((rc = event_store_read(store, sweep_columns_record, c, e)) > 0)
            ;
    if (rc < 0)
        return rc;
    (void)sweep_columns_best(c);
    json_decref(sweep_columns_model_state(c));
    for (size_t i = 0; i < c->count; i++) {
        AUTO(json) json_t *trial = sweep_columns_trial_json(c, i), *gang = sweep_columns_gang(c, i);
        AUTO(free) char *text = json_dumps(trial, 0);
        CHECK(text && gang); /* every trial can be shown */
    }
    struct trial_view all = sweep_columns_all(c);
    sweep_columns_view_free(&all);
    return 0;
}

/* The store works, or the error names a record: the changed one, or one after it. */
static void check_open(const struct spec *s, size_t row, const char *change)
{
    static int (*const ways[])(const struct spec *s, struct err *e) = {replay, show};
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        struct err e = {0};
        int rc = ways[i](s, &e);
        const char *at = strstr(e.text, "damaged: record ");
        if (rc != 0 && (rc != -EBADMSG || !at || atoi(at + 16) < (int)row + 1))
            FAIL("record %zu: %s: %d: %s", row + 1, change, rc, e.text);
        worked += rc == 0;
        refused += rc != 0;
    }
}

static void try_change(const struct spec *s, size_t row, const char *change)
{
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    AUTO(free)
    char *text = xasprintf("PRAGMA synchronous=OFF; UPDATE OR IGNORE record SET %s "
                           "WHERE seq=%zu",
                           change, row + 1);
    sql(db, "PRAGMA journal_mode=OFF");
    sql(db, text);
    sqlite3_close(db);
    check_open(s, row, change);
    CHECK_INT(unlink(path), 0);
}

static struct spec *new_spec(void)
{
    struct spec *s = NULL;
    struct err e = {0};
    if (stored_sweep_spec(&s, sweep, "s.yaml", &e) < 0)
        FAIL("%s", e.text);
    return s;
}

/* The data of a record with another value of a member, as text. */
static char *changed_data(const char *data, const char *member, const char *value)
{
    struct strbuf b = {0};
    AUTO(json) json_t *object = json_loads(data, 0, NULL);
    const char *name = NULL;
    json_t *old = NULL;
    json_object_foreach (object, name, old) {
        AUTO(free) char *text = json_dumps(old, JSON_ENCODE_ANY);
        const char *now = strcmp(name, member) == 0 ? value : text;
        if (now)
            strbuf_printf(&b, "%s\"%s\":%s", b.len ? "," : "", name, now);
    }
    char *whole = xasprintf("{%s}", strbuf_str(&b));
    strbuf_free(&b);
    return whole;
}

TEST(a_whole_store_of_each_format_opens)
{
    AUTO(spec) struct spec *s = new_spec();
    for (int format = 1; format <= 3; format++) {
        begin();
        create_store(format);
        check_open(s, 0, "nothing");
        CHECK_INT(worked, 2);
        AUTO(event_store) struct event_store *w = NULL; /* which brings it to the present format */
        CHECK_INT(event_store_open(&w, path, EVENT_STORE_WRITE, NULL), 0);
        event_store_close(TAKE(w));
        check_open(s, 0, "migrated");
        CHECK_INT(worked, 4);
        end();
    }
}

TEST(every_column_of_every_record)
{
    static const char *const columns[] = {"seq", "at_ms", "kind", "trial", "lease", "msg", "data"};
    AUTO(spec) struct spec *s = new_spec();
    begin();
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t k = 0; k < COUNT_OF(columns) * COUNT_OF(cells); k++) {
            const char *column = columns[k / COUNT_OF(cells)], *cell = cells[k % COUNT_OF(cells)];
            bool is_key = strcmp(column, "seq") == 0; /* of which SQLite refuses other types */
            if (is_key && cell[strspn(cell, "-0123456789")])
                continue;
            write_store(2 + (int)(k % 2));
            AUTO(free) char *change = xasprintf("%s=%s", column, cell);
            try_change(s, i, change);
        }
    CHECK(worked > 100 && refused > 1000);
    end();
}

TEST(every_member_of_every_record)
{
    AUTO(spec) struct spec *s = new_spec();
    begin();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(json) json_t *object = json_loads(rows[i].data, 0, NULL);
        const char *name = NULL;
        json_t *old = NULL;
        json_object_foreach (object, name, old)
            for (size_t k = 0; k < COUNT_OF(values); k++) {
                AUTO(free) char *data = changed_data(rows[i].data, name, values[k]);
                AUTO(free) char *change = xasprintf("data='%s'", data);
                write_store(2);
                try_change(s, i, change);
            }
    }
    CHECK(worked > 100 && refused > 100);
    end();
}

TEST(a_missing_record_is_named)
{
    AUTO(spec) struct spec *s = new_spec();
    for (size_t i = 0; i < COUNT_OF(rows) - 1; i++) {
        sqlite3 *db = NULL;
        struct err e = {0};
        begin();
        create_store(2);
        CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
        AUTO(free) char *text = xasprintf("DELETE FROM record WHERE seq=%zu", i + 1);
        AUTO(free) char *want = xasprintf("damaged: record %zu is missing", i + 1);
        sql(db, text);
        sqlite3_close(db);
        CHECK_INT(replay(s, &e), -EBADMSG);
        CHECK_HAS(e.text, want);
        CHECK_INT(show(s, &e), -EBADMSG);
        CHECK_HAS(e.text, want);
        end();
    }
}
