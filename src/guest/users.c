/* SPDX-License-Identifier: Apache-2.0 */
/*
 * users.c: see users.h.
 *
 * The files belong to the image: lines may be long, damaged or missing. A line counts only if all fields
 * that are needed are there and its numbers are numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/str.h"
#include "guest/users.h"

#define FIELDS_MAX 7
#define ID_MAX (UINT32_MAX - 1) /* the last one means "none" to the kernel */

struct text {
    const char *p;
    size_t len;
};

static bool text_is(struct text t, const char *s)
{
    return t.len == strlen(s) && memcmp(t.p, s, t.len) == 0;
}

static bool text_id(struct text t, uint32_t *ret)
{
    char buf[16];
    uint64_t v;
    if (t.len == 0 || t.len >= sizeof(buf)) {
        return false;
    }
    memcpy(buf, t.p, t.len);
    buf[t.len] = 0;
    if (bx_parse_u64(buf, ID_MAX, &v) < 0) {
        return false;
    }
    *ret = (uint32_t)v;
    return true;
}

/* Cuts up to max fields at sep off t; the last takes no more than up to the next sep. */
static size_t split(struct text t, char sep, struct text *fields, size_t max)
{
    size_t n = 0;
    for (const char *p = t.p, *end = t.p + t.len; n < max;) {
        const char *stop = memchr(p, sep, (size_t)(end - p));
        fields[n++] = (struct text){p, (size_t)((stop ? stop : end) - p)};
        if (!stop) {
            break;
        }
        p = stop + 1;
    }
    return n;
}

/* The next line of a file; false at its end. */
static bool next_line(const char **p, struct text *line)
{
    if (!**p) {
        return false;
    }
    size_t len = strcspn(*p, "\n");
    *line = (struct text){*p, len};
    *p += len + ((*p)[len] == '\n');
    return true;
}

/* name:x:uid:gid:gecos:home:shell. A name wins over a number that looks the same. */
static bool find_user(const char *passwd, struct text who, bool by_id, struct user *u,
                      struct text *name)
{
    struct text line, f[FIELDS_MAX];
    uint32_t want = 0, uid, gid;
    if (by_id && !text_id(who, &want)) {
        return false;
    }
    while (next_line(&passwd, &line)) {
        size_t n = split(line, ':', f, FIELDS_MAX);
        if (n < 4 || f[0].len == 0 || !text_id(f[2], &uid) || !text_id(f[3], &gid)) {
            continue;
        }
        if (by_id ? uid != want : (f[0].len != who.len || memcmp(f[0].p, who.p, who.len) != 0)) {
            continue;
        }
        u->uid = uid;
        u->gid = gid;
        *name = f[0];
        if (n >= 6 && f[5].len < sizeof(u->home)) {
            memcpy(u->home, f[5].p, f[5].len);
            u->home[f[5].len] = 0;
        }
        return true;
    }
    return false;
}

/* name:x:gid:member,member */
static bool find_group(const char *group, struct text which, gid_t *ret)
{
    struct text line, f[4];
    uint32_t gid;
    while (next_line(&group, &line)) {
        if (split(line, ':', f, 4) >= 3 && text_id(f[2], &gid) && f[0].len == which.len &&
            memcmp(f[0].p, which.p, which.len) == 0) {
            *ret = gid;
            return true;
        }
    }
    return false;
}

static bool is_member(struct text members, struct text name)
{
    while (members.len > 0) {
        struct text one;
        split(members, ',', &one, 1);
        if (one.len == name.len && memcmp(one.p, name.p, name.len) == 0) {
            return true;
        }
        size_t step = one.len + (one.len < members.len);
        members.p += step;
        members.len -= step;
    }
    return false;
}

static void add_memberships(const char *group, struct text name, struct user *u)
{
    struct text line, f[4];
    uint32_t gid;
    while (u->ngroups < USERS_GROUPS_MAX && next_line(&group, &line)) {
        if (split(line, ':', f, 4) >= 4 && text_id(f[2], &gid) && is_member(f[3], name)) {
            u->groups[u->ngroups++] = gid;
        }
    }
}

int users_resolve(const char *spec, const char *passwd, const char *group, struct user *ret,
                  struct failure *f)
{
    struct text which = {"", 0};
    struct text who = {"0", 1};
    struct text name = {"", 0};
    struct user u = {0};
    uint32_t id;
    const char *colon = strchr(spec, ':');
    size_t len = colon ? (size_t)(colon - spec) : strlen(spec);
    if (len > 0) {
        who = (struct text){spec, len};
    }
    if (colon) {
        which = (struct text){colon + 1, strlen(colon + 1)};
    }
    if (!find_user(passwd, who, false, &u, &name) && !find_user(passwd, who, true, &u, &name)) {
        if (text_id(who, &id)) {
            u.uid = id;
        } else if (text_is(who, "root")) {
            u.uid = 0; /* an image without /etc/passwd still has one */
        } else {
            return failure_say(f, EINVAL,
                               "unable to find user %.*s: no matching entries in passwd file",
                               (int)(who.len < 64 ? who.len : 64), who.p);
        }
    }
    if (which.len > 0) {
        if (!find_group(group, which, &u.gid)) {
            if (!text_id(which, &id)) {
                return failure_say(f, EINVAL,
                                   "unable to find group %.64s: no matching entries in group file",
                                   which.p);
            }
            u.gid = id;
        }
    } else if (name.len > 0) {
        add_memberships(group, name, &u);
    }
    *ret = u;
    return 0;
}

void users_read(const char *path, struct bx_buf *b)
{
    if (bx_read_file(AT_FDCWD, path, b) < 0) {
        bx_buf_clear(b);
    }
}
