/* doctor_expect - values of a machine that is known to be good (--save), and the comparison with
 * them (--expect). The file is JSON: {"v": 1, "values": {"drv.match": "580.65.06", …}}. */
#pragma once

#include "common/err.h"
#include "common/json.h"
#include "launcher/doctor/core/doctor_report.h"

/* Writes the values of all checks that are ok and have the same value on all nodes. The file is
 * replaced atomically. */
int doctor_expect_write(const struct doctor_report *r, const char *path, struct err *e);

/* Reads such a file; the caller owns *out. -EINVAL  malformed, or a check that does not exist */
int doctor_expect_read(json_t **out, const char *path, struct err *e);

/* Makes a result that is ok, but differs from the expected value, a warning. `expected` NULL: does
 * nothing. */
void doctor_expect_compare(struct doctor_report *r, const json_t *expected);
