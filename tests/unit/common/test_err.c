#include "common/err.h"

#include <errno.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

TEST(context_is_put_before_the_cause_and_the_code_stays)
{
    struct err e = {0};
    CHECK_INT(err_set(&e, -ENOENT, "no file '%s'", "x"), -ENOENT);
    CHECK_INT(err_hint(&e, "touch %s", "x"), -ENOENT);
    CHECK_INT(err_wrap(&e, "line %d", 3), -ENOENT);
    CHECK_STR(e.text, "line 3: no file 'x'");
    CHECK_STR(e.hint, "touch x");
}

TEST(a_text_that_does_not_fit_is_cut)
{
    struct err e = {0};
    struct strbuf b = {0};
    for (int i = 0; i < 2000; i++)
        strbuf_putc(&b, 'x');
    err_set(&e, -EINVAL, "%s", strbuf_str(&b));
    err_wrap(&e, "%s", strbuf_str(&b));
    CHECK_INT(strlen(e.text), sizeof e.text - 1);
    strbuf_free(&b);
}

TEST(a_long_context_leaves_room_for_the_cause)
{
    struct err e = {0};
    char context[2000] = "";
    memset(context, 'x', sizeof context - 1);
    err_set(&e, -EINVAL, "no such host");
    err_wrap(&e, "%s", context);
    CHECK_HAS(e.text, "xxx...: no such host");
    err_wrap(&e, "--host");
    CHECK_HAS(e.text, "--host: xxx");
    CHECK_HAS(e.text, "xxx...: no such host");
    err_wrap(&e, "%s", context); /* two long ones */
    CHECK_HAS(e.text, "xxx...: --host: xxx");
    context[125] = '\0';
    CHECK_HAS(e.text, context);
}

TEST(no_error_object_is_fine)
{
    CHECK_INT(err_set(NULL, -EIO, "x"), -EIO);
}
