/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One shared folder, asked by raw FUSE requests: what works as on any file system. What a hostile guest
 * gets is in test_share_hostile.c.
 */
#include <errno.h>
#include <linux/fs.h>
#include <unistd.h>

#include "fuse_client.h"
#include "share/watch.h"

static struct fuse_client fc;

static void tree(void)
{
    ASSERT_EQ(mkdirat(tmpdir_fd(), "t", 0755), 0);
    ASSERT_EQ(mkdirat(tmpdir_fd(), "t/dir", 0755), 0);
    ASSERT_OK(bx_write_file(tmpdir_fd(), "t/file", "content", 7, 0644));
    ASSERT_OK(bx_write_file(tmpdir_fd(), "t/dir/inner", "inner", 5, 0755));
    ASSERT_EQ(symlinkat("dir/inner", tmpdir_fd(), "t/link"), 0);
}

static struct stat host(const char *path)
{
    struct stat st;
    ASSERT_EQ(fstatat(tmpdir_fd(), path, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st;
}

TEST(init_is_agreed_on)
{
    tree();
    fc_start(&fc, "t");
    ASSERT_EQ(fc.init.major, 7);
    ASSERT_EQ(fc.init.minor, 37);
    ASSERT_EQ(fc.init.max_write, BX_FUSE_IO_MAX);
    ASSERT(fc.init.flags & FUSE_AUTO_INVAL_DATA);
    ASSERT(!(fc.init.flags & (FUSE_POSIX_LOCKS | FUSE_WRITEBACK_CACHE | FUSE_POSIX_ACL)));
    const struct fuse_init_in newer = {.major = 8}, old = {.major = 7, .minor = 12};
    ASSERT_EQ(fc_ask(&fc, FUSE_INIT, 0, ARG(newer), NULL, NULL, NULL, 0), 0);
    ASSERT_EQ(fc.init.major, 7);
    ASSERT_EQ(fc_ask(&fc, FUSE_INIT, 0, ARG(old), NULL, NULL, NULL, 0), -EPROTO);
    fc_stop(&fc);
}

TEST(a_file_is_made_written_read_and_cut)
{
    uint64_t fh, node;
    tree();
    fc_start(&fc, "t");
    ASSERT_EQ(fc_create(&fc, ROOT, "new", O_RDWR | O_CREAT, 0640 | S_IFREG), 0);
    node = fc.create.entry.nodeid;
    fh = fc.create.open.fh;
    ASSERT_EQ(fc_write(&fc, node, fh, 3, "bytes", 5), 0);
    ASSERT_EQ(fc.write.size, 5);
    ASSERT_EQ(fc_read(&fc, node, fh, 0, 100), 0);
    ASSERT_EQ(fc.len, 8);
    ASSERT_MEM(fc.out, "\0\0\0bytes", 8);
    ASSERT_EQ(fc_setattr(&fc, node, (struct fuse_setattr_in){.valid = FATTR_SIZE, .size = 4}), 0);
    ASSERT_EQ(fc.attr.attr.size, 4);
    ASSERT_EQ(fc_release(&fc, node, fh), 0);
    ASSERT_EQ(fc_release(&fc, node, fh), -EBADF);
    ASSERT_EQ(host("t/new").st_mode, (mode_t)(S_IFREG | 0640));
    ASSERT_EQ(host("t/new").st_uid, geteuid());
    ASSERT_EQ(fc_open(&fc, node, O_WRONLY | O_TRUNC, &fh), 0);
    ASSERT_EQ(host("t/new").st_size, 0);
    ASSERT_EQ(fc_read(&fc, node, fh, 0, 1), -EBADF); /* opened for writing */
    fc_stop(&fc);
}

TEST(names_are_moved_swapped_linked_and_removed)
{
    tree();
    fc_start(&fc, "t");
    uint64_t dir = fc_node(&fc, "dir"), file = fc_node(&fc, "file"),
             inner = fc_node(&fc, "dir/inner");
    ASSERT_EQ(fc_rename(&fc, ROOT, "file", dir, "moved", 0), 0);
    ASSERT_EQ(fc_getattr(&fc, file), 0); /* the same node under its new name */
    ASSERT_EQ(fc_node(&fc, "dir/moved"), file);
    ASSERT_EQ(fc_rename(&fc, dir, "moved", dir, "inner", RENAME_NOREPLACE), -EEXIST);
    ASSERT_EQ(fc_rename(&fc, dir, "moved", dir, "inner", RENAME_EXCHANGE), 0);
    ASSERT_EQ(fc_node(&fc, "dir/inner"), file);
    ASSERT_EQ(fc_node(&fc, "dir/moved"), inner);
    ASSERT_EQ(fc_rename(&fc, dir, "moved", dir, "x", RENAME_WHITEOUT), -EINVAL);
    ASSERT_EQ(fc_link(&fc, inner, ROOT, "second"), 0);
    ASSERT_EQ(fc.entry.nodeid, inner);
    ASSERT_EQ(fc.entry.attr.nlink, 2);
    ASSERT_EQ(fc_link(&fc, dir, ROOT, "d"), -EPERM);
    ASSERT_EQ(fc_name(&fc, FUSE_UNLINK, dir, "moved"), 0);
    ASSERT_EQ(fc_lookup(&fc, ROOT, "second"), 0);
    ASSERT_EQ(fc.entry.attr.nlink, 1);
    ASSERT_EQ(fc_name(&fc, FUSE_RMDIR, ROOT, "dir"), -ENOTEMPTY);
    ASSERT_EQ(fc_name(&fc, FUSE_UNLINK, ROOT, "dir"), -EISDIR);
    ASSERT_EQ(fc_name(&fc, FUSE_UNLINK, dir, "inner"), 0);
    ASSERT_EQ(fc_name(&fc, FUSE_RMDIR, ROOT, "dir"), 0);
    ASSERT_EQ(fc_lookup(&fc, ROOT, "dir"),
              0); /* that there is none is an answer that may be kept */
    ASSERT_EQ(fc.entry.nodeid, 0);
    fc_stop(&fc);
}

TEST(a_folder_that_moves_takes_what_is_in_it_along)
{
    tree();
    fc_start_with(&fc, "t", &(struct bx_export_options){.max_fds = 1});
    uint64_t inner = fc_node(&fc, "dir/inner"), fh;
    ASSERT_EQ(fc_mkdir(&fc, ROOT, "other"), 0);
    uint64_t other = fc.entry.nodeid;
    ASSERT_EQ(fc_rename(&fc, ROOT, "dir", other, "deep", 0), 0);
    ASSERT_EQ(fc_open(&fc, inner, O_RDONLY, &fh), 0);
    ASSERT_EQ(fc_read(&fc, inner, fh, 0, 100), 0);
    ASSERT_MEM(fc.out, "inner", 5);
    fc_stop(&fc);
}

TEST(an_open_file_without_a_name_lives)
{
    uint64_t fh;
    tree();
    fc_start_with(&fc, "t", &(struct bx_export_options){.max_fds = 1});
    uint64_t file = fc_node(&fc, "file");
    ASSERT_EQ(fc_open(&fc, file, O_RDWR, &fh), 0);
    ASSERT_EQ(fc_name(&fc, FUSE_UNLINK, ROOT, "file"), 0);
    (void)fc_node(&fc, "dir/inner"); /* takes the one descriptor of the cache */
    ASSERT_EQ(fc_getattr(&fc, file), 0);
    ASSERT_EQ(fc.attr.attr.nlink, 0);
    ASSERT_EQ(
        fc_setattr(&fc, file,
                   (struct fuse_setattr_in){.valid = FATTR_SIZE | FATTR_FH, .size = 3, .fh = fh}),
        0);
    ASSERT_EQ(fc_setattr(&fc, file, (struct fuse_setattr_in){.valid = FATTR_MODE, .mode = 0600}),
              0);
    ASSERT_EQ(fc_read(&fc, file, fh, 0, 10), 0);
    ASSERT_EQ(fc.len, 3);
    ASSERT_EQ(fc_release(&fc, file, fh), 0);
    ASSERT_EQ(fc_getattr(&fc, file), -ESTALE);
    fc_stop(&fc);
}

TEST(modes_and_times_are_kept_and_set_ids_are_not)
{
    tree();
    fc_start(&fc, "t");
    uint64_t file = fc_node(&fc, "file"), link = fc_node(&fc, "link");
    struct fuse_setattr_in in = {.valid = FATTR_MODE | FATTR_MTIME | FATTR_ATIME,
                                 .mode = 06755,
                                 .mtime = 1000000001,
                                 .mtimensec = 123456789,
                                 .atime = 5};
    ASSERT_EQ(fc_setattr(&fc, file, in), 0);
    ASSERT_EQ(fc.attr.attr.mode, S_IFREG | 0755);
    struct stat st = host("t/file");
    ASSERT_EQ(st.st_mode, (mode_t)(S_IFREG | 0755));
    ASSERT_EQ(st.st_mtim.tv_sec, 1000000001);
    ASSERT_EQ(st.st_mtim.tv_nsec, 123456789);
    ASSERT_EQ(fc_setattr(&fc, link, (struct fuse_setattr_in){.valid = FATTR_MODE}), -EOPNOTSUPP);
    ASSERT_EQ(fc_setattr(&fc, link, (struct fuse_setattr_in){.valid = FATTR_MTIME, .mtime = 9}), 0);
    ASSERT_EQ(host("t/link").st_mtim.tv_sec, 9);
    ASSERT_EQ(host("t/dir/inner").st_mode, (mode_t)(S_IFREG | 0755));
    ASSERT_EQ(fc_create(&fc, ROOT, "su", O_WRONLY, 06755 | S_IFREG), 0);
    ASSERT_EQ(host("t/su").st_mode, (mode_t)(S_IFREG | 0755));
    /* The host's own set-ids go when the guest writes. */
    ASSERT_EQ(fchmodat(tmpdir_fd(), "t/dir/inner", 06755, 0), 0);
    uint64_t inner = fc_node(&fc, "dir/inner"), fh;
    ASSERT_EQ(fc_open(&fc, inner, O_WRONLY | O_TRUNC, &fh), 0);
    ASSERT_EQ(host("t/dir/inner").st_mode, (mode_t)(S_IFREG | 0755));
    fc_stop(&fc);
}

TEST(links_are_read_and_made_with_any_text)
{
    tree();
    fc_start(&fc, "t");
    uint64_t link = fc_node(&fc, "link");
    ASSERT_EQ(fc_ask(&fc, FUSE_READLINK, link, NULL, 0, NULL, NULL, NULL, 0), 0);
    ASSERT_EQ(fc.len, 9);
    ASSERT_MEM(fc.out, "dir/inner", 9);
    ASSERT_EQ(fc_symlink(&fc, ROOT, "out", "../../etc/passwd\n\xff"), 0);
    ASSERT(S_ISLNK(fc.entry.attr.mode));
    ASSERT_EQ(fc_ask(&fc, FUSE_READLINK, fc.entry.nodeid, NULL, 0, NULL, NULL, NULL, 0), 0);
    ASSERT_EQ(fc.len, 18);
    ASSERT_EQ(fc_ask(&fc, FUSE_READLINK, ROOT, NULL, 0, NULL, NULL, NULL, 0), -EINVAL);
    fc_stop(&fc);
}

/* All names of a folder in pieces of `size` bytes, from the offset that each piece ends with. */
static unsigned list(uint64_t node, uint32_t op, uint32_t size, bool *odd)
{
    uint64_t fh, offset = 0;
    unsigned n = 0;
    *odd = false;
    ASSERT_EQ(fc_opendir(&fc, node, &fh), 0);
    for (;;) {
        const struct fuse_read_in in = {.fh = fh, .offset = offset, .size = size};
        ASSERT_EQ(fc_ask(&fc, op, node, ARG(in), NULL, NULL, NULL, 0), 0);
        if (fc.len == 0) {
            break;
        }
        size_t skip = op == FUSE_READDIRPLUS ? sizeof(struct fuse_entry_out) : 0;
        for (size_t at = 0; at < fc.len; n++) {
            struct fuse_dirent *d = (struct fuse_dirent *)(fc.out + at + skip);
            struct fuse_entry_out *e = (struct fuse_entry_out *)(fc.out + at);
            bool dots = d->name[0] == '.' && d->namelen <= 2;
            ASSERT_LE(at + skip + FUSE_DIRENT_SIZE(d), fc.len);
            ASSERT(!skip || (e->nodeid != 0) != dots);
            *odd |= d->namelen == 5 && memcmp(d->name, "a\n\xff\x01z", 5) == 0;
            offset = d->off;
            at += FUSE_DIRENT_ALIGN(skip + FUSE_NAME_OFFSET + d->namelen);
        }
    }
    const struct fuse_release_in in = {.fh = fh};
    ASSERT_EQ(fc_ask(&fc, FUSE_RELEASEDIR, node, ARG(in), NULL, NULL, NULL, 0), 0);
    return n;
}

TEST(folders_of_any_size_and_names_of_any_bytes)
{
    bool odd;
    tree();
    for (unsigned i = 0; i < 3000; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "t/dir/n%u", i);
        int fd = openat(tmpdir_fd(), name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        ASSERT_GE(fd, 0);
        (void)close(fd);
    }
    ASSERT_OK(bx_write_file(tmpdir_fd(), "t/dir/a\n\xff\x01z", "odd", 3, 0644));
    fc_start_with(&fc, "t", &(struct bx_export_options){.max_fds = 2});
    uint64_t dir = fc_node(&fc, "dir");
    static const uint32_t sizes[] = {512, 4096, 65536};
    for (size_t i = 0; i < BX_ARRAY_SIZE(sizes); i++) {
        ASSERT_EQ(list(dir, FUSE_READDIR, sizes[i], &odd), 3004);
        ASSERT(odd);
        ASSERT_EQ(list(dir, FUSE_READDIRPLUS, sizes[i], &odd), 3004);
        ASSERT(odd);
    }
    uint64_t node = fc_node(&fc, "dir/a\n\xff\x01z"), fh;
    ASSERT_EQ(fc_open(&fc, node, O_RDONLY, &fh), 0);
    ASSERT_EQ(fc_read(&fc, node, fh, 0, 9), 0);
    ASSERT_EQ(fc.len, 3);
    fc_stop(&fc);
}

TEST(holes_are_kept)
{
    uint64_t node, fh;
    tree();
    fc_start(&fc, "t");
    ASSERT_EQ(fc_create(&fc, ROOT, "sparse", O_RDWR, 0644), 0);
    node = fc.create.entry.nodeid;
    fh = fc.create.open.fh;
    ASSERT_EQ(fc_write(&fc, node, fh, 10 << 20, "x", 1), 0);
    ASSERT_LT(host("t/sparse").st_blocks, 4096);
    struct fuse_lseek_in in = {.fh = fh, .offset = 0, .whence = SEEK_DATA};
    ASSERT_EQ(fc_ask(&fc, FUSE_LSEEK, node, ARG(in), NULL, NULL, NULL, 0), 0);
    ASSERT_GT(fc.lseek.offset, 0);
    in.whence = SEEK_CUR;
    ASSERT_EQ(fc_ask(&fc, FUSE_LSEEK, node, ARG(in), NULL, NULL, NULL, 0), -EINVAL);
    const struct fuse_fallocate_in more = {.fh = fh, .length = 1 << 20, .offset = 11 << 20};
    ASSERT_EQ(fc_ask(&fc, FUSE_FALLOCATE, node, ARG(more), NULL, NULL, NULL, 0), 0);
    ASSERT_EQ(host("t/sparse").st_size, 12 << 20);
    const struct fuse_copy_file_range_in copy = {
        .fh_in = fh, .off_in = 10 << 20, .nodeid_out = node, .fh_out = fh, .off_out = 0, .len = 1};
    ASSERT_EQ(fc_ask(&fc, FUSE_COPY_FILE_RANGE, node, ARG(copy), NULL, NULL, NULL, 0), 0);
    ASSERT_EQ(fc_read(&fc, node, fh, 0, 1), 0);
    ASSERT_MEM(fc.out, "x", 1);
    fc_stop(&fc);
}

TEST(attributes_of_users_only)
{
    tree();
    fc_start(&fc, "t");
    uint64_t file = fc_node(&fc, "file"), link = fc_node(&fc, "link");
    int r = fc_setxattr(&fc, file, "user.a", "value");
    if (r == -EOPNOTSUPP) {
        fc_stop(&fc);
        SKIP("this file system has no user.* attributes");
    }
    ASSERT_EQ(r, 0);
    ASSERT_EQ(fc_getxattr(&fc, file, "user.a", 0), 0);
    ASSERT_EQ(fc.xattr.size, 5);
    ASSERT_EQ(fc_getxattr(&fc, file, "user.a", 3), -ERANGE);
    ASSERT_EQ(fc_getxattr(&fc, file, "user.a", 100), 0);
    ASSERT_MEM(fc.out, "value", 5);
    ASSERT_EQ(fc_getxattr(&fc, file, NULL, 100), 0);
    ASSERT_EQ(fc.len, 7);
    ASSERT_EQ(fc_name(&fc, FUSE_REMOVEXATTR, file, "user.a"), 0);
    ASSERT_EQ(fc_getxattr(&fc, file, "user.a", 100), -ENODATA);
    static const char *const others[] = {"security.capability", "trusted.overlay.opaque",
                                         "system.posix_acl_access", "user"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(others); i++) {
        ASSERT_EQ(fc_setxattr(&fc, file, others[i], "x"), -EOPNOTSUPP);
        ASSERT_EQ(fc_getxattr(&fc, file, others[i], 100), -EOPNOTSUPP);
    }
    ASSERT_EQ(fc_setxattr(&fc, link, "user.a", "x"), -EOPNOTSUPP);
    fc_stop(&fc);
}

TEST(who_asks_is_the_owner)
{
    tree();
    fc_start(&fc, "t");
    fc.uid = 1000;
    uint64_t file = fc_node(&fc, "file");
    ASSERT_EQ(fc.entry.attr.uid, 1000);
    ASSERT_GT(fc.entry.attr_valid, 0);
    ASSERT_EQ(fc.notes, 0);
    fc.uid = 0;
    ASSERT_EQ(fc_getattr(&fc, file), 0);
    ASSERT_EQ(fc.attr.attr.uid, 0);
    ASSERT_EQ(fc.attr.attr_valid + fc.attr.attr_valid_nsec,
              0);           /* two take turns: nothing to be kept */
    ASSERT_EQ(fc.notes, 1); /* what 1000 was told is called back */
    ASSERT_EQ(fc.note.ino, file);
    ASSERT_LT(fc.note.off, 0); /* its attributes, not its pages: that could wait for the guest */
    ASSERT_EQ(fc_setattr(&fc, file, (struct fuse_setattr_in){.valid = FATTR_UID, .uid = 33}), 0);
    ASSERT_EQ(fc.attr.attr.uid, 0);
    ASSERT_EQ(host("t/file").st_uid, geteuid());
    fc.uid = 1000;
    ASSERT_EQ(fc_setattr(&fc, file, (struct fuse_setattr_in){.valid = FATTR_UID, .uid = 33}),
              -EPERM);
    ASSERT_EQ(fc_setattr(&fc, file, (struct fuse_setattr_in){.valid = FATTR_UID, .uid = 1000}), 0);
    fc_stop(&fc);
}

TEST(a_workspace_has_one_owner)
{
    tree();
    fc_start_with(&fc, "t", &(struct bx_export_options){.fixed_owner = true, .read_only = true});
    bx_export_set_owner(&fc.t, 1000, 1001);
    (void)fc_node(&fc, "file");
    ASSERT_EQ(fc.entry.attr.uid, 1000);
    ASSERT_EQ(fc.entry.attr.gid, 1001);
    fc.uid = 5;
    ASSERT_EQ(fc_getattr(&fc, ROOT), 0);
    ASSERT_EQ(fc.attr.attr.uid, 1000);
    fc_stop(&fc);
}

TEST(changes_of_the_host_are_seen)
{
    uint64_t fh;
    tree();
    ASSERT_EQ(mkdirat(tmpdir_fd(), "t/dir3", 0755), 0);
    fc_start_with(&fc, "t", &(struct bx_export_options){.max_fds = 1});
    uint64_t file = fc_node(&fc, "file"), inner = fc_node(&fc, "dir/inner");
    ASSERT_OK(bx_write_file(tmpdir_fd(), "t/file", "other content", 13, 0644)); /* replaced */
    ASSERT_EQ(fc_getattr(&fc, file), -ESTALE);
    uint64_t now = fc_node(&fc, "file");
    ASSERT_NE(now, file);
    ASSERT_EQ(fc.entry.attr.size, 13);
    ASSERT_EQ(fc_open(&fc, file, O_RDONLY, &fh), -ESTALE); /* an old number is never another file */
    ASSERT_EQ(renameat(tmpdir_fd(), "t/dir", tmpdir_fd(), "t/dir2"), 0);
    (void)fc_node(&fc, "dir3/x"); /* takes the one descriptor of the cache */
    ASSERT_EQ(fc_open(&fc, inner, O_RDONLY, &fh), -ESTALE);
    ASSERT_EQ(fc_node(&fc, "dir2/inner"), inner);
    ASSERT_EQ(fc_open(&fc, inner, O_RDONLY, &fh), 0);
    fc_stop(&fc);
}

TEST(a_single_file_is_shared)
{
    uint64_t fh;
    tree();
    fc_start(&fc, "t/file");
    ASSERT_EQ(fc_getattr(&fc, ROOT), 0);
    ASSERT(S_ISREG(fc.attr.attr.mode));
    ASSERT_EQ(fc_open(&fc, ROOT, O_RDWR, &fh), 0);
    ASSERT_EQ(fc_write(&fc, ROOT, fh, 0, "C", 1), 0);
    ASSERT_EQ(fc_lookup(&fc, ROOT, "x"), -ENOTDIR);
    ASSERT_EQ(fc_create(&fc, ROOT, "x", O_RDWR, 0644), -ENOTDIR);
    ASSERT_EQ(fc_opendir(&fc, ROOT, &fh), -ENOTDIR);
    fc_stop(&fc);
}

TEST(the_file_system_tells_its_room)
{
    tree();
    fc_start(&fc, "t");
    ASSERT_EQ(fc_ask(&fc, FUSE_STATFS, ROOT, NULL, 0, NULL, NULL, NULL, 0), 0);
    ASSERT_GT(fc.statfs.st.blocks, 0);
    ASSERT_GT(fc.statfs.st.namelen, 0);
    fc_stop(&fc);
}

/* ---- what the host changes meanwhile */

static struct bx_watch *watch;

static void start_watched(void)
{
    tree();
    ASSERT_EQ(bx_watch_new(&watch), 0);
    fc_start_with(&fc, "t", &(struct bx_export_options){.watch = watch});
    (void)fc_node(&fc, "file");
    if (fc.t.nodes.root->watch <= 0) {
        fc_stop(&fc);
        bx_watch_free(watch);
        SKIP("folders cannot be watched here");
    }
}

static void stop_watched(void)
{
    fc_stop(&fc);
    bx_watch_free(watch);
}

/* What was called back since the last look. */
static void expect(unsigned notes, unsigned names)
{
    bx_watch_drain(watch);
    ASSERT_EQ(fc.names, names);
    ASSERT(notes == 0 ? fc.notes == 0 : fc.notes >= notes);
    fc.notes = fc.names = 0;
}

TEST(what_is_watched_may_be_kept_for_long)
{
    start_watched();
    (void)fc_node(&fc, "file");
    ASSERT_GT(fc.entry.entry_valid, 5);
    ASSERT_GT(fc.entry.attr_valid, 5);
    ASSERT_EQ(linkat(tmpdir_fd(), "t/file", tmpdir_fd(), "t/second", 0), 0);
    (void)fc_node(&fc, "file"); /* could be changed by its other name, wherever that is */
    ASSERT_LE(fc.entry.attr_valid, 1);
    (void)fc_node(&fc, "link");
    ASSERT_GT(fc.entry.attr_valid, 5);
    stop_watched();
    fc_start(&fc, "t");
    (void)fc_node(&fc, "dir");
    ASSERT_LE(fc.entry.entry_valid, 1);
    fc_stop(&fc);
}

TEST(changes_of_the_host_are_called_back)
{
    start_watched();
    uint64_t file = fc_node(&fc, "file"), inner = fc_node(&fc, "dir/inner");
    (void)fc_node(&fc, "none");
    expect(0, 0);
    int fd = openat(tmpdir_fd(), "t/file", O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(write(fd, "x", 1), 1);
    expect(1, 0);
    ASSERT_EQ(fc.note.ino, file);
    (void)close(fd);
    expect(0, 0); /* it was called back already, and not told again */
    ASSERT_EQ(fc_getattr(&fc, inner), 0);
    ASSERT_EQ(fchmodat(tmpdir_fd(), "t/dir/inner", 0700, 0), 0);
    expect(1, 0);
    fd = openat(tmpdir_fd(), "t/none", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    (void)close(fd);
    expect(0, 1);
    ASSERT_STREQ(fc.name, "none");
    ASSERT_EQ(renameat(tmpdir_fd(), "t/none", tmpdir_fd(), "t/dir/moved"), 0);
    expect(0, 2);
    ASSERT_EQ(unlinkat(tmpdir_fd(), "t/dir/moved", 0), 0);
    expect(0, 1);
    ASSERT_STREQ(fc.name, "moved");
    stop_watched();
}

TEST(changes_of_the_guest_are_not_called_back)
{
    uint64_t fh;
    start_watched();
    uint64_t dir = fc_node(&fc, "dir"), file = fc_node(&fc, "file");
    (void)fc_node(&fc, "dir/inner");
    ASSERT_EQ(fc_create(&fc, dir, "new", O_RDWR, 0644), 0);
    uint64_t new = fc.create.entry.nodeid;
    fh = fc.create.open.fh;
    ASSERT_EQ(fc_write(&fc, new, fh, 0, "x", 1), 0);
    ASSERT_EQ(fc_setattr(&fc, new, (struct fuse_setattr_in){.valid = FATTR_MODE, .mode = 0600}), 0);
    ASSERT_EQ(fc_setattr(&fc, new, (struct fuse_setattr_in){.valid = FATTR_SIZE, .size = 9}), 0);
    ASSERT_EQ(fc_release(&fc, new, fh), 0);
    ASSERT_EQ(fc_mkdir(&fc, ROOT, "made"), 0);
    ASSERT_EQ(fc_symlink(&fc, ROOT, "made-link", "x"), 0);
    ASSERT_EQ(fc_link(&fc, new, ROOT, "hard"), 0);
    ASSERT_EQ(fc_rename(&fc, dir, "new", ROOT, "moved", 0), 0);
    ASSERT_EQ(fc_rename(&fc, ROOT, "moved", ROOT, "hard2", 0), 0);
    ASSERT_EQ(fc_name(&fc, FUSE_UNLINK, ROOT, "hard2"), 0);
    ASSERT_EQ(fc_open(&fc, file, O_WRONLY | O_TRUNC, &fh), 0);
    ASSERT_EQ(fc_setattr(&fc, dir, (struct fuse_setattr_in){.valid = FATTR_MODE, .mode = 0755}), 0);
    expect(0, 0);
    /* One of the host on the same name just before is not lost among them. */
    ASSERT_EQ(fc_getattr(&fc, file), 0);
    ASSERT_EQ(fchmodat(tmpdir_fd(), "t/file", 0600, 0), 0);
    ASSERT_EQ(fc_write(&fc, file, fh, 0, "y", 1), 0);
    expect(1, 0);
    stop_watched();
}

TEST(a_folder_in_which_the_host_is_busy_is_left_alone)
{
    start_watched();
    uint64_t file = fc_node(&fc, "file");
    for (unsigned i = 0; i < 200; i++) {
        ASSERT_EQ(renameat(tmpdir_fd(), "t/file", tmpdir_fd(), "t/other"), 0);
        ASSERT_EQ(renameat(tmpdir_fd(), "t/other", tmpdir_fd(), "t/file"), 0);
        bx_watch_drain(watch);
    }
    ASSERT_LT(fc.names, 300);
    ASSERT_EQ(fc_node(&fc, "file"), file);
    ASSERT_LE(fc.entry.entry_valid, 1);
    ASSERT_LE(fc.entry.attr_valid, 1);
    stop_watched();
}

TEST(folders_that_go_are_not_watched_any_more)
{
    start_watched();
    (void)fc_node(&fc, "dir/inner");
    uint64_t dir = fc_node(&fc, "dir");
    ASSERT_EQ(renameat(tmpdir_fd(), "t/dir", tmpdir_fd(), "t/dir2"), 0);
    expect(0, 2);
    ASSERT_EQ(fc_node(&fc, "dir2"), dir);
    ASSERT_EQ(unlinkat(tmpdir_fd(), "t/dir2/inner", 0), 0);
    expect(1, 1); /* the watch went along */
    ASSERT_EQ(unlinkat(tmpdir_fd(), "t/dir2", AT_REMOVEDIR), 0);
    expect(0, 1);
    ASSERT_EQ(fc_forget(&fc, dir, 1000), 1);
    stop_watched();
}
