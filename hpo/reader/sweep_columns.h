/* sweep_columns - the content of a sweep's records as columns that grow, for all modules that show
 * a sweep. Pure. The scheduler keeps more data per trial, which its decisions need.
 *
 *     while (event_store_read(store, sweep_columns_record, columns, e) > 0)
 *         ;
 *
 * The same records give the same states, values and curves as in the scheduler: both use
 * trial_states and trial_curve. Applying a record takes constant time. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/reader/text_table.h"
#include "hpo/scheduler/sweep_state.h"
#include "hpo/spec/spec.h"
#include "hpo/store/event_store.h"
#include "hpo/trial/trial.h"

struct columns_metric { /* of one trial */
    int name;           /* index of its name in `texts` */
    bool is_integer;    /* `last` was written without a point */
    double last;        /* the value that was reported last, which may not be finite */
    int64_t lease;      /* the last lease that has reported it */
    struct trial_curve curve;
};

struct columns_trial {
    enum trial_state state;
    int64_t created_ms, leased_ms, ended_ms; /* 0: not yet */
    double seconds;                          /* run time, as its worker measured it */
    int64_t lease;                           /* the trial's last lease; 0: none */
    /* Numbers in `texts`; TEXT_TABLE_NONE: none. */
    int worker, node, error, why;
    bool added;                     /* the user has added the trial */
    struct columns_metric *metrics; /* the metrics that it has reported */
    int metric_count;
    int64_t changed_seq; /* number of the trial's last record in the store */
};

struct columns_lease { /* leases[lease - 1] */
    int trial;
    int worker, node;
    int gang; /* JSON with the other workers of its gang; TEXT_TABLE_NONE: it runs on one node */
    int why;  /* why it ended or was told to stop; TEXT_TABLE_NONE: it ended by itself, or runs */
    int64_t begin_ms, end_ms; /* end_ms is 0 while it runs */
};

enum columns_kind { COLUMNS_ABSENT, COLUMNS_INTEGER, COLUMNS_REAL, COLUMNS_JSON };

struct columns_value {
    enum columns_kind kind;
    double number; /* INTEGER, REAL */
    int json;      /* JSON: its text, in `texts` */
};

struct columns_param {    /* a parameter; sweep_columns_value() reads its values */
    char **path;          /* a strv: the names of its groups, then its name */
    char *name;           /* the path with dots */
    unsigned char *kinds; /* [cap]: enum columns_kind */
    union columns_cell {
        double number;
        int json;
    } * cells;
    size_t cap;
};

struct sweep_columns { /* others read the fields; only sweep_columns.c changes them */
    const struct spec *spec;
    struct text_table texts;
    struct columns_trial *trials;
    size_t count;
    int64_t seq; /* number of the last record that was applied; 0: none */
    struct columns_lease *leases;
    size_t lease_count;
    struct columns_param *params; /* in the order of first appearance */
    size_t param_count;
    int states[TRIAL_STATES]; /* the number of trials in each state */
    struct sweep_commands commands;
    char *model_state; /* JSON; NULL: none */
    int metric;        /* number of the sweep's metric in `texts`; TEXT_TABLE_NONE: not yet known */
};

/* Borrows the spec, which must outlive the columns. */
struct sweep_columns *sweep_columns_new(const struct spec *spec);
void sweep_columns_free(struct sweep_columns *c);
AUTO_DEFINE(sweep_columns, struct sweep_columns *, sweep_columns_free)

/* Applies the next record. This is an event_store_row_fn whose `arg` is the columns.
 *   -EBADMSG  the record contradicts earlier ones or is malformed; nothing has changed */
int sweep_columns_record(void *columns, const struct event_store_row *r, struct err *e);

struct columns_value sweep_columns_value(const struct sweep_columns *c, size_t param, size_t trial);
/* Returns a value that is not absent as JSON (new reference); NULL: its text is malformed. */
json_t *sweep_columns_value_json(const struct sweep_columns *c, struct columns_value v);
/* Returns a metric of a trial, or NULL if the trial has not reported this metric. */
const struct columns_metric *sweep_columns_metric(const struct sweep_columns *c, size_t trial,
                                                  const char *name);
/* The same by the number of its name. */
const struct columns_metric *sweep_columns_find_metric(const struct columns_trial *t, int name);
/* Returns true if greater values of the metric are better. */
bool sweep_columns_maximizes(const struct sweep_columns *c, const char *metric);
/* Returns the trial's value of the sweep's metric: the best or the last one, as the sweep file
 * says. Returns NAN if there is none. */
double sweep_columns_score(const struct sweep_columns *c, size_t trial);
/* Returns true if the trial satisfies the outcome constraints, as far as it has reported. */
bool sweep_columns_feasible(const struct sweep_columns *c, size_t trial);
/* Returns the trial with the best value, or -1. Failed and infeasible trials do not count. */
int sweep_columns_best(const struct sweep_columns *c);

/* Return the parameters of a trial, and the trial as scheduler_trial_json() does. Both are new
 * references. */
json_t *sweep_columns_params_json(const struct sweep_columns *c, size_t trial);
json_t *sweep_columns_trial_json(const struct sweep_columns *c, size_t trial);
/* Returns the curve of each metric: {metric: [[step, value], …]} (new reference). */
json_t *sweep_columns_curves_json(const struct sweep_columns *c, size_t trial);

/* Returns the ids of the other workers of the trial's last lease, a list that may be empty. New
 * reference. */
json_t *sweep_columns_gang(const struct sweep_columns *c, size_t trial);
/* Returns what the sampler had learned when it proposed the newest trial (new reference), or NULL
 * if it had learned nothing. */
json_t *sweep_columns_model_state(const struct sweep_columns *c);

/* Returns the `count` trials whose ids are in `trials`, in this order, for functions that need a
 * trial_view. The caller frees the view with sweep_columns_view_free(). */
struct trial_view sweep_columns_view(const struct sweep_columns *c, const int *trials,
                                     size_t count);
struct trial_view sweep_columns_all(const struct sweep_columns *c);
void sweep_columns_view_free(struct trial_view *view);
