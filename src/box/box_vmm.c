/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box_vmm.c: what the engine's process of a running box says of itself: counters, stages of the boot.
 *
 * The text comes from a process that its guest may have taken over: it is bounded by the message, and
 * parsed and written anew before anyone sees it.
 */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/timeutil.h"
#include "box/box.h"
#include "wire/proto.h"

#define ANSWER_MS 10000

struct answer {
    struct bx_client *client;
    bool done;
    char *text;
    boxlite_error *error;
};

static void on_reply(void *data, const struct bx_msg *reply, const boxlite_error *error)
{
    struct answer *a = data;

    a->done = true;
    if (error) {
        (void)bx_fail_again(&a->error, error);
    } else if (bx_msg_get_str(reply, BX_T_TEXT, &a->text) < 0) {
        (void)bx_fail(&a->error, BOXLITE_E_IO, "the supervisor's answer is damaged");
    }
}

static bool is_done(void *data)
{
    const struct answer *a = data;

    return a->done || bx_client_over(a->client);
}

static int ask(boxlite_box *box, struct answer *a, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf msg = BX_BUF_INIT(256);
    uint64_t request = 0;
    int r = bx_request_begin(a->client, &msg, BX_SH_VMM, err);

    r = r < 0 ? r : bx_request_send(a->client, &msg, on_reply, a, &request, err);
    if (r < 0) {
        return r;
    }
    r = bx_runtime_wait(box->rt, is_done, a, bx_deadline_ms(ANSWER_MS),
                        "waiting for the engine's answer", err);
    if (!a->done) {
        bx_request_forget(a->client, request);
    }
    if (r == 0 && a->error) {
        r = bx_fail_again(err, a->error);
        bx_wrap(err, "box %s", box->row.name);
    } else if (r == 0 && !a->text) {
        r = bx_fail(err, BOXLITE_E_STATE, "box %s has stopped", box->row.name);
    }
    return r;
}

/* Parsed and written anew. */
static int take_text(boxlite_box *box, const char *text, boxlite_error **err)
{
    _cleanup_json_ json_t *obj = NULL;
    int r = bx_json_parse(text, strlen(text), "what the engine says of itself", &obj, err);
    char *again = r == 0 ? bx_json_text(obj) : NULL;

    if (r == 0 && !again) {
        return bx_fail_oom(err);
    }
    if (r == 0) {
        free(box->vmm);
        box->vmm = again;
    }
    return r;
}

int bx_box_vmm_json(boxlite_box *box, const char **ret, boxlite_error **err)
{
    _cleanup_client_ struct bx_client *client = NULL;
    int r = bx_box_need_client(box, err);

    if (r < 0) {
        return r;
    }
    client = bx_client_ref(box->client);
    struct answer a = {.client = client};
    r = ask(box, &a, err);
    r = r < 0 ? r : take_text(box, a.text, err);
    free(a.text);
    boxlite_error_free(a.error);
    if (r == 0) {
        *ret = box->vmm;
    }
    return r;
}
