/* progress_packet - the packets of the report channel that are not metrics: sections, heartbeats
 * and their time limits.
 *
 *     {"kind": "section_begin", "section": "step"}
 *     {"kind": "section_end", "section": "step", "s": 0.41}   without "section": all that are open
 *     {"kind": "heartbeat"}
 *     {"kind": "connect"}, {"kind": "disconnect"}             of a RankMonitorClient
 *     {"kind": "limits", "sections": {"step": 180, "eval": null}, "out_of_section": null,
 *      "heartbeat": 2700, "initial_heartbeat": 3600}          seconds; null: no limit
 *
 * A value of a metric is a number or one of three words, so no report has such a "kind". */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/json.h"

enum progress_kind {
    PROGRESS_SECTION_BEGIN,
    PROGRESS_SECTION_END,
    PROGRESS_HEARTBEAT,
    PROGRESS_CONNECT,
    PROGRESS_DISCONNECT,
    PROGRESS_LIMITS
};

struct progress_packet {
    enum progress_kind kind;
    const char *section; /* borrowed from `json`; NULL: none */
    double seconds;      /* how long the section took; < 0: unknown */
    json_t *json;        /* the whole packet */
};

/* Returns true and fills `*out` if the packet is one of the above. The caller frees it. */
bool progress_packet_read(struct progress_packet *out, const char *packet, size_t len);
void progress_packet_free(struct progress_packet *p);
