/* tcp_peer - the user at the other end of a TCP connection on this machine. */
#pragma once

#include <sys/types.h>

/* Finds the user that owns the other end of an IPv4 connection over the loopback device. Asks the
 * kernel by netlink (sock_diag(7)), or else reads /proc/net/tcp. Returns -ENOENT if the other end
 * is closed or not on this machine, or another negative errno if `fd` is not such a connection. */
int tcp_peer_uid(uid_t *out, int fd);
