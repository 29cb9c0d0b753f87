/* section_limits - time limits of a rank's sections and heartbeats. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"

struct section_limit {
    char *name;
    int64_t ms; /* 0: no limit */
};

/* The numbers are stored (section_learning.h). */
enum section_limits_kind {
    SECTION_LIMITS_SECTION,
    SECTION_LIMITS_OUTSIDE,         /* time in no section */
    SECTION_LIMITS_HEARTBEAT,       /* time between two heartbeats */
    SECTION_LIMITS_FIRST_HEARTBEAT, /* time until the first heartbeat */
    SECTION_LIMITS_KINDS
};

struct section_limits {
    struct section_limit *at;
    int count;
    int64_t other_ms[SECTION_LIMITS_KINDS]; /* by kind, not of sections; 0: no limit */
};

void section_limits_free(struct section_limits *l);

/* Reads one limit: a duration, or "null", "none" or nothing for no limit. 0 is not a limit.
 *   -EINVAL  not a duration, or 0 */
int section_limits_read_ms(int64_t *out, const char *text, struct err *e);
/* Sets the limits of sections to those of `text`, such as "setup:600,step:180,eval:null".
 *   -EINVAL  not of this form, or a section is named twice */
int section_limits_parse(struct section_limits *l, const char *text, struct err *e);
/* Sets the limit of one section. */
void section_limits_set(struct section_limits *l, const char *name, int64_t ms);
/* Sets the limits that the object contains; the others are unchanged. Its keys are "sections",
 * "out_of_section", "heartbeat" and "initial_heartbeat". The values are seconds, or null.
 *   -EINVAL  a value has another type, or is not greater than 0 */
int section_limits_read(struct section_limits *l, const json_t *from, struct err *e);
/* Copies `from` to `*to`, which must be zero or freed. */
void section_limits_copy(struct section_limits *to, const struct section_limits *from);

/* The same struct also holds the longest times that were seen: 0 is then unknown.
 * section_limits_raise() sets each time of `to` to that of `from` if that is longer. */
void section_limits_raise(struct section_limits *to, const struct section_limits *from);
/* Sets each limit that `l` does not name to the longest time multiplied by `factor`, but to at
 * least `min_ms`. A section that `l` names with no limit keeps none. */
void section_limits_learn(struct section_limits *l, const struct section_limits *longest,
                          double factor, int64_t min_ms);

/* Returns the limit of a section; 0: it has none. */
int64_t section_limits_of(const struct section_limits *l, const char *name);
/* Returns true if anything has a limit. */
bool section_limits_any(const struct section_limits *l);
