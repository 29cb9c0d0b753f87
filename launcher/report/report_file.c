#include "launcher/report/report_file.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/entropy.h"
#include "common/file.h"
#include "launcher/report/report_html.h"
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

int report_file_nonce(char nonce[REPORT_FILE_NONCE_BYTES], struct err *e)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bytes[REPORT_FILE_NONCE_BYTES - 1];
    int rc = entropy_fill(bytes, sizeof bytes);
    if (rc < 0)
        return err_set(e, rc, "no random numbers for the report: %s", strerror(-rc));
    for (size_t i = 0; i < sizeof bytes; i++)
        nonce[i] = hex[bytes[i] & 15];
    nonce[sizeof bytes] = 0;
    return 0;
}

int report_file_write(const char *path, const struct strbuf *content, struct err *e)
{
    int rc = file_replace_durably(path, content->data, content->len, 0);
    return rc < 0 ? err_set(e, -EIO, "%s: %s", path, strerror(-rc)) : 0;
}

int report_file_document(const char *path, const struct report_document *d, struct err *e)
{
    enum report_form form;
    char nonce[REPORT_FILE_NONCE_BYTES];
    AUTO(strbuf) struct strbuf b = {0};
    int rc = report_file_form(&form, path, e);
    if (rc < 0)
        return rc;
    if (form == REPORT_FORM_MARKDOWN)
        report_markdown(&b, d);
    else if ((rc = report_file_nonce(nonce, e)) == 0)
        report_html(&b, d, &(struct report_html){.nonce = nonce});
    return rc < 0 ? rc : report_file_write(path, &b, e);
}
