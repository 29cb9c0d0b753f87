/* Texts as OpenSSH 9.2, Open MPI 4.1.4 and Slurm 22.05.8 write them. */
#include "launcher/remote/launchers/launcher_failure.h"

#include "common/mem.h"
#include "tests/unit/test.h"

#define ORTE_GUESS                                            \
    "ORTE was unable to reliably start one or more daemons.", \
        "This usually is caused by:", "* not finding the required libraries and/or binaries on"

static const struct {
    const char *name;
    const char *lines[10];
    const char *text; /* NULL: unknown */
    const char *hint; /* a part of it */
} cases[] = {
    {"resolve",
     {"ssh: Could not resolve hostname nosuchhost-x: Name or service not known",
      "-----------------------------------------------", ORTE_GUESS},
     "host nosuchhost-x: resolve: its name is unknown on this machine",
     "getent hosts nosuchhost-x"},
    {"no name server",
     {"ssh: Could not resolve hostname c03: Temporary failure in name resolution"},
     "host c03: resolve: no name server answers",
     "resolv.conf"},
    {"refused",
     {"ssh: connect to host 127.0.0.9 port 1: Connection refused", ORTE_GUESS},
     "host 127.0.0.9: connect: no sshd listens on that port",
     "ssh 127.0.0.9"},
    {"no route",
     {"ssh: connect to host c03.cluster.local port 22: No route to host"},
     "host c03.cluster.local: connect: the host is down, or there is no route to it",
     "ping c03.cluster.local; ip route get c03.cluster.local"},
    {"timed out",
     {"ssh: connect to host c03 port 2222: Connection timed out\r"},
     "host c03: connect: the host is down, or a firewall drops its packets",
     "ping c03"},
    {"IPv6",
     {"ssh: connect to host fe80::12 port 22: Connection refused"},
     "host fe80::12: connect: no sshd listens on that port",
     "sshd"},
    {"banner",
     {"Connection timed out during banner exchange", "Connection to 10.0.0.3 port 22 timed out"},
     "connect: sshd accepted the connection and does not answer",
     "load"},
    {"key",
     {"me@keyless: Permission denied (publickey,password).", ORTE_GUESS},
     "host keyless: key: ssh has no key that the host accepts",
     "ssh-copy-id keyless"},
    {"host key with its name",
     {"No ED25519 host key is known for c02 and you have requested strict checking.",
      "Host key verification failed."},
     "host c02: key: its host key is unknown on this machine",
     "ssh-keyscan c02"},
    {"changed host key",
     {"@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
      "Host key for c02 has changed and you have requested strict checking.",
      "Host key verification failed."},
     "host c02: key: its host key has changed",
     "ssh-keygen -R c02"},
    {"host key without a name",
     {"Host key verification failed."},
     "key: a host key is unknown on this machine",
     "ssh-keyscan"},
    {"no orted, bash",
     {"bash: line 1: orted: command not found", ORTE_GUESS},
     "exec: Open MPI is not installed on the host, or not in PATH",
     "openmpi-bin"},
    {"no orted, dash",
     {"sh: 1: orted: not found", ORTE_GUESS},
     "exec: Open MPI is not installed on the host, or not in PATH",
     "openmpi-bin"},
    {"orted's library",
     {"orted: error while loading shared libraries: libopen-rte.so.40: cannot open shared object "
      "file: No such file or directory",
      ORTE_GUESS},
     "exec: Open MPI's orted lacks a library on the host",
     "LD_LIBRARY_PATH"},
    {"no drover",
     {"mpirun was unable to launch the specified application as it could not access",
      "or execute an executable:", "", "Executable: /nosuch/drover", "Node: nodeC", "",
      "while attempting to start process rank 4."},
     "host nodeC: exec: drover is not installed at the same path",
     "install drover on nodeC"},
    {"daemon lost",
     {"An ORTE daemon has unexpectedly failed after launch and before",
      "communicating back to mpirun.", "  Local host:    c01", "  remote host: c02"},
     "host c02: start: its Open MPI daemon exited",
     "check that c02 is up"},
    {"mpirun's guess", {ORTE_GUESS}, "start: a host's Open MPI daemon did not start", "--verbose"},
    {"no agent",
     {"The value of the MCA parameter \"plm_rsh_agent\" was set to a path",
      "that could not be found:", "", "  plm_rsh_agent: /nonexist/ssh"},
     "start: the program that replaces ssh does not exist",
     "plm_rsh_agent"},
    {"not in the allocation",
     {"The specified hostfile contained a node (x@127) that is not in your",
      "allocation. We therefore cannot map a process rank to it. Please"},
     "resolve: a host does not belong to the allocation that mpirun uses",
     "name the hosts"},
    {"few slots",
     {"There are not enough slots available in the system to satisfy the 9",
      "slots that were requested by the application:"},
     "start: mpirun has fewer slots than ranks",
     "allocation"},
    {"seq",
     {"A sequential map was requested, but not enough node entries",
      "were given to support the requested number of processes:"},
     "start: mpirun did not read drover's host file",
     "hostfile"},
    {"old mpirun",
     {"mpirun: Error: unknown option \"--x\""},
     "start: mpirun is too old, or not Open MPI's",
     "openmpi-bin (4.1"},
    {"hydra",
     {"[mpiexec@vm] match_arg (utils/args/args.c:163): unrecognized argument allow-run-as-root"},
     "start: mpirun is not Open MPI's",
     "openmpi-bin"},
    {"no PMIx in Slurm",
     {"srun: error: Couldn't find the specified plugin name for mpi/pmix looking at all files",
      "srun: error: cannot find mpi plugin for mpi/pmix",
      "srun: error: MPI: Cannot create context for mpi/pmix",
      "srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types"},
     "start: this Slurm has no PMIx",
     "srun --mpi=list"},
    {"no such node",
     {"srun: error: Unable to create step for job 5: Invalid node name specified"},
     "resolve: a host is not a node of this Slurm",
     "sinfo"},
    {"busy",
     {"srun: Job 5 step creation temporarily disabled, retrying (Requested nodes are busy)"},
     "start: another step uses the nodes' CPUs",
     "--overlap"},
    {"allocation gone",
     {"srun: error: Unable to confirm allocation for job 5: Invalid job id specified",
      "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 5"},
     "start: the allocation has ended, or is another user's",
     "squeue"},
    {"allocation expired",
     {"srun: cluster configuration lacks support for cpu binding",
      "srun: error: Slurm job 2 has expired",
      "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 2"},
     "start: the allocation has ended",
     "salloc"},
    {"fewer nodes",
     {"srun: Warning: can't run 6 processes on 9 nodes, setting nnodes to 6",
      "srun: error: Only allocated 3 nodes asked for 6"},
     "start: the allocation has fewer nodes",
     "sbatch -N"},
    {"no configuration",
     {"srun: error: ClusterName needs to be specified",
      "srun: fatal: Unable to process configuration file"},
     "start: srun finds no configuration on this machine",
     "SLURM_CONF"},
    {"fewer CPUs",
     {"srun: error: Unable to create step for job 2: More processors requested than permitted"},
     "start: the allocation has fewer CPUs than srun needs",
     "sbatch -n"},
    {"no drover by srun",
     {"slurmstepd-node1: error: execve(): /opt/drover: No such file or directory",
      "srun: error: n1: task 0: Exited with exit code 2"},
     "exec: drover is not installed at the same path",
     "install drover"},
    {"controller",
     {"srun: error: Unable to contact slurm controller (connect failure)"},
     "connect: slurmctld does not answer",
     "scontrol ping"},
    {"node failure",
     {"srun: error: Node failure on n2"},
     "host n2: start: Slurm lost the node",
     "sinfo -n n2"},
    {"no drover by ssh",
     {"env: \xe2\x80\x98/opt/drover/bin/drover\xe2\x80\x99: No such file or directory"},
     "exec: drover is not installed at the same path",
     "on HOST at the same path"},
    {"no drover, busybox",
     {"env: can't execute '/opt/drover': No such file or directory"},
     "exec: drover is not installed at the same path",
     "at the same path"},
    {"noexec",
     {"env: '/opt/drover/bin/drover': Permission denied"},
     "exec: drover is not executable on the host",
     "noexec"},
    {"another architecture",
     {"env: '/opt/drover/bin/drover': Exec format error"},
     "exec: drover is built for another processor architecture",
     "architecture of HOST"},
    {"stdin eaten",
     {"drover agent: the launcher's address and token did not arrive on stdin"},
     "start: a start-up file of the login shell reads stdin",
     "~/.bashrc"},
    {"no way back",
     {"drover agent 0: error: n1: connect to 192.0.2.2:40501: Network is unreachable; "
      "[fd00::2]:40501: Cannot assign requested address"},
     "host n1: connect: its agent has no route back to this machine",
     "on n1"},
    {"a firewall",
     {"drover agent 3: error: n2: connect to 192.0.2.2:40501: Connection timed out"},
     "host n2: connect: its agent cannot connect back to this machine",
     "TCP from n2"},
    {"no shell",
     {"This account is currently not available."},
     "start: the login shell of the user runs no commands",
     "ssh HOST true"},
    {"RemoteCommand",
     {"Cannot execute command-line and remote command."},
     "start: ~/.ssh/config has a RemoteCommand for the host",
     "RemoteCommand=none"},
    {"unknown option",
     {"command-line: line 0: Bad configuration option: nosuch"},
     "start: ssh does not know an option",
     "--ssh-args"},
    {"unknown argument",
     {"unknown option -- Z", "usage: ssh [-46AaCfGgKkMNnqsTtVvXxYy] [-B bind_interface]"},
     "start: ssh does not know an argument",
     "--ssh-args"},
    {"unknown", {"hello", "", "Permission is a fine word"}, NULL, NULL},
    {"silence", {NULL}, NULL, NULL},
};

TEST(each_text_of_ssh_mpirun_and_srun_has_its_host_step_and_cure)
{
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct err e = {0};
        bool known = launcher_failure_find(&e, NULL, cases[i].lines);
        if (known != (cases[i].text != NULL))
            FAIL("%s: %s", cases[i].name, known ? e.text : "not known");
        if (!known)
            continue;
        if (strcmp(e.text, cases[i].text) != 0 || !strstr(e.hint, cases[i].hint))
            FAIL("%s: '%s' try '%s'", cases[i].name, e.text, e.hint);
        CHECK(e.code < 0);
    }
}

TEST(a_host_is_named_even_if_no_line_names_it)
{
    const char *const none[] = {"Host key verification failed.", NULL};
    const char *const one[] = {"ssh: connect to host z port 22: Connection refused", NULL};
    struct err e = {0};
    CHECK(launcher_failure_find(&e, "c02", none));
    CHECK_STR(e.text, "host c02: key: a host key is unknown on this machine");
    CHECK(launcher_failure_find(&e, "alias", one));
    CHECK_STR(e.text, "host z: connect: no sshd listens on that port");
}

TEST(the_texts_of_ssh_win_wherever_they_are)
{
    const char *const lines[] = {ORTE_GUESS, "b: late", "bash: orted: command not found",
                                 "ssh: connect to host z port 22: Connection refused", NULL};
    struct err e = {0};
    CHECK(launcher_failure_find(&e, NULL, lines));
    CHECK_STR(e.text, "host z: connect: no sshd listens on that port");
}

TEST(a_name_of_any_length_and_odd_bytes_do_no_harm)
{
    char line[2000] = "ssh: connect to host ";
    memset(line + strlen(line), 'a', 1500);
    strcat(line, " port 22: Connection refused");
    const char *const lines[] = {line, "\xff\xfe* ? ssh: connect to host port", "host ", NULL};
    struct err e = {0};
    CHECK(launcher_failure_find(&e, NULL, lines));
    CHECK(strncmp(e.text, "host aaaa", 9) == 0);
}
