/* The kernel's log, from a recorded root. */
#include "launcher/doctor/core/kernel_log.h"

#include "common/strbuf.h"
#include "tests/unit/launcher/doctor/kit_check.h"

static void add(void *arg, double age_s, const char *text)
{
    strbuf_printf(arg, "%.1f %s\n", age_s, text);
}

TEST(each_message_has_its_age)
{
    char *root = kit_check_root();
    AUTO(strbuf) struct strbuf b = {0};
    put(root, "proc/uptime", "100.00 3.00\n");
    put(root, "dev/kmsg",
        "6,1,500000,-;first; with a semicolon\n SUBSYSTEM=pci\n DEVICE=+pci:1\n"
        "not a record\n3,2,99000000,c;second\n");
    CHECK_INT(kernel_log_read(add, &b), 0);
    CHECK_STR(strbuf_str(&b), "99.5 first; with a semicolon\n1.0 second\n");
    remove_root(root);
}

TEST(a_line_that_is_too_long_is_dropped_and_the_next_ones_are_read)
{
    char *root = kit_check_root();
    AUTO(strbuf) struct strbuf b = {0}, text = {0};
    put(root, "proc/uptime", "1.00 1.00\n");
    strbuf_puts(&text, "6,1,0,-;");
    for (int i = 0; i < 9000; i++)
        strbuf_putc(&text, 'x');
    strbuf_puts(&text, "\n6,2,0,-;next\n");
    put(root, "dev/kmsg", strbuf_str(&text));
    CHECK_INT(kernel_log_read(add, &b), 0);
    CHECK_STR(strbuf_str(&b), "1.0 next\n");
    remove_root(root);
}

TEST(a_log_that_cannot_be_read_is_an_error)
{
    char *root = kit_check_root();
    AUTO(strbuf) struct strbuf b = {0};
    CHECK_INT(kernel_log_read(add, &b), -ENOENT);
    CHECK_INT((int)b.len, 0);
    remove_root(root);
}
