/* program_libs - where a program's CUDA libraries are: the directories that its loader searches,
 * and the packages of its Python. Best effort: nothing is started. */
#pragma once

/* Returns the directories of packages of the Python that `command` runs: site-packages (a strv);
 * NULL: it is not a Python program, or they were not found. */
char **program_libs_packages(char *const *command);

/* Returns the directories that may have the program's CUDA runtime, in the order in which they are
 * searched (a strv): $LD_LIBRARY_PATH, NVIDIA's wheels, those next to the program. */
char **program_libs_dirs(char *const *command);
