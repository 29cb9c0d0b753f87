/* sweep_report_script - the dashboard's modules as one script: a page that is opened from a file
 * cannot import modules. Pure. */
#pragma once

#include "common/strbuf.h"
#include "serve/data/serve_files.h"

/* Appends a module as `const MODULE_name = (() => { … return {its exports} })()`. Its imports and
 * exports must each begin a line: `import { a } from './x.js'`, `import * as x from './x.js'`,
 * `export const`, `export function`, `export async function`, `export class`. */
void sweep_report_script_module(struct strbuf *out, const char *name, const char *text, size_t len);

/* Appends d3 and the modules of the report.
 *   -ENOENT  a file is missing */
int sweep_report_script(struct strbuf *out, const struct serve_files *files, struct err *e);
