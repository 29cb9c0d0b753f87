/* test_import_table - CSV as RFC 4180 and spreadsheets write it. */
#include "hpo/exchange/import_table.h"

#include <errno.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

/* All rows as "a|b;c|d;"; the message after a failure. */
static char *read_all(const char *csv)
{
    AUTO(free) char *text = xstrdup(csv);
    AUTO(strbuf) struct strbuf b = {0};
    struct import_table t = import_table_begin(text);
    struct err e = {0};
    int rc;
    while ((rc = import_table_next(&t, &e)) > 0) {
        for (size_t i = 0; i < t.cells; i++)
            strbuf_printf(&b, "%s%s", i ? "|" : "", t.row[i]);
        strbuf_putc(&b, ';');
    }
    import_table_end(&t);
    if (rc < 0) {
        CHECK_INT(rc, -EINVAL);
        return xstrdup(e.text);
    }
    return strbuf_take(&b);
}

static void check(const char *csv, const char *want)
{
    AUTO(free) char *found = read_all(csv);
    CHECK_STR(found, want);
}

TEST(rows_and_cells)
{
    check("", "");
    check("a,b\nc,d\n", "a|b;c|d;");
    check("a,b\r\nc,d", "a|b;c|d;");
    check("a\rb\r", "a;b;");
    check(",\n,x,\n", "|;|x|;");
    check("\xef\xbb\xbfid,lr\n1,2\n", "id|lr;1|2;");
    check("a\n\n\nb\n", "a;b;");
}

TEST(quoted_cells)
{
    check("\"a,b\",c\n", "a,b|c;");
    check("\"say \"\"hi\"\"\"\n", "say \"hi\";");
    check("\"\",x\n", "|x;");
    check("\"two\nlines\",1\n3,4\n", "two\nlines|1;3|4;");
    check("a\"b,c\n", "a\"b|c;");
}

TEST(a_wrong_row_is_named_by_its_line)
{
    check("a,b\n1,\"x\n", "line 2: a quoted cell does not end");
    check("a\n\"two\nlines\"x\n", "line 3: text after a quoted cell");
}
