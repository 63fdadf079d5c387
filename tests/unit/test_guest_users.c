/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_guest_users.c: users and groups of an image, by Docker's rules.
 */
#include <errno.h>
#include <stdio.h>

#include "guest/users.h"
#include "harness.h"

static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n"
                             "user:x:1000:1001:A User:/home/user:/bin/sh\n"
                             "short:x:5\n"
                             ":x:6:6::/:\n"
                             "words:x:six:6::/:\n"
                             "huge:x:4294967295:6::/:\n"
                             "negative:x:-1:6::/:\n"
                             "4000:x:5000:5000::/number:\n"
                             "nohome:x:7:7\n"
                             "last:x:8:8::/last:/bin/sh"; /* no newline */

static const char group[] = "root:x:0:\n"
                            "extra:x:20:root,user\n"
                            "wheel:x:30:user\n"
                            "almost:x:40:users,use,user2\n"
                            "damaged:x:\n"
                            "damaged2:x:nn:user\n"
                            "empty:x:50";

static int resolve(const char *spec, struct user *u)
{
    struct failure f = {0};
    int r = users_resolve(spec, passwd, group, u, &f);
    ASSERT_EQ(r < 0, f.errnum != 0);
    return r;
}

static void check(const char *spec, unsigned uid, unsigned gid, size_t ngroups, const char *home)
{
    struct user u;
    ASSERT_EQ(resolve(spec, &u), 0);
    ASSERT_EQ(u.uid, uid);
    ASSERT_EQ(u.gid, gid);
    ASSERT_EQ(u.ngroups, ngroups);
    ASSERT_STREQ(u.home, home);
}

TEST(users_by_name_and_number)
{
    check("", 0, 0, 1, "/root");
    check("root", 0, 0, 1, "/root");
    check("0", 0, 0, 1, "/root");
    check("user", 1000, 1001, 2, "/home/user");
    check("1000", 1000, 1001, 2, "/home/user");
    check("last", 8, 8, 0, "/last");
    check("nohome", 7, 7, 0, "");
    check("77", 77, 0, 0, "");
    check("4000", 5000, 5000, 0, "/number"); /* a name that looks like a number */
}

TEST(an_explicit_group_replaces_the_memberships)
{
    check("user:wheel", 1000, 30, 0, "/home/user");
    check("user:30", 1000, 30, 0, "/home/user");
    check("user:99", 1000, 99, 0, "/home/user");
    check("77:88", 77, 88, 0, "");
    check(":wheel", 0, 30, 0, "/root");
    check("user:", 1000, 1001, 2, "/home/user");
    check("user:empty", 1000, 50, 0, "/home/user");
}

TEST(what_is_not_there_is_refused)
{
    static const char *const bad[] = {
        "stranger",       "short",        "words",         "huge",
        "negative",       "4294967295",   "99999999999",   "-1",
        "user:strangers", "user:damaged", "user:damaged2", "user:4294967295",
        " user",          "1 2",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct user u = {.uid = 12345};
        if (resolve(bad[i], &u) != -EINVAL || u.uid != 12345) {
            FAIL("%s", bad[i]);
        }
    }
}

TEST(an_image_without_user_files_has_root)
{
    struct user u;
    struct failure f = {0};
    ASSERT_EQ(users_resolve("", "", "", &u, &f), 0);
    ASSERT_EQ(u.uid, 0);
    ASSERT_EQ(users_resolve("root", "", "", &u, &f), 0);
    ASSERT_EQ(users_resolve("12:34", "", "", &u, &f), 0);
    ASSERT_EQ(u.gid, 34);
    ASSERT_EQ(users_resolve("user", "", "", &u, &f), -EINVAL);
    ASSERT_CONTAINS(f.text, "unable to find user user");
}

TEST(more_groups_than_fit_are_cut)
{
    static char many[65536];
    size_t len = 0;
    struct user u;
    struct failure f = {0};
    for (int i = 0; i < 1000; i++) {
        len += (size_t)snprintf(many + len, sizeof(many) - len, "g%d:x:%d:user\n", i, 100 + i);
    }
    ASSERT_EQ(users_resolve("user", passwd, many, &u, &f), 0);
    ASSERT_EQ(u.ngroups, USERS_GROUPS_MAX);
    ASSERT_EQ(u.groups[255], 355);
}
