#include "launcher/client/report_packet.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

static int append_name(struct strbuf *out, const char *name, struct err *e)
{
    if (!name || !*name)
        return err_set(e, -EINVAL, "a metric has no name");
    if (strcmp(name, "step") == 0)
        return err_set(e, -EINVAL, "a metric cannot be named 'step'");
    strbuf_putc(out, '"');
    for (const char *s = name; *s;) {
        size_t len = utf8_length(s);
        if (len == 0)
            return err_set(e, -EINVAL, "the name of a metric is not UTF-8");
        if (*s == '"' || *s == '\\')
            strbuf_printf(out, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            strbuf_printf(out, "\\u%04x", *s);
        else
            strbuf_add(out, s, len);
        s += len;
    }
    strbuf_puts(out, "\":");
    return 0;
}

static void append_value(struct strbuf *out, double value)
{
    if (isnan(value))
        strbuf_puts(out, "\"nan\"");
    else if (isinf(value))
        strbuf_puts(out, value > 0 ? "\"inf\"" : "\"-inf\"");
    else
        strbuf_printf(out, "%.17g", value);
}

int report_packet_encode(struct strbuf *out, int64_t step, const struct drover_metric *m, size_t n,
                         struct err *e)
{
    /* The program may have chosen a locale that would write 0,41. */
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c)
        return err_set(e, -errno, "locale C: %s", strerror(errno));
    locale_t before = uselocale(c);
    strbuf_printf(out, "{\"step\":%" PRId64, step);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0 && out->len <= REPORT_PACKET_BYTES_MAX; i++) {
        strbuf_putc(out, ',');
        rc = append_name(out, m[i].name, e);
        append_value(out, m[i].value);
    }
    strbuf_putc(out, '}');
    uselocale(before);
    freelocale(c);
    if (rc == 0 && out->len > REPORT_PACKET_BYTES_MAX)
        return err_set(e, -EMSGSIZE, "a report is longer than %d bytes", REPORT_PACKET_BYTES_MAX);
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
