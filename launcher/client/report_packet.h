/* report_packet - the packets of the report channel: metrics, sections and heartbeats for the
 * launcher, "stop" for the rank. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/client/client.h"

enum { REPORT_PACKET_BYTES_MAX = 60 * 1024, REPORT_PACKET_SECTION_MAX = 200 };

/* Appends a packet such as {"step":3,"loss":0.41}. Numbers have 17 significant digits in any
 * locale. NaN and infinities are written as the strings "nan", "inf" and "-inf".
 *   -EINVAL    a name is missing, "step" or not UTF-8
 *   -EMSGSIZE  longer than REPORT_PACKET_BYTES_MAX */
int report_packet_encode(struct strbuf *out, int64_t step, const struct drover_metric *m, size_t n,
                         struct err *e);

/* Appends {"kind":"section_begin","section":"step"}, {"kind":"section_end","section":"step",
 * "s":0.41} or {"kind":"heartbeat"}. `section` NULL: none; `seconds` < 0: none.
 *   -EINVAL  `section` is empty, longer than REPORT_PACKET_SECTION_MAX bytes, or not UTF-8 */
int report_packet_progress(struct strbuf *out, const char *kind, const char *section,
                           double seconds, struct err *e);

/* Returns true if the packet is {"stop":true}. */
bool report_packet_is_stop(const char *packet, size_t len);
