#include "launcher/doctor/facts/xid.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

static const struct {
    int code;
    enum xid_class class;
    const char *meaning;
} codes[] = {
    {13, XID_PROGRAM, "exception in a program's kernel"},
    {31, XID_PROGRAM, "a program accessed an invalid address"},
    {43, XID_IGNORE, "the GPU stopped processing of a program"},
    {45, XID_LOOK, "a program was ended, often after another error"},
    {46, XID_RESET, "the GPU stopped processing"},
    {48, XID_LOOK, "uncorrectable memory error"},
    {62, XID_RESET, "the GPU's microcontroller halted"},
    {63, XID_IGNORE, "a row of memory was remapped"},
    {64, XID_RESET, "a row of memory could not be remapped"},
    {69, XID_PROGRAM, "exception in a program's graphics or compute class"},
    {74, XID_LOOK, "NVLink error"},
    {79, XID_RESTART, "the GPU has fallen off the bus"},
    {92, XID_IGNORE, "high rate of corrected memory errors"},
    {94, XID_PROGRAM, "contained memory error"},
    {95, XID_RESET, "uncontained memory error"},
    {119, XID_RESET, "the GPU's system processor (GSP) does not answer"},
    {120, XID_RESET, "error of the GPU's system processor (GSP)"},
    {140, XID_RESET, "unrecovered memory error"},
    {143, XID_RESET, "initialisation failed"},
    {145, XID_LOOK, "NVLink: error of the receiver"},
    {149, XID_LOOK, "NVLink: error of the link"},
    {154, XID_LOOK, "the recovery action of the GPU has changed"},
    {156, XID_RESET, "resource retirement"},
    {158, XID_RESET, "fatal timeout of the GPU"},
};

bool xid_parse(struct xid *out, const char *text)
{
    static const char start[] = "NVRM: Xid (";
    const char *at = strstr(text, start), *end;
    if (!at)
        return false;
    at += sizeof start - 1;
    if (strncmp(at, "PCI:", 4) == 0)
        at += 4;
    size_t len = strcspn(at, " )"); /* a MIG instance follows after a space: "GPU-I:05" */
    end = strstr(at, "): ");
    if (!end || sscanf(end, "): %d", &out->code) != 1 || out->code <= 0)
        return false;
    snprintf(out->bus_id, sizeof out->bus_id, "%.*s", (int)len, at);
    return true;
}

enum xid_class xid_classify(int code, const char **meaning)
{
    for (size_t i = 0; i < COUNT_OF(codes); i++)
        if (codes[i].code == code) {
            *meaning = codes[i].meaning;
            return codes[i].class;
        }
    *meaning = "see NVIDIA's catalogue of Xid errors";
    return XID_LOOK;
}

char *xid_describe(const struct xid *x, double age_s)
{
    static const struct {
        double seconds;
        const char *unit;
    } units[] = {{24 * 3600, "days"}, {3600, "h"}, {60, "min"}, {0, "s"}};
    const char *meaning;
    size_t i = 0;
    (void)xid_classify(x->code, &meaning);
    while (units[i].seconds > 0 && age_s < 2 * units[i].seconds)
        i++;
    double unit = units[i].seconds > 0 ? units[i].seconds : 1;
    return xasprintf("Xid %d of GPU %s, %.0f %s ago: %s", x->code, x->bus_id, age_s / unit,
                     units[i].unit, meaning);
}
