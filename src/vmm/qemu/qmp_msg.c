/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qmp_msg.c: reading QMP. A message is told by the member that it must have (the specification's
 * section "Protocol Specification"): QMP, event, return or error. What is inside a reply's value is
 * the concern of who asked.
 */
#include "vmm/qemu/qmp_msg.h"

#include "base/error.h"

void bx_qmp_reader_done(struct bx_qmp_reader *r)
{
    bx_buf_done(&r->buf);
}

size_t bx_qmp_reader_room(const struct bx_qmp_reader *r)
{
    return r->buf.max - r->buf.len;
}

int bx_qmp_reader_push(struct bx_qmp_reader *r, const void *data, size_t len, boxlite_error **err)
{
    int e = bx_buf_append(&r->buf, data, len);

    return e < 0 ? bx_fail_errno(err, BOXLITE_E_ENGINE, e, "QMP: reading") : 0;
}

void bx_qmp_msg_done(struct bx_qmp_msg *msg)
{
    json_decref(msg->json);
    *msg = (struct bx_qmp_msg){0};
}

static int classify_event(struct bx_qmp_msg *msg, boxlite_error **err)
{
    int r = bx_json_str(msg->json, "event", false, &msg->event, err);
    json_t *data = NULL;

    if (r == 0) {
        r = bx_json_object(msg->json, "data", true, &data, err);
    }
    msg->value = data;
    return r;
}

static int classify_reply(struct bx_qmp_msg *msg, boxlite_error **err)
{
    json_t *error = NULL;
    int r = bx_json_u64(msg->json, "id", true, UINT64_MAX >> 1, &msg->id, err);

    if (r < 0 || msg->kind == BX_QMP_RETURN) {
        msg->value = json_object_get(msg->json, "return");
        return r;
    }
    r = bx_json_object(msg->json, "error", false, &error, err);
    return r < 0 ? r : bx_json_str(error, "desc", false, &msg->desc, err);
}

static int classify(struct bx_qmp_msg *msg, boxlite_error **err)
{
    static const struct {
        const char *key;
        enum bx_qmp_kind kind;
        int (*more)(struct bx_qmp_msg *msg, boxlite_error **err);
    } kinds[] = {
        {"event", BX_QMP_EVENT, classify_event},
        {"return", BX_QMP_RETURN, classify_reply},
        {"error", BX_QMP_ERROR, classify_reply},
        {"QMP", BX_QMP_GREETING, NULL},
    };

    for (size_t i = 0; i < BX_ARRAY_SIZE(kinds); i++) {
        if (json_object_get(msg->json, kinds[i].key)) {
            msg->kind = kinds[i].kind;
            return kinds[i].more ? kinds[i].more(msg, err) : 0;
        }
    }
    return bx_fail(err, BOXLITE_E_ENGINE, "a message of no known kind");
}

static int parse_line(const uint8_t *line, size_t len, struct bx_qmp_msg *ret, boxlite_error **err)
{
    struct bx_qmp_msg msg = {0};
    _cleanup_error_ boxlite_error *why = NULL;
    int r = bx_json_parse(line, len, "QMP", &msg.json, &why);

    if (r == 0) {
        r = classify(&msg, &why);
    }
    if (r < 0) {
        bx_qmp_msg_done(&msg);
        return bx_fail(err, BOXLITE_E_ENGINE, "QMP: %s", boxlite_error_message(why));
    }
    *ret = msg;
    return 1;
}

/* Blank lines are skipped: QEMU ends its lines with CR LF. */
static bool is_blank(const uint8_t *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (line[i] != ' ' && line[i] != '\r') {
            return false;
        }
    }
    return true;
}

int bx_qmp_reader_next(struct bx_qmp_reader *r, struct bx_qmp_msg *ret, boxlite_error **err)
{
    for (;;) {
        const uint8_t *p = bx_buf_data(&r->buf);
        const uint8_t *end = memchr(p + r->seen, '\n', r->buf.len - r->seen);

        if (!end) {
            r->seen = r->buf.len;
            return r->buf.len < r->buf.max
                       ? 0
                       : bx_fail(err, BOXLITE_E_ENGINE, "QMP: a line of over %d bytes",
                                 BX_QMP_LINE_MAX);
        }
        size_t len = (size_t)(end - p);
        int e = is_blank(p, len) ? 0 : parse_line(p, len, ret, err);

        bx_buf_consume(&r->buf, len + 1);
        r->seen = 0;
        if (e != 0) {
            return e;
        }
    }
}
