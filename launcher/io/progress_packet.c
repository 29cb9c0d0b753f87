#include "launcher/io/progress_packet.h"

#include <string.h>

static const char *const kinds[] = {
    [PROGRESS_SECTION_BEGIN] = "section_begin", [PROGRESS_SECTION_END] = "section_end",
    [PROGRESS_HEARTBEAT] = "heartbeat",         [PROGRESS_CONNECT] = "connect",
    [PROGRESS_DISCONNECT] = "disconnect",       [PROGRESS_LIMITS] = "limits",
};

static bool find_kind(enum progress_kind *out, const char *word)
{
    for (size_t i = 0; word && i < COUNT_OF(kinds); i++)
        if (strcmp(word, kinds[i]) == 0) {
            *out = (enum progress_kind)i;
            return true;
        }
    return false;
}

bool progress_packet_read(struct progress_packet *out, const char *packet, size_t len)
{
    static const char mark[] = "\"kind\"";
    AUTO(json) json_t *json = NULL;
    struct progress_packet p = {.seconds = -1};
    /* Most packets are reports, which need not be parsed here. */
    if (!memmem(packet, len, mark, sizeof mark - 1) || json_parse(&json, packet, len, NULL) < 0 ||
        !find_kind(&p.kind, json_string_value(json_object_get(json, "kind"))))
        return false;
    p.section = json_string_value(json_object_get(json, "section"));
    if (p.kind == PROGRESS_SECTION_BEGIN && (!p.section || !*p.section))
        return false;
    const json_t *seconds = json_object_get(json, "s");
    if (json_is_number(seconds) && json_number_value(seconds) >= 0)
        p.seconds = json_number_value(seconds);
    p.json = TAKE(json);
    *out = p;
    return true;
}

void progress_packet_free(struct progress_packet *p)
{
    json_decref(p->json);
    *p = (struct progress_packet){0};
}
