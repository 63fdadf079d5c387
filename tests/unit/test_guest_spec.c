/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_guest_spec.c: the agent's two big messages.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/config.h"
#include "guest/files.h"
#include "guest/spec.h"
#include "harness.h"
#include "wire/proto.h"

static int parse_spec(const struct bx_buf *b, struct spec *s)
{
    struct bx_msg m;
    ASSERT_EQ(bx_msg_parse(bx_buf_data(b), b->len, &m), 0);
    return spec_parse(&m, s);
}

static void begin_exec(struct bx_buf *b, uint64_t id)
{
    ASSERT_EQ(bx_msg_begin(b, BX_AG_EXEC), 0);
    ASSERT_EQ(bx_msg_u64(b, BX_T_EXEC, id), 0);
}

TEST(an_exec_keeps_the_order_of_its_lists)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
    _cleanup_spec_ struct spec s = {0};
    uint8_t rlimit[24] = {7, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 20};
    begin_exec(&b, 3);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ARG, "echo"), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ENV, "A=1"), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ARG, ""), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_USER, "first"), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_USER, "second"), 0);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_RLIMIT, rlimit, sizeof(rlimit)), 0);
    ASSERT_EQ(bx_msg_str(&b, 60000, "of a newer host"), 0);
    ASSERT_EQ(parse_spec(&b, &s), 0);
    ASSERT_EQ(s.id, 3);
    ASSERT_EQ(s.argv.n, 2);
    ASSERT_STREQ(s.argv.v[1], "");
    ASSERT_STREQ(s.env.v[0], "A=1");
    ASSERT_STREQ(s.user, "second");
    ASSERT_EQ(s.nrlimits, 1);
    ASSERT_EQ(s.rlimits[0].limit.rlim_max, 20);
    ASSERT_NULL(s.cwd);
}

TEST(what_an_exec_may_not_say)
{
    static const struct {
        uint16_t tag;
        const void *data;
        size_t len;
    } rows[] = {
        {BX_T_ARG, "a\0b", 3},
        {BX_T_ENV, "a\0b", 3},
        {BX_T_CWD, "\0", 1},
        {BX_T_FLAGS, "1234567", 7},
        {BX_T_ROWS, "\0\0\1\0\0\0\0\0", 8},
        {BX_T_RLIMIT, "short", 5},
        {BX_T_EXEC, "\0\0\0\0\0\0\0\0", 8},
        {BX_T_EXEC, "\0\0\0\x10\0\0\0\0", 8},
        {BX_T_FILE, "", 0},
        {BX_T_FILE, "\0content", 8},
        {BX_T_FILE, "no end", 6},
        {BX_T_RLIMIT, "\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
        _cleanup_spec_ struct spec s = {0};
        begin_exec(&b, 3);
        ASSERT_EQ(bx_msg_bytes(&b, rows[i].tag, rows[i].data, rows[i].len), 0);
        if (parse_spec(&b, &s) != -EPROTO) {
            FAIL("row %zu", i);
        }
    }
}

static void expect_file(const char *name, const char *content, size_t len, mode_t mode)
{
    char buf[64];
    struct stat st;
    _cleanup_close_ int fd = open(name, O_RDONLY | O_CLOEXEC);
    ASSERT(fd >= 0);
    ASSERT_EQ(read(fd, buf, sizeof(buf)), (ssize_t)len);
    ASSERT(memcmp(buf, content, len) == 0);
    ASSERT_EQ(fstat(fd, &st), 0);
    ASSERT_EQ(st.st_mode & 0777, mode);
}

TEST(files_of_an_exec_appear_whole_with_their_folders)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
    _cleanup_spec_ struct spec s = {0};
    struct failure f = {0};
    char dir[] = "/tmp/test-files.XXXXXX";
    _cleanup_close_ int old = open(".", O_PATH | O_CLOEXEC);

    ASSERT(mkdtemp(dir));
    ASSERT_EQ(chdir(dir), 0);
    (void)umask(022);
    begin_exec(&b, 3);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_FILE, "new\0a\0b", 7), 0);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_FILE, "a/b/deep\0", 9), 0);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_FILE, "tool\0second", 11), 0);
    int fd = open("tool", O_WRONLY | O_CREAT | O_CLOEXEC, 0750);
    ASSERT(fd >= 0);
    (void)close(fd);
    ASSERT_EQ(parse_spec(&b, &s), 0);
    ASSERT_EQ(files_write(&s.files, &f), 0);
    expect_file("new", "a\0b", 3, 0644);
    expect_file("a/b/deep", "", 0, 0644);
    expect_file("tool", "second", 6, 0750);
    struct stat first, second;
    ASSERT_EQ(stat("tool", &first), 0);
    ASSERT_EQ(files_write(&s.files, &f), 0);
    ASSERT_EQ(stat("tool", &second), 0);
    ASSERT(second.st_mtim.tv_sec > first.st_mtim.tv_sec);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_FILE, "a/b\0a folder", 12), 0);
    spec_done(&s);
    ASSERT_EQ(parse_spec(&b, &s), 0);
    ASSERT(files_write(&s.files, &f) < 0);
    ASSERT(strstr(f.text, "a/b"));
    ASSERT_EQ(unlink("new") | unlink("tool") | unlink("a/b/deep") | rmdir("a/b") | rmdir("a"), 0);
    ASSERT_EQ(fchdir(old), 0);
    ASSERT_EQ(rmdir(dir), 0); /* and nothing else was left */
}

TEST(parsing_an_exec_survives_failing_allocations)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
    begin_exec(&b, 3);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ARG, "echo"), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ENV, "A=1"), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_CWD, "/"), 0);
    TORTURE
    {
        _cleanup_spec_ struct spec s = {0};
        ASSERT_EQ(parse_spec(&b, &s), allocation_failed() ? -ENOMEM : 0);
    }
}

static int parse_config(struct bx_buf *b, struct config *cfg)
{
    struct bx_msg m;
    ASSERT_EQ(bx_msg_parse(bx_buf_data(b), b->len, &m), 0);
    return config_parse(&m, cfg);
}

TEST(a_configuration_with_files)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
    _cleanup_config_ struct config cfg = {0};
    ASSERT_EQ(bx_msg_begin(&b, BX_AG_CONFIGURE), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ROOT_DEV, "/dev/vda"), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ROOT_TYPE, "squashfs"), 0);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_FILE, "/etc/a\0x\0y", 10), 0);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_FILE, "/empty\0", 7), 0);
    ASSERT_EQ(parse_config(&b, &cfg), 0);
    ASSERT_EQ(cfg.nfiles, 2);
    ASSERT_STREQ(cfg.files[0].path, "/etc/a");
    ASSERT_EQ(cfg.files[0].len, 3);
    ASSERT_MEM(cfg.files[0].data, "x\0y", 3);
    ASSERT_EQ(cfg.files[1].len, 0);
    ASSERT_NULL(cfg.upper_dev);
}

/* A configuration with one shared folder. */
static int parse_mount(const void *field, size_t len, struct config *cfg)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
    ASSERT_EQ(bx_msg_begin(&b, BX_AG_CONFIGURE), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ROOT_DEV, "/dev/vda"), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ROOT_TYPE, "squashfs"), 0);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_MOUNT, field, len), 0);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_MOUNT, "\x04/second", 8), 0);
    return parse_config(&b, cfg);
}

TEST(a_configuration_with_shared_folders)
{
    static const struct {
        const char *field;
        size_t len;
    } bad[] = {{"", 0}, {"\x01", 1}, {"\x01/", 2}, {"\x01rel", 4}, {"/a", 2}, {"\x01/a\0b", 5}};
    _cleanup_config_ struct config cfg = {0};
    ASSERT_EQ(parse_mount("\0/a b/\xff", 7, &cfg), 0);
    ASSERT_EQ(cfg.nmounts, 2);
    ASSERT_EQ(cfg.mounts[0].flags, 0);
    ASSERT_STREQ(cfg.mounts[0].guest, "/a b/\xff");
    ASSERT_EQ(cfg.mounts[1].flags, BX_MOUNT_FILE);
    for (size_t i = 0; i < BX_ARRAY_SIZE(bad); i++) {
        _cleanup_config_ struct config c = {0};
        ASSERT_EQ(parse_mount(bad[i].field, bad[i].len, &c), -EPROTO);
    }
}

TEST(what_a_configuration_may_not_be)
{
    static const char *const bad_files[] = {"relative", "no-nul", ""};
    for (size_t i = 0; i < 3; i++) {
        _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
        _cleanup_config_ struct config cfg = {0};
        ASSERT_EQ(bx_msg_begin(&b, BX_AG_CONFIGURE), 0);
        ASSERT_EQ(bx_msg_str(&b, BX_T_ROOT_DEV, "/dev/vda"), 0);
        ASSERT_EQ(bx_msg_str(&b, BX_T_ROOT_TYPE, "squashfs"), 0);
        ASSERT_EQ(bx_msg_bytes(&b, BX_T_FILE, bad_files[i], strlen(bad_files[i]) + (i == 0)), 0);
        ASSERT_EQ(parse_config(&b, &cfg), -EPROTO);
    }
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
    _cleanup_config_ struct config cfg = {0};
    ASSERT_EQ(bx_msg_begin(&b, BX_AG_CONFIGURE), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ROOT_DEV, "/dev/vda"), 0);
    ASSERT_EQ(parse_config(&b, &cfg), -EPROTO); /* without a type */
}

TEST(parsing_a_configuration_survives_failing_allocations)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
    ASSERT_EQ(bx_msg_begin(&b, BX_AG_CONFIGURE), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ROOT_DEV, "/dev/vda"), 0);
    ASSERT_EQ(bx_msg_str(&b, BX_T_ROOT_TYPE, "squashfs"), 0);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_FILE, "/etc/a\0x", 8), 0);
    ASSERT_EQ(bx_msg_bytes(&b, BX_T_MOUNT, "\x01/x", 3), 0);
    TORTURE
    {
        _cleanup_config_ struct config cfg = {0};
        ASSERT_EQ(parse_config(&b, &cfg), allocation_failed() ? -ENOMEM : 0);
    }
}
