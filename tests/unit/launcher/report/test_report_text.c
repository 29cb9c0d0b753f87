/* test_report_text - texts from users stay texts: in HTML, in Markdown and next to scripts. */
#include "launcher/report/report_text.h"

#include "common/mem.h"

#include "tests/unit/test.h"

static void check(void (*add)(struct strbuf *, const char *), const char *text, const char *want)
{
    AUTO(strbuf) struct strbuf b = {0};
    add(&b, text);
    CHECK_STR(strbuf_str(&b), want);
}

TEST(control_characters_and_broken_utf8_become_question_marks)
{
    check(report_text_clean, "a\tb\nc", "a\tb\nc");
    check(report_text_clean, "\x1b[31m \x01 \x7f \xff \xc3", "?[31m ? ? ? ?");
    check(report_text_clean, "grün ±", "grün ±");
    check(report_text_clean, "\xc2\x85|", "?|"); /* U+0085 */
}

TEST(characters_that_change_the_direction_of_writing_are_replaced)
{
    check(report_text_clean,
          "a\xe2\x80\xae"
          "b\xe2\x81\xa6"
          "c\xe2\x80\xa6",
          "a?b?c\xe2\x80\xa6");
}

TEST(html_has_no_markup_of_the_text)
{
    check(report_text_html, "<script>\"a\" & 'b'</script>",
          "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;");
}

TEST(markdown_has_no_markup_of_the_text)
{
    check(report_text_markdown, "a|b\n[x](y) <b> `c` ![i](http://x)",
          "a\\|b \\[x\\](y) \\<b\\> \\`c\\` \\!\\[i\\](http://x)");
}

TEST(a_script_cannot_end_its_element)
{
    static const char script[] = "s = '</SCRIPT><!--</script>'";
    AUTO(strbuf) struct strbuf b = {0};
    report_text_script(&b, script, sizeof script - 1);
    CHECK_STR(strbuf_str(&b), "s = '<\\/SCRIPT><\\!--<\\/script>'");
}
