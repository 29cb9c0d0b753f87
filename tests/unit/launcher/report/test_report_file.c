/* test_report_file - the form by the file's name, and a failure that leaves the old file. */
#include "launcher/report/report_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tests/unit/test.h"

TEST(the_name_of_the_file_says_the_form)
{
    enum report_form form;
    struct err e = {0};
    CHECK_INT(report_file_form(&form, "a/b.HTML", &e), 0);
    CHECK_INT(form, REPORT_FORM_HTML);
    CHECK_INT(report_file_form(&form, "b.md", &e), 0);
    CHECK_INT(form, REPORT_FORM_MARKDOWN);
    CHECK_INT(report_file_form(&form, "a.html/report", &e), -EINVAL);
    CHECK_INT(report_file_form(&form, "b.pdf", &e), -EINVAL);
    CHECK_STR(e.text, "'b.pdf': the name of a report ends with .html or .md");
}

static size_t files_in(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *f; (f = readdir(d));)
        n += f->d_name[0] != '.';
    closedir(d);
    return n;
}

TEST(a_file_is_replaced_and_a_failure_leaves_nothing)
{
    char dir[] = "/tmp/drover-report-XXXXXX";
    struct err e = {0};
    struct strbuf b = {0};
    CHECK(mkdtemp(dir));
    AUTO(free) char *path = xasprintf("%s/r.html", dir);
    AUTO(free) char *missing = xasprintf("%s/none/r.html", dir);
    strbuf_puts(&b, "one");
    CHECK_INT(report_file_write(path, &b, &e), 0);
    strbuf_puts(&b, " two");
    CHECK_INT(report_file_write(path, &b, &e), 0);
    CHECK_INT(report_file_write(missing, &b, &e), -EIO);
    struct stat st;
    CHECK(stat(path, &st) == 0 && st.st_size == 7);
    CHECK_INT(files_in(dir), 1);
    unlink(path);
    CHECK_INT(mkdir(path, 0700), 0); /* a directory has the name: rename() fails */
    CHECK_INT(report_file_write(path, &b, &e), -EIO);
    CHECK_INT(files_in(dir), 1);
    rmdir(path);
    rmdir(dir);
    strbuf_free(&b);
}

TEST(nonces_differ)
{
    char a[REPORT_FILE_NONCE_BYTES], b[REPORT_FILE_NONCE_BYTES];
    struct err e = {0};
    CHECK_INT(report_file_nonce(a, &e), 0);
    CHECK_INT(report_file_nonce(b, &e), 0);
    CHECK_INT(strlen(a), sizeof a - 1);
    CHECK(strcmp(a, b) != 0);
}
