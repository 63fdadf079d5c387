/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.c: Basic authorization, and tokens of the token server that a Bearer challenge names.
 *
 * The user's secret goes to that server, so it is asked over TLS only, unless the registry itself is reached without.
 * An identity token is changed for an access token by POST (OAuth 2), a password by GET with Basic authorization, and
 * without either an anonymous token is asked for. Redirects of token servers are not followed.
 */
#include "oci/token.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

#define ANSWER_MAX (256u << 10)
#define TOKEN_MAX (128u << 10)
#define TIMEOUT_MS 30000u

static int basic(const struct bx_credential *c, char **ret, boxlite_error **err)
{
    _cleanup_free_ char *pair = bx_asprintf("%s:%s", c->user, c->secret);
    _cleanup_free_ char *text = pair ? bx_base64_encode(pair, strlen(pair)) : NULL;

    *ret = text ? bx_asprintf("Basic %s", text) : NULL;
    return *ret ? 0 : bx_fail_oom(err);
}

/* What may stand in a header. */
static bool valid_token(const char *token)
{
    size_t n = strlen(token);

    if (n == 0 || n > TOKEN_MAX) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (token[i] <= 0x20 || token[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

int bx_token_parse(const void *data, size_t len, char **ret, boxlite_error **err)
{
    _cleanup_json_ json_t *doc = NULL;
    const char *token = NULL;
    int r = bx_json_parse(data, len, "token", &doc, err);

    if (r == 0) {
        r = bx_json_str(doc, "token", true, &token, err);
    }
    if (r == 0 && (!token || !*token)) {
        r = bx_json_str(doc, "access_token", true, &token, err);
    }
    if (r < 0) {
        return r;
    }
    if (!token || !valid_token(token)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the token server gave no token");
    }
    *ret = strdup(token);
    return *ret ? 0 : bx_fail_oom(err);
}

/* "scope" is a list with blanks between; each becomes a parameter of its own. */
static char *with_scopes(char *url, const char *scope)
{
    _cleanup_free_ char *copy = strdup(scope);
    char *save = NULL;

    for (char *one = copy ? strtok_r(copy, " ", &save) : NULL; one && url;
         one = strtok_r(NULL, " ", &save)) {
        char *longer = bx_url_with(url, "scope", one);
        free(url);
        url = longer;
    }
    return url;
}

static char *token_url(const struct bx_challenge *c, const struct bx_credential *credential,
                       const char *scope)
{
    char *url = strdup(c->realm);

    if (url && c->service) {
        char *longer = bx_url_with(url, "service", c->service);
        free(url);
        url = longer;
    }
    if (url && credential->user && !credential->identity_token) {
        char *longer = bx_url_with(url, "account", credential->user);
        free(url);
        url = longer;
    }
    return url ? with_scopes(url, scope) : NULL;
}

/* The form of OAuth 2, "NAME=VALUE&…", by way of a URL's query. */
static char *refresh_form(const struct bx_challenge *c, const struct bx_credential *credential,
                          const char *scope)
{
    const struct {
        const char *name, *value;
    } fields[] = {
        {"grant_type", "refresh_token"},           {"client_id", "boxlite"},
        {"service", c->service ? c->service : ""}, {"scope", scope},
        {"refresh_token", credential->secret},
    };
    char *url = strdup("http://form/"), *form = NULL;

    for (size_t i = 0; url && i < BX_ARRAY_SIZE(fields); i++) {
        char *longer = bx_url_with(url, fields[i].name, fields[i].value);
        free(url);
        url = longer;
    }
    if (url && strchr(url, '?')) {
        form = strdup(strchr(url, '?') + 1);
    }
    free(url);
    return form;
}

static int check_realm(const struct bx_registry *r, const char *realm, boxlite_error **err)
{
    _cleanup_free_ char *url = NULL;
    int rc = bx_url_resolve(realm, realm, &url, err);

    if (rc < 0) {
        bx_wrap(err, "token server");
        return rc;
    }
    if (!bx_url_is_https(url) && bx_url_is_https(r->base)) {
        return bx_fail(err, BOXLITE_E_AUTH,
                       "the registry wants the credentials sent without TLS, to %s", realm);
    }
    return 0;
}

static int judge(const struct bx_registry *r, const struct bx_http_response *resp, char **ret,
                 enum bx_http_failure *ret_failure, boxlite_error **err)
{
    _cleanup_free_ char *token = NULL;
    int rc;

    if (resp->status == 429 || resp->status >= 500) {
        *ret_failure = BX_HTTP_TRANSIENT;
        return bx_fail(err, BOXLITE_E_NETWORK, "token server: HTTP %d", resp->status);
    }
    *ret_failure = BX_HTTP_PERMANENT;
    if (resp->status != 200) {
        rc = bx_fail(err, BOXLITE_E_AUTH, "the token server refused %s (HTTP %d)",
                     r->credential.user ? "the credentials" : "anonymous access", resp->status);
        bx_hint(err, "log in with: boxlite login %s", r->host);
        return rc;
    }
    rc = bx_token_parse(bx_buf_data(&resp->body), resp->body.len, &token, err);
    if (rc == 0) {
        *ret = bx_asprintf("Bearer %s", token);
        rc = *ret ? 0 : bx_fail_oom(err);
    }
    return rc;
}

static int bearer(struct bx_registry *r, struct bx_http *h, const struct bx_challenge *c,
                  char **ret, enum bx_http_failure *ret_failure, boxlite_error **err)
{
    const struct bx_credential *credential = &r->credential;
    bool refresh = credential->user && credential->identity_token;
    _cleanup_response_ struct bx_http_response resp = {0};
    _cleanup_free_ char *own_scope = NULL, *url = NULL, *form = NULL;
    const char *scope = c->scope;
    int rc = check_realm(r, c->realm, err);

    if (rc < 0) {
        return rc;
    }
    if (!scope && *r->path) {
        own_scope = bx_asprintf("repository:%s:%s", r->path, r->push ? "pull,push" : "pull");
        scope = own_scope;
    }
    if (!scope) {
        scope = own_scope = strdup(""); /* of the registry as a whole: a login */
    }
    url = !scope ? NULL : refresh ? strdup(c->realm) : token_url(c, credential, scope);
    form = scope && refresh ? refresh_form(c, credential, scope) : NULL;
    if (!url || (refresh && !form)) {
        return bx_fail_oom(err);
    }
    struct bx_http_request req = {.method = refresh ? "POST" : "GET",
                                  .url = url,
                                  .content_type =
                                      refresh ? "application/x-www-form-urlencoded" : NULL,
                                  .body = form,
                                  .body_len = form ? strlen(form) : 0,
                                  .body_fd = -1,
                                  .body_max = ANSWER_MAX,
                                  .connect_ms = r->settings->connect_ms,
                                  .stall_ms = r->settings->stall_ms,
                                  .timeout_ms = TIMEOUT_MS,
                                  .insecure = r->insecure,
                                  .ca_file = r->ca_file,
                                  .proxy = r->proxy};
    if (!refresh) {
        req.user = credential->user;
        req.secret = credential->secret;
    }
    rc = bx_http_run(h, &req, &resp, ret_failure, err);
    return rc < 0 ? rc : judge(r, &resp, ret, ret_failure, err);
}

int bx_token_get(struct bx_registry *r, struct bx_http *h, const struct bx_challenge *c, char **ret,
                 enum bx_http_failure *ret_failure, boxlite_error **err)
{
    int rc;

    *ret_failure = BX_HTTP_PERMANENT;
    if (c->scheme == BX_SCHEME_BEARER) {
        return bearer(r, h, c, ret, ret_failure, err);
    }
    if (c->scheme == BX_SCHEME_BASIC && r->credential.user && !r->credential.identity_token) {
        return basic(&r->credential, ret, err);
    }
    rc = bx_fail(err, BOXLITE_E_AUTH, "%s",
                 c->scheme == BX_SCHEME_BASIC
                     ? "the registry wants a user and a password"
                     : "the registry wants an authorization that is not known here");
    bx_hint(err, "log in with: boxlite login %s", r->host);
    return rc;
}
