/* tcp_peer - the user at the other end of a TCP connection over the loopback device. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Finds the user that owns the other end of a connection of IPv4 or IPv6 between two processes of
 * this machine. Asks the kernel by netlink (sock_diag(7)), or else reads /proc/net/tcp and tcp6.
 *   -ENOENT  no process of this machine has the other end open
 *   -errno   `fd` is not such a connection */
int tcp_peer_uid(uid_t *out, int fd);

/* Returns true if a process of this user or of root has the other end. */
bool tcp_peer_is_trusted(int fd);
