/* test_report_document - a document as HTML and as Markdown. */
#include "launcher/report/report_document.h"

#include "launcher/report/report_html.h"
#include "launcher/report/report_markdown.h"
#include "tests/unit/test.h"

static struct report_document *sample(struct report_anonymous *a)
{
    struct report_document *d = report_document_new("</title><script>alert(1)</script>", a);
    report_document_heading(d, "Result <b>");
    report_document_text(d, "%d trials on %s", 3, "c01");
    report_document_code(d, "python3 f.py '</pre><script>' ```");
    report_document_table(d);
    report_document_head(d, "a|b", false);
    report_document_head(d, "value", true);
    report_document_fact(d, "x<script>", "%.1f", 0.5);
    report_document_cell(d, "second");
    report_document_number(d, 0.0 / 0.0);
    report_document_plots(d);
    report_document_figure(d, "A <picture>", xstrdup("<svg></svg>"));
    return d;
}

TEST(html_has_all_texts_and_no_markup_from_them)
{
    AUTO(report_document) struct report_document *d = sample(NULL);
    AUTO(strbuf) struct strbuf b = {0};
    report_html(&b, d, &(struct report_html){.nonce = "abc"});
    const char *html = strbuf_str(&b);
    CHECK(!strstr(html, "<script") && !strstr(html, "Plots"));
    CHECK(strstr(html, "<h2>Result &lt;b&gt;</h2>"));
    CHECK(strstr(html, "<td>x&lt;script&gt;</td><td class=num>0.5</td></tr>"));
    CHECK(strstr(html, "<td>second</td><td class=num>–</td></tr>"));
    CHECK(strstr(html, "<figcaption>A &lt;picture&gt;</figcaption><svg></svg></figure>"));
}

TEST(html_may_load_nothing_and_runs_only_its_own_scripts)
{
    AUTO(report_document) struct report_document *d = sample(NULL);
    AUTO(strbuf) struct strbuf b = {0}, scripts = {0};
    strbuf_puts(&scripts, "start()");
    report_html(&b, d, &(struct report_html){.nonce = "abc", .scripts = &scripts});
    const char *html = strbuf_str(&b);
    CHECK(strstr(html, "default-src 'none'; style-src 'nonce-abc'; script-src 'nonce-abc'"));
    CHECK(strstr(html, "<script nonce=abc type=module>start()</script>"));
    CHECK(strstr(html, "<h2>Plots</h2>\n<div id=pages><p>The plots need a browser"));
    CHECK(strstr(html, "<style nonce=abc>"));
}

TEST(markdown_has_tables_and_fences_that_the_text_cannot_end)
{
    AUTO(report_document) struct report_document *d = sample(NULL);
    AUTO(strbuf) struct strbuf b = {0};
    report_markdown(&b, d);
    CHECK_STR(strbuf_str(&b), "# \\</title\\>\\<script\\>alert(1)\\</script\\>\n"
                              "\n## Result \\<b\\>\n"
                              "\n3 trials on c01\n"
                              "\n````text\npython3 f.py '</pre><script>' ```\n````\n"
                              "\n| a\\|b | value |\n| --- | ---: |\n"
                              "| x\\<script\\> | 0.5 |\n| second | – |\n");
}

TEST(texts_lose_their_names_when_they_are_added)
{
    AUTO(report_anonymous) struct report_anonymous *a = report_anonymous_new();
    report_anonymous_host(a, "c01");
    AUTO(report_document) struct report_document *d = sample(a);
    CHECK_STR(d->blocks[1].text, "3 trials on host-1");
}
