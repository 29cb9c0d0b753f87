#include "launcher/remote/launcher_failure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

/* In `text`, '*' stands for the host's name and '?' for any text; the rest is found as it is.
 * Where a text names no host, `then` is looked for in that line and those behind it. In `advice`,
 * %s is the host. The more exact a row, the earlier it stands. Texts: OpenSSH 9.2, Open MPI 4.1.4
 * and 5.0, Slurm 22.05. */
struct row {
    const char *text, *then, *step, *what, *advice;
};

static const struct row rows[] = {
    /* ssh */
    {"Could not resolve hostname *: Temporary failure", NULL, "resolve", "no name server answers",
     "getent hosts %s; /etc/resolv.conf"},
    {"Could not resolve hostname *:", NULL, "resolve", "its name is not known here",
     "getent hosts %s; the name in the host file"},
    {"connect to host * port ?: Connection refused", NULL, "connect", "no sshd listens there",
     "ssh %s; start sshd, or give its port in ~/.ssh/config"},
    {"connect to host * port ?: No route to host", NULL, "connect",
     "it is down, or there is no route to it", "ping %s; ip route get %s"},
    {"connect to host * port ?: Network is unreachable", NULL, "connect", "no route leads there",
     "ip route get %s"},
    {"connect to host * port ?: Connection timed out", NULL, "connect",
     "it is down, or a firewall drops what is sent to it", "ping %s; ssh %s"},
    {"connect to host * port ?: Operation timed out", NULL, "connect",
     "it is down, or a firewall drops what is sent to it", "ping %s; ssh %s"},
    {"Connection timed out during banner exchange", NULL, "connect",
     "sshd took the connection and said nothing", "look at the load of the host, and at its sshd"},
    {"kex_exchange_identification: Connection closed", NULL, "connect",
     "sshd closed the connection at once", "MaxStartups and hosts.allow of its sshd"},
    {"kex_exchange_identification: ?Connection reset", NULL, "connect",
     "sshd closed the connection at once", "MaxStartups and hosts.allow of its sshd"},
    {"Connection closed by * port", NULL, "connect", "sshd closed the connection",
     "its sshd's log: journalctl -u ssh, on %s"},
    {"Connection reset by * port", NULL, "connect", "sshd closed the connection",
     "its sshd's log: journalctl -u ssh, on %s"},
    {"?@*: Permission denied (", NULL, "key", "ssh has no key that it takes",
     "ssh-copy-id %s, then ssh %s must ask nothing"},
    {"Permission denied (publickey", NULL, "key", "ssh has no key that a host takes",
     "ssh-copy-id to each host, then ssh must ask nothing"},
    {"No ? host key is known for * and you", NULL, "key", "its host key is not known here",
     "ssh-keyscan %s >>~/.ssh/known_hosts"},
    {"Host key for * has changed", NULL, "key", "its host key is another one than before",
     "ssh-keygen -R %s, if the host was set up anew"},
    {"Host key verification failed", NULL, "key", "a host's key is not known here",
     "ssh once to each host, or ssh-keyscan HOST >>~/.ssh/known_hosts"},
    {"Too many authentication failures", NULL, "key", "ssh tried too many keys",
     "IdentityFile and IdentitiesOnly yes in ~/.ssh/config"},
    {"Enter passphrase for key", NULL, "key", "ssh asks for a passphrase", "ssh-add"},
    {"Bad owner or permissions on", NULL, "key", "ssh does not take its own files",
     "chmod 600 ~/.ssh/config"},
    {"Connection to * closed by remote host", NULL, "start", "the connection was cut",
     "is %s up? was the session ended there?"},
    {"client_loop: send disconnect", NULL, "start", "a connection was cut",
     "are all hosts up, and their network?"},

    /* what the far shell or mpirun could not execute */
    {"orted: error while loading shared libraries", NULL, "exec",
     "Open MPI's orted lacks a library there",
     "--prefix DIR of Open MPI, or LD_LIBRARY_PATH in that host's ~/.bashrc"},
    {"orted: command not found", NULL, "exec", "Open MPI is not installed there, or not in PATH",
     "apt-get install openmpi-bin on each host, or --prefix DIR"},
    {"orted: not found", NULL, "exec", "Open MPI is not installed there, or not in PATH",
     "apt-get install openmpi-bin on each host, or --prefix DIR"},
    {"orted: No such file or directory", NULL, "exec",
     "Open MPI is not installed there, or elsewhere than here",
     "the same Open MPI on each host, or --prefix DIR"},
    {"prted: ?not found", NULL, "exec", "Open MPI's prted is not in PATH there",
     "the same Open MPI on each host, or --prefix DIR"},
    {"unable to launch the specified application", "Node: *", "exec",
     "drover is not at the same path there",
     "install drover on %s at the same path, or on a file system that all hosts share"},
    {"execve(): ?: No such file or directory", NULL, "exec", "drover is not at the same path there",
     "install drover on each node at the same path"},
    {"execve(): ?: Permission denied", NULL, "exec", "drover may not be executed there",
     "the mode of drover on each node; a file system mounted noexec"},
    {"drover: error while loading shared libraries", NULL, "exec", "drover lacks a library there",
     "apt-get install libhwloc15 libpmix2 libuv1 libjansson4 on each host"},
    {"version `GLIBC", NULL, "exec", "its C library is older than the one here",
     "build drover on the oldest of the hosts"},

    /* mpirun's own */
    {"An ORTE daemon has unexpectedly failed", "remote host: *", "start",
     "its Open MPI daemon ended", "is %s up? did something kill orted there?"},
    {"lost communication with a remote daemon", "remote host: *", "start", "it was lost",
     "is %s up, and its network?"},
    {"ORTE has lost communication", "remote host: *", "start", "it was lost",
     "is %s up, and its network?"},
    {"TCP was unable to establish a connection", "remote host: *", "connect",
     "its Open MPI daemon cannot reach us",
     "--mca oob_tcp_if_include NET/BITS, a network that all hosts have"},
    {"A process or daemon was unable to complete a TCP connection", "remote host: *", "connect",
     "its Open MPI daemon cannot reach us",
     "--mca oob_tcp_if_include NET/BITS, a network that all hosts have"},
    {"no plausible interfaces", NULL, "connect", "Open MPI found no network between the hosts",
     "--mca oob_tcp_if_include NET/BITS, a network that all hosts have"},
    {"version of orted", NULL, "exec", "Open MPI is of another version there",
     "the same Open MPI on each host"},
    {"was set to a path", NULL, "start", "what takes the place of ssh is not there",
     "the path in --mca plm_rsh_agent"},
    {"not enough node entries", NULL, "start", "the host file that drover wrote was not taken",
     "--mca orte_default_hostfile in your parameters? leave it out"},
    {"not enough slots", NULL, "start", "mpirun was told of fewer slots than ranks",
     "inside an allocation, its hosts and slots count: ask for more there"},
    {"The specified mapping policy is not recognized", NULL, "start", "mpirun is too old",
     "apt-get install openmpi-bin (4.1 or newer)"},
    {"Error: unknown option", NULL, "start", "mpirun is too old, or not Open MPI's",
     "apt-get install openmpi-bin (4.1 or newer)"},
    {"unrecognized argument", NULL, "start", "mpirun is not Open MPI's",
     "apt-get install openmpi-bin (4.1 or newer), and its directory first in PATH"},
    {"match_arg (utils/args", NULL, "start", "mpirun is MPICH's",
     "apt-get install openmpi-bin (4.1 or newer), and its directory first in PATH"},
    {"hostfile contained a node (?) that is not in", NULL, "resolve",
     "a host is not one of the allocation that mpirun sees", "the allocation's names, as they are"},
    {"allocated nodes do not have", NULL, "resolve",
     "a host is not one of the allocation that mpirun sees", "the allocation's names, as they are"},
    {"nodes that aren't in the", NULL, "resolve",
     "a host is not one of the allocation that mpirun sees", "the allocation's names, as they are"},
    {"hosts in the hostfile are not in the", NULL, "resolve",
     "a host is not one of the allocation that mpirun sees", "the allocation's names, as they are"},
    {"No space left on device", NULL, "start", "a disk is full",
     "free space in /tmp of each host, or TMPDIR"},
    {"unable to reliably start one or more daemons", NULL, "start",
     "a host's Open MPI daemon did not start",
     "ssh HOST orted --version, for each host; --verbose shows all that mpirun said"},
    {"was unable to start one or more", NULL, "start", "a host's Open MPI daemon did not start",
     "ssh HOST prted --version, for each host; --verbose shows all that mpirun said"},

    /* srun's */
    {"Invalid MPI type", NULL, "start", "this Slurm has no PMIx",
     "srun --mpi=list; apt-get install slurm-wlm-basic-plugins, or build Slurm --with-pmix"},
    {"Cannot create context for mpi/pmix", NULL, "start", "this Slurm has no PMIx",
     "srun --mpi=list; apt-get install slurm-wlm-basic-plugins, or build Slurm --with-pmix"},
    {"Invalid node name", NULL, "resolve", "a host is no node of this Slurm",
     "sinfo -N has the names"},
    {"Requested node configuration is not available", NULL, "start",
     "the allocation has no such nodes or CPUs", "scontrol show job; ask for more tasks or CPUs"},
    {"More processors requested than permitted", NULL, "start",
     "the allocation has fewer CPUs than srun needs", "ask for more tasks or CPUs (sbatch -n, -c)"},
    {"Requested nodes are busy", NULL, "start", "another step has the nodes' CPUs",
     "wait for it, or start it with --overlap too"},
    {"Job step creation temporarily disabled", NULL, "start",
     "another step has the nodes' CPUs or memory", "wait for it, or start it with --overlap too"},
    {"Memory required by task is not available", NULL, "start",
     "another step has the nodes' memory", "wait for it, or ask for more (sbatch --mem)"},
    {"Unable to confirm allocation", NULL, "start", "the allocation is over, or not ours",
     "squeue -j $SLURM_JOB_ID"},
    {"Slurm job ? has expired", NULL, "start", "the allocation is over", "salloc or sbatch anew"},
    {"Only allocated ? nodes asked for", NULL, "start", "the allocation has fewer nodes",
     "ask for more nodes (sbatch -N)"},
    {"Unable to process configuration file", NULL, "start", "srun has no configuration here",
     "SLURM_CONF, or start drover where srun works"},
    {"Invalid job id specified", NULL, "start", "the allocation is over", "salloc or sbatch anew"},
    {"Job/step already completing or completed", NULL, "start", "the allocation is over",
     "salloc or sbatch anew"},
    {"Unable to contact slurm controller", NULL, "connect", "slurmctld does not answer",
     "scontrol ping"},
    {"Zero Bytes were transmitted or received", NULL, "connect", "munge does not let us in",
     "munge -n | unmunge; the clocks and keys of the nodes"},
    {"Protocol authentication error", NULL, "connect", "munge does not let us in",
     "munge -n | unmunge; the clocks and keys of the nodes"},
    {"Task launch for ? failed on node *: ", NULL, "start", "slurmd did not start the task",
     "slurmd's log on %s"},
    {"Node failure on *", NULL, "start", "Slurm has lost it", "sinfo -n %s"},
    {"unrecognized option '--overlap'", NULL, "start", "srun is too old",
     "Slurm 20.11 or newer is needed"},
    {"Required node not available", NULL, "start", "a node is down or drained", "sinfo -R"},
};

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* Whether `line` begins with `pattern`. `*` takes the longest name, `?` the shortest text. */
static bool begins(const char *line, const char *pattern, char *host, size_t size)
{
    for (; *pattern; pattern++) {
        if (*pattern == '?') {
            for (; *line; line++)
                if (begins(line, pattern + 1, host, size))
                    return true;
            return false;
        }
        if (*pattern != '*') {
            if (*line++ != *pattern)
                return false;
            continue;
        }
        const char *from = line + strspn(line, " \t\"'[");
        size_t len = 0;
        while (from[len] && (in_name(from[len]) || (from[len] == ':' && (in_name(from[len + 1]) ||
                                                                         from[len + 1] == ':'))))
            len++;
        if (len == 0)
            return false;
        snprintf(host, size, "%.*s", (int)len, from);
        line = from + len;
    }
    return true;
}

static bool holds(const char *line, const char *pattern, char *host, size_t size)
{
    for (; *line; line++) {
        *host = '\0'; /* what a beginning that went on otherwise took for one */
        if (begins(line, *pattern == '?' ? pattern + 1 : pattern, host, size))
            return true;
    }
    *host = '\0';
    return false;
}

static bool says(const struct row *r, const char *const *lines, char *host, size_t size)
{
    for (; *lines; lines++) {
        if (!holds(*lines, r->text, host, size))
            continue;
        for (; r->then && *lines; lines++)
            if (holds(*lines, r->then, host, size))
                break;
        return true;
    }
    return false;
}

bool launcher_failure_find(struct err *e, const char *const *lines)
{
    char host[256] = "";
    const struct row *r = NULL;
    for (size_t i = 0; i < COUNT_OF(rows) && !r; i++)
        if (says(&rows[i], lines, host, sizeof host))
            r = &rows[i];
    if (!r)
        return false;
    const char *known = *host ? host : "HOST";
    if (*host)
        err_set(e, -EIO, "host %s: %s: %s", host, r->step, r->what);
    else
        err_set(e, -EIO, "%s: %s", r->step, r->what);
    char advice[512];
    size_t n = 0;
    for (const char *p = r->advice; *p && n + 1 < sizeof advice; p++) {
        if (p[0] != '%' || p[1] != 's') {
            advice[n++] = *p;
            continue;
        }
        n += (size_t)snprintf(advice + n, sizeof advice - n, "%s", known);
        n = n < sizeof advice ? n : sizeof advice - 1;
        p++;
    }
    advice[n] = '\0';
    err_hint(e, "%s", advice);
    return true;
}
