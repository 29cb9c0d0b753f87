#include "launcher/report/report_file.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/entropy.h"
#include "common/file.h"
#include "launcher/report/report_markdown.h"

int report_file_form(enum report_form *out, const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    if (dot && (strcasecmp(dot, ".html") == 0 || strcasecmp(dot, ".htm") == 0)) {
        *out = REPORT_FORM_HTML;
        return 0;
    }
    if (dot && strcasecmp(dot, ".md") == 0) {
        *out = REPORT_FORM_MARKDOWN;
        return 0;
    }
    err_set(e, -EINVAL, "'%s': the name of a report ends with .html or .md", path);
    return err_hint(e, "%s.html", path);
}

static int make_nonce(char *nonce, size_t bytes, struct err *e)
{
    int rc = entropy_fill(nonce, bytes);
    if (rc < 0)
        return err_set(e, rc, "no random numbers for the report: %s", strerror(-rc));
    for (size_t i = 0; i < bytes; i++)
        nonce[i] = "0123456789abcdef"[nonce[i] & 15];
    return 0;
}

int report_file_write(size_t *bytes, const char *path, const struct report_document *d,
                      const struct report_html *html, struct err *e)
{
    enum report_form form = REPORT_FORM_HTML;
    char nonce[33] = "";
    struct report_html h = html ? *html : (struct report_html){0};
    AUTO(strbuf) struct strbuf b = {0};
    h.nonce = nonce;
    int rc = report_file_form(&form, path, e);
    if (rc < 0)
        return rc;
    if (form == REPORT_FORM_MARKDOWN)
        report_markdown(&b, d);
    else if ((rc = make_nonce(nonce, sizeof nonce - 1, e)) == 0)
        report_html(&b, d, &h);
    if (rc < 0)
        return rc;
    if (bytes)
        *bytes = b.len;
    rc = file_replace_durably(path, b.data, b.len, 0);
    return rc < 0 ? err_set(e, -EIO, "%s: %s", path, strerror(-rc)) : 0;
}
