/* report_file - the file of a report, whose ending says its form: .html, .htm or .md. */
#pragma once

#include "common/err.h"
#include "launcher/report/report_document.h"
#include "launcher/report/report_html.h"

enum report_form { REPORT_FORM_HTML, REPORT_FORM_MARKDOWN };

/* Reads the form from the name of the file.
 *   -EINVAL  another ending */
int report_file_form(enum report_form *out, const char *path, struct err *e);

/* Writes a document in the form of the file's name, and replaces the file. `html`: what an HTML
 * file has besides, without a nonce; NULL: nothing. `bytes` (may be NULL) is set to the size. A
 * failure leaves the old file and nothing else. -EINVAL  as report_file_form() -EIO     it cannot
 * be written, or the system has no random numbers; the message says why */
int report_file_write(size_t *bytes, const char *path, const struct report_document *d,
                      const struct report_html *html, struct err *e);
