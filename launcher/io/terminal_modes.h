/* terminal_modes - the modes of the terminal of stdin while this process reads its keys: each key
 * at once, and without an echo. Ctrl-C and Ctrl-Z stay signals. The modes are restored at every end
 * of the process except SIGKILL. There is one terminal, so all state is the process's. */
#ifndef DROVER_TERMINAL_MODES_H
#define DROVER_TERMINAL_MODES_H

#include <stdbool.h>
#include <sys/types.h>

/* From now on an exit or a crash restores the modes, and then writes `farewell` to stdout, a text
 * that is borrowed; NULL: none. */
void terminal_modes_watch(const char *farewell);
/* Restores the modes, without the farewell, and gives the signals of a crash their earlier
 * actions. */
void terminal_modes_unwatch(void);

/* Changes the modes if stdin is a terminal and this process is in its foreground. */
void terminal_modes_change(void);
void terminal_modes_restore(void);
/* The shell has set its own modes, as after SIGCONT: the next change is one. */
void terminal_modes_forget(void);
/* Returns true if the terminal has the changed modes. */
bool terminal_modes_changed(void);

/* Returns true if this process is in the foreground of the terminal of stdin. One in the background
 * would be stopped if it read or changed the terminal. */
bool terminal_modes_in_foreground(void);

/* Reads the keys that were pressed, without waiting. Changes the modes first, if this process is in
 * the foreground again. Returns their number; 0 or negative: none. */
ssize_t terminal_modes_read(char *keys, size_t size);

#endif
