/* report_text - text from users, logs and ranks in a report: it may contain anything, and must be
 * nothing but text there. Pure. */
#pragma once

#include "common/strbuf.h"

/* Appends the text as valid UTF-8. '?' replaces bytes that are not UTF-8, control characters except
 * newline and tab, and characters that change the direction of writing. */
void report_text_clean(struct strbuf *out, const char *text);

/* Appends a clean text as the content of an HTML or SVG element, or of a quoted attribute. */
void report_text_html(struct strbuf *out, const char *text);
/* Appends a clean text for a paragraph or a cell of Markdown. Characters with a meaning there are
 * escaped; a newline becomes a space. */
void report_text_markdown(struct strbuf *out, const char *text);

/* Appends an inline script. "</script" and "<!--" would end it or hide its end: '\' separates them,
 * which changes nothing in a string or a regular expression. */
void report_text_script(struct strbuf *out, const char *script, size_t len);
