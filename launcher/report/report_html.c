#include "launcher/report/report_html.h"

#include <string.h>

#include "launcher/report/report_text.h"

static const char style[] =
    ":root{color-scheme:light;--bg:#fff;--fg:#1d2733;--mute:#566270;--line:#d8dee5;--rest:#aab5c1;"
    "--soft:#f3f5f8;--a:#0b5cad;--b:#b34700;--card:#fff}"
    "*{box-sizing:border-box}[hidden]{display:none!important}"
    "body{margin:0 auto;max-width:1100px;padding:0 16px 40px;font:14px/1.5 system-ui,sans-serif;"
    "background:var(--bg);color:var(--fg)}"
    "h1{font-size:22px}main>h2{font-size:17px;margin:26px 0 8px}"
    "pre{background:var(--soft);padding:8px 10px;border-radius:6px;overflow:auto;"
    "font:12px/1.45 ui-monospace,monospace}pre.wrap{white-space:pre-wrap;overflow-wrap:anywhere}"
    ".said{overflow:auto;max-width:100%}.said table{border-collapse:collapse;"
    "font-variant-numeric:tabular-nums;margin:6px 0}"
    ".said td,.said th{text-align:left;padding:3px 14px 3px 4px;vertical-align:top;"
    "border-bottom:1px solid var(--line);white-space:normal;max-width:none;min-width:60px}"
    ".said th{color:var(--mute);font-size:12px}"
    ".said .num{text-align:right}.said td.num{white-space:nowrap}"
    "figure{margin:10px 0 18px}figcaption{font-weight:600;margin-bottom:2px}"
    "figure svg{width:100%;max-width:860px;height:auto;font:11px system-ui,sans-serif}"
    "figure text{fill:var(--mute)}.rule{stroke:var(--line);fill:none}"
    ".tick{stroke:var(--mute);fill:none}"
    ".series-0,.series-1{fill:none;stroke:var(--b);stroke-width:2}.series-1{stroke:var(--a)}"
    "@media print{#pages nav{display:none}}";

static void add_table(struct strbuf *out, const struct report_block *b)
{
    strbuf_puts(out, "<div class=said><table><thead><tr>");
    for (size_t k = 0; k < b->columns; k++) {
        strbuf_printf(out, "<th scope=col%s>", b->numbers[k] ? " class=num" : "");
        report_text_html(out, b->heads[k]);
        strbuf_puts(out, "</th>");
    }
    strbuf_puts(out, "</tr></thead><tbody>");
    for (size_t i = 0; i < b->cell_count; i++) {
        size_t k = i % b->columns;
        strbuf_puts(out, k == 0 ? "<tr>" : "");
        strbuf_printf(out, "<td%s>", b->numbers[k] ? " class=num" : "");
        report_text_html(out, b->cells[i]);
        strbuf_puts(out, k + 1 == b->columns ? "</td></tr>\n" : "</td>");
    }
    strbuf_puts(out, "</tbody></table></div>\n");
}

static void add_element(struct strbuf *out, const char *from, const char *text, const char *to)
{
    strbuf_puts(out, from);
    report_text_html(out, text);
    strbuf_puts(out, to);
}

static void add_block(struct strbuf *out, const struct report_block *b, bool scripts)
{
    static const char *const marks[][2] = {
        [REPORT_HEADING] = {"<h2>", "</h2>\n"},
        [REPORT_TEXT] = {"<p>", "</p>\n"},
        [REPORT_CODE] = {"<pre>", "</pre>\n"},
        [REPORT_FIGURE] = {"<figure><figcaption>", "</figcaption>"},
    };
    bool wraps = b->kind == REPORT_CODE && !strchr(b->text, '\n');
    if (b->kind == REPORT_TABLE)
        add_table(out, b);
    else if (b->kind != REPORT_PLOTS)
        add_element(out, wraps ? "<pre class=wrap>" : marks[b->kind][0], b->text,
                    marks[b->kind][1]);
    else if (scripts) /* they replace the sentence */
        strbuf_puts(out, "<h2>Plots</h2>\n<div id=pages><p>The plots need a browser that runs "
                         "scripts.</p></div>\n");
    if (b->kind == REPORT_FIGURE)
        strbuf_printf(out, "%s</figure>\n", b->svg);
}

void report_html(struct strbuf *out, const struct report_document *d, const struct report_html *h)
{
    strbuf_printf(out,
                  "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
                  "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; "
                  "style-src 'nonce-%s'; script-src 'nonce-%s'; img-src data:; base-uri 'none'; "
                  "form-action 'none'\">\n"
                  "<meta name=referrer content=no-referrer>\n"
                  "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n",
                  h->nonce, h->nonce);
    add_element(out, "<title>", d->title, "</title>\n");
    strbuf_printf(out, "<style nonce=%s>%s%s</style>\n</head>\n<body>\n<main>\n", h->nonce,
                  h->style ? h->style : "", style);
    add_element(out, "<h1>", d->title, "</h1>\n");
    for (size_t i = 0; i < d->count; i++)
        add_block(out, &d->blocks[i], h->scripts != NULL);
    strbuf_puts(out, "</main>\n");
    if (h->data)
        strbuf_add(out, strbuf_str(h->data), h->data->len);
    if (h->scripts) {
        strbuf_printf(out, "<script nonce=%s type=module>", h->nonce);
        strbuf_add(out, strbuf_str(h->scripts), h->scripts->len);
        strbuf_puts(out, "</script>\n");
    }
    strbuf_puts(out, "</body>\n</html>\n");
}
