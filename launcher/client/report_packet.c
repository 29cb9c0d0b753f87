#include "launcher/client/report_packet.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

/* Appends the name as a string of JSON. `of` is what has this name: "metric". */
static int append_name(struct strbuf *out, const char *of, const char *name, struct err *e)
{
    if (!name || !*name)
        return err_set(e, -EINVAL, "a %s has no name", of);
    strbuf_putc(out, '"');
    for (const char *s = name; *s;) {
        size_t len = utf8_length(s);
        if (len == 0)
            return err_set(e, -EINVAL, "the name of a %s is not UTF-8", of);
        if (*s == '"' || *s == '\\')
            strbuf_printf(out, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            strbuf_printf(out, "\\u%04x", *s);
        else
            strbuf_add(out, s, len);
        s += len;
    }
    strbuf_putc(out, '"');
    return 0;
}

/* Appends a number with a point, also in a locale that would write 0,41. The decimal point of a
 * locale may have several bytes. */
static void append_number(struct strbuf *out, double value)
{
    char text[48];
    snprintf(text, sizeof text, "%.17g", value);
    size_t whole = strspn(text, "-0123456789"), point = strcspn(text + whole, "0123456789e");
    strbuf_add(out, text, whole);
    strbuf_puts(out, point > 0 ? "." : "");
    strbuf_puts(out, text + whole + point);
}

static void append_value(struct strbuf *out, double value)
{
    if (isnan(value))
        strbuf_puts(out, "\"nan\"");
    else if (isinf(value))
        strbuf_puts(out, value > 0 ? "\"inf\"" : "\"-inf\"");
    else
        append_number(out, value);
}

static int append_metric(struct strbuf *out, const struct drover_metric *m, struct err *e)
{
    if (m->name && strcmp(m->name, "step") == 0)
        return err_set(e, -EINVAL, "a metric cannot be named 'step'");
    strbuf_putc(out, ',');
    int rc = append_name(out, "metric", m->name, e);
    strbuf_putc(out, ':');
    append_value(out, m->value);
    return rc;
}

int report_packet_encode(struct strbuf *out, int64_t step, const struct drover_metric *m, size_t n,
                         struct err *e)
{
    int rc = 0;
    strbuf_printf(out, "{\"step\":%" PRId64, step);
    for (size_t i = 0; i < n && rc == 0 && out->len <= REPORT_PACKET_BYTES_MAX; i++)
        rc = append_metric(out, &m[i], e);
    strbuf_putc(out, '}');
    if (rc == 0 && out->len > REPORT_PACKET_BYTES_MAX)
        return err_set(e, -EMSGSIZE, "a report is longer than %d bytes", REPORT_PACKET_BYTES_MAX);
    return rc;
}

int report_packet_progress(struct strbuf *out, const char *kind, const char *section,
                           double seconds, struct err *e)
{
    int rc = 0;
    if (section && strlen(section) > REPORT_PACKET_SECTION_MAX)
        return err_set(e, -EINVAL, "the name of a section is longer than %d bytes",
                       REPORT_PACKET_SECTION_MAX);
    strbuf_printf(out, "{\"kind\":\"%s\"", kind);
    if (section) {
        strbuf_puts(out, ",\"section\":");
        rc = append_name(out, "section", section, e);
    }
    if (seconds >= 0) {
        strbuf_puts(out, ",\"s\":");
        append_value(out, seconds);
    }
    strbuf_putc(out, '}');
    return rc;
}

bool report_packet_is_stop(const char *packet, size_t len)
{
    static const char *const words[] = {"\"stop\"", ":", "true"};
    const char *at = memmem(packet, len, words[0], strlen(words[0]));
    const char *end = packet + len;
    for (size_t i = 0; at && i < sizeof words / sizeof *words; i++) {
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
            at++;
        size_t word = strlen(words[i]);
        if ((size_t)(end - at) < word || memcmp(at, words[i], word) != 0)
            return false;
        at += word;
    }
    return at != NULL;
}
