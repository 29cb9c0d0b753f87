/* report_markdown - a report as Markdown with tables, for a pull request or an issue. Pure. */
#pragma once

#include "common/strbuf.h"
#include "launcher/report/report_document.h"

void report_markdown(struct strbuf *out, const struct report_document *d);
