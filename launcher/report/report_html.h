/* report_html - a report as one HTML file that loads nothing: not from the network, and not from
 * other files. Pure. */
#pragma once

#include "common/strbuf.h"
#include "launcher/report/report_document.h"

struct report_html {
    /* A secret of this file: only styles and scripts with it apply, so that a text that became
     * markup in spite of everything could not run. Letters and digits (report_file_write()). */
    const char *nonce;
    const char *style;            /* added to the report's own; NULL: none */
    const struct strbuf *data;    /* data blocks for the scripts, as markup; NULL: none */
    const struct strbuf *scripts; /* scripts (report_text_script()), one element; NULL: none.
                                   * They draw the plots into the element `pages`. */
};

void report_html(struct strbuf *out, const struct report_document *d, const struct report_html *h);
