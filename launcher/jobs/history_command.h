/* history_command - what identifies the program of a job in the history. Pure. */
#pragma once

#include <stdint.h>

struct history_command {
    char *program; /* the script, module ("-m trainer") or program; absolute if it is a path */
    char hash[17]; /* of all further arguments but the batch size, as 16 hexadecimal digits */
    int64_t batch; /* of --batch-size N, --batch_size N, --batch N or -b N; -1: not given */
};

/* Reads a command, NULL-terminated. `wdir`: the directory of the job. */
void history_command_read(struct history_command *out, char *const *argv, const char *wdir);
void history_command_end(struct history_command *c);
