/* test_sweep_report_script - a module of the page as a part of one script. */
#include "serve/report/sweep_report_script.h"

#include "common/mem.h"
#include "tests/unit/test.h"

TEST(imports_and_exports_become_constants)
{
    static const char module[] = "// a comment\n"
                                 "import { a, b } from './format.js'\n"
                                 "import * as plot from './plot.js'\n"
                                 "export const c = a => b(a)\n"
                                 "export class D { x = 1 }\n"
                                 "export async function f(x) { return x }\n"
                                 "function g() {}\n";
    AUTO(strbuf) struct strbuf b = {0};
    sweep_report_script_module(&b, "m", module, sizeof module - 1);
    CHECK_STR(strbuf_str(&b), "const MODULE_m = (() => {\n"
                              "// a comment\n"
                              "const { a, b } = MODULE_format\n"
                              "const plot = MODULE_plot\n"
                              "const c = a => b(a)\n"
                              "class D { x = 1 }\n"
                              "async function f(x) { return x }\n"
                              "function g() {}\n\n"
                              "return { c, D, f }\n})()\n");
}
