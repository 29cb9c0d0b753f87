#include "launcher/gpu/xid.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

/* The immediate actions of NVIDIA's catalogue for Ampere and later, in its edition that ends with
 * Xid 172 (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, read in November 2026). A
 * code that has none there is looked at. */
static const struct {
    int first, last;
    enum xid_class class;
    const char *meaning;
} codes[] = {
    {8, 8, XID_PROGRAM, "the GPU stopped processing"},
    {11, 11, XID_PROGRAM, "invalid commands of a program"},
    {13, 13, XID_PROGRAM, "exception in a program's kernel"},
    {25, 25, XID_PROGRAM, "invalid commands of a program"},
    {31, 31, XID_PROGRAM, "a program accessed an invalid address"},
    {32, 32, XID_PROGRAM, "invalid commands, or a bad PCIe link"},
    {37, 38, XID_IGNORE, "error of the driver's firmware"},
    {39, 41, XID_PROGRAM, "exception in a copy engine"},
    {43, 43, XID_IGNORE, "the GPU stopped processing of a program"},
    {44, 44, XID_IGNORE, "fault during a context switch"},
    {45, 45, XID_LOOK, "a program was ended, often after another error"},
    {46, 46, XID_RESET, "the GPU stopped processing"},
    {48, 48, XID_LOOK, "uncorrectable memory error"},
    {54, 54, XID_LOOK, "the GPU's power cable is not connected"},
    {60, 60, XID_PROGRAM, "exception in a video processor"},
    {62, 62, XID_RESET, "the GPU's microcontroller halted"},
    {63, 63, XID_IGNORE, "a row of memory was remapped"},
    {64, 64, XID_RESET, "a row of memory could not be remapped"},
    {66, 67, XID_IGNORE, "invalid access by the driver"},
    {68, 68, XID_PROGRAM, "exception in a video decoder"},
    {69, 69, XID_PROGRAM, "exception in a program's graphics or compute class"},
    {70, 72, XID_PROGRAM, "error of a copy engine"},
    {74, 74, XID_LOOK, "NVLink error"},
    {75, 77, XID_PROGRAM, "error of a copy engine"},
    {79, 79, XID_RESTART, "the GPU has fallen off the bus"},
    {80, 80, XID_PROGRAM, "corrupted data were sent to the GPU"},
    {82, 84, XID_PROGRAM, "exception in a video decoder"},
    {85, 85, XID_PROGRAM, "error of a copy engine"},
    {86, 89, XID_PROGRAM, "exception in a video engine"},
    {92, 92, XID_IGNORE, "high rate of corrected memory errors"},
    {93, 93, XID_IGNORE, "the InfoROM was written too often"},
    {94, 94, XID_PROGRAM, "contained memory error"},
    {95, 95, XID_RESET, "uncontained memory error"},
    {96, 105, XID_PROGRAM, "exception in a video decoder"},
    {106, 108, XID_IGNORE, "a message without an error"},
    {109, 109, XID_RESET, "a context switch timed out"},
    {110, 110, XID_RESET, "security fault"},
    {119, 119, XID_RESET, "the GPU's system processor (GSP) does not answer"},
    {120, 120, XID_RESET, "error of the GPU's system processor (GSP)"},
    {121, 121, XID_IGNORE, "corrected errors of the link to the CPU (C2C)"},
    {126, 135, XID_PROGRAM, "error of a copy engine"},
    {136, 136, XID_RESET, "an NVLink could not be trained"},
    {137, 137, XID_IGNORE, "a program accessed an invalid address over NVLink"},
    {139, 139, XID_PROGRAM, "exception in a video engine"},
    {140, 140, XID_RESET, "unrecovered memory error"},
    {141, 141, XID_IGNORE, "error in a fast path of CUDA"},
    {143, 143, XID_RESET, "initialisation failed"},
    {144, 144, XID_LOOK, "NVLink error"},
    {145, 145, XID_LOOK, "NVLink: error of the receiver"},
    {146, 146, XID_LOOK, "NVLink: error of the transmitter"},
    {147, 148, XID_LOOK, "NVLink error"},
    {149, 149, XID_LOOK, "NVLink: error of the link"},
    {150, 150, XID_LOOK, "NVLink error"},
    {151, 151, XID_RESTART, "error of a key rotation"},
    {152, 153, XID_IGNORE, "error of a deep learning accelerator (DLA)"},
    {154, 154, XID_LOOK, "the recovery action of the GPU has changed"},
    {155, 155, XID_RESET, "NVLink: a link is down"},
    {156, 156, XID_RESET, "resource retirement"},
    {157, 157, XID_IGNORE, "a resource could not be retired"},
    {158, 158, XID_RESET, "fatal timeout of the GPU"},
    {159, 159, XID_LOOK, "error of the link to the CPU (C2C)"},
    {160, 160, XID_IGNORE, "a channel of memory was retired"},
    {161, 161, XID_IGNORE, "a channel of memory could not be retired"},
    {162, 165, XID_LOOK, "power smoothing has changed"},
    {167, 167, XID_LOOK, "fatal timeout of PCIe"},
    {168, 168, XID_LOOK, "less memory, after memory errors without ECC"},
    {169, 169, XID_LOOK, "the GPU's security processor halted"},
    {171, 171, XID_LOOK, "uncorrectable error in the GPU's memory"},
    {172, 172, XID_LOOK, "uncorrectable error in the GPU's caches"},
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
        if (codes[i].first <= code && code <= codes[i].last) {
            *meaning = codes[i].meaning;
            return codes[i].class;
        }
    *meaning = "see NVIDIA's catalogue of Xid errors";
    return XID_LOOK;
}

const char *xid_advice(int code)
{
    const char *meaning;
    enum xid_class class = xid_classify(code, &meaning);
    return class == XID_RESET     ? "reset the GPU"
           : class == XID_RESTART ? "restart the machine"
                                  : NULL;
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
