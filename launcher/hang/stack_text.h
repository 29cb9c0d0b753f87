/* stack_text - call stacks as gdb and py-spy print them: which frames are the program's own, which
 * collective the rank is in, and where. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/strbuf.h"

/* Appends the lines of a stack without the frames of interpreters and of libraries. Frames of
 * collectives stay. Addresses and numbers of processes and frames are left out, so stacks at the
 * same place have the same text. If no frame is the program's own, the first frames stay. Other
 * lines are left out. */
void stack_text_trim(struct strbuf *b, const char *stack);

/* Writes the outermost call of MPI, NCCL, libdrover, gloo or torch.distributed of a stack:
 * "MPI_Bcast", "all_reduce". Returns false if it has none; `out` is then "". */
bool stack_text_collective(char *out, size_t size, const char *stack);

/* Returns true if both stacks of a rank, taken at two times, are in the same collective, called
 * from the same place: the frames from the collective outwards, their arguments and state are
 * equal. */
bool stack_text_same_wait(const char *earlier, const char *later);

/* Writes the innermost place of the program's own code: "train.py:212". Returns false if the stack
 * names none; `out` is then "". */
bool stack_text_place(char *out, size_t size, const char *stack);

/* Appends the stacks of ranks as lines of a report, trimmed, and the line of call_stacks.h that
 * says what is missing. Ranks with equal stacks share one text. stacks[i] is of rank first_rank +
 * i, or NULL. */
void stack_text_write_all(struct strbuf *b, const char *const *stacks, int ranks, int first_rank);
