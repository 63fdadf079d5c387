/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c: libcurl, wrapped.
 *
 * libcurl is loaded when it is first needed, not linked: its thirty libraries would cost every start of every program
 * 8 ms, and most never speak HTTP (docs/decisions/0012-registry-client.md). It is never unloaded.
 *
 * Each client has a multi handle of its own, for two reasons: connections are kept in it, and waiting is done here, on
 * the connection and on the caller's cancel descriptor at once. Options are set anew for each exchange, so none can
 * leak from one to the next (a CA, a password).
 *
 * Nothing that an exchange carries is logged or put into errors but host and path.
 */
#include "oci/http.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/timeutil.h"
#include "config.h"

#define HEADERS_MAX (128u << 10)
#define BODY_MAX (64u << 10)
#define CHALLENGES_MAX 8
#define SLOW_BYTES 64L /* a second: less than that for stall_ms is no progress */
#define BUFFER (256L << 10)
#define POLL_MS 1000

/* ---- the library */

#define FUNCTIONS(X)                                                                               \
    X(curl_global_init)                                                                            \
    X(curl_easy_init)                                                                              \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_reset)                                                                             \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_strerror)                                                                          \
    X(curl_multi_init)                                                                             \
    X(curl_multi_cleanup)                                                                          \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_multi_perform)                                                                          \
    X(curl_multi_poll)                                                                             \
    X(curl_multi_info_read)                                                                        \
    X(curl_multi_strerror)                                                                         \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)                                                                         \
    X(curl_url)                                                                                    \
    X(curl_url_cleanup)                                                                            \
    X(curl_url_get)                                                                                \
    X(curl_url_set)                                                                                \
    X(curl_free)

#define FIELD(name) __typeof__(name) *name##_;
static struct {
    FUNCTIONS(FIELD)
    bool loaded;
} lib;
static pthread_once_t lib_once = PTHREAD_ONCE_INIT;

static void load_once(void)
{
    void *so = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);

    if (!so) {
        return;
    }
#define LOOK_UP(name)                                                                              \
    *(void **)&lib.name##_ = dlsym(so, #name);                                                     \
    if (!lib.name##_) {                                                                            \
        return;                                                                                    \
    }
    FUNCTIONS(LOOK_UP)
    lib.loaded = lib.curl_global_init_(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

static int load(boxlite_error **err)
{
    (void)pthread_once(&lib_once, load_once);
    if (!lib.loaded) {
        bx_fail(err, BOXLITE_E_UNSUPPORTED, "registries need libcurl, which is not on this host");
        bx_hint(err, "install it: the package is called libcurl4 or libcurl");
        return BOXLITE_E_UNSUPPORTED;
    }
    return 0;
}

/* ---- clients */

struct bx_http {
    CURL *easy;
    CURLM *multi;
    int cancel_fd;
    char error[CURL_ERROR_SIZE];
    /* the exchange under way */
    const struct bx_http_request *req;
    struct bx_http_response *resp;
    struct curl_slist *headers;
    size_t header_bytes;
    uint64_t sent;
    boxlite_error *sink_error;
    bool too_long,
        cut; /* a body that is kept: more than its maximum; the rest left out on purpose */
};

int bx_http_new(int cancel_fd, struct bx_http **ret, boxlite_error **err)
{
    struct bx_http *h;
    int r = load(err);

    if (r < 0) {
        return r;
    }
    h = calloc(1, sizeof(*h));
    if (!h) {
        return bx_fail_oom(err);
    }
    h->cancel_fd = cancel_fd;
    h->easy = lib.curl_easy_init_();
    h->multi = lib.curl_multi_init_();
    if (!h->easy || !h->multi) {
        bx_http_free(h);
        return bx_fail_oom(err);
    }
    *ret = h;
    return 0;
}

void bx_http_free(struct bx_http *h)
{
    if (!h) {
        return;
    }
    if (h->easy) {
        lib.curl_easy_cleanup_(h->easy);
    }
    if (h->multi) {
        (void)lib.curl_multi_cleanup_(h->multi);
    }
    free(h);
}

void bx_http_response_done(struct bx_http_response *r)
{
    free(r->location);
    free(r->content_type);
    free(r->digest);
    bx_strv_done(&r->challenges);
    bx_buf_done(&r->body);
    *r = (struct bx_http_response){0};
}

static void response_reset(struct bx_http_response *r)
{
    bx_http_response_done(r);
    r->challenges.max = CHALLENGES_MAX;
    r->range_start = r->length = UINT64_MAX;
}

/* ---- what comes */

static void keep_text(char **to, const char *value)
{
    free(*to);
    *to = strdup(value); /* without it the answer is less telling, no more */
}

/* "bytes 100-199/200" */
static uint64_t parse_range_start(const char *value)
{
    char digits[24];
    size_t n;
    uint64_t start;

    if (strncasecmp(value, "bytes ", 6) != 0) {
        return UINT64_MAX;
    }
    n = strspn(value + 6, "0123456789");
    if (n == 0 || n >= sizeof(digits) || value[6 + n] != '-') {
        return UINT64_MAX;
    }
    memcpy(digits, value + 6, n);
    digits[n] = '\0';
    return bx_parse_u64(digits, UINT64_MAX - 1, &start) < 0 ? UINT64_MAX : start;
}

static void take_header(struct bx_http_response *r, const char *name, const char *value)
{
    const struct {
        const char *name;
        char **to;
    } texts[] = {
        {"location", &r->location},
        {"content-type", &r->content_type},
        {"docker-content-digest", &r->digest},
    };

    for (size_t i = 0; i < BX_ARRAY_SIZE(texts); i++) {
        if (strcasecmp(name, texts[i].name) == 0) {
            keep_text(texts[i].to, value);
        }
    }
    if (strcasecmp(name, "www-authenticate") == 0) {
        (void)bx_strv_add(&r->challenges, value); /* more than there can be are left out */
    } else if (strcasecmp(name, "content-range") == 0) {
        r->range_start = parse_range_start(value);
    }
}

static size_t on_header(char *data, size_t one, size_t n, void *user)
{
    struct bx_http *h = user;
    _cleanup_free_ char *line = strndup(data, n);
    char *colon, *value, *end;

    (void)one;
    h->header_bytes += n;
    if (!line || h->header_bytes > HEADERS_MAX) {
        return 0;
    }
    if (strncmp(line, "HTTP/", 5) == 0) { /* those of an interim answer do not count */
        response_reset(h->resp);
        return n;
    }
    colon = strchr(line, ':');
    if (colon) {
        *colon = '\0';
        value = colon + 1 + strspn(colon + 1, " \t");
        end = value + strlen(value);
        while (end > value && strchr(" \t\r\n", end[-1])) {
            *--end = '\0';
        }
        take_header(h->resp, line, value);
    }
    return n;
}

static int status_of(struct bx_http *h)
{
    long status = 0;

    (void)lib.curl_easy_getinfo_(h->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

/* What is known when the headers are over. */
static void finish_head(struct bx_http *h)
{
    curl_off_t length = -1, retry = 0;

    h->resp->status = status_of(h);
    (void)lib.curl_easy_getinfo_(h->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    (void)lib.curl_easy_getinfo_(h->easy, CURLINFO_RETRY_AFTER, &retry);
    h->resp->length = length < 0 ? UINT64_MAX : (uint64_t)length;
    h->resp->retry_after = retry < 0 ? 0 : (uint64_t)retry;
}

static size_t on_body(char *data, size_t one, size_t n, void *user)
{
    struct bx_http *h = user;
    const struct bx_http_request *req = h->req;
    struct bx_buf *body = &h->resp->body;
    size_t room;

    (void)one;
    if (h->resp->status == 0) {
        finish_head(h);
    }
    if (req->sink && (h->resp->status == 200 || h->resp->status == 206)) {
        return req->sink(req->sink_data, h->resp, data, n, &h->sink_error) < 0 ? 0 : n;
    }
    body->max = req->body_max ? req->body_max : BODY_MAX;
    room = body->max - body->len;
    if (bx_buf_append(body, data, n < room ? n : room) < 0) {
        return 0;
    }
    if (n > room) { /* of an error's text the beginning does */
        h->too_long = h->resp->status < 300;
        h->cut = !h->too_long;
        return 0;
    }
    return n;
}

/* ---- what goes */

static size_t on_read(char *data, size_t one, size_t n, void *user)
{
    struct bx_http *h = user;
    uint64_t left = h->req->body_size - h->sent;
    ssize_t got;

    (void)one;
    do {
        got = pread(h->req->body_fd, data, n < left ? n : (size_t)left, (off_t)h->sent);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        (void)bx_fail_errno(&h->sink_error, BOXLITE_E_IO, errno, "reading what is sent");
        return CURL_READFUNC_ABORT;
    }
    h->sent += (uint64_t)got;
    if (h->req->sent) {
        h->req->sent(h->req->sent_data, h->sent);
    }
    return (size_t)got;
}

static int on_seek(void *user, curl_off_t offset, int origin)
{
    struct bx_http *h = user;

    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > h->req->body_size) {
        return CURL_SEEKFUNC_FAIL;
    }
    h->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- an exchange */

#define SET(h, option, value)                                                                      \
    do {                                                                                           \
        if (lib.curl_easy_setopt_((h)->easy, (option), (value)) != CURLE_OK) {                     \
            return -EINVAL;                                                                        \
        }                                                                                          \
    } while (0)

static int add_header(struct bx_http *h, const char *name, const char *value)
{
    _cleanup_free_ char *line = value ? bx_asprintf("%s: %s", name, value) : NULL;
    struct curl_slist *list;

    if (!value) {
        return 0;
    }
    list = line ? lib.curl_slist_append_(h->headers, line) : NULL;
    if (!list) {
        return -ENOMEM;
    }
    h->headers = list;
    return 0;
}

static int set_headers(struct bx_http *h, const struct bx_http_request *req)
{
    struct curl_slist *list;

    if (add_header(h, "Accept", req->accept ? req->accept : "*/*") < 0 ||
        add_header(h, "Authorization", req->authorization) < 0 ||
        add_header(h, "Content-Type", req->content_type) < 0) {
        return -ENOMEM;
    }
    list = lib.curl_slist_append_(h->headers,
                                  "Expect:"); /* not: it costs a second where it is not known */
    if (!list) {
        return -ENOMEM;
    }
    h->headers = list;
    SET(h, CURLOPT_HTTPHEADER, h->headers);
    return 0;
}

static int set_method(struct bx_http *h, const struct bx_http_request *req)
{
    if (bx_streq(req->method, "HEAD")) {
        SET(h, CURLOPT_NOBODY, 1L);
    } else if (!req->body && req->body_fd >= 0) {
        SET(h, CURLOPT_UPLOAD, 1L);
        SET(h, CURLOPT_READFUNCTION, on_read);
        SET(h, CURLOPT_READDATA, h);
        SET(h, CURLOPT_SEEKFUNCTION, on_seek);
        SET(h, CURLOPT_SEEKDATA, h);
        SET(h, CURLOPT_INFILESIZE_LARGE, (curl_off_t)req->body_size);
        SET(h, CURLOPT_CUSTOMREQUEST, req->method);
    } else if (!bx_streq(req->method, "GET")) {
        SET(h, CURLOPT_POSTFIELDS, req->body ? req->body : "");
        SET(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)req->body_len);
        SET(h, CURLOPT_CUSTOMREQUEST, req->method);
    }
    return 0;
}

static int set_limits(struct bx_http *h, const struct bx_http_request *req)
{
    SET(h, CURLOPT_CONNECTTIMEOUT_MS, (long)req->connect_ms);
    SET(h, CURLOPT_TIMEOUT_MS, (long)req->timeout_ms);
    SET(h, CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES);
    SET(h, CURLOPT_LOW_SPEED_TIME, (long)((req->stall_ms + 999) / 1000));
    SET(h, CURLOPT_MAXCONNECTS, 4L);
    /* Refused, and not needed, while a handle has its buffers from an exchange that failed early. */
    (void)lib.curl_easy_setopt_(h->easy, CURLOPT_BUFFERSIZE, BUFFER);
    (void)lib.curl_easy_setopt_(h->easy, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER);
    return 0;
}

static int set_peer(struct bx_http *h, const struct bx_http_request *req)
{
    SET(h, CURLOPT_URL, req->url);
    SET(h, CURLOPT_PROTOCOLS_STR, "http,https");
    SET(h, CURLOPT_FOLLOWLOCATION, 0L);
    SET(h, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (req->ca_file) {
        SET(h, CURLOPT_CAINFO, req->ca_file);
        SET(h, CURLOPT_CAPATH, NULL);
    }
    if (req->insecure) {
        SET(h, CURLOPT_SSL_VERIFYPEER, 0L);
        SET(h, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (req->proxy || bx_url_is_loopback(req->url)) {
        SET(h, CURLOPT_PROXY, req->proxy ? req->proxy : "");
    }
    if (req->user) {
        SET(h, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        SET(h, CURLOPT_USERNAME, req->user);
        SET(h, CURLOPT_PASSWORD, req->secret);
    }
    return 0;
}

static int set_up(struct bx_http *h, const struct bx_http_request *req)
{
    int r;

    SET(h, CURLOPT_ERRORBUFFER, h->error);
    SET(h, CURLOPT_NOSIGNAL, 1L);
    SET(h, CURLOPT_QUICK_EXIT, 1L); /* a cancelled look-up of a name is not waited for */
    SET(h, CURLOPT_USERAGENT, "boxlite/" BX_VERSION);
    SET(h, CURLOPT_HEADERFUNCTION, on_header);
    SET(h, CURLOPT_HEADERDATA, h);
    SET(h, CURLOPT_WRITEFUNCTION, on_body);
    SET(h, CURLOPT_WRITEDATA, h);
    if (req->range_from > 0) {
        char range[32];
        (void)snprintf(range, sizeof(range), "%llu-", (unsigned long long)req->range_from);
        SET(h, CURLOPT_RANGE, range);
    }
    r = set_peer(h, req);
    r = r < 0 ? r : set_limits(h, req);
    r = r < 0 ? r : set_method(h, req);
    return r < 0 ? r : set_headers(h, req);
}

static bool is_cancelled(const struct bx_http *h)
{
    struct pollfd p = {.fd = h->cancel_fd, .events = POLLIN};

    return h->cancel_fd >= 0 && poll(&p, 1, 0) > 0;
}

static int fail_cancelled(boxlite_error **err)
{
    return bx_fail(err, BOXLITE_E_CANCELLED, "cancelled");
}

/* Runs it to its end: the result of the transfer, or -1 if it was cancelled. */
static int drive(struct bx_http *h, CURLcode *ret)
{
    struct curl_waitfd extra = {.fd = h->cancel_fd, .events = CURL_WAIT_POLLIN};
    unsigned nextra = h->cancel_fd >= 0 ? 1 : 0;
    CURLMcode rc = CURLM_OK;
    struct CURLMsg *msg;
    int running = 1, left;

    for (;;) {
        rc = lib.curl_multi_perform_(h->multi, &running);
        if (rc != CURLM_OK || running == 0) {
            break;
        }
        rc = lib.curl_multi_poll_(h->multi, &extra, nextra, POLL_MS, NULL);
        if (rc != CURLM_OK || is_cancelled(h)) {
            break;
        }
    }
    *ret = CURLE_FAILED_INIT;
    if (rc != CURLM_OK) {
        (void)snprintf(h->error, sizeof(h->error), "%s", lib.curl_multi_strerror_(rc));
        return 0;
    }
    if (running) {
        return -1;
    }
    while ((msg = lib.curl_multi_info_read_(h->multi, &left))) {
        if (msg->msg == CURLMSG_DONE) {
            *ret = msg->data.result;
        }
    }
    return 0;
}

static const struct {
    CURLcode code;
    int error;
    enum bx_http_failure failure;
} failures[] = {
    {CURLE_OPERATION_TIMEDOUT, BOXLITE_E_TIMEOUT, BX_HTTP_TRANSIENT},
    {CURLE_COULDNT_RESOLVE_HOST, BOXLITE_E_NETWORK, BX_HTTP_UNREACHED},
    {CURLE_COULDNT_RESOLVE_PROXY, BOXLITE_E_NETWORK, BX_HTTP_UNREACHED},
    {CURLE_COULDNT_CONNECT, BOXLITE_E_NETWORK, BX_HTTP_UNREACHED},
    {CURLE_SSL_CONNECT_ERROR, BOXLITE_E_NETWORK, BX_HTTP_NOT_TLS},
    {CURLE_PEER_FAILED_VERIFICATION, BOXLITE_E_NETWORK, BX_HTTP_PERMANENT},
    {CURLE_SSL_CACERT_BADFILE, BOXLITE_E_INVALID, BX_HTTP_PERMANENT},
    {CURLE_URL_MALFORMAT, BOXLITE_E_INVALID, BX_HTTP_PERMANENT},
    {CURLE_UNSUPPORTED_PROTOCOL, BOXLITE_E_INVALID, BX_HTTP_PERMANENT},
    {CURLE_OUT_OF_MEMORY, BOXLITE_E_NO_MEMORY, BX_HTTP_PERMANENT},
};

static int fail_transfer(struct bx_http *h, CURLcode code, enum bx_http_failure *ret,
                         boxlite_error **err)
{
    const char *text = *h->error ? h->error : lib.curl_easy_strerror_(code);
    _cleanup_free_ char *shown = bx_escape(text, strlen(text), 300);
    int error = BOXLITE_E_NETWORK;

    *ret = BX_HTTP_TRANSIENT;
    for (size_t i = 0; i < BX_ARRAY_SIZE(failures); i++) {
        if (failures[i].code == code) {
            error = failures[i].error;
            *ret = failures[i].failure;
        }
    }
    (void)bx_fail(err, error, "%s", shown ? shown : "failed");
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
        bx_hint(
            err,
            "if the registry's certificate is of your own authority, name that in registries.json "
            "(\"ca\"), see boxlite-registries(5)");
    }
    return error;
}

/* What the callbacks know better than libcurl. */
static int judge(struct bx_http *h, CURLcode code, enum bx_http_failure *ret, boxlite_error **err)
{
    *ret = BX_HTTP_PERMANENT;
    if (h->sink_error) {
        int r = bx_fail_again(err, h->sink_error);
        return r;
    }
    if (h->header_bytes > HEADERS_MAX) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the answer has more than %u KiB of headers",
                       HEADERS_MAX >> 10);
    }
    if (h->too_long) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the answer is longer than %zu KiB",
                       h->resp->body.max >> 10);
    }
    if (code != CURLE_OK && !h->cut) {
        return fail_transfer(h, code, ret, err);
    }
    finish_head(h);
    *ret = BX_HTTP_FINE;
    return 0;
}

static int run(struct bx_http *h, const struct bx_http_request *req, enum bx_http_failure *ret,
               boxlite_error **err)
{
    CURLcode code;
    int r;

    lib.curl_easy_reset_(h->easy);
    r = set_up(h, req);
    if (r < 0) {
        return r == -ENOMEM ? bx_fail_oom(err)
                            : bx_fail(err, BOXLITE_E_UNSUPPORTED,
                                      "this libcurl lacks an option that is needed");
    }
    if (is_cancelled(h)) {
        return fail_cancelled(err);
    }
    if (lib.curl_multi_add_handle_(h->multi, h->easy) != CURLM_OK) {
        return bx_fail_oom(err);
    }
    r = drive(h, &code);
    if (r == 0) {
        r = judge(h, code, ret, err);
    } else {
        r = fail_cancelled(err);
    }
    (void)lib.curl_multi_remove_handle_(h->multi, h->easy);
    return r;
}

int bx_http_run(struct bx_http *h, const struct bx_http_request *req, struct bx_http_response *ret,
                enum bx_http_failure *ret_failure, boxlite_error **err)
{
    int r;

    *ret_failure = BX_HTTP_PERMANENT;
    response_reset(ret);
    h->req = req;
    h->resp = ret;
    h->header_bytes = 0;
    h->sent = 0;
    h->too_long = h->cut = false;
    h->error[0] = '\0';
    r = run(h, req, ret_failure, err);
    lib.curl_slist_free_all_(steal_ptr(&h->headers));
    boxlite_error_free(steal_ptr(&h->sink_error));
    if (r < 0) {
        _cleanup_free_ char *shown = r == BOXLITE_E_CANCELLED ? NULL : bx_url_shown(req->url);
        if (shown) {
            bx_wrap(err, "%s", shown);
        }
    }
    return r;
}

int bx_http_pause(struct bx_http *h, uint64_t ms, boxlite_error **err)
{
    struct pollfd p = {.fd = h->cancel_fd, .events = POLLIN};
    uint64_t deadline = bx_deadline_ms((int64_t)ms);
    int left;

    do {
        left = bx_deadline_left_ms(deadline);
        if (poll(&p, h->cancel_fd >= 0 ? 1 : 0, left) > 0) {
            return fail_cancelled(err);
        }
    } while (left > 0);
    return 0;
}

/* ---- URLs */

static void cleanup_url(CURLU **u)
{
    lib.curl_url_cleanup_(*u);
}
#define _cleanup_url_ _cleanup_(cleanup_url)

static void cleanup_part(char **s)
{
    lib.curl_free_(*s);
}
#define _cleanup_part_ _cleanup_(cleanup_part)

static CURLU *parse_url(const char *url)
{
    CURLU *u = load(NULL) == 0 ? lib.curl_url_() : NULL;

    if (u && lib.curl_url_set_(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
        lib.curl_url_cleanup_(u);
        return NULL;
    }
    return u;
}

static char *part(CURLU *u, CURLUPart which, unsigned flags)
{
    char *s = NULL;

    return u && lib.curl_url_get_(u, which, &s, flags) == CURLUE_OK ? s : NULL;
}

int bx_url_resolve(const char *base, const char *target, char **ret, boxlite_error **err)
{
    _cleanup_url_ CURLU *u = NULL;
    _cleanup_part_ char *whole = NULL, *scheme = NULL, *user = NULL;
    int r = load(err);

    if (r < 0) {
        return r;
    }
    u = parse_url(base);
    if (!u || lib.curl_url_set_(u, CURLUPART_URL, target, 0) != CURLUE_OK ||
        !(whole = part(u, CURLUPART_URL, 0)) || !(scheme = part(u, CURLUPART_SCHEME, 0)) ||
        (!bx_streq(scheme, "http") && !bx_streq(scheme, "https"))) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "a URL that is none of http or https");
    }
    user = part(u, CURLUPART_USER, 0);
    if (user) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "a URL with a user in it");
    }
    *ret = strdup(whole);
    return *ret ? 0 : bx_fail_oom(err);
}

bool bx_url_same_origin(const char *a, const char *b)
{
    _cleanup_url_ CURLU *ua = parse_url(a), *ub = parse_url(b);
    static const CURLUPart parts[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};

    for (size_t i = 0; i < BX_ARRAY_SIZE(parts); i++) {
        _cleanup_part_ char *pa = part(ua, parts[i], CURLU_DEFAULT_PORT);
        _cleanup_part_ char *pb = part(ub, parts[i], CURLU_DEFAULT_PORT);
        if (!pa || !pb || strcasecmp(pa, pb) != 0) {
            return false;
        }
    }
    return true;
}

bool bx_url_is_https(const char *url)
{
    return strncasecmp(url, "https://", 8) == 0;
}

bool bx_url_is_loopback(const char *url)
{
    _cleanup_url_ CURLU *u = parse_url(url);
    _cleanup_part_ char *host = part(u, CURLUPART_HOST, 0);
    struct in_addr v4;

    if (!host) {
        return false;
    }
    return strcasecmp(host, "localhost") == 0 || bx_streq(host, "[::1]") ||
           (inet_pton(AF_INET, host, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127);
}

char *bx_url_with(const char *url, const char *name, const char *value)
{
    _cleanup_url_ CURLU *u = parse_url(url);
    _cleanup_free_ char *pair = bx_asprintf("%s=%s", name, value);
    _cleanup_part_ char *whole = NULL;

    if (!u || !pair ||
        lib.curl_url_set_(u, CURLUPART_QUERY, pair, CURLU_APPENDQUERY | CURLU_URLENCODE) !=
            CURLUE_OK ||
        !(whole = part(u, CURLUPART_URL, 0))) {
        return NULL;
    }
    return strdup(whole);
}

char *bx_url_shown(const char *url)
{
    _cleanup_url_ CURLU *u = parse_url(url);
    _cleanup_part_ char *scheme = part(u, CURLUPART_SCHEME, 0), *host = part(u, CURLUPART_HOST, 0);
    _cleanup_part_ char *port = part(u, CURLUPART_PORT, 0), *path = part(u, CURLUPART_PATH, 0);
    _cleanup_free_ char *text = NULL;

    if (!scheme || !host) {
        return strdup("a URL");
    }
    text = bx_asprintf("%s://%s%s%s%s", scheme, host, port ? ":" : "", port ? port : "",
                       path ? path : "");
    return text ? bx_escape(text, strlen(text), 200) : NULL;
}
