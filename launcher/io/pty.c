#include "launcher/io/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "common/mem.h"

int pty_open(int *master, int *slave)
{
    /* No character is special in either direction, and input is not echoed. */
    static const struct termios raw = {.c_cflag = B38400 | CS8 | CREAD, .c_cc[VMIN] = 1};
    AUTO(fd) int ours = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (ours < 0 || unlockpt(ours) < 0)
        return -errno;
    AUTO(fd) int theirs = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (theirs < 0 || tcsetattr(theirs, TCSANOW, &raw) < 0)
        return -errno;
    *master = fd_take(&ours);
    *slave = fd_take(&theirs);
    return 0;
}
