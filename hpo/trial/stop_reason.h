/* stop_reason - why a trial was stopped, requeued or cancelled, and why a sweep has ended. */
#ifndef DROVER_STOP_REASON_H
#define DROVER_STOP_REASON_H

enum stop_reason {
    STOP_REASON_NONE,
    STOP_REASON_EARLY, /* an early stopper: its name is the word in the records */
    /* These stop a trial: */
    STOP_REASON_TIMEOUT,   /* it ran longer than `timeout` */
    STOP_REASON_DRAIN,     /* the coordinator ends */
    STOP_REASON_STOP,      /* the command `stop` */
    STOP_REASON_PAUSE,     /* the command `pause` */
    STOP_REASON_PREEMPTED, /* its worker ends or needs the slot; requeues it, too */
    /* These requeue a trial: */
    STOP_REASON_LOST,   /* its worker was lost */
    STOP_REASON_FAILED, /* `retry_failed` */
    /* These end a sweep, and cancel the trials that are waiting then: */
    STOP_REASON_SWEEP_STOPPED,
    STOP_REASON_TARGET_REACHED,
    STOP_REASON_GAVE_UP,
    STOP_REASON_RUN_CAP,
    STOP_REASON_EXHAUSTED,
    STOP_REASON_DRAINED,
    STOP_REASON_COUNT
};

/* The word in records and in JSON, where it never changes. NULL for NONE and EARLY. */
const char *stop_reason_word(enum stop_reason r);

/* The reason that a word of a record stands for: EARLY if the word is not in the table, NONE for
 * NULL. */
enum stop_reason stop_reason_parse(const char *word);

/* A sentence for people, without its full stop. NULL for NONE and EARLY. */
const char *stop_reason_text(enum stop_reason r);

#endif
