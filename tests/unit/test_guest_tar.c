/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_guest_tar.c: headers of archives, written and read again, and damaged ones. Whole copies are tested
 * in a guest (tests/vm).
 */
#include <errno.h>
#include <stdlib.h>

#include "guest/tar.h"
#include "harness.h"

struct input {
    const uint8_t *p;
    size_t left;
};

static int take(void *data, void *p, size_t len)
{
    struct input *in = data;
    if (in->left < len) {
        int r = in->left == 0 ? -ENODATA : -EBADMSG;
        in->left = 0;
        return r;
    }
    memcpy(p, in->p, len);
    in->p += len;
    in->left -= len;
    return 0;
}

/* Writes an entry, reads it, compares; the number of blocks. */
static size_t round_trip(const struct tar_entry *e)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(1 << 20);
    ASSERT_EQ(tar_write_header(&b, e), 0);
    struct input in = {bx_buf_data(&b), b.len};
    struct tar_reader r = {.read = take, .data = &in};
    ASSERT_EQ(tar_read_header(&r), 1);
    ASSERT_EQ(r.entry.type, e->type);
    ASSERT_STREQ(r.entry.name, e->name);
    ASSERT_STREQ(r.entry.link, e->link ? e->link : "");
    ASSERT_EQ(r.entry.mode, e->mode);
    ASSERT_EQ(r.entry.uid, e->uid);
    ASSERT_EQ(r.entry.gid, e->gid);
    ASSERT_EQ(r.entry.size, e->size);
    ASSERT_EQ(r.entry.mtime, e->mtime);
    ASSERT_EQ(r.entry.mtime_nsec, e->mtime_nsec);
    ASSERT_EQ(r.entry.major, e->major);
    ASSERT_EQ(r.entry.minor, e->minor);
    ASSERT_EQ(tar_read_header(&r), 0);
    tar_reader_done(&r);
    return b.len / TAR_BLOCK;
}

TEST(plain_entries_take_one_block)
{
    char name[101] = {0};
    struct tar_entry e = {.type = TAR_FILE,
                          .name = (char *)"dir/file",
                          .mode = 04755,
                          .uid = 1000,
                          .gid = 100,
                          .size = 12345,
                          .mtime = 1700000000};
    ASSERT_EQ(round_trip(&e), 1);
    memset(name, 'n', 100);
    e.name = name;
    e.size = 077777777777; /* the most that 11 octal digits say */
    ASSERT_EQ(round_trip(&e), 1);
    e = (struct tar_entry){.type = TAR_SYMLINK, .name = (char *)"l", .link = (char *)"/etc"};
    ASSERT_EQ(round_trip(&e), 1);
    e = (struct tar_entry){.type = TAR_CHAR, .name = (char *)"null", .major = 1, .minor = 3};
    ASSERT_EQ(round_trip(&e), 1);
}

TEST(what_does_not_fit_comes_back_all_the_same)
{
    char name[4000], link[3000];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    memset(link, 'l', sizeof(link) - 1);
    link[sizeof(link) - 1] = 0;
    struct tar_entry e = {.type = TAR_FILE,
                          .name = name,
                          .size = UINT64_C(1) << 40,
                          .uid = UINT32_MAX - 1,
                          .gid = 3000000,
                          .mtime = INT64_C(1) << 40,
                          .mtime_nsec = 123456789};
    ASSERT_GT(round_trip(&e), 2);
    e = (struct tar_entry){
        .type = TAR_SYMLINK, .name = name, .link = link, .mtime = -1000, .mtime_nsec = 0};
    ASSERT_GT(round_trip(&e), 2);
    /* Lengths around the change of a record's number of digits. */
    for (size_t len = 80; len < 130; len++) {
        name[len] = 0;
        e = (struct tar_entry){.type = TAR_FILE, .name = name, .mtime_nsec = 1};
        (void)round_trip(&e);
        name[len] = 'n';
    }
}

static int read_first(const uint8_t *data, size_t len)
{
    struct input in = {data, len};
    struct tar_reader r = {.read = take, .data = &in};
    int k = tar_read_header(&r);
    tar_reader_done(&r);
    return k;
}

TEST(any_changed_byte_of_a_header_is_noticed)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
    struct tar_entry e = {.type = TAR_FILE, .name = (char *)"file", .mode = 0644, .size = 5};
    ASSERT_EQ(tar_write_header(&b, &e), 0);
    uint8_t *p = bx_buf_data(&b);
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        p[i] ^= 0x40;
        ASSERT_EQ(read_first(p, b.len), -EBADMSG);
        p[i] ^= 0x40;
    }
    ASSERT_EQ(read_first(p, b.len), 1);
}

TEST(an_archive_that_is_cut_anywhere_is_refused)
{
    _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
    struct tar_entry e = {.type = TAR_FILE, .name = (char *)"file", .mtime_nsec = 1};
    ASSERT_EQ(tar_write_header(&b, &e), 0);
    ASSERT_EQ(b.len, 3 * TAR_BLOCK);
    for (size_t len = 1; len < b.len; len++) {
        ASSERT_EQ(read_first(bx_buf_data(&b), len), -EBADMSG);
    }
    ASSERT_EQ(read_first(bx_buf_data(&b), 0), 0);
}

TEST(reading_survives_failing_allocations)
{
    TORTURE
    {
        _cleanup_buf_ struct bx_buf b = BX_BUF_INIT(10000);
        struct tar_entry e = {
            .type = TAR_SYMLINK, .name = (char *)"a", .link = (char *)"b", .mtime_nsec = 1};
        int r = tar_write_header(&b, &e);
        if (r == 0) {
            r = read_first(bx_buf_data(&b), b.len);
        }
        ASSERT_EQ(r, allocation_failed() ? -ENOMEM : 1);
    }
}
