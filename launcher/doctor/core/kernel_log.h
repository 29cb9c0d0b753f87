/* kernel_log - the messages of the kernel's log (/dev/kmsg), with their age. */
#pragma once

/* `age_s` is the number of seconds since the message. `text` is one line, borrowed during the
 * call. */
typedef void kernel_log_fn(void *arg, double age_s, const char *text);

/* Calls `fn` for each message since the boot that the kernel still has, oldest first.
 *   -EPERM, -EACCES, -ENOENT, …  as open(): the log cannot be read */
int kernel_log_read(kernel_log_fn *fn, void *arg);
