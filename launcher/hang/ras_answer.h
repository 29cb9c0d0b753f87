/* ras_answer - reads an answer of NCCL's RAS service, as text (NCCL 2.24 and later) or as JSON
 * (2.28.7 and later), and tells which processes differ from the others. Pure.
 *
 * The service counts the collectives that ranks have launched, not those that are done. So equal
 * counts say nothing, and counts that differ are found in healthy jobs, too: only what two answers
 * agree on counts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ras_state {
    RAS_NOTHING,
    RAS_BEHIND,     /* has launched fewer collectives */
    RAS_OTHER_CALL, /* has launched another kind of collective */
    RAS_LEFT,       /* has finalised its communicator, others have not */
    RAS_GONE        /* does not answer, or is dead */
};

struct ras_process {
    int64_t pid;
    char host[64];    /* numeric address */
    int64_t launched; /* sum of its counts; in a text, of those that it lists */
    enum ras_state state;
};

struct ras_answer {
    struct ras_process *all; /* those that an answer names; a text names those that differ */
    int count;
    bool has_errors; /* an asynchronous error, an abort or a failed initialisation */
};

/* Reads an answer. One that is damaged gives the processes that could be read. */
void ras_answer_read(struct ras_answer *out, const char *text);
void ras_answer_free(struct ras_answer *a);

/* Returns what both answers say of a process; of several hosts' processes with this pid, the
 * strongest. `earlier` may be the same answer. */
enum ras_state ras_answer_state(const struct ras_answer *earlier, const struct ras_answer *later,
                                int64_t pid);
