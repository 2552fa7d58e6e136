// SPDX-License-Identifier: Apache-2.0
#include "server/accept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

// What the spare descriptor is when there is none.
enum { ACCEPT_AS_EVER = -2, ACCEPT_NO_SPARE = -1 };

static atomic_int accept_spare = ACCEPT_AS_EVER;

// Not called accept4 here, because the C library's declaration of it has a type
// that is none of ISO C.
int accept_or_again(int fd, struct sockaddr *address, socklen_t *length,
                    int flags) __asm__("accept4");

static int accept_open_spare(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fd : ACCEPT_NO_SPARE;
}

void accept_while_short(void)
{
    atomic_store(&accept_spare, accept_open_spare());
}

// Closes the first in the queue by means of the spare descriptor. False: there
// is none, or nobody is in the queue.
static bool accept_turn_away(int fd)
{
    int spare = atomic_exchange(&accept_spare, ACCEPT_NO_SPARE);

    if (spare >= 0)
        (void)close(spare);
    // Without one: another may have been freed meanwhile.
    long client = syscall(SYS_accept4, fd, NULL, NULL, SOCK_CLOEXEC);
    if (client >= 0)
        (void)close((int)client);
    spare = accept_open_spare();
    int none = ACCEPT_NO_SPARE;
    if (spare >= 0 &&
        !atomic_compare_exchange_strong(&accept_spare, &none, spare))
        (void)close(spare);
    return client >= 0;
}

static bool accept_is_our_fault(int cause)
{
    return cause == EBADF || cause == EFAULT || cause == EINTR ||
           cause == EINVAL || cause == ENOTSOCK;
}

int accept_or_again(int fd, struct sockaddr *address, socklen_t *length,
                    int flags)
{
    long client = syscall(SYS_accept4, fd, address, length, flags);

    if (client >= 0 || atomic_load(&accept_spare) == ACCEPT_AS_EVER)
        return (int)client;
    while (client < 0 && (errno == EMFILE || errno == ENFILE) &&
           accept_turn_away(fd))
        client = syscall(SYS_accept4, fd, address, length, flags);
    if (client < 0 && !accept_is_our_fault(errno))
        errno = EAGAIN;
    return (int)client;
}
