/* err - error description: a code, a text for the user, and a hint.
 *
 * A function that can fail returns 0 (or a count) or a negative errno, and describes the failure
 * in a struct err that its caller owns. Only commands and event handlers print it, once.
 *
 * A printed message has the form
 *
 *     PROGRAM: OBJECT: CAUSE           drover torchrun: --nnodes 4:2: minimum exceeds maximum
 *       try: HINT                        try: --nnodes 2:4
 *
 * in lower case and without a final full stop. The function that finds the failure sets OBJECT:
 * CAUSE; callers that know more context add it in front with err_wrap(); the command adds PROGRAM.
 * The hint is a command, an option or an imperative; every command and option in it exists. */
#pragma once

struct err {
    int code;       /* negative errno; 0: no failure */
    char text[512]; /* "OBJECT: CAUSE", without a final newline */
    char hint[512]; /* printed after "try: "; empty: no hint */
};

/* Sets code and text and clears the hint. Returns `code`, so that a function can fail with `return
 * err_set(...)`. `e` may be NULL. A text that is too long is cut. */
int err_set(struct err *e, int code, const char *fmt, ...)
    __attribute__((cold, format(printf, 3, 4)));

/* Puts "context: " in front of the text. A context that leaves no room for the text is cut. Returns
 * e->code (-EIO if e is NULL). */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((cold, format(printf, 2, 3)));

/* Sets the hint. Returns e->code (-EIO if e is NULL). */
int err_hint(struct err *e, const char *fmt, ...) __attribute__((cold, format(printf, 2, 3)));

/* Prints "program: text" and, if there is a hint, "  try: hint" to stderr. */
void err_print(const struct err *e, const char *program);
