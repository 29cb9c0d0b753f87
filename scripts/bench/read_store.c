/* read_store - makes a large sweep, and measures how a reader follows one.
 *
 *     read_store make DB FILE TRIALS REPORTS   the store of a sweep with this file
 *     read_store follow DB                     reads it, then 200 updates of 100 records each
 *     read_store watch DB SECONDS              reads what is new, ten times per second
 *
 * scripts/bench/read starts it. `follow` prints the time of the first read and the median and the
 * worst time of an update, in ms. The file must have the parameters that `make` draws. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/rng.h"
#include "hpo/reader/sweep_columns.h"
#include "hpo/store/event_store.h"
#include "hpo/store/stored_sweep.h"

enum { BATCH = 1000, UPDATES = 200, UPDATE_RECORDS = 100 };

static void check(int rc, const struct err *e)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "read_store: %s\n", e->text);
    exit(1);
}

static void put(struct event_store *s, enum scheduler_record_kind kind, int trial, int64_t lease,
                json_t *data)
{
    static int64_t at_ms = 1700000000000;
    struct err e = {0};
    const struct scheduler_record r = {kind, at_ms++, trial, lease, data};
    check(event_store_append(s, &r, trial + 1, &e), &e);
    json_decref(data);
}

static double between(struct rng *r, double min, double max)
{
    return min + (max - min) * rng_unit(r);
}

static json_t *params_of(struct rng *r)
{
    static const char *const acts[] = {"relu", "gelu", "tanh"};
    return json_pack("{s:s,s:i,s:f,s:i,s:f,s:f,s:s,s:f}", "act", acts[rng_below(r, 3)], "batch",
                     16 << rng_below(r, 4), "dropout", rng_unit(r), "layers",
                     (int)rng_below(r, 12) + 1, "lr", pow(10, between(r, -5, -1)), "momentum",
                     rng_unit(r), "opt", rng_below(r, 2) ? "adam" : "sgd", "wd",
                     pow(10, between(r, -6, -2)));
}

static void make(const char *db, const char *file, int trials, int reports)
{
    struct event_store *s = NULL;
    struct err e = {0};
    struct rng r;
    rng_seed(&r, 1, 0);
    check(event_store_open(&s, db, EVENT_STORE_WRITE, &e), &e);
    check(event_store_put(s, "seed", "0", &e), &e);
    check(event_store_put(s, "file", file, &e), &e);
    for (int i = 0; i < trials; i++) {
        double loss = 0;
        put(s, SCHEDULER_REC_CREATED, i, 0, json_pack("{s:o}", "params", params_of(&r)));
        put(s, SCHEDULER_REC_LEASED, i, i + 1,
            json_pack("{s:s,s:s}", "worker", "c01.1234", "node", "c01"));
        for (int k = 1; k <= reports; k++) {
            loss = 2.5 / k + between(&r, 0, 1);
            put(s, SCHEDULER_REC_REPORT, i, i + 1,
                json_pack("{s:i,s:{s:f}}", "step", k, "values", "loss", loss));
        }
        put(s, SCHEDULER_REC_ENDED, i, i + 1,
            json_pack("{s:s,s:f,s:f}", "state", "done", "value", loss, "seconds", 1.5));
        if (i % BATCH == 0)
            check(event_store_commit(s, &e), &e);
    }
    check(event_store_commit(s, &e), &e);
    event_store_close(s);
}

static struct sweep_columns *columns_of(struct event_store *s, struct spec **spec)
{
    struct err e = {0};
    AUTO(free) char *file = NULL;
    check(event_store_get(&file, s, "file", &e), &e);
    check(stored_sweep_spec(spec, file, "sweep.yaml", &e), &e);
    return sweep_columns_new(*spec);
}

/* Returns the time that it took, in ms. */
static double read_new(struct event_store *s, struct sweep_columns *c)
{
    struct err e = {0};
    double begin = clock_s();
    int rc;
    do
        rc = event_store_read(s, sweep_columns_record, c, &e);
    while (rc > 0);
    check(rc, &e);
    return 1000 * (clock_s() - begin);
}

static int by_size(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void follow(const char *db)
{
    struct event_store *w = NULL, *s = NULL;
    struct spec *spec = NULL;
    struct err e = {0};
    double ms[UPDATES];
    check(event_store_open(&w, db, EVENT_STORE_WRITE, &e), &e);
    put(w, SCHEDULER_REC_COMMAND, -1, 0, json_pack("{s:s,s:s}", "ask", "bench", "verb", "resume"));
    check(event_store_commit(w, &e), &e); /* the WAL is there before the reader */
    check(event_store_open(&s, db, EVENT_STORE_READ, &e), &e);
    struct sweep_columns *c = columns_of(s, &spec);
    double first = read_new(s, c);
    int trial = (int)c->count;
    size_t lease = c->lease_count;
    for (int i = 0; i < UPDATES; i++) {
        struct rng r;
        rng_seed(&r, (uint64_t)i, 1);
        put(w, SCHEDULER_REC_CREATED, trial, 0, json_pack("{s:o}", "params", params_of(&r)));
        put(w, SCHEDULER_REC_LEASED, trial, (int64_t)++lease,
            json_pack("{s:s}", "worker", "c01.1"));
        for (int k = 2; k < UPDATE_RECORDS; k++)
            put(w, SCHEDULER_REC_REPORT, trial, (int64_t)lease,
                json_pack("{s:i,s:{s:f}}", "step", k, "values", "loss", 1.0 / k));
        check(event_store_commit(w, &e), &e);
        trial++;
        ms[i] = read_new(s, c);
    }
    qsort(ms, UPDATES, sizeof *ms, by_size);
    printf("%.0f %.3f %.3f\n", first, ms[UPDATES / 2], ms[UPDATES - 1]);
}

static void watch(const char *db, int seconds)
{
    struct event_store *s = NULL;
    struct spec *spec = NULL;
    struct err e = {0};
    check(event_store_open(&s, db, EVENT_STORE_READ, &e), &e);
    struct sweep_columns *c = columns_of(s, &spec);
    for (int i = 0; i < 10 * seconds; i++) {
        (void)read_new(s, c);
        usleep(100000);
    }
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "make") == 0)
        make(argv[2], argv[3], atoi(argv[4]), atoi(argv[5]));
    else if (argc == 3 && strcmp(argv[1], "follow") == 0)
        follow(argv[2]);
    else if (argc == 4 && strcmp(argv[1], "watch") == 0)
        watch(argv[2], atoi(argv[3]));
    else
        return 2;
    return 0;
}
