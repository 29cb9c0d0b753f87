/* log - log messages on stderr, one line per message: program, level, text. stdout is only for
 * results. */
#pragma once

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Sets the program's name ("drover run") and reads the level from DROVER_LOG (error, warn, info,
 * debug; default: warn). `program` is borrowed until the process exits. */
void log_open(const char *program);
void log_set_level(enum log_level level);
/* Returns true if messages of this level are written. */
bool log_shows(enum log_level level);
/* Returns the name that log_open() has set, or "drover". */
const char *log_program(void);

/* Passes each line, with its newline, to `sink` instead of stderr: a program that repaints a part
 * of the terminal prints lines above it. NULL: stderr again. */
void log_set_sink(void (*sink)(void *arg, const char *line), void *arg);

/* Returns true if stderr is a terminal that can rewrite a line, and has no sink. */
bool log_has_status(void);
/* Writes a text below the messages, after it has removed the one before. The next message removes
 * it, and so does NULL. */
void log_status(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Writes a message as one line, with a single write(2). A line of more than 2,000 bytes is cut and
 * ends in "...". Control characters become spaces. Keeps errno. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
