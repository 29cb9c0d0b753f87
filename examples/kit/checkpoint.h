/* checkpoint - the state of a training in one file that is replaced atomically.
 *
 * checkpoint_save() copies the state and returns; a thread writes the copy to a temporary file,
 * syncs it, renames it, and syncs the directory. If the process is killed at any moment, the file
 * is the previous or the new checkpoint, and complete. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { CHECKPOINT_FACTS = 24 };

/* What the training that wrote a checkpoint was, by name: an option without its dashes, or words if
 * there is no option. Both texts end with a 0, and so does all that follows it. */
struct checkpoint_fact {
    char name[24], value[40];
};

struct checkpoint_head {
    struct checkpoint_fact facts[CHECKPOINT_FACTS]; /* the first one without a name ends them */
    int64_t step;                                   /* number of completed steps */
    double value;                                   /* the trainer's own number */
    uint64_t bytes;                                 /* size of the state */
};

/* Adds a fact, whose value is formatted as by printf(). There is room for CHECKPOINT_FACTS. */
void checkpoint_add(struct checkpoint_head *h, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a number, with as few digits as read back the same. */
void checkpoint_add_real(struct checkpoint_head *h, const char *name, float value);
/* Returns the value of a fact, or "": there is none of this name. */
const char *checkpoint_get(const struct checkpoint_head *h, const char *name);

/* Returns the 64-bit FNV-1a hash (Fowler, Noll, Vo) of n bytes. `h` is the hash of the bytes before
 * them; the first call passes CHECKPOINT_HASH_INIT. */
uint64_t checkpoint_hash(uint64_t h, const void *bytes, size_t n);
#define CHECKPOINT_HASH_INIT UINT64_C(14695981039346656037)

struct checkpoint;

/* Prepares to write DIR/NAME; creates DIR, but not its parents. Returns 0, or -1 with the error in
 * `why`. */
int checkpoint_open(struct checkpoint **out, const char *dir, const char *name, char *why,
                    size_t why_size);
/* Copies h->bytes > 0 of state, and writes them in a thread. If the previous checkpoint is still
 * being written, waits for it. Returns 0, or -1 if that one failed, or memory or the thread did;
 * then the next call tries again. */
int checkpoint_save(struct checkpoint *c, const struct checkpoint_head *h, const void *state,
                    char *why, size_t why_size);
/* Waits for the last checkpoint and frees `c`. Returns 0, or -1 if it failed. NULL is allowed. */
int checkpoint_close(struct checkpoint *c, char *why, size_t why_size);

/* Reads DIR/NAME into h and a new *state (free it); state NULL: only the head, which is then not
 * checked for damage. Returns 1; 0 if there is no file; -1, with the error in `why`, if it is
 * damaged, or has not each fact that `h` has at the call: then h is unchanged. */
int checkpoint_read(struct checkpoint_head *h, void **state, const char *dir, const char *name,
                    char *why, size_t why_size);
