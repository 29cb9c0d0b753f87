#include "launcher/remote/remote_launcher.h"

/* agent_spawn.h starts such agents, with REMOTE_ENV_RANK. */
const struct remote_launcher remote_launcher_external = {.word = "external", .hidden = true};
