/* test_event_store_damage - a file of a store is damaged: a reader and the next writer get all that
 * was committed, or an error. DROVER_TEST_FLIPS says how often (default: 500), DROVER_TEST_SEED
 * chooses the places. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/fnv_hash.h"
#include "common/json.h"
#include "hpo/store/event_store_internal.h"
#include "tests/unit/test.h"

static const char *const suffixes[] = {"", "-wal", "-mark"};
enum { FILES = COUNT_OF(suffixes), TURNS = 60 };

static char dir[64], live[96], db[96];

static struct strbuf files[FILES];

static uint64_t state;
static uint64_t next(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void append(struct event_store *s, int i)
{
    struct err e = {0};
    struct scheduler_record r = {SCHEDULER_REC_REPORT, 1000 + i, i, 1, NULL};
    r.data = json_pack("{s:i,s:{s:f}}", "step", i, "values", "loss", 0.1 * i);
    CHECK_INT(event_store_append(s, &r, 0, &e), 0);
    json_decref(r.data);
}

static int add_row(void *arg, const struct event_store_row *r, struct err *e)
{
    uint64_t *h = arg;
    *h = fnv_hash_bytes(*h, &r->trial, sizeof r->trial);
    *h = fnv_hash_bytes(*h, r->data, r->len);
    return 0;
}

/* Returns 0 and in *hash all that a store says, or the error. */
static int read_all(uint64_t *hash, enum event_store_mode mode)
{
    struct err e = {0};
    AUTO(event_store) struct event_store *s = NULL;
    int rc = event_store_open(&s, db, mode, &e);
    *hash = FNV_HASH_INIT;
    while (rc == 0 && (rc = event_store_read(s, add_row, hash, &e)) > 0)
        rc = 0;
    static const char *const keys[] = {"file", "seed", "prior", "ended"};
    for (size_t i = 0; rc == 0 && i < COUNT_OF(keys); i++) {
        AUTO(free) char *value = NULL;
        rc = event_store_get(&value, s, keys[i], &e);
        *hash = fnv_hash_text(*hash, value ? value : "(none)");
    }
    if (rc < 0)
        CHECK_HAS(e.text, "sweep.db");
    return rc;
}

/* A writer is killed: its log is not copied into the file. */
static void make_store(void)
{
    struct err e = {0};
    snprintf(dir, sizeof dir, "/tmp/test_damage.XXXXXX");
    CHECK(mkdtemp(dir));
    snprintf(live, sizeof live, "%s/live.db", dir);
    snprintf(db, sizeof db, "%s/sweep.db", dir);
    AUTO(event_store) struct event_store *s = NULL;
    CHECK_INT(event_store_open(&s, live, EVENT_STORE_WRITE, &e), 0);
    CHECK_INT(event_store_put(s, "file", "method: grid\n", &e), 0);
    CHECK_INT(event_store_put(s, "seed", "7", &e), 0);
    for (int i = 0; i < TURNS; i++) {
        append(s, i);
        CHECK_INT(event_store_commit(s, &e), 0);
        if (i == TURNS / 2)
            CHECK_INT(sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL),
                      SQLITE_OK);
    }
    CHECK_INT(event_store_put(s, "ended", "all trials have ended", &e), 0);
    CHECK_INT(event_store_commit(s, &e), 0);
    for (int i = 0; i < FILES; i++) {
        AUTO(free) char *path = xasprintf("%s%s", live, suffixes[i]);
        CHECK_INT(file_read(&files[i], path, SIZE_MAX), 0);
        CHECK(files[i].len > 0);
    }
}

/* Writes the files, one of them damaged. Returns what was done, for a message. */
static char *write_damaged(void)
{
    int which = (int)next(FILES);
    size_t at = next(files[which].len);
    bool cut = next(4) == 0;
    int bit = (int)next(8);
    for (int i = 0; i < FILES; i++) {
        AUTO(free) char *path = xasprintf("%s%s", db, suffixes[i]);
        char flip = i == which && !cut ? (char)(1 << bit) : 0;
        files[i].data[i == which ? at : 0] ^= flip;
        CHECK_INT(file_write(path, files[i].data, i == which && cut ? at : files[i].len, 0600), 0);
        files[i].data[i == which ? at : 0] ^= flip;
    }
    return cut ? xasprintf("sweep.db%s has only %zu bytes", suffixes[which], at)
               : xasprintf("bit %d of byte %zu of sweep.db%s", bit, at, suffixes[which]);
}

static void remove_files(void)
{
    for (int i = 0; i < FILES; i++) {
        AUTO(free) char *path = xasprintf("%s%s", db, suffixes[i]);
        (void)unlink(path);
    }
    AUTO(free) char *shm = xasprintf("%s-shm", db);
    (void)unlink(shm);
}

TEST(a_bit_or_a_tail_that_is_wrong_is_an_error_or_makes_no_difference)
{
    const char *flips = getenv("DROVER_TEST_FLIPS"), *seed = getenv("DROVER_TEST_SEED");
    state = 88172645463325252ull + (seed ? strtoull(seed, NULL, 10) : 0);
    make_store();
    uint64_t whole, hash;
    for (int i = 0; i < FILES; i++) {
        AUTO(free) char *path = xasprintf("%s%s", db, suffixes[i]);
        CHECK_INT(file_write(path, files[i].data, files[i].len, 0600), 0);
    }
    CHECK_INT(read_all(&whole, EVENT_STORE_READ), 0);
    int errors = 0, same = 0, n = flips ? atoi(flips) : 500;
    for (int i = 0; i < n; i++) {
        remove_files();
        AUTO(free) char *what = write_damaged();
        enum event_store_mode mode = i % 8 ? EVENT_STORE_READ : EVENT_STORE_WRITE;
        int rc = read_all(&hash, mode);
        if (rc == 0 && hash != whole)
            FAIL("%s: a %s sees other records, and no error", what,
                 mode == EVENT_STORE_READ ? "reader" : "writer");
        errors += rc < 0;
        same += rc == 0;
    }
    CHECK(errors > n / 10);
    CHECK(same > n / 10);
    AUTO(free) char *command = xasprintf("rm -r %s", dir);
    CHECK_INT(system(command), 0);
    for (int i = 0; i < FILES; i++)
        strbuf_free(&files[i]);
}
