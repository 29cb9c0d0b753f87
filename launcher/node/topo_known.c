#include "launcher/node/topo_known.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/strbuf.h"

enum { KNOWN_MAX = 8 }; /* kinds of machines in a job */

struct entry {
    struct strbuf text; /* the XML without what differs between machines of one kind */
    hwloc_topology_t hw;
};

struct topo_known {
    struct entry entries[KNOWN_MAX];
    int next; /* to be replaced */
};

/* A topology's userdata is the number of its users besides the first one. */
static hwloc_topology_t add_user(hwloc_topology_t hw)
{
    intptr_t others = (intptr_t)hwloc_topology_get_userdata(hw);
    hwloc_topology_set_userdata(hw, (void *)(others + 1));
    return hw;
}

void topo_known_release(hwloc_topology_t hw)
{
    intptr_t others = hw ? (intptr_t)hwloc_topology_get_userdata(hw) : 0;
    if (others > 0)
        hwloc_topology_set_userdata(hw, (void *)(others - 1));
    else if (hw)
        hwloc_topology_destroy(hw);
}

struct topo_known *topo_known_new(void)
{
    return xzalloc(sizeof(struct topo_known));
}

void topo_known_free(struct topo_known *k)
{
    if (!k)
        return;
    for (int i = 0; i < KNOWN_MAX; i++) {
        strbuf_free(&k->entries[i].text);
        topo_known_release(k->entries[i].hw);
    }
    free(k);
}

/* ---- what is a machine's own ---------------------------------------------------------------- */

static bool starts(const char *text, const char *end, const char *with)
{
    size_t len = strlen(with);
    return (size_t)(end - text) >= len && memcmp(text, with, len) == 0;
}

static bool is_own_element(const char *tag, const char *end)
{
    static const char *const infos[] = {
        "HostName\"",  "Address\"",    "SerialNumber\"", "NodeGUID\"",  "SysImageGUID\"",
        "Port",        "DMIProductS",  "DMIProductUUID", "DMIBoardS",   "DMIBoardAsset",
        "DMIChassisS", "DMIChassisAs", "LinuxCgroup\"",  "ProcessName",
    };
    static const char info[] = "<info name=\"";
    if (starts(tag, end, "<page_type "))
        return true;
    for (size_t i = 0; starts(tag, end, info) && i < COUNT_OF(infos); i++)
        if (starts(tag + sizeof info - 1, end, infos[i]))
            return true;
    return false;
}

/* Appends an element without the size of its memory. */
static void add_numa_node(struct strbuf *out, const char *tag, const char *end)
{
    static const char memory[] = " local_memory=\"";
    const char *at = memmem(tag, (size_t)(end - tag), memory, sizeof memory - 1);
    const char *value = at ? at + sizeof memory - 1 : end;
    const char *quote = memchr(value, '"', (size_t)(end - value));
    strbuf_add(out, tag, (size_t)((at ? at : end) - tag));
    if (quote)
        strbuf_add(out, quote, (size_t)(end - quote));
}

static void add_common(struct strbuf *out, const char *xml, size_t len)
{
    const char *end = xml + len;
    for (const char *tag = xml, *next; tag < end; tag = next) {
        next = memchr(tag + 1, '<', (size_t)(end - tag - 1));
        next = next ? next : end;
        if (starts(tag, next, "<object type=\"NUMANode\""))
            add_numa_node(out, tag, next);
        else if (!is_own_element(tag, next))
            strbuf_add(out, tag, (size_t)(next - tag));
    }
}

/* ---- the known ones ------------------------------------------------------------------------- */

hwloc_topology_t topo_known_find(struct topo_known *k, const char *xml, size_t len)
{
    AUTO(strbuf) struct strbuf text = {0};
    add_common(&text, xml, len);
    for (int i = 0; i < KNOWN_MAX; i++) {
        struct entry *known = &k->entries[i];
        if (known->hw && known->text.len == text.len &&
            memcmp(known->text.data, text.data, text.len) == 0)
            return add_user(known->hw);
    }
    return NULL;
}

void topo_known_add(struct topo_known *k, const char *xml, size_t len, hwloc_topology_t hw)
{
    struct entry *e = &k->entries[k->next];
    k->next = (k->next + 1) % KNOWN_MAX;
    topo_known_release(e->hw);
    strbuf_reset(&e->text);
    add_common(&e->text, xml, len);
    e->hw = add_user(hw);
}
