/* pattern_check - refuses regular expressions that take too much time, memory or stack. */
#ifndef DROVER_PATTERN_CHECK_H
#define DROVER_PATTERN_CHECK_H

/* Returns the reason why regcomp() or regexec() of glibc could take too much time, memory or stack
 * with this POSIX extended regular expression, or NULL if they cannot. The text is static. Does not
 * find other errors, which regcomp() finds. */
const char *pattern_check(const char *pattern);

#endif
