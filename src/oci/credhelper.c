/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credhelper.c: running credential helpers. Their input, a secret when storing, goes through an unnamed file, never
 * through arguments; their output is bounded, and so is their time.
 */
#include "oci/credhelper.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/spawn.h"
#include "base/timeutil.h"

#define OUTPUT_MAX (64u << 10)
#define NAME_LENGTH_MAX 64u
#define TIMEOUT_MS 30000
#define TOKEN_USER "<token>"

bool bx_credhelper_valid(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= NAME_LENGTH_MAX && name[0] != '-' && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int make_input(const char *text, int *ret, boxlite_error **err)
{
    int fd = memfd_create("credential", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : bx_write_full(fd, text, strlen(text));

    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0) {
        r = -errno;
    }
    if (r < 0) {
        bx_cleanup_close(&fd);
        return bx_fail_errno(err, BOXLITE_E_IO, r, "input of a credential helper");
    }
    *ret = fd;
    return 0;
}

/* Exit status of the helper; its standard output, where it tells errors too, in out. */
static int run(const char *name, const char *verb, const char *input, struct bx_buf *out,
               int *ret_status, boxlite_error **err)
{
    _cleanup_free_ char *program = bx_asprintf("docker-credential-%s", name);
    const char *argv[] = {program, verb, NULL};
    _cleanup_close_ int in = -1;
    int r = program ? make_input(input, &in, err) : bx_fail_oom(err);

    if (r < 0) {
        return r;
    }
    struct bx_spawn_fd fds[] = {{.from = in, .to = 0}};
    struct bx_spawn spec = {.path = program, .argv = argv, .fds = fds, .nfds = 1};

    r = bx_run(&spec, out, NULL, bx_deadline_ms(TIMEOUT_MS), ret_status, err);
    if (r < 0) {
        bx_wrap(err, "credential helper %s", program);
        bx_hint(err, "the file of credentials names this helper; install it, or remove it there");
    }
    return r;
}

static int fail_helper(const char *name, int status, boxlite_error **err)
{
    /* What it said may hold anything, also secrets. */
    return bx_fail(err, BOXLITE_E_AUTH,
                   "credential helper docker-credential-%s ended with status %d", name, status);
}

static int parse_answer(const struct bx_buf *out, struct bx_credential *ret, boxlite_error **err)
{
    _cleanup_json_ json_t *doc = NULL;
    const char *user = NULL, *secret = NULL;
    int r = bx_json_parse(bx_buf_data(out), out->len, "its answer", &doc, err);

    r = r < 0 ? r : bx_json_str(doc, "Username", false, &user, err);
    r = r < 0 ? r : bx_json_str(doc, "Secret", false, &secret, err);
    if (r < 0) {
        return r;
    }
    ret->user = strdup(user);
    ret->secret = strdup(secret);
    ret->identity_token = bx_streq(user, TOKEN_USER);
    if (!ret->user || !ret->secret) {
        bx_credential_done(ret);
        return bx_fail_oom(err);
    }
    return 0;
}

int bx_credhelper_get(const char *name, const char *server, struct bx_credential *ret,
                      boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(OUTPUT_MAX);
    int status, r = run(name, "get", server, &out, &status, err);

    if (r < 0) {
        return r;
    }
    if (status != 0) {
        /* the words that the protocol has for it */
        return strstr(bx_buf_str(&out), "credentials not found") ? 0
                                                                 : fail_helper(name, status, err);
    }
    r = parse_answer(&out, ret, err);
    if (out.len) {
        explicit_bzero(bx_buf_data(&out), out.len);
    }
    if (r < 0) {
        bx_wrap(err, "credential helper docker-credential-%s", name);
    }
    return r;
}

int bx_credhelper_store(const char *name, const char *server, const char *user, const char *secret,
                        boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(OUTPUT_MAX);
    _cleanup_json_ json_t *doc =
        json_pack("{s:s, s:s, s:s}", "ServerURL", server, "Username", user, "Secret", secret);
    _cleanup_free_ char *input = doc ? bx_json_text(doc) : NULL;
    int status, r = input ? run(name, "store", input, &out, &status, err) : bx_fail_oom(err);

    if (input) {
        explicit_bzero(input, strlen(input));
    }
    return r < 0 ? r : status != 0 ? fail_helper(name, status, err) : 0;
}

int bx_credhelper_erase(const char *name, const char *server, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf out = BX_BUF_INIT(OUTPUT_MAX);
    int status, r = run(name, "erase", server, &out, &status, err);

    return r < 0 ? r : status != 0 ? fail_helper(name, status, err) : 0;
}
