/* program - the program that a job runs, as this node finds it: its file, what the file needs, and
 * where a Python program finds its packages. */
#pragma once

/* Returns the file that execvp() would run for `name`, or NULL with errno (ENOENT, EACCES). The
 * caller frees it. */
char *program_find(const char *name);

/* What the first bytes of a file say. */
struct program_file {
    unsigned machine;       /* ELF's number of the architecture; 0: not an ELF file */
    char interpreter[4096]; /* the loader of an ELF file, or the word after "#!"; "": none */
    char argument[256];     /* the word after a script's interpreter, such as python3 after env */
};

/* Returns 0, or a negative errno if the file cannot be read. A file of an unknown kind has neither
 * an architecture nor an interpreter. */
int program_read(struct program_file *out, const char *path);

/* Returns the path of the Python that runs the command, or NULL if it is not a Python program.
 * `command` may be NULL. The caller frees it. */
char *program_python(char *const *command);

/* Appends the files that match `pattern` below the directories in which this Python finds its
 * packages, in its order: those of PYTHONPATH, its own, those of the user. */
void program_packages(char ***out, const char *python, const char *pattern);

/* Returns PREFIX of PREFIX/bin/python3, whose links are not followed; NULL: the path has fewer
 * levels. The caller frees it. */
char *program_prefix(const char *path);
