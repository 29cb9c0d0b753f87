#include "launcher/remote/remote_launcher.h"

/* agent_spawn_start() starts the agents of such a job. It passes the numbers of their nodes in
 * REMOTE_ENV_NODE. */
const struct remote_launcher remote_launcher_external = {.word = "external", .hidden = true};
