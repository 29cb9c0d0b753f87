/* log - one line on stderr for what happened: level, who, text. stdout is for results. */
#ifndef DROVER_LOG_H
#define DROVER_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Names the program that speaks ("drover run") and reads DROVER_LOG (error, warn, info, debug;
 * default: warn). `who` is borrowed for the life of the process. */
void log_open(const char *who);
void log_set_level(enum log_level level);
/* Whether lines of this level are written. */
bool log_shows(enum log_level level);
const char *log_program(void);

/* One whole line by one write(2), cut at 2,000 bytes ("..." ends it then). Control characters
 * become spaces. Keeps errno. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
