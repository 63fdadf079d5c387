/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fd.h: descriptors. Every one is close-on-exec from birth and has one owner. 0 or -errno.
 */
#ifndef BX_BASE_FD_H
#define BX_BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"

void bx_close(int *fd); /* closes if >= 0 and sets -1 */
int bx_pipe(int ret[2]);
int bx_socketpair(int type, int ret[2]); /* AF_UNIX; type may carry SOCK_NONBLOCK */
int bx_set_nonblock(int fd, bool on);
int bx_set_cloexec(int fd, bool on);
/* Makes sure that 0, 1 and 2 are open (on /dev/null where they were not). */
int bx_fix_stdio(void);
/* Closes every descriptor >= first but those in keep[] (close_range, /proc/self/fd as fallback). */
int bx_close_all(int first, const int *keep, size_t nkeep);
int bx_pidfd_open(pid_t pid);
int bx_pidfd_signal(int pidfd, int signo);
/* A whole-file lock of the open file description (F_OFD_SETLK): dropped with its last descriptor,
 * whatever way the process ends. -EAGAIN if another has it. wait: block until it is free. */
int bx_lock(int fd, bool exclusive, bool wait);
int bx_unlock(int fd);
/* 1 if someone else holds a lock that would conflict with an exclusive one, 0 if not. Takes none. */
int bx_lock_held(int fd);
/* Names path "NAME" below dirfd for socket calls, however long dirfd's own path is:
 * "/proc/self/fd/N/NAME". buf >= 64. -ENAMETOOLONG. */
int bx_fd_path(int dirfd, const char *name, char *buf, size_t size);
/* Unix stream sockets at dirfd/name. Non-blocking, close-on-exec. A descriptor or -errno. */
int bx_unix_listen(int dirfd, const char *name, int backlog);
int bx_unix_connect(int dirfd, const char *name);
/* Effective uid of a socket's peer. */
int bx_peer_uid(int fd, uid_t *ret);

#endif
