/* SPDX-License-Identifier: Apache-2.0 */
#include "image_files.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sqfs/compressor.h>
#include <sqfs/data_reader.h>
#include <sqfs/dir_reader.h>
#include <sqfs/id_table.h>
#include <sqfs/inode.h>
#include <sqfs/io.h>
#include <sqfs/super.h>
#include <sqfs/xattr.h>
#include <sqfs/xattr_reader.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/io.h"
#include "base/path.h"
#include "base/str.h"
#include "harness.h"

/* ---- tar */

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[8],
        uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == 512, "a tar block");

static void pad_block(struct bx_buf *tar)
{
    static const char zeros[512];

    if (tar->len % 512) {
        ASSERT_EQ(bx_buf_append(tar, zeros, 512 - tar->len % 512), 0);
    }
}

/* A number as tar has it: octal, or binary if it is too large. */
static void put_number(char *field, size_t width, uint64_t v)
{
    if (v >> (3 * (width - 1))) {
        for (size_t i = width; i-- > 1; v >>= 8) {
            field[i] = (char)(v & 0xff);
        }
        field[0] = (char)0x80;
        return;
    }
    for (size_t i = width - 1; i-- > 0; v >>= 3) {
        field[i] = (char)('0' + (v & 7));
    }
}

void tar_add(struct bx_buf *tar, const struct tar_entry *e)
{
    struct header h = {.type = e->type, .magic = "ustar"};
    size_t len = e->data ? strlen(e->data) : 0, n = strlen(e->name);
    unsigned sum = 0;

    ASSERT_LE(n, sizeof(h.name));
    memcpy(h.name, e->name, n);
    if (e->link) {
        ASSERT_LE(strlen(e->link), sizeof(h.link));
        memcpy(h.link, e->link, strlen(e->link));
    }
    put_number(h.mode, sizeof(h.mode),
               e->mode == ~0u   ? 0
               : e->mode        ? e->mode
               : e->type == '5' ? 0755
                                : 0644);
    put_number(h.uid, sizeof(h.uid), e->owner);
    put_number(h.gid, sizeof(h.gid), e->owner);
    put_number(h.size, sizeof(h.size), e->size ? e->size : len);
    put_number(h.mtime, sizeof(h.mtime), 1000);
    put_number(h.major, sizeof(h.major), e->type == '3' || e->type == '4' ? 1 : 0);
    put_number(h.minor, sizeof(h.minor), e->type == '3' || e->type == '4' ? 3 : 0);
    memcpy(h.magic + 6, "00", 2);
    memset(h.sum, ' ', sizeof(h.sum));
    for (size_t i = 0; i < sizeof(h); i++) {
        sum += ((const uint8_t *)&h)[i];
    }
    put_number(h.sum, 7, sum);
    h.sum[6] = '\0';
    ASSERT_EQ(bx_buf_append(tar, &h, sizeof(h)), 0);
    ASSERT_EQ(bx_buf_append(tar, e->data ? e->data : "", len), 0);
    pad_block(tar);
}

void tar_pax(struct bx_buf *tar, const char *key, const void *value, size_t len)
{
    struct bx_buf rec = BX_BUF_INIT(65536);
    size_t rest = strlen(key) + len + 3, total = rest + 1;

    while (true) { /* the length counts its own digits */
        char digits[24];
        int n = snprintf(digits, sizeof(digits), "%zu", total);
        if ((size_t)n + rest == total) {
            break;
        }
        total = (size_t)n + rest;
    }
    ASSERT_EQ(bx_buf_appendf(&rec, "%zu %s=", total, key), 0);
    ASSERT_EQ(bx_buf_append(&rec, value, len), 0);
    ASSERT_EQ(bx_buf_append(&rec, "\n", 1), 0);
    TAR(tar, 'x', "pax", .size = rec.len);
    ASSERT_EQ(bx_buf_append(tar, bx_buf_data(&rec), rec.len), 0);
    pad_block(tar);
    bx_buf_done(&rec);
}

void tar_end(struct bx_buf *tar)
{
    static const char zeros[1024];

    ASSERT_EQ(bx_buf_append(tar, zeros, sizeof(zeros)), 0);
}

static la_ssize_t append_packed(struct archive *a, void *data, const void *bytes, size_t n)
{
    (void)a;
    return bx_buf_append(data, bytes, n) == 0 ? (la_ssize_t)n : -1;
}

void tar_gzip(const struct bx_buf *tar, struct bx_buf *ret)
{
    struct archive *a = archive_write_new();
    struct archive_entry *e = archive_entry_new();

    ASSERT_EQ(archive_write_add_filter_gzip(a), ARCHIVE_OK);
    ASSERT_EQ(archive_write_set_format_raw(a), ARCHIVE_OK);
    ASSERT_EQ(archive_write_set_bytes_in_last_block(a, 1), ARCHIVE_OK);
    ASSERT_EQ(archive_write_open(a, ret, NULL, append_packed, NULL), ARCHIVE_OK);
    archive_entry_set_filetype(e, AE_IFREG);
    ASSERT_EQ(archive_write_header(a, e), ARCHIVE_OK);
    ASSERT_EQ(archive_write_data(a, bx_buf_data(tar), tar->len), tar->len);
    ASSERT_EQ(archive_write_free(a), ARCHIVE_OK);
    archive_entry_free(e);
}

/* ---- squashfs */

struct lister {
    sqfs_data_reader_t *data;
    sqfs_xattr_reader_t *xattrs;
    struct bx_buf *out;
};

static void list_xattrs(struct lister *l, const sqfs_inode_generic_t *inode)
{
    sqfs_u32 index;
    sqfs_xattr_id_t desc;

    ASSERT_EQ(sqfs_inode_get_xattr_index(inode, &index), 0);
    if (index == UINT32_MAX) {
        return;
    }
    ASSERT_EQ(sqfs_xattr_reader_get_desc(l->xattrs, index, &desc), 0);
    ASSERT_EQ(sqfs_xattr_reader_seek_kv(l->xattrs, &desc), 0);
    for (size_t i = 0; i < desc.count; i++) {
        sqfs_xattr_entry_t *key;
        sqfs_xattr_value_t *value;
        ASSERT_EQ(sqfs_xattr_reader_read_key(l->xattrs, &key), 0);
        ASSERT_EQ(sqfs_xattr_reader_read_value(l->xattrs, key, &value), 0);
        _cleanup_free_ char *text = bx_escape(value->value, value->size, 200);
        ASSERT_EQ(bx_buf_appendf(l->out, " %s=%s", (const char *)key->key, text), 0);
        sqfs_free(key);
        sqfs_free(value);
    }
}

static void list_content(struct lister *l, const sqfs_inode_generic_t *inode, unsigned *links)
{
    char text[256];
    sqfs_u64 size;
    sqfs_s32 n;

    *links = inode->data.ipc.nlink;
    switch (inode->base.type) {
    case SQFS_INODE_FILE:
    case SQFS_INODE_EXT_FILE:
        *links = inode->base.type == SQFS_INODE_FILE ? 1 : inode->data.file_ext.nlink;
        ASSERT_EQ(sqfs_inode_get_file_size(inode, &size), 0);
        n = size == 0 ? 0 : sqfs_data_reader_read(l->data, inode, 0, text, sizeof(text));
        ASSERT_GE(n, 0);
        if (size > sizeof(text)) {
            ASSERT_EQ(bx_buf_appendf(l->out, "(%llu bytes)", (unsigned long long)size), 0);
        } else {
            ASSERT_EQ(bx_buf_append(l->out, text, (size_t)n), 0);
        }
        break;
    case SQFS_INODE_SLINK:
    case SQFS_INODE_EXT_SLINK:
        ASSERT_EQ(bx_buf_appends(l->out, "-> "), 0);
        ASSERT_EQ(bx_buf_append(l->out, inode->extra, inode->data.slink.target_size), 0);
        break;
    case SQFS_INODE_BDEV:
    case SQFS_INODE_CDEV:
        ASSERT_EQ(bx_buf_appendf(l->out, "%u,%u", major(inode->data.dev.devno),
                                 minor(inode->data.dev.devno)),
                  0);
        break;
    case SQFS_INODE_DIR:
        *links = inode->data.dir.nlink;
        break;
    default:
        break;
    }
}

static void list_node(struct lister *l, const sqfs_tree_node_t *node, const char *dir)
{
    _cleanup_free_ char *path =
        node->parent ? bx_asprintf("%s%s%s", dir, *dir ? "/" : "", node->name) : strdup("");
    struct bx_buf content = BX_BUF_INIT(4096), *out = l->out;
    unsigned links = 0;

    l->out = &content;
    list_content(l, node->inode, &links);
    list_xattrs(l, node->inode);
    l->out = out;
    ASSERT_EQ(bx_buf_appendf(out, "%s %o %u:%u n%u %s\n", *path ? path : "/",
                             node->inode->base.mode, node->uid, node->gid, links,
                             bx_buf_str(&content)),
              0);
    bx_buf_done(&content);
    for (const sqfs_tree_node_t *c = node->children; c; c = c->next) {
        list_node(l, c, path);
    }
}

void squash_list(int fd, struct bx_buf *ret)
{
    char path[64];
    sqfs_super_t super;
    sqfs_compressor_config_t config;
    sqfs_compressor_t *cmp = NULL;
    sqfs_tree_node_t *root = NULL;
    struct lister l = {.out = ret};

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    sqfs_file_t *file = sqfs_open_file(path, SQFS_FILE_OPEN_READ_ONLY);
    ASSERT_NOT_NULL(file);
    ASSERT_EQ(sqfs_super_read(&super, file), 0);
    ASSERT_EQ(sqfs_compressor_config_init(&config, super.compression_id, super.block_size,
                                          SQFS_COMP_FLAG_UNCOMPRESS),
              0);
    ASSERT_EQ(sqfs_compressor_create(&config, &cmp), 0);
    sqfs_id_table_t *ids = sqfs_id_table_create(0);
    ASSERT_EQ(sqfs_id_table_read(ids, file, &super, cmp), 0);
    sqfs_dir_reader_t *dirs = sqfs_dir_reader_create(&super, cmp, file, 0);
    l.data = sqfs_data_reader_create(file, super.block_size, cmp, 0);
    ASSERT_EQ(sqfs_data_reader_load_fragment_table(l.data, &super), 0);
    l.xattrs = sqfs_xattr_reader_create(0);
    ASSERT_EQ(sqfs_xattr_reader_load(l.xattrs, &super, file, cmp), 0);
    ASSERT_EQ(sqfs_dir_reader_get_full_hierarchy(dirs, ids, NULL, 0, &root), 0);
    list_node(&l, root, "");
    sqfs_dir_tree_destroy(root);
    sqfs_destroy(l.xattrs);
    sqfs_destroy(l.data);
    sqfs_destroy(dirs);
    sqfs_destroy(ids);
    sqfs_destroy(cmp);
    sqfs_destroy(file);
}

/* ---- homes */

void image_home_open(struct image_home *h)
{
    _cleanup_free_ char *path = bx_path_join(tmpdir(), "home");

    *h = (struct image_home){0};
    ASSERT_OK(bx_home_open(path, &h->home, ERR));
    ASSERT_OK(bx_store_open(h->home, &h->store, ERR));
    h->im.home = h->home;
    h->im.store = h->store;
}

void image_home_close(struct image_home *h)
{
    bx_store_free(h->store);
    bx_home_free(h->home);
}

const char *put_file(const char *name, const void *data, size_t len)
{
    static char path[4096];

    ASSERT_EQ(bx_write_file(tmpdir_fd(), name, data, len, 0644), 0);
    snprintf(path, sizeof(path), "%s/%s", tmpdir(), name);
    return path;
}

int count_files(const struct image_home *h, const char *folder)
{
    int fd = openat(h->home->fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        return -1;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        n += bx_is_filename(e->d_name);
    }
    closedir(dir);
    return n;
}
