/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.c: see state.h.
 */
#include "vmm/kvm/state.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/io.h"

#define MAGIC "BXVMST\r\n"
#define VERSION 1

struct head {
    char magic[8];
    uint32_t version, reserved;
    uint64_t length;   /* of the records */
    uint64_t checksum; /* of the records */
};

struct record {
    uint32_t type, len;
};

/* FNV-1a. */
static uint64_t checksum(const uint8_t *p, size_t len)
{
    uint64_t h = 0xcbf29ce484222325;

    for (size_t i = 0; i < len; i++) {
        h = (h ^ p[i]) * 0x100000001b3;
    }
    return h;
}

static void append(struct bx_state *s, const void *data, size_t len)
{
    if (s->error == 0) {
        s->error = bx_buf_append(&s->buf, data, len);
    }
}

void bx_state_put(struct bx_state *s, enum bx_record type, const void *data, size_t len)
{
    const struct record r = {(uint32_t)type, (uint32_t)len};

    append(s, &r, sizeof(r));
    append(s, data, len);
}

int bx_state_write(struct bx_state *s, int fd, boxlite_error **err)
{
    const struct head h = {.magic = MAGIC,
                           .version = VERSION,
                           .length = s->buf.len,
                           .checksum = checksum(bx_buf_data(&s->buf), s->buf.len)};
    int r = s->error;

    r = r < 0 ? r : bx_pwrite_full(fd, &h, sizeof(h), 0);
    r = r < 0 ? r : bx_pwrite_full(fd, bx_buf_data(&s->buf), s->buf.len, sizeof(h));
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing the machine's state") : 0;
}

static int damaged(boxlite_error **err, const char *what)
{
    return bx_fail(err, BOXLITE_E_INTEGRITY, "the saved state of the machine is damaged: %s", what);
}

int bx_state_read(struct bx_state *s, int fd, boxlite_error **err)
{
    struct head h;

    if (pread(fd, &h, sizeof(h), 0) != sizeof(h) || memcmp(h.magic, MAGIC, sizeof(h.magic)) != 0) {
        return damaged(err, "it does not begin as one");
    }
    if (h.version != VERSION) {
        (void)bx_fail(err, BOXLITE_E_UNSUPPORTED,
                      "the saved state is of version %u, this is version %d", h.version, VERSION);
        bx_hint(err, "restore it with the BoxLite that made it");
        return BOXLITE_E_UNSUPPORTED;
    }
    void *p = h.length <= BX_STATE_MAX ? bx_buf_reserve(&s->buf, h.length) : NULL;
    if (!p) {
        return damaged(err, "it is too long");
    }
    if (pread(fd, p, h.length, sizeof(h)) != (ssize_t)h.length) {
        return damaged(err, "it is cut off");
    }
    bx_buf_commit(&s->buf, h.length);
    return checksum(bx_buf_data(&s->buf), s->buf.len) == h.checksum
               ? 0
               : damaged(err, "its checksum is another");
}

int bx_state_next(struct bx_state *s, enum bx_record type, const uint8_t **ret, size_t *ret_len,
                  boxlite_error **err)
{
    const uint8_t *p = bx_buf_data(&s->buf) + s->at;
    size_t left = s->buf.len - s->at;
    struct record r;

    if (left < sizeof(r)) {
        return damaged(err, "a record is missing");
    }
    memcpy(&r, p, sizeof(r));
    if (r.type != (uint32_t)type || r.len > left - sizeof(r)) {
        return damaged(err, "its records are not in order");
    }
    s->at += sizeof(r) + r.len;
    *ret = p + sizeof(r);
    *ret_len = r.len;
    return 0;
}

int bx_state_get(struct bx_state *s, enum bx_record type, void *ret, size_t len,
                 boxlite_error **err)
{
    const uint8_t *p = NULL;
    size_t have = 0;
    int r = bx_state_next(s, type, &p, &have, err);

    if (r == 0 && have != len) {
        return damaged(err, "a record has another length");
    }
    if (r == 0) {
        memcpy(ret, p, len);
    }
    return r;
}

void bx_state_done(struct bx_state *s)
{
    bx_buf_done(&s->buf);
}
