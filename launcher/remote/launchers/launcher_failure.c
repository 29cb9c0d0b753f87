#include "launcher/remote/launchers/launcher_failure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"

/* In `text`, '*' matches a host name and '?' any text; '|' separates alternatives, the more exact
 * first; other characters match themselves. The host name is searched with what follows '\n', in
 * the same line and the following ones. `cause` begins with the step that failed. In `advice`, %s
 * is replaced by the host. More exact rows precede less exact ones. The texts are from OpenSSH 9.2,
 * Open MPI 4.1.4 and 5.0, and Slurm 22.05. */
struct row {
    const char *text, *cause, *advice;
};

static const struct row rows[] = {
    /* ssh */
    {"Could not resolve hostname *: Temporary failure", "resolve: no name server answers",
     "getent hosts %s; /etc/resolv.conf"},
    {"Could not resolve hostname *:", "resolve: its name is unknown on this machine",
     "getent hosts %s; the name in the host file"},
    {"connect to host * port ?: Connection refused", "connect: no sshd listens on that port",
     "ssh %s; start sshd, or set its port in ~/.ssh/config"},
    {"connect to host * port ?: No route to host",
     "connect: the host is down, or there is no route to it", "ping %s; ip route get %s"},
    {"connect to host * port ?: Network is unreachable", "connect: there is no route to it",
     "ip route get %s"},
    {"connect to host * port ?: Connection timed out|connect to host * port ?: Operation timed out",
     "connect: the host is down, or a firewall drops its packets", "ping %s; ssh %s"},
    {"Connection timed out during banner exchange",
     "connect: sshd accepted the connection and does not answer",
     "check the load of the host, and its sshd"},
    {"kex_exchange_identification: Connection closed|"
     "kex_exchange_identification: ?Connection reset",
     "connect: sshd closed the connection at once",
     "check MaxStartups and hosts.allow of its sshd"},
    {"Connection closed by * port|Connection reset by * port",
     "connect: sshd closed the connection", "read its sshd's log: journalctl -u ssh, on %s"},
    {"?@*: Permission denied (", "key: ssh has no key that the host accepts",
     "ssh-copy-id %s; then ssh %s must not ask for a password"},
    {"Permission denied (publickey", "key: ssh has no key that a host accepts",
     "ssh-copy-id to each host; then ssh must not ask for a password"},
    {"No ? host key is known for * and you", "key: its host key is unknown on this machine",
     "ssh-keyscan %s >>~/.ssh/known_hosts"},
    {"Host key for * has changed", "key: its host key has changed",
     "ssh-keygen -R %s, if the host was reinstalled"},
    {"Host key verification failed", "key: a host key is unknown on this machine",
     "ssh once to each host, or ssh-keyscan HOST >>~/.ssh/known_hosts"},
    {"Too many authentication failures", "key: ssh tried too many keys",
     "set IdentityFile and IdentitiesOnly yes in ~/.ssh/config"},
    {"Enter passphrase for key", "key: ssh asks for a passphrase", "ssh-add"},
    {"did not arrive on stdin", "start: a start-up file of the login shell reads stdin",
     "begin ~/.bashrc of %s with: [ -t 0 ] || return"},
    {"This account is currently not available",
     "start: the login shell of the user runs no commands", "ssh %s true"},
    {"Cannot execute command-line and remote command",
     "start: ~/.ssh/config has a RemoteCommand for the host", "--ssh-args '-o RemoteCommand=none'"},
    {"Bad configuration option", "start: ssh does not know an option",
     "check --ssh-args and ~/.ssh/config"},
    {"unknown option -- ", "start: ssh does not know an argument", "check --ssh-args"},
    {"Bad owner or permissions on", "key: ssh rejects its own files", "chmod 600 ~/.ssh/config"},
    {"Connection to * closed by remote host", "start: the connection was lost",
     "check that %s is up, and that the session was not ended there"},
    {"client_loop: send disconnect", "start: a connection was lost",
     "check all hosts and their network"},

    /* programs that mpirun or the host's shell could not execute */
    {"orted: error while loading shared libraries",
     "exec: Open MPI's orted lacks a library on the host",
     "--prefix DIR of Open MPI, or set LD_LIBRARY_PATH in the host's ~/.bashrc"},
    {"orted: command not found|orted: not found",
     "exec: Open MPI is not installed on the host, or not in PATH",
     "apt-get install openmpi-bin on each host, or --prefix DIR"},
    {"orted: No such file or directory",
     "exec: Open MPI is not installed on the host, or at another path",
     "install the same Open MPI on each host, or --prefix DIR"},
    {"prted: ?not found", "exec: Open MPI's prted is not in PATH on the host",
     "install the same Open MPI on each host, or --prefix DIR"},
    {"unable to launch the specified application\nNode: *",
     "exec: drover is not installed at the same path",
     "install drover on %s at the same path, or on a file system that all hosts share"},
    {"execve(): ?: No such file or directory", "exec: drover is not installed at the same path",
     "install drover on each node at the same path"},
    {"execve(): ?: Permission denied", "exec: drover is not executable on the host",
     "check the mode of drover on each node, and for a file system mounted noexec"},
    {"drover agent ?: error: *: connect to ?: Network is unreachable|"
     "drover agent ?: error: *: connect to ?: No route to host",
     "connect: its agent has no route back to this machine",
     "ip route get ADDRESS, on %s; both need a network in common"},
    {"drover agent ?: error: *: connect to ?",
     "connect: its agent cannot connect back to this machine",
     "open the firewall of this machine for TCP from %s; --port-range A-B limits the ports"},
    {"drover: error while loading shared libraries", "exec: drover lacks a library on the host",
     "apt-get install libhwloc15 libpmix2 libuv1 libjansson4 on each host"},
    {"env: ?drover?: No such file or directory", "exec: drover is not installed at the same path",
     "install drover on %s at the same path, or on a file system that all hosts share"},
    {"env: ?drover?: Permission denied", "exec: drover is not executable on the host",
     "check the mode of drover on %s, and for a file system mounted noexec"},
    {"env: ?drover?: Exec format error", "exec: drover is built for another processor architecture",
     "install a drover for the architecture of %s at the same path"},
    {"version `GLIBC", "exec: its C library is older than this machine's",
     "build drover on the oldest of the hosts"},

    /* messages of mpirun */
    {"An ORTE daemon has unexpectedly failed\nremote host: *", "start: its Open MPI daemon exited",
     "check that %s is up, and that nothing kills orted there"},
    {"lost communication with a remote daemon\nremote host: *|"
     "ORTE has lost communication\nremote host: *",
     "start: the connection to it was lost", "check that %s and its network are up"},
    {"TCP was unable to establish a connection\nremote host: *|"
     "A process or daemon was unable to complete a TCP connection\nremote host: *",
     "connect: its Open MPI daemon cannot reach this machine",
     "--mca oob_tcp_if_include NET/BITS, with a network of all hosts"},
    {"no plausible interfaces", "connect: Open MPI found no network between the hosts",
     "--mca oob_tcp_if_include NET/BITS, with a network of all hosts"},
    {"version of orted", "exec: Open MPI has another version on the host",
     "install the same Open MPI on each host"},
    {"was set to a path", "start: the program that replaces ssh does not exist",
     "check the path in --mca plm_rsh_agent"},
    {"not enough node entries", "start: mpirun did not read drover's host file",
     "remove --mca orte_default_hostfile from your parameters"},
    {"not enough slots", "start: mpirun has fewer slots than ranks",
     "request more slots: inside an allocation mpirun uses its hosts and slots"},
    {"The specified mapping policy is not recognized", "start: mpirun is too old",
     "apt-get install openmpi-bin (4.1 or newer)"},
    {"Error: unknown option", "start: mpirun is too old, or not Open MPI's",
     "apt-get install openmpi-bin (4.1 or newer)"},
    {"unrecognized argument", "start: mpirun is not Open MPI's",
     "apt-get install openmpi-bin (4.1 or newer), and put its directory first in PATH"},
    {"match_arg (utils/args", "start: mpirun is MPICH's",
     "apt-get install openmpi-bin (4.1 or newer), and put its directory first in PATH"},
    {"hostfile contained a node (?) that is not in|"
     "allocated nodes do not have|"
     "nodes that aren't in the|"
     "hosts in the hostfile are not in the",
     "resolve: a host does not belong to the allocation that mpirun uses",
     "name the hosts as the allocation does"},
    {"No space left on device", "start: a disk is full",
     "free space in /tmp of each host, or set TMPDIR"},
    {"unable to reliably start one or more daemons",
     "start: a host's Open MPI daemon did not start",
     "ssh HOST orted --version, for each host; --verbose shows all output of mpirun"},
    {"was unable to start one or more", "start: a host's Open MPI daemon did not start",
     "ssh HOST prted --version, for each host; --verbose shows all output of mpirun"},

    /* messages of srun */
    {"Invalid MPI type|Cannot create context for mpi/pmix", "start: this Slurm has no PMIx",
     "srun --mpi=list; apt-get install slurm-wlm-basic-plugins, or build Slurm --with-pmix"},
    {"Invalid node name", "resolve: a host is not a node of this Slurm",
     "sinfo -N lists the names"},
    {"Requested node configuration is not available",
     "start: the allocation does not have these nodes or CPUs",
     "scontrol show job; request more tasks or CPUs"},
    {"More processors requested than permitted",
     "start: the allocation has fewer CPUs than srun needs",
     "request more tasks or CPUs (sbatch -n, -c)"},
    {"Requested nodes are busy", "start: another step uses the nodes' CPUs",
     "wait for it, or start it with --overlap"},
    {"Job step creation temporarily disabled", "start: another step uses the nodes' CPUs or memory",
     "wait for it, or start it with --overlap"},
    {"Memory required by task is not available", "start: another step uses the nodes' memory",
     "wait for it, or request more (sbatch --mem)"},
    {"Unable to confirm allocation", "start: the allocation has ended, or is another user's",
     "squeue -j $SLURM_JOB_ID"},
    {"Slurm job ? has expired", "start: the allocation has ended", "run salloc or sbatch again"},
    {"Only allocated ? nodes asked for", "start: the allocation has fewer nodes",
     "request more nodes (sbatch -N)"},
    {"Unable to process configuration file", "start: srun finds no configuration on this machine",
     "set SLURM_CONF, or start drover on a machine with a working srun"},
    {"Invalid job id specified|Job/step already completing or completed",
     "start: the allocation has ended", "run salloc or sbatch again"},
    {"Unable to contact slurm controller", "connect: slurmctld does not answer", "scontrol ping"},
    {"Zero Bytes were transmitted or received|Protocol authentication error",
     "connect: munge rejects this user",
     "munge -n | unmunge; compare the clocks and keys of the nodes"},
    {"Task launch for ? failed on node *: ", "start: slurmd did not start the task",
     "read slurmd's log on %s"},
    {"Node failure on *", "start: Slurm lost the node", "sinfo -n %s"},
    {"unrecognized option '--overlap'", "start: srun is too old", "install Slurm 20.11 or newer"},
    {"Required node not available", "start: a node is down or drained", "sinfo -R"},
};

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* Returns true if `line` begins with `pattern`, which ends at '|', '\n' or its NUL. '*' matches the
 * longest name, '?' the shortest text. */
static bool matches_here(const char *line, const char *pattern, char *host, size_t size)
{
    for (; !strchr("|\n", *pattern); pattern++) {
        if (*pattern == '?') {
            for (; *line; line++)
                if (matches_here(line, pattern + 1, host, size))
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

static bool matches(const char *line, const char *pattern, char *host, size_t size)
{
    for (; *line; line++) {
        *host = '\0'; /* a partial match may have set it */
        if (matches_here(line, *pattern == '?' ? pattern + 1 : pattern, host, size))
            return true;
    }
    *host = '\0';
    return false;
}

static bool finds(const struct row *r, const char *const *all, char *host, size_t size)
{
    for (const char *text = r->text; text; text = strchr(text, '|'), text += text != NULL) {
        const char *then = text + strcspn(text, "|\n");
        for (const char *const *lines = all; *lines; lines++) {
            if (!matches(*lines, text, host, size))
                continue;
            for (; *then == '\n' && *lines; lines++)
                if (matches(*lines, then + 1, host, size))
                    break;
            return true;
        }
    }
    return false;
}

bool launcher_failure_find(struct err *e, const char *of, const char *const *lines)
{
    char host[256] = "";
    const struct row *r = NULL;
    for (size_t i = 0; i < COUNT_OF(rows) && !r; i++)
        if (finds(&rows[i], lines, host, sizeof host))
            r = &rows[i];
    if (!r)
        return false;
    const char *known = *host ? host : of ? of : "HOST";
    if (*host || of)
        err_set(e, -EIO, "host %s: %s", known, r->cause);
    else
        err_set(e, -EIO, "%s", r->cause);
    AUTO(strbuf) struct strbuf advice = {0};
    const char *rest = r->advice;
    for (const char *at; (at = strstr(rest, "%s")); rest = at + strlen("%s"))
        strbuf_printf(&advice, "%.*s%s", (int)(at - rest), rest, known);
    strbuf_puts(&advice, rest);
    err_hint(e, "%s", strbuf_str(&advice));
    return true;
}
