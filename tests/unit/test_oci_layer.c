/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_oci_layer.c: what comes out of layers, honest and hostile, seen in the finished squashfs.
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"
#include "disk/rootfs.h"
#include "harness.h"
#include "image_files.h"
#include "oci/layer.h"

/* A layer from memory, handed out in small pieces. */
struct memory {
    struct bx_stream stream;
    const struct bx_buf *from;
    size_t at;
};

static ssize_t memory_next(struct bx_stream *s, const void **ret, boxlite_error **err)
{
    struct memory *m = (struct memory *)s;
    size_t n = m->from->len - m->at;

    (void)err;
    n = n > 1000 ? 1000 : n;
    *ret = bx_buf_data(m->from) + m->at;
    m->at += n;
    return (ssize_t)n;
}

static int apply(struct bx_rootfs *root, const struct bx_buf *tar, uint32_t layer,
                 boxlite_error **err)
{
    struct memory m = {.stream = {.next = memory_next}, .from = tar};

    return bx_layer_apply(&m.stream, root, layer, err);
}

/* The tree that the layers make, as text. */
static char *build(const struct bx_buf *layers, size_t n)
{
    int fd = memfd_create("root", MFD_CLOEXEC);
    struct bx_rootfs *root = NULL;
    struct bx_buf text = BX_BUF_INIT(1u << 20);
    uint64_t size = 0;

    ASSERT_OK(bx_rootfs_new(fd, 1u << 30, &root, ERR));
    for (size_t i = 0; i < n; i++) {
        ASSERT_OK(apply(root, &layers[i], (uint32_t)i, ERR));
    }
    ASSERT_OK(bx_rootfs_finish(root, &size, ERR));
    ASSERT_OK(bx_rootfs_check(fd, "it", ERR));
    bx_rootfs_free(root);
    squash_list(fd, &text);
    close(fd);
    return bx_buf_steal(&text, NULL);
}

static void expect(struct bx_buf *layers, size_t n, const char *want)
{
    _cleanup_free_ char *got = NULL;

    for (size_t i = 0; i < n; i++) {
        tar_end(&layers[i]);
    }
    got = build(layers, n);
    ASSERT_STREQ(got, want);
    for (size_t i = 0; i < n; i++) {
        bx_buf_done(&layers[i]);
    }
}

#define LAYERS(n)                                                                                  \
    {                                                                                              \
        [0 ...(n) - 1] = BX_BUF_INIT(TAR_MAX)                                                      \
    }

TEST(every_kind_of_entry_is_kept)
{
    struct bx_buf l[] = LAYERS(1);

    TAR(l, '5', "./", .mode = 0751);
    TAR(l, '5', "./d/", .mode = 01777, .owner = 4000000);
    TAR(l, '0', "./d/f", .mode = 06755, .data = "hello");
    TAR(l, '0', "./d/none", .mode = ~0u);
    TAR(l, '1', "./d/h", .link = "./d/f");
    TAR(l, '2', "./d/s", .link = "/etc/../x", .mode = 0777);
    TAR(l, '3', "./d/c");
    TAR(l, '4', "./d/b");
    TAR(l, '6', "./d/p");
    expect(l, 1,
           "/ 40751 0:0 n3 \n"
           "d 41777 4000000:4000000 n2 \n"
           "d/b 60644 0:0 n1 1,3\n"
           "d/c 20644 0:0 n1 1,3\n"
           "d/f 106755 0:0 n2 hello\n"
           "d/h 106755 0:0 n2 hello\n"
           "d/none 100000 0:0 n1 \n"
           "d/p 10644 0:0 n1 \n"
           "d/s 120777 0:0 n1 -> /etc/../x\n");
}

TEST(missing_folders_are_made_and_order_does_not_matter)
{
    struct bx_buf l[] = LAYERS(1);

    TAR(l, '0', "z", .data = "1");
    TAR(l, '0', "a/b/c", .data = "2");
    TAR(l, '5', "a", .mode = 0700);
    TAR(l, '0', "Z", .data = "3");
    expect(
        l, 1,
        "/ 40755 0:0 n3 \nZ 100644 0:0 n1 3\na 40700 0:0 n3 \na/b 40755 0:0 n2 \na/b/c 100644 0:0 n1 2\n"
        "z 100644 0:0 n1 1\n");
}

TEST(whiteouts_hide_lower_layers_only)
{
    struct bx_buf l[] = LAYERS(2);

    TAR(&l[0], '0', "d/gone", .data = "1");
    TAR(&l[0], '0', "d/again", .data = "1");
    TAR(&l[0], '0', "tree/x/y", .data = "1");
    TAR(&l[0], '0', "o/lower", .data = "1");
    TAR(&l[1], '0', "d/again", .data = "2");
    TAR(&l[1], '0', "d/.wh.again");
    TAR(&l[1], '0', "d/.wh.gone");
    TAR(&l[1], '0', "d/.wh.never-there");
    TAR(&l[1], '0', ".wh.tree");
    TAR(&l[1], '0', "o/upper", .data = "2");
    TAR(&l[1], '0', "o/.wh..wh..opq");
    TAR(&l[1], '0', "o/.wh..wh.plnk");
    expect(
        l, 2,
        "/ 40755 0:0 n4 \nd 40755 0:0 n2 \nd/again 100644 0:0 n1 2\no 40755 0:0 n2 \no/upper 100644 0:0 n1 2\n");
}

TEST(replacing_across_layers)
{
    struct bx_buf l[] = LAYERS(3);

    TAR(&l[0], '0', "a/file", .data = "1");
    TAR(&l[0], '0', "b", .data = "1");
    TAR(&l[0], '0', "c/kept", .data = "1");
    TAR(&l[0], '1', "link", .link = "b");
    TAR(&l[1], '2', "a", .link = "b");       /* a folder becomes a link: what was in it goes */
    TAR(&l[1], '0', "a/.wh.file");           /* umoci writes this too */
    TAR(&l[1], '0', "b", .data = "new");     /* the other name keeps the old content */
    TAR(&l[1], '5', "c", .mode = 0700);      /* a folder keeps what is in it */
    TAR(&l[2], '1', "late", .link = "link"); /* to a file of a lower layer */
    expect(
        l, 3,
        "/ 40755 0:0 n3 \na 120644 0:0 n1 -> b\nb 100644 0:0 n1 new\nc 40700 0:0 n2 \nc/kept 100644 0:0 n1 1\n"
        "late 100644 0:0 n2 1\nlink 100644 0:0 n2 1\n");
}

TEST(a_lower_layers_symlink_is_followed_inside_the_root)
{
    struct bx_buf l[] = LAYERS(2);

    TAR(&l[0], '5', "usr/lib");
    TAR(&l[0], '2', "lib", .link = "usr/lib");
    TAR(&l[0], '2', "abs", .link = "/lib/../lib");
    TAR(&l[1], '0', "lib/one", .data = "1");
    TAR(&l[1], '0', "abs/two", .data = "2");
    expect(
        l, 2,
        "/ 40755 0:0 n3 \nabs 120644 0:0 n1 -> /lib/../lib\nlib 120644 0:0 n1 -> usr/lib\nusr 40755 0:0 n3 \n"
        "usr/lib 40755 0:0 n2 \nusr/lib/one 100644 0:0 n1 1\nusr/lib/two 100644 0:0 n1 2\n");
}

TEST(hard_links_may_come_before_their_targets)
{
    struct bx_buf l[] = LAYERS(1);

    TAR(l, '1', "first", .link = "second");
    TAR(l, '0', "second", .data = "x");
    expect(l, 1, "/ 40755 0:0 n2 \nfirst 100644 0:0 n2 x\nsecond 100644 0:0 n2 x\n");
}

TEST(names_are_bytes_whatever_the_locale)
{
    static const char *const locales[] = {"C", "C.UTF-8"};
    static const char nfd[] = "e\xcc\x81", latin[] = "caf\xe9", utf8[] = "\xc3\xbc/\xe6\x97\xa5";

    for (size_t i = 0; i < BX_ARRAY_SIZE(locales); i++) {
        struct bx_buf l[] = LAYERS(1);
        ASSERT_NOT_NULL(setlocale(LC_ALL, locales[i]));
        TAR(l, '0', nfd);
        tar_pax(l, "path", latin, strlen(latin));
        TAR(l, '0', "x1");
        tar_pax(l, "path", utf8, strlen(utf8));
        TAR(l, '0', "x2");
        tar_pax(l, "linkpath", latin, strlen(latin));
        TAR(l, '2', "s", .link = "y");
        expect(
            l, 1,
            "/ 40755 0:0 n3 \ncaf\xe9 100644 0:0 n1 \ne\xcc\x81 100644 0:0 n1 \ns 120644 0:0 n1 -> caf\xe9\n"
            "\xc3\xbc 40755 0:0 n2 \n\xc3\xbc/\xe6\x97\xa5 100644 0:0 n1 \n");
    }
}

TEST(extended_attributes_are_kept_but_those_that_steer_overlayfs)
{
    struct bx_buf l[] = LAYERS(1);

    tar_pax(l, "SCHILY.xattr.security.capability", "\1\0\0\2", 4);
    TAR(l, '0', "caps");
    tar_pax(l, "SCHILY.xattr.user.note", "n", 1);
    TAR(l, '0', "note");
    tar_pax(l, "SCHILY.xattr.trusted.overlay.opaque", "y", 1);
    TAR(l, '5', "overlay");
    tar_pax(l, "SCHILY.xattr.system.posix_acl_access", "y", 1);
    TAR(l, '0', "system");
    tar_pax(l, "LIBARCHIVE.xattr.user.a%20b", "AP8x", 4); /* base64, as bsdtar writes it */
    TAR(l, '0', "base64");
    expect(
        l, 1,
        "/ 40755 0:0 n3 \nbase64 100644 0:0 n1  user.a b=\\x00\\xff1\ncaps 100644 0:0 n1  security.capability=\\x01\\x00\\x00\\x02\n"
        "note 100644 0:0 n1  user.note=n\noverlay 40755 0:0 n2 \nsystem 100644 0:0 n1 \n");
}

/* A file of 300 KiB with two bytes of data, as GNU tar stores holes since version 1.0 of its format. */
TEST(sparse_files_get_their_holes)
{
    struct bx_buf l[] = LAYERS(1);
    char map[513] = "2\n100000\n1\n307200\n0\n";

    TAR(l, 'x', "pax",
        .data = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n26 GNU.sparse.name=sparse\n"
                "30 GNU.sparse.realsize=307200\n");
    TAR(l, '0', "GNUSparseFile.0/sparse", .size = 513);
    ASSERT_EQ(bx_buf_append(l, map, 512), 0);
    ASSERT_EQ(bx_buf_append(l, "X", 1), 0);
    while (l->len % 512) {
        ASSERT_EQ(bx_buf_append(l, "", 1), 0);
    }
    expect(l, 1, "/ 40755 0:0 n2 \nsparse 100644 0:0 n1 (307200 bytes)\n");
}

/* ---- hostile ones */

static void refuses_limited(struct bx_buf *tar, uint64_t max, const char *part)
{
    struct bx_rootfs *root = NULL;

    ASSERT_OK(bx_rootfs_new(-1, max, &root, ERR));
    ASSERT_FAILS(BOXLITE_E_INTEGRITY, apply(root, tar, 0, ERR));
    ASSERT_CONTAINS(err_message(), part);
    bx_rootfs_free(root);
    bx_buf_done(tar);
}

static void refuses(struct bx_buf *tar, const char *part)
{
    refuses_limited(tar, 1u << 30, part);
}

TEST(absolute_names_are_refused)
{
    struct bx_buf t = BX_BUF_INIT(TAR_MAX);
    TAR(&t, '0', "/etc/passwd");
    refuses(&t, "entry /etc/passwd: an absolute name");
}

TEST(names_with_dotdot_are_refused)
{
    static const char *const names[] = {"..", "../x", "a/../../x", "a/..", "./../x"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(names); i++) {
        struct bx_buf t = BX_BUF_INIT(TAR_MAX);
        TAR(&t, '0', names[i]);
        refuses(&t, "a name with \"..\"");
    }
}

TEST(symlink_parents_of_the_same_layer_are_refused)
{
    struct bx_buf t = BX_BUF_INIT(TAR_MAX);
    TAR(&t, '2', "x", .link = "/etc");
    TAR(&t, '0', "x/passwd", .data = "root");
    refuses(&t, "entry x/passwd: its parent is a symlink");
}

TEST(files_as_parents_are_refused)
{
    struct bx_buf t = BX_BUF_INIT(TAR_MAX);
    TAR(&t, '0', "x");
    TAR(&t, '0', "x/y");
    refuses(&t, "entry x/y: its parent is no folder");
}

TEST(symlinks_of_lower_layers_do_not_lead_out)
{
    static const char *const targets[] = {"..", "../../etc", "a/../../..", "loop"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(targets); i++) {
        struct bx_buf l[] = LAYERS(2);
        struct bx_rootfs *root = NULL;
        TAR(&l[0], '2', "loop", .link = targets[i]);
        TAR(&l[1], '0', "loop/x");
        ASSERT_OK(bx_rootfs_new(-1, 1000, &root, ERR));
        ASSERT_OK(apply(root, &l[0], 0, ERR));
        ASSERT_FAILS(BOXLITE_E_INTEGRITY, apply(root, &l[1], 1, ERR));
        ASSERT_CONTAINS(err_message(), "entry loop/x: its parent is a");
        bx_rootfs_free(root);
        bx_buf_done(&l[0]);
        bx_buf_done(&l[1]);
    }
}

TEST(hard_links_to_outside_are_refused)
{
    static const char *const targets[] = {"/etc/shadow", "../etc/shadow", "missing", "d"};
    for (size_t i = 0; i < BX_ARRAY_SIZE(targets); i++) {
        struct bx_buf t = BX_BUF_INIT(TAR_MAX);
        TAR(&t, '5', "d");
        TAR(&t, '1', "x", .link = targets[i]);
        refuses(&t, "entry x: ");
    }
}

TEST(a_huge_declared_size_is_refused_before_its_data)
{
    static const uint64_t sizes[] = {1ull << 31, 1ull << 50, (1ull << 62) + 1};
    for (size_t i = 0; i < BX_ARRAY_SIZE(sizes); i++) {
        struct bx_buf t = BX_BUF_INIT(TAR_MAX);
        TAR(&t, '0', "x", .size = sizes[i]);
        refuses(&t, "entry x: larger than an image may be");
    }
}

TEST(many_files_are_limited_in_sum)
{
    struct bx_buf t = BX_BUF_INIT(TAR_MAX);
    TAR(&t, '0', "a", .data = "123456");
    TAR(&t, '0', "b", .data = "123456");
    refuses_limited(&t, 10, "entry b: larger than an image may be");
}

TEST(damage_is_told)
{
    struct bx_buf t = BX_BUF_INIT(TAR_MAX), u = BX_BUF_INIT(TAR_MAX), v = BX_BUF_INIT(TAR_MAX);
    TAR(&t, '0', "a", .data = "123456");
    t.len -= 300;
    refuses(&t, "Truncated");
    TAR(&u, '0', "a", .data = "123456");
    TAR(&u, '0', "b", .data = "123456");
    bx_buf_data(&u)[1024 + 5] ^= 1;
    refuses(&u, "the archive is damaged");
    ASSERT_EQ(bx_buf_appends(&v, "this is no archive at all"), 0);
    refuses(&v, "no tar archive");
}

TEST(odd_entries_are_refused)
{
    static const struct {
        struct tar_entry e;
        const char *why;
    } cases[] = {
        {{'0', ".wh.."}, "a whiteout of nothing"},
        {{'0', "a/.wh..."}, "a whiteout of nothing"},
        {{'0', ".wh."}, "a whiteout of nothing"},
        {{'2', "s", .link = ""}, "symlink"},
        {{'0', "."}, "the root is no folder"},
        {{'0', "o", .owner = UINT32_MAX}, "an owner out of range"},
    };
    for (size_t i = 0; i < BX_ARRAY_SIZE(cases); i++) {
        struct bx_buf t = BX_BUF_INIT(TAR_MAX);
        tar_add(&t, &cases[i].e);
        refuses(&t, cases[i].why);
    }
}

TEST(long_and_deep_names_are_refused)
{
    struct bx_buf t = BX_BUF_INIT(TAR_MAX), u = BX_BUF_INIT(TAR_MAX), v = BX_BUF_INIT(TAR_MAX);
    static char name[9000];
    memset(name, 'n', 256);
    tar_pax(&t, "path", name, 256);
    TAR(&t, '0', "x");
    refuses(&t, "longer than 255 bytes");
    memset(name, 'n', sizeof(name) - 1);
    tar_pax(&u, "path", name, sizeof(name) - 1);
    TAR(&u, '0', "x");
    refuses(&u, "too long");
    for (size_t i = 0; i < 4000; i += 2) {
        memcpy(name + i, "d/", 2);
    }
    tar_pax(&v, "path", name, 4000);
    TAR(&v, '5', "x");
    refuses(&v, "too deep");
}

TEST_FOR(the_same_layers_make_the_same_bytes, 60)
{
    int fd[2];
    struct bx_buf bytes[2] = LAYERS(2), t = BX_BUF_INIT(TAR_MAX);
    _cleanup_free_ char *content = malloc(300001);

    for (size_t i = 0; i < 300000; i++) {
        content[i] = (char)('a' + (i * i + i / 7) % 26);
    }
    content[300000] = '\0';
    for (int i = 0; i < 60; i++) {
        char name[32];
        snprintf(name, sizeof(name), "f%d", i);
        TAR(&t, '0', name, .data = content + i * 3000 % 250000);
    }
    tar_end(&t);
    for (int i = 0; i < 2; i++) {
        struct bx_rootfs *root = NULL;
        uint64_t size = 0;
        fd[i] = memfd_create("root", MFD_CLOEXEC);
        ASSERT_OK(bx_rootfs_new(fd[i], 1u << 30, &root, ERR));
        ASSERT_OK(apply(root, &t, 0, ERR));
        ASSERT_OK(bx_rootfs_finish(root, &size, ERR));
        bx_rootfs_free(root);
        ASSERT_EQ(size % 4096, 0);
        void *p = bx_buf_reserve(&bytes[i], size);
        ASSERT_EQ(pread(fd[i], p, size, 0), size);
        bx_buf_commit(&bytes[i], size);
        close(fd[i]);
    }
    ASSERT_EQ(bytes[0].len, bytes[1].len);
    ASSERT_MEM(bx_buf_data(&bytes[0]), bx_buf_data(&bytes[1]), bytes[0].len);
    bx_buf_done(&bytes[0]);
    bx_buf_done(&bytes[1]);
    bx_buf_done(&t);
}
