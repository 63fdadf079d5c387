/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_box_copy.c: copies between host and box. "In the box" is a folder of this host, written by
 * the agent's own tar built-ins; and archives of a hostile guest, which are fed to the unpacking
 * side as output of `cat`.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/path.h"
#include "box/copy.h"
#include "box_fixture.h"

struct place {
    boxlite_runtime *rt;
    boxlite_box *box;
    char host[600], guest[600]; /* folders */
};

static char *at(const char *dir, const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned next;
    char *p = paths[next++ % 8], *made = bx_path_join(dir, name);
    ASSERT_NOT_NULL(made);
    (void)snprintf(p, PATH_MAX, "%s", made);
    free(made);
    return p;
}

static struct place enter(void)
{
    static struct place p;
    p.rt = bf_runtime();
    p.box = bf_box(p.rt, "copy", NULL, BF_START);
    (void)snprintf(p.host, sizeof(p.host), "%s/host", tmpdir());
    (void)snprintf(p.guest, sizeof(p.guest), "%s/guest", tmpdir());
    ASSERT_OK(mkdir(p.host, 0700));
    ASSERT_OK(mkdir(p.guest, 0700));
    return p;
}

static void leave(struct place *p)
{
    boxlite_box_free(p->box);
    boxlite_runtime_free(p->rt);
}

static void put(const char *path, const char *text)
{
    ASSERT_OK(bx_write_file(AT_FDCWD, path, text, strlen(text), 0644));
}

static void holds(const char *path, const char *text)
{
    struct bx_buf b = BX_BUF_INIT(1 << 20);
    int r = bx_read_file(AT_FDCWD, path, &b);
    if (r < 0) {
        FAIL("%s: %s", path, strerror(-r));
    }
    ASSERT_STREQ(bx_buf_str(&b), text);
    bx_buf_done(&b);
}

static bool there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    ASSERT_OK(lstat(path, &st));
    return st.st_mode & 07777;
}

TEST(a_file_goes_where_docker_would_put_it)
{
    struct place p = enter();
    const char *file = at(p.host, "f");
    put(file, "data");
    ASSERT_OK(chmod(file, 0751));
    ASSERT_OK(boxlite_box_copy_in(p.box, file, p.guest, ERR)); /* into a folder */
    holds(at(p.guest, "f"), "data");
    ASSERT_EQ(mode_of(at(p.guest, "f")), 0751);
    ASSERT_OK(boxlite_box_copy_in(p.box, file, at(p.guest, "new"), ERR)); /* to a name */
    holds(at(p.guest, "new"), "data");
    put(file, "other");
    ASSERT_OK(boxlite_box_copy_in(p.box, file, at(p.guest, "new"), ERR)); /* over a file */
    holds(at(p.guest, "new"), "other");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND,
                 boxlite_box_copy_in(p.box, file, at(p.guest, "no/where"), ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_copy_in(p.box, file, at(p.guest, "no/"), ERR));
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND, boxlite_box_copy_in(p.box, at(p.host, "none"), p.guest, ERR));
    ASSERT_CONTAINS(err_message(), "none");
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_copy_in(p.box, file, "relative", ERR));

    ASSERT_OK(boxlite_box_copy_out(p.box, at(p.guest, "new"), p.host, ERR));
    holds(at(p.host, "new"), "other");
    ASSERT_EQ(mode_of(at(p.host, "new")), 0644);
    ASSERT_OK(boxlite_box_copy_out(p.box, at(p.guest, "new"), at(p.host, "renamed"), ERR));
    holds(at(p.host, "renamed"), "other");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND,
                 boxlite_box_copy_out(p.box, at(p.guest, "missing"), p.host, ERR));
    ASSERT_CONTAINS(err_message(), "missing");
    ASSERT_FAILS(BOXLITE_E_NOT_FOUND,
                 boxlite_box_copy_out(p.box, at(p.guest, "new"), at(p.host, "no/where"), ERR));
    leave(&p);
}

TEST(a_box_that_does_not_run_is_up_for_the_copy_only)
{
    struct place p = enter();
    put(at(p.host, "f"), "data");
    ASSERT_OK(boxlite_box_stop(p.box, 5000, ERR));
    ASSERT_OK(boxlite_box_copy_in(p.box, at(p.host, "f"), p.guest, ERR));
    holds(at(p.guest, "f"), "data");
    ASSERT_EQ(boxlite_box_state(p.box, ERR), BOXLITE_BOX_STOPPED);
    ASSERT_OK(boxlite_box_copy_out(p.box, at(p.guest, "f"), at(p.host, "back"), ERR));
    holds(at(p.host, "back"), "data");
    ASSERT_EQ(boxlite_box_state(p.box, ERR), BOXLITE_BOX_STOPPED);
    leave(&p);
}

TEST(what_comes_in_belongs_to_who_is_named)
{
    struct place p = enter();
    struct stat st;
    put(at(p.host, "f"), "data");
    if (geteuid() != 0) {
        SKIP("owners need root");
    }
    ASSERT_OK(chown(at(p.host, "f"), 1234, 4321));
    ASSERT_OK(boxlite_box_copy_in(p.box, at(p.host, "f"), p.guest, ERR));
    ASSERT_OK(stat(at(p.guest, "f"), &st));
    ASSERT_EQ(st.st_uid, 0); /* the box's user */
    ASSERT_OK(boxlite_box_copy_in_owner(p.box, at(p.host, "f"), p.guest, "77:88", ERR));
    ASSERT_OK(stat(at(p.guest, "f"), &st));
    ASSERT_EQ(st.st_uid, 77);
    ASSERT_EQ(st.st_gid, 88);
    ASSERT_OK(boxlite_box_copy_in_owner(p.box, at(p.host, "f"), p.guest, "", ERR));
    ASSERT_OK(stat(at(p.guest, "f"), &st));
    ASSERT_EQ(st.st_uid, 1234);
    ASSERT_EQ(st.st_gid, 4321);
    ASSERT_FAILS(BOXLITE_E_IO,
                 boxlite_box_copy_in_owner(p.box, at(p.host, "f"), p.guest, "no-such-user", ERR));
    leave(&p);
}

/* A tree with what can be in one. */
static void make_tree(const char *dir)
{
    ASSERT_OK(mkdir(dir, 0755));
    ASSERT_OK(mkdir(at(dir, "sub"), 0700));
    put(at(dir, "sub/file"), "in sub");
    put(at(dir, "empty"), "");
    put(at(dir, "odd \xc3\xa9 \n name"), "odd");
    ASSERT_OK(symlink("sub/file", at(dir, "link")));
    ASSERT_OK(symlink("/etc/passwd", at(dir, "abs")));
    ASSERT_OK(chmod(at(dir, "sub"), 0500));
}

static void check_tree(const char *dir)
{
    char target[64] = "";
    holds(at(dir, "sub/file"), "in sub");
    holds(at(dir, "empty"), "");
    holds(at(dir, "odd \xc3\xa9 \n name"), "odd");
    ASSERT_GT(readlink(at(dir, "link"), target, sizeof(target) - 1), 0);
    ASSERT_STREQ(target, "sub/file");
    memset(target, 0, sizeof(target));
    ASSERT_GT(readlink(at(dir, "abs"), target, sizeof(target) - 1), 0);
    ASSERT_STREQ(target, "/etc/passwd");
    ASSERT_EQ(mode_of(at(dir, "sub")), 0500);
}

TEST(a_tree_goes_in_and_out_whole)
{
    struct place p = enter();
    make_tree(at(p.host, "tree"));
    ASSERT_OK(boxlite_box_copy_in(p.box, at(p.host, "tree"), p.guest, ERR));
    check_tree(at(p.guest, "tree"));
    ASSERT_OK(boxlite_box_copy_in(p.box, at(p.host, "tree"), at(p.guest, "fresh"), ERR));
    check_tree(at(p.guest, "fresh"));
    ASSERT_OK(mkdir(at(p.guest, "flat"), 0755));
    ASSERT_OK(boxlite_box_copy_in(p.box, at(p.host, "tree/."), at(p.guest, "flat"), ERR));
    check_tree(at(p.guest, "flat"));
    ASSERT_OK(boxlite_box_copy_out(p.box, at(p.guest, "tree"), at(p.host, "back"), ERR));
    check_tree(at(p.host, "back"));
    ASSERT_OK(boxlite_box_copy_out(p.box, at(p.guest, "fresh"), at(p.host, "back"), ERR));
    check_tree(at(p.host, "back/fresh"));
    ASSERT_OK(mkdir(at(p.host, "into"), 0700));
    ASSERT_OK(boxlite_box_copy_out(p.box, at(p.guest, "tree/."), at(p.host, "into"), ERR));
    check_tree(at(p.host, "into"));
    ASSERT_EQ(mode_of(at(p.host, "into")), 0700);
    leave(&p);
}

TEST_FOR(big_files_and_streams, 60)
{
    struct place p = enter();
    char script[1400];
    (void)snprintf(script, sizeof(script), "head -c 30000000 /dev/urandom > '%s/big' && echo ok",
                   p.guest);
    bf_expect(p.box, script, "ok\n");
    ASSERT_OK(boxlite_box_copy_out(p.box, at(p.guest, "big"), p.host, ERR));
    ASSERT_OK(boxlite_box_copy_in(p.box, at(p.host, "big"), at(p.guest, "again"), ERR));
    (void)snprintf(script, sizeof(script), "cmp '%s/big' '%s/again' && echo same", p.guest,
                   p.guest);
    bf_expect(p.box, script, "same\n");
    int fd = open(at(p.host, "a.tar"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_OK(fd);
    ASSERT_OK(boxlite_box_copy_out_tar(p.box, at(p.guest, "big"), fd, ERR));
    ASSERT_EQ(lseek(fd, 0, SEEK_SET), 0);
    ASSERT_OK(mkdir(at(p.guest, "tar"), 0755));
    ASSERT_OK(boxlite_box_copy_in_tar(p.box, fd, at(p.guest, "tar"), ERR));
    (void)close(fd);
    (void)snprintf(script, sizeof(script), "cmp '%s/big' '%s/tar/big' && echo same", p.guest,
                   p.guest);
    bf_expect(p.box, script, "same\n");
    leave(&p);
}

/* Reads all that a command writes; its result. */
static int drain(boxlite_exec *exec, char *data, size_t size, size_t *ret)
{
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    ssize_t n;
    *ret = 0;
    while ((n = boxlite_exec_read(exec, BOXLITE_STDOUT, data + *ret, size - *ret, NULL)) != 0) {
        if (n > 0) {
            *ret += (size_t)n;
        } else {
            ASSERT_EQ(n, BOXLITE_E_AGAIN);
            ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, 20000, ERR));
        }
    }
    ASSERT_OK(boxlite_exec_wait(exec, 20000, &result, ERR));
    return result.exit_code;
}

TEST(archives_are_commands_of_the_callers_loop)
{
    static char tar[1 << 16];
    struct place p = enter();
    boxlite_exec *exec = NULL;
    size_t len, none;

    put(at(p.guest, "one"), "the one");
    ASSERT_OK(mkdir(at(p.guest, "to"), 0755));
    ASSERT_OK(boxlite_box_exec_tar_out(p.box, at(p.guest, "one"), &exec, ERR));
    ASSERT_EQ(drain(exec, tar, sizeof(tar), &len), 0);
    boxlite_exec_free(exec);
    ASSERT_OK(boxlite_box_exec_tar_in(p.box, at(p.guest, "to"), &exec, ERR));
    ASSERT_OK(boxlite_exec_poll(exec, BOXLITE_EXEC_STDIN, 20000, ERR));
    ASSERT_EQ(boxlite_exec_write(exec, tar, len, ERR), (ssize_t)len);
    ASSERT_OK(boxlite_exec_close_stdin(exec, ERR));
    ASSERT_EQ(drain(exec, tar, sizeof(tar), &none), 0);
    boxlite_exec_free(exec);
    holds(at(p.guest, "to/one"), "the one");
    ASSERT_OK(boxlite_box_exec_tar_out(p.box, at(p.guest, "absent"), &exec, ERR));
    ASSERT_GT(drain(exec, tar, sizeof(tar), &none), 0);
    ASSERT_GT(boxlite_exec_read(exec, BOXLITE_STDERR, tar, sizeof(tar), ERR), 0);
    boxlite_exec_free(exec);
    exec = NULL;
    ASSERT_FAILS(BOXLITE_E_INVALID, boxlite_box_exec_tar_in(p.box, "relative", &exec, ERR));
    ASSERT_NULL(exec);
    leave(&p);
}

TEST(a_copy_that_fails_in_the_box_says_why)
{
    struct place p = enter();
    put(at(p.host, "f"), "x");
    ASSERT_OK(mkdir(at(p.guest, "f"), 0755));
    put(at(p.guest, "f/inside"), "kept");
    ASSERT_FAILS(BOXLITE_E_IO, boxlite_box_copy_in(p.box, at(p.host, "f"), p.guest, ERR));
    ASSERT_CONTAINS(err_message(), "tar-in");
    holds(at(p.guest, "f/inside"), "kept");
    leave(&p);
}

/* ---- A hostile guest ------------------------------------------------------------------------- */

struct evil {
    const char *name, *link;
    mode_t type;
    mode_t perm;
    const char *data;
    bool hard;
};

static void write_evil(const char *path, const struct evil *v, size_t n)
{
    struct archive *a = archive_write_new();
    struct archive_entry *e = archive_entry_new();
    ASSERT_EQ(archive_write_set_format_ustar(a), ARCHIVE_OK);
    ASSERT_EQ(archive_write_open_filename(a, path), ARCHIVE_OK);
    for (size_t i = 0; i < n; i++) {
        archive_entry_clear(e);
        archive_entry_set_pathname(e, v[i].name);
        archive_entry_set_filetype(e, v[i].type);
        archive_entry_set_perm(e, v[i].perm ? v[i].perm : 0644);
        archive_entry_set_size(e, v[i].data ? (la_int64_t)strlen(v[i].data) : 0);
        if (v[i].link && v[i].hard) {
            archive_entry_set_hardlink(e, v[i].link);
        } else if (v[i].link) {
            archive_entry_set_symlink(e, v[i].link);
        }
        ASSERT_EQ(archive_write_header(a, e), ARCHIVE_OK);
        if (v[i].data) {
            ASSERT_EQ(archive_write_data(a, v[i].data, strlen(v[i].data)), (int)strlen(v[i].data));
        }
    }
    archive_entry_free(e);
    ASSERT_EQ(archive_write_free(a), ARCHIVE_OK);
}

/* Unpacks what `cat` of the archive gives, as what "top" was asked for would be. */
static int unpack(struct place *p, const struct evil *v, size_t n, boxlite_error **err)
{
    struct bx_exec_spec spec = {0};
    struct bx_copy c = {.complaints = BX_BUF_INIT(100), .what = "cat"};
    char *archive = at(tmpdir(), "evil.tar");
    char *argv[] = {(char *)"cat", archive, NULL};
    int fd = open(p->host, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_OK(fd);
    write_evil(archive, v, n);
    spec.argv = (struct bx_strv){.v = argv, .n = 2};
    ASSERT_OK(bx_exec_start(p->box, &spec, &c.exec, ERR));
    int r = bx_copy_unpack(&c, &(struct bx_log){0}, &(struct bx_copy_progress){0}, fd, "top", "top", err);
    bx_copy_done(&c);
    (void)close(fd);
    return r;
}

/* The same as enter(), but by the inner functions: these tests look below the public interface. */
static struct place enter_inside(void)
{
    static struct place p;
    boxlite_runtime_options o = {.struct_size = sizeof(o)};
    boxlite_runtime_free(bf_runtime()); /* makes the home */
    boxlite_runtime *rt = bf_runtime();
    boxlite_box_free(bf_box(rt, "evil", NULL, BF_DETACHED | BF_START));
    boxlite_runtime_free(rt);
    o.home = bf_home();
    o.libexec = FAKESHIM_DIR;
    ASSERT_OK(bx_runtime_new(&o, &p.rt, ERR));
    ASSERT_OK(bx_box_open(p.rt, "evil", &p.box, ERR));
    (void)snprintf(p.host, sizeof(p.host), "%s/host", tmpdir());
    ASSERT_OK(mkdir(p.host, 0700));
    return p;
}

static void leave_inside(struct place *p)
{
    ASSERT_OK(bx_box_remove(p->box, true, ERR));
    bx_box_free(p->box);
    bx_runtime_free(p->rt);
    reap_orphans();
}

TEST(names_that_lead_elsewhere_are_refused)
{
    struct place p = enter_inside();
    static const char *const names[] = {"../out", "top/../../out", "/abs",  "other", "top2",
                                        "..",     "top/..",        "/top/x"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct evil v[] = {{names[i], NULL, S_IFREG, 0, "bad", false}};
        ASSERT_FAILS(BOXLITE_E_INTEGRITY, unpack(&p, v, 1, ERR));
    }
    ASSERT(!there(at(tmpdir(), "out")));
    ASSERT(!there("/abs"));
    ASSERT_OK(rmdir(p.host)); /* nothing was made */
    ASSERT_OK(mkdir(p.host, 0700));
    leave_inside(&p);
}

TEST(links_are_made_but_never_followed)
{
    struct place p = enter_inside();
    const struct evil own[] = {{"top", NULL, S_IFDIR, 0755, NULL, false},
                               {"top/l", "../..", S_IFLNK, 0, NULL, false},
                               {"top/l/out", NULL, S_IFREG, 0, "bad", false}};
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, unpack(&p, own, 3, ERR));
    ASSERT_CONTAINS(err_message(), "not followed");
    ASSERT(!there(at(tmpdir(), "out")));
    /* one that was there before */
    ASSERT_OK(symlink(tmpdir(), at(p.host, "top/was")));
    const struct evil was[] = {{"top/was/out", NULL, S_IFREG, 0, "bad", false}};
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, unpack(&p, was, 1, ERR));
    ASSERT(!there(at(tmpdir(), "out")));
    /* a link in the way of a file is replaced, not written through */
    put(at(tmpdir(), "victim"), "mine");
    ASSERT_OK(symlink(at(tmpdir(), "victim"), at(p.host, "top/f")));
    const struct evil through[] = {{"top/f", NULL, S_IFREG, 0, "new", false}};
    ASSERT_OK(unpack(&p, through, 1, ERR));
    holds(at(tmpdir(), "victim"), "mine");
    holds(at(p.host, "top/f"), "new");
    /* and as the top itself */
    ASSERT_OK(bx_rm_rf(AT_FDCWD, at(p.host, "top")));
    ASSERT_OK(symlink(tmpdir(), at(p.host, "top")));
    const struct evil top[] = {{"top/victim", NULL, S_IFREG, 0, "bad", false}};
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, unpack(&p, top, 1, ERR));
    holds(at(tmpdir(), "victim"), "mine");
    leave_inside(&p);
}

TEST(nothing_with_power_is_made)
{
    struct place p = enter_inside();
    const struct evil hard[] = {{"top", NULL, S_IFREG, 0, "x", false},
                                {"top", "top", S_IFREG, 0, NULL, true}};
    const struct evil power[] = {{"top", NULL, S_IFDIR, 0755, NULL, false},
                                 {"top/suid", NULL, S_IFREG, 06755, "x", false},
                                 {"top/dev", NULL, S_IFCHR, 0666, NULL, false},
                                 {"top/fifo", NULL, S_IFIFO, 0666, NULL, false}};
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, unpack(&p, hard, 2, ERR));
    ASSERT_OK(unlink(at(p.host, "top")));
    ASSERT_OK(unpack(&p, power, 4, ERR));
    ASSERT_EQ(mode_of(at(p.host, "top/suid")), 0755);
    ASSERT(!there(at(p.host, "top/dev")));
    ASSERT(!there(at(p.host, "top/fifo")));
    leave_inside(&p);
}

TEST(garbage_is_no_archive)
{
    struct place p = enter_inside();
    struct bx_exec_spec spec = {0};
    struct bx_copy c = {.complaints = BX_BUF_INIT(100), .what = "sh"};
    char *argv[] = {(char *)"sh", (char *)"-c", (char *)"yes garbage | head -c 100000", NULL};
    int fd = open(p.host, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_OK(fd);
    spec.argv = (struct bx_strv){.v = argv, .n = 3};
    ASSERT_OK(bx_exec_start(p.box, &spec, &c.exec, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY,
                 bx_copy_unpack(&c, &(struct bx_log){0}, &(struct bx_copy_progress){0}, fd, "top", "top", ERR));
    bx_copy_done(&c);
    (void)close(fd);
    leave_inside(&p);
}
