/* report_file - the file of a report, whose ending says its form: .html, .htm or .md. */
#pragma once

#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/report/report_document.h"

enum report_form { REPORT_FORM_HTML, REPORT_FORM_MARKDOWN };

/* Reads the form from the name of the file.
 *   -EINVAL  another ending */
int report_file_form(enum report_form *out, const char *path, struct err *e);

/* Fills `nonce` with random letters for struct report_html.
 *   -EIO  the system has no random numbers */
enum { REPORT_FILE_NONCE_BYTES = 33 };
int report_file_nonce(char nonce[REPORT_FILE_NONCE_BYTES], struct err *e);

/* Replaces the file. A failure leaves the old one and nothing else.
 *   -EIO  it cannot be written; the message has the reason */
int report_file_write(const char *path, const struct strbuf *content, struct err *e);

/* Writes a document without scripts in the form of the file's name. Errors as above. */
int report_file_document(const char *path, const struct report_document *d, struct err *e);
