/* test_report_file - the form by the file's name, and a failure that leaves the old file. */
#include "launcher/report/report_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/file.h"
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

static int write_titled(const char *path, const char *title, struct err *e)
{
    AUTO(report_document) struct report_document *d = report_document_new(title, NULL);
    return report_file_write(NULL, path, d, NULL, e);
}

TEST(a_file_is_replaced_and_a_failure_leaves_nothing)
{
    char dir[] = "/tmp/drover-report-XXXXXX";
    struct err e = {0};
    CHECK(mkdtemp(dir));
    AUTO(free) char *path = xasprintf("%s/r.md", dir);
    AUTO(free) char *missing = xasprintf("%s/none/r.md", dir);
    CHECK_INT(write_titled(path, "one", &e), 0);
    CHECK_INT(write_titled(path, "one two", &e), 0);
    CHECK_INT(write_titled(missing, "one two", &e), -EIO);
    struct stat st;
    CHECK(stat(path, &st) == 0 && st.st_size == strlen("# one two\n"));
    CHECK_INT(files_in(dir), 1);
    unlink(path);
    CHECK_INT(mkdir(path, 0700), 0); /* a directory has the name: rename() fails */
    CHECK_INT(write_titled(path, "one two", &e), -EIO);
    CHECK_INT(files_in(dir), 1);
    rmdir(path);
    rmdir(dir);
}

/* Returns the nonce of a new file. */
static char *nonce_of(const char *path)
{
    struct err e = {0};
    CHECK_INT(write_titled(path, "one", &e), 0);
    AUTO(free) char *text = file_text(path);
    unlink(path);
    const char *at = strstr(text, "<style nonce=") + strlen("<style nonce=");
    return xstrndup(at, strcspn(at, ">"));
}

TEST(nonces_differ)
{
    char dir[] = "/tmp/drover-report-XXXXXX";
    CHECK(mkdtemp(dir));
    AUTO(free) char *path = xasprintf("%s/r.html", dir);
    AUTO(free) char *a = nonce_of(path), *b = nonce_of(path);
    CHECK_INT(strlen(a), 32);
    CHECK_INT(strspn(a, "0123456789abcdef"), 32);
    CHECK(strcmp(a, b) != 0);
    rmdir(dir);
}
