/* stop_reason - the reason why a trial was stopped, requeued or cancelled, or why a sweep has
 * ended. */
#pragma once

enum stop_reason {
    STOP_REASON_NONE,
    STOP_REASON_EARLY, /* an early stopper; records have its name as the word */
    /* These stop a trial: */
    STOP_REASON_TIMEOUT,   /* it ran longer than `timeout` */
    STOP_REASON_DRAIN,     /* the coordinator ends */
    STOP_REASON_STOP,      /* the commands `stop` and `cancel` */
    STOP_REASON_PAUSE,     /* the command `pause` */
    STOP_REASON_PREEMPTED, /* its worker ends or needs the slot; also requeues a trial */
    /* These requeue a trial: */
    STOP_REASON_LOST,   /* its worker was lost */
    STOP_REASON_FAILED, /* `retry_failed` */
    STOP_REASON_NODE,   /* its node could not start it, or could not write its output */
    /* These end a sweep, and cancel the trials that still wait: */
    STOP_REASON_SWEEP_STOPPED,
    STOP_REASON_TARGET_REACHED,
    STOP_REASON_GAVE_UP,
    STOP_REASON_RUN_CAP,
    STOP_REASON_EXHAUSTED,
    STOP_REASON_DRAINED,   /* its trials wait for the next coordinator */
    STOP_REASON_NO_WORKER, /* no worker can start a trial; the same */
    STOP_REASON_COUNT
};

/* Returns the reason's word in records and in JSON, which never changes. Returns NULL for NONE and
 * EARLY. */
const char *stop_reason_word(enum stop_reason r);

/* Returns the reason for a word of a record: EARLY if the word is not in the table, NONE for
 * NULL. */
enum stop_reason stop_reason_parse(const char *word);

/* Returns the reason as a text for users, without a full stop. Returns NULL for NONE and EARLY. */
const char *stop_reason_text(enum stop_reason r);
