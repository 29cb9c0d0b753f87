/* sweep_owner - the one process that may write to a sweep, also where the machines that see its
 * directory do not share locks: NFS with nolock, sshfs, two views of one directory.
 *
 * A process that opens a sweep for writing locks the file `lock`, which decides where locks are
 * shared. Then it must own the file `owner`: one line with a random number of this opening, a
 * counter, the process and its machine. The owner increases the counter every second, and writes
 * "released" in its place when it closes the sweep. A line names a dead owner if its process is
 * gone; if it has locked the same file of the same kernel, since it would still hold that lock; if
 * it has another directory of the same file system, since this one is a copy; or if it is a process
 * that cannot be seen from here (another machine, another container) and the counter stands still
 * for SWEEP_OWNER_WATCH_MS of the watcher's own clock. No clocks are compared.
 *
 * The successor of the opening N is the file `owner.N`. It is made with its content, by link(2),
 * which succeeds for one process only, and is then renamed to `owner`. A process that has read an
 * older owner, and makes `owner.N` after that, finds that `owner` does not lead to its own line: it
 * removes its file and looks again. So one opening has one successor, however many want to be it.
 *
 * An owner that stood still for long may have a successor. It checks its line before each
 * transaction and each commit, and writes nothing more once the line is another one. What remains
 * is an owner that is stopped between this check and the commit, and continues after
 * SWEEP_OWNER_WATCH_MS. On a file system without hard links, rename(2) takes the place of link(2):
 * two processes that start within a millisecond then learn only before their next commit which of
 * them is the owner. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/store/lockfile.h"

enum { SWEEP_OWNER_WATCH_MS = 10000, SWEEP_OWNER_BEAT_MS = 1000 };

/* ---- who owns a sweep (pure) ---------------------------------------------------------------- */

enum sweep_owner_process { /* of the line, as it is seen from here */
                           SWEEP_OWNER_GONE,
                           SWEEP_OWNER_LIVES,
                           SWEEP_OWNER_UNSEEN, /* on another machine, or in another container */
};

enum sweep_owner_verdict { SWEEP_OWNER_NONE, SWEEP_OWNER_RUNS, SWEEP_OWNER_UNDECIDED };

/* Decides about a line that is not released. `moved`: its counter has changed since it was first
 * read, `watched_ms` ago. */
enum sweep_owner_verdict sweep_owner_judge(enum sweep_owner_process p, bool moved,
                                           int64_t watched_ms);

/* What a process has seen of an owner so far. All zero: nothing. */
struct sweep_owner_watch {
    char number[17], count[11];
    bool moved, undecided;
    int64_t since_ms;
};

/* ---- owning --------------------------------------------------------------------------------- */

struct sweep_owner;

/* Locks the sweep in `dir` and becomes its owner. With `w` it does not wait: an owner about which
 * nothing is decided yet counts as running, and the caller tries again with the same `w`. NULL: it
 * waits until that is decided.
 *   -EBUSY  another process is the owner; the text names it and its host
 *   others  as open(), write() and link() */
int sweep_owner_acquire(struct sweep_owner **out, const char *dir, struct sweep_owner_watch *w,
                        struct err *e);
/* Releases the sweep. Its directory may have another name now, or be gone. */
void sweep_owner_release(struct sweep_owner *o);
AUTO_DEFINE(sweep_owner, struct sweep_owner *, sweep_owner_release)

/* Returns 0 if the sweep is still its own, which costs some microseconds on a local disk.
 *   -EOWNERDEAD  another process has taken over, which the text names; nothing may be written
 *   others       as open() and read(): it is not known */
int sweep_owner_check(struct sweep_owner *o, struct err *e);
/* Does the same, and increases the counter if the last time is SWEEP_OWNER_BEAT_MS ago. */
int sweep_owner_beat(struct sweep_owner *o, struct err *e);

/* Returns which process owns the sweep in `dir`, for readers: without a wait. A process that
 * cannot be seen from here counts as running if it has written to its line within the last minute,
 * by the clocks of both machines. */
struct lockfile_owner sweep_owner_read(const char *dir);
