/* SPDX-License-Identifier: Apache-2.0 */
/*
 * users.h: "name", "uid", "name:group", "uid:gid" … looked up in the image's /etc/passwd and /etc/group,
 * with Docker's rules.
 */
#ifndef BX_GUEST_USERS_H
#define BX_GUEST_USERS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "guest/text.h"

#define USERS_GROUPS_MAX 256

struct user {
    uid_t uid;
    gid_t gid;
    gid_t groups[USERS_GROUPS_MAX]; /* supplementary */
    size_t ngroups;
    char home[256]; /* "" if none is known */
};

/* passwd and group are the texts of the files (empty if absent). A name that is not there: -EINVAL. */
int users_resolve(const char *spec, const char *passwd, const char *group, struct user *ret,
                  struct failure *f);
/* Reads a file of the image as text; anything but a plain file of moderate size reads as empty. */
void users_read(const char *path, struct bx_buf *b);

#endif
