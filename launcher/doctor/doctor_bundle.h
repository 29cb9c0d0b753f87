/* doctor_bundle - an archive for bug reports: what doctor found, the topology, and the environment
 * without secrets. */
#pragma once

#include "common/err.h"
#include "launcher/doctor/core/doctor_report.h"
#include "launcher/node/topo.h"

/* Writes PATH, a tar file compressed by gzip, with mode 0600: report.txt, report.json, topo.txt (of
 * this machine), environment.txt, system.txt (versions, kernel, limits). Values of variables with
 * secret names are "***". Needs the program tar.
 *   -ENOENT  there is no tar;  -EIO  tar failed */
int doctor_bundle_write(const struct doctor_report *r, const struct topo *t, const char *path,
                        struct err *e);
