/* nccl_library - the libnccl.so.2 that a program loads, and its version. */
#pragma once

/* Where a program may find libnccl.so.2. Each member is a strv of paths, in the order of the
 * search. */
struct nccl_library {
    char **loader; /* in the directories of LD_LIBRARY_PATH */
    char **wheels; /* in the packages of the command's Python */
    char *system;  /* what the dynamic loader takes without both; NULL: none */
};

/* Finds the libraries for a command, which may be NULL. */
void nccl_library_find(struct nccl_library *out, char *const *command);
void nccl_library_clear(struct nccl_library *l);

/* Returns the path of the library that the program takes, borrowed; NULL: none. */
const char *nccl_library_used(const struct nccl_library *l);

/* Returns the version as text, "2.21.5", which the caller frees; NULL if the library cannot be
 * loaded. Loads it into this process for the moment. */
char *nccl_library_version(const char *path);
