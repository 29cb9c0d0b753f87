/* ft_options - the settings of ft_launcher (nvidia-resiliency-ext 0.4.1): from its options and its
 * file to time limits, and to what the bridge (ft_bridge.h) gives to the ranks' clients. */
#pragma once

#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/watch/section_limits.h"

/* The settings that have an effect. */
enum ft_setting {
    FT_SECTION_TIMEOUTS = SECTION_LIMITS_SECTION, /* "setup:600,step:180" */
    FT_OUT_OF_SECTION_TIMEOUT = SECTION_LIMITS_OUTSIDE,
    FT_HEARTBEAT_TIMEOUT = SECTION_LIMITS_HEARTBEAT,
    FT_INITIAL_HEARTBEAT_TIMEOUT = SECTION_LIMITS_FIRST_HEARTBEAT,
    FT_WORKLOAD_CHECK_INTERVAL,
    FT_SAFETY_FACTOR,
    FT_SETTINGS
};

struct ft_options {
    const char *config_path;        /* --ft-cfg-path; NULL: none */
    const char *value[FT_SETTINGS]; /* as typed; NULL: not given */
    char *const *learn_argv; /* the program from whose earlier jobs limits are learnt that are
                                not given; NULL: none are */
    const char *learn_wdir;  /* its directory; NULL: the present one */
};

/* Reads the settings: the extension's defaults, then those of the file, then the options. `*config`
 * is a mapping of the extension's settings as JSON, which the caller frees. `*warnings` (a strv)
 * gets whole sentences, and `learnt` the limits from earlier jobs (section_learning.h). -EINVAL  a
 * value or the file is malformed -errno   the file cannot be read
 */
int ft_options_read(char **config, struct section_limits *limits, const struct ft_options *o,
                    char ***warnings, struct strbuf *learnt, struct err *e);
