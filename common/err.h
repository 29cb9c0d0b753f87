/* err - what went wrong: a code, a text for people, and the way out.
 *
 * A function that can fail returns 0 (or a count) or a negative errno, and describes the failure
 * in a struct err that its caller owns. Only commands and event handlers print it, once. */
#ifndef DROVER_ERR_H
#define DROVER_ERR_H

struct err {
    int code;       /* negative errno; 0 when nothing went wrong */
    char text[512]; /* the thing and the cause, without a final newline */
    char hint[256]; /* the way out; empty when there is none to give */
};

/* Describes a failure and drops any earlier hint. Returns `code`, so that `return err_set(...)`
 * is one statement. `e` may be NULL. A text that does not fit is cut. */
int err_set(struct err *e, int code, const char *fmt, ...)
    __attribute__((cold, format(printf, 3, 4)));

/* Puts "context: " before the text. Returns e->code (-EIO where e is NULL). */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((cold, format(printf, 2, 3)));

/* Says the way out. Returns e->code (-EIO where e is NULL). */
int err_hint(struct err *e, const char *fmt, ...) __attribute__((cold, format(printf, 2, 3)));

/* Prints "who: text" and, where there is a hint, "  try: hint" to stderr. */
void err_print(const struct err *e, const char *who);

#endif
