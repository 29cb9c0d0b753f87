#include "launcher/remote/remote_launcher.h"

/* agent_spawn_start() starts the agents of such a job. It passes their ranks in REMOTE_ENV_RANK. */
const struct remote_launcher remote_launcher_external = {.word = "external", .hidden = true};
