/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp.h: the parts of the MCP server and how they hang together.
 *
 *   main.c        signals, the poll loop
 *   options.c     the table of settings: flags, variables, config.toml (config.c)
 *   transport.c   lines in from stdin, whole lines out to stdout; bounded both ways
 *   http.c        Streamable HTTP instead, by libmicrohttpd; http_guard.c: who may ask
 *   message.c     one line to one message: what it is, its era, what is wrong with it (pure, fuzzed)
 *   server.c      the MCP methods; answers are queued, never waited for
 *   call.c        a tools/call from its start to its one answer
 *   audit.c       a line for each call
 *   tools.c       the table of tools; argument checks
 *   tool_*.c      one tool each
 *   environment.c a named box and its life; environment_show.c: what is told of it
 *   program.c     code to a running program (execution.h)
 *   folders.c     which host folders an environment may be given
 *   changes.c     what it changed in a workspace
 *   pull.c        an image from its registry, for an environment
 *   language.c    the table of languages: how each is run or built, which images have it
 *   put.c         files into an environment
 *   job.c         one command in an environment, its output captured, its end reported; kept on for read_output
 *   images.c      pictures that a program leaves
 *   outcome.c     what a command came to, as JSON and as text
 *   capture.c     bounded head, error lines and tail of an output
 *   text.c        bytes to valid UTF-8, to plain text, to and from base64
 *   timer.c       one-shot timers
 *
 * One thread. Nothing here waits: a call is a struct bx_call that is finished from a callback of the library, so ping,
 * cancellation and other calls go through while commands run. Standard output carries JSON-RPC and nothing else.
 */
#ifndef BX_MCP_MCP_H
#define BX_MCP_MCP_H

#include <boxlite.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

BX_DEFINE_CLEANUP(json_t *, json_decref, mcp_cleanup_json);
BX_DEFINE_CLEANUP(boxlite_error *, boxlite_error_free, mcp_cleanup_error);
#define _cleanup_json_ _cleanup_(mcp_cleanup_json)
#define _cleanup_error_ _cleanup_(mcp_cleanup_error)

#define MCP_LINE_MAX (16u * 1024u * 1024u) /* a message, either way (rmcp's limit) */
#define MCP_DEFAULT_ENVIRONMENT "default"
#define MCP_ALLOW_PULL "docker.io/*"
#define MCP_WORKSPACE "/workspace" /* where code and files go */
#define MCP_DEPTH_MAX 128u
#define MCP_CALLS_MAX 64u /* tool calls that run at once */
#define MCP_BUDGET_MIN 1000u
#define MCP_JOBS_MAX 128u /* commands that run or whose output can still be read */
#define MCP_INPUT_MAX (8u * 1024u * 1024u) /* input that waits for a command to take it */

/* ---- Options: flags over variables over config.toml over defaults (options.c, config.c) */

struct mcp_options {
    char *home;    /* NULL: the library's rule */
    char *image;   /* of the default environment */
    char *engine;  /* NULL: auto */
    uint32_t cpus;
    uint64_t memory;     /* bytes */
    uint64_t disk;       /* bytes, 0: the library's default */
    int network;         /* BOXLITE_NETWORK_* */
    uint32_t timeout_s;  /* of a command, default and with max_timeout_s the cap */
    uint32_t max_timeout_s;
    uint32_t yield_s;    /* a call that takes longer is answered, its command goes on; 0: by client */
    uint32_t idle_s;     /* an environment that nobody uses so long is paused; 0: never */
    uint32_t stop_idle_s; /* ... is stopped, its disk kept; 0: never */
    size_t max_result;   /* bytes of a result as JSON; 0: by client */
    char *allow_image; /* shell patterns, separated by commas */
    char *allow_pull;  /* the same, of full names */
    char *allow_folder; /* host folders, separated by commas, perhaps with :ro; NULL: none */
    char *workspace;    /* of the default environment; NULL: none */
    uint32_t max_cpus;
    uint64_t max_memory;
    unsigned max_environments;
    char *audit_log; /* NULL: none */
    char *http;      /* ADDR:PORT; NULL: stdio */
    char *http_token; /* NULL: none */
    struct mcp_languages *languages;
    bool verbose;
};
/* 0: go on; 1: all was said; 125: wrong, said. */
int mcp_options_parse(int argc, char **argv, struct mcp_options *o);
void mcp_options_done(struct mcp_options *o);

/* Called for each entry; returns what is wrong with it (taken) or NULL. */
typedef char *(*mcp_config_fn)(void *data, unsigned line, const char *section, const char *key, const char *value);
/* What is wrong with the text, with its line (caller frees), or NULL. */
char *mcp_config_parse(const char *text, size_t len, mcp_config_fn fn, void *data);

/* ---- Audit log: one JSON line for each finished call; rotated; secrets masked */

struct mcp_call;
void mcp_audit(struct mcp_call *call, const json_t *result, bool is_error);
/* A command line or text with what looks like a secret replaced; caller frees. */
char *mcp_mask(const char *text);

/* ---- Transport */

struct mcp_transport;
/* One message line without its newline. */
typedef void (*mcp_line_fn)(void *data, const char *line, size_t len);
int mcp_transport_new(int in_fd, int out_fd, mcp_line_fn fn, void *data, struct mcp_transport **ret);
void mcp_transport_free(struct mcp_transport *t);
/* Reads what is there and hands over whole lines. 1: go on, 0: end of input, -errno. A line over MCP_LINE_MAX is skipped
 * and reported as a NULL line. */
int mcp_transport_read(struct mcp_transport *t);
int mcp_transport_flush(struct mcp_transport *t); /* 0 or -errno (EPIPE: the client has gone) */
bool mcp_transport_pending(const struct mcp_transport *t);
/* Queues one message. */
int mcp_transport_send(struct mcp_transport *t, const json_t *message);

/* ---- Streamable HTTP (http.c; what may come in: http_guard.c) */

struct mcp_http;
struct mcp_server;
struct mcp_peer;
/* Listens; what is wrong is told on standard error: 0 or -errno. */
int mcp_http_new(const struct mcp_options *options, struct mcp_http **ret);
void mcp_http_attach(struct mcp_http *h, struct mcp_server *s);
void mcp_http_free(struct mcp_http *h);
int mcp_http_fd(const struct mcp_http *h);
int mcp_http_gone_fd(const struct mcp_http *h); /* to be waited for as well */
int mcp_http_wait_ms(const struct mcp_http *h); /* -1: no limit */
void mcp_http_run(struct mcp_http *h);
void mcp_http_send(void *data, const struct mcp_peer *peer, const json_t *message);

/* "127.0.0.1:8080", "[::1]:8080", "localhost:80", ":8080" (loopback): false if it is none. */
bool mcp_http_address(const char *text, char *host, size_t size, uint16_t *ret_port);
bool mcp_http_is_loopback(const char *host);
/* A Host header's or an Origin's host is one of loopback. */
bool mcp_http_host_good(const char *host);
bool mcp_http_origin_good(const char *origin);
/* The header is "Bearer TOKEN"; takes the same time whatever is wrong. */
bool mcp_http_token_good(const char *header, const char *token);

/* ---- Messages */

#define MCP_RPC_PARSE_ERROR (-32700)
#define MCP_RPC_INVALID_REQUEST (-32600)
#define MCP_RPC_METHOD_NOT_FOUND (-32601)
#define MCP_RPC_INVALID_PARAMS (-32602)
#define MCP_RPC_INTERNAL (-32603)
#define MCP_RPC_HEADER_MISMATCH (-32020)
#define MCP_RPC_UNSUPPORTED_REVISION (-32022)

#define MCP_STATELESS_REVISION "2026-07-28" /* each request says for itself what it needs */
#define MCP_LATEST_REVISION "2025-11-25"    /* of those that begin with initialize */
extern const char *const mcp_revisions[];   /* newest first, ends with NULL */
bool mcp_revision_known(const char *revision);

enum mcp_kind {
    MCP_BAD,          /* answer `error` and `why`, with `id` if there is one */
    MCP_REQUEST,
    MCP_NOTIFICATION, /* never answered */
    MCP_ANSWER,       /* stray: the server asks nothing */
};
/* All pointers are borrowed from json. */
struct mcp_message {
    enum mcp_kind kind;
    json_t *json;
    json_t *id, *params;
    const char *method;
    const char *revision;   /* stateless era: what this message speaks; NULL: the era of initialize */
    const char *client;     /* the client's name, if this message says it */
    json_t *progress_token; /* NULL: no progress is wanted */
    int error;
    const char *why;
};
/* line NULL: one that was too long. Every input is allowed. */
void mcp_message_parse(const char *line, size_t len, struct mcp_message *ret);
void mcp_message_done(struct mcp_message *m);

/* ---- Server */

struct mcp_server;
struct mcp_call;

/* Where an answer goes: the transport's own number for who asked, and the session it belongs to ("" on stdio). */
struct mcp_peer {
    uint64_t number;
    char session[40];
};
/* Sends one message to a peer; one without an id may be dropped where it cannot be sent. */
typedef void (*mcp_send_fn)(void *data, const struct mcp_peer *peer, const json_t *message);
int mcp_server_new(const struct mcp_options *options, mcp_send_fn send, void *data, struct mcp_server **ret);
/* One message (NULL: one that was too long). True: it is answered, now or later, with exactly one message. */
bool mcp_server_receive(struct mcp_server *s, const struct mcp_peer *peer, const char *line, size_t len);
/* The same for a parsed one. */
bool mcp_server_serve(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m);
/* Cancels what runs, ends all boxes, frees. */
void mcp_server_free(struct mcp_server *s);
const struct mcp_options *mcp_server_options(const struct mcp_server *s);
/* The library's runtime, opened at first use; NULL with the error. */
boxlite_runtime *mcp_server_runtime(struct mcp_server *s, boxlite_error **err);
/* The runtime's descriptor, or -1 while there is none. */
int mcp_server_fd(const struct mcp_server *s);
void mcp_server_dispatch(struct mcp_server *s);
/* Messages out. What is `take` is freed, also on failure. */
void mcp_server_answer(struct mcp_server *s, const struct mcp_peer *peer, const json_t *id, bool stateless,
                       json_t *take_result);
void mcp_server_refuse(struct mcp_server *s, const struct mcp_peer *peer, const json_t *id, int code,
                       const char *message, json_t *take_data);
/* The client's name as it last said it, or "". */
const char *mcp_server_client(const struct mcp_server *s);
/* Bytes that a result may have as JSON, for this client. */
size_t mcp_server_budget(const struct mcp_server *s);
/* The time after which a call returns though its command goes on, for this client. */
uint32_t mcp_server_yield_ms(const struct mcp_server *s);
/* Its running calls (call.c). */
struct mcp_calls *mcp_server_calls(struct mcp_server *s);

struct mcp_jobs {
    struct mcp_job *first;
    unsigned count, serial;
};
struct mcp_jobs *mcp_server_jobs(struct mcp_server *s);
/* One message without an answer. */
void mcp_server_notify(struct mcp_server *s, const struct mcp_peer *peer, const char *method, json_t *take_params);

/* ---- Timers: one-shot; zeroed before first use */

struct mcp_timer {
    struct mcp_timer *next;
    uint64_t due_ns;
    void (*fn)(void *data);
    void *data;
};
struct mcp_timer **mcp_server_timers(struct mcp_server *s);
/* An armed timer is armed anew. */
void mcp_timer_arm(struct mcp_server *s, struct mcp_timer *timer, uint64_t ms, void (*fn)(void *data), void *data);
void mcp_timer_cancel(struct mcp_server *s, struct mcp_timer *timer);
int mcp_timers_wait_ms(struct mcp_server *s); /* -1: none is armed */
void mcp_timers_run(struct mcp_server *s);

/* ---- Failures: a code, a sentence, what can be done; borrowed texts */

struct mcp_failure {
    int code;
    const char *message, *hint;
};
/* NULL: out of memory. */
struct mcp_failure mcp_failure_of(const boxlite_error *err);

/* ---- Calls: one tools/call each; finished once, by the tool, by a failure or by a cancellation */

struct mcp_tool;
struct mcp_environment;
struct mcp_calls {
    struct mcp_call *first;
    unsigned count;
};
struct mcp_call {
    struct mcp_server *server;
    struct mcp_call *next;
    const struct mcp_tool *tool;
    struct mcp_peer peer;
    json_t *id;
    bool stateless;              /* of the stateless era */
    json_t *arguments;           /* checked against the tool's table */
    void *state;                 /* the tool's */
    void (*cancel)(struct mcp_call *call); /* ends the work and frees state; set by the tool */
    uint64_t started_ns;
    char environment[65];        /* that it waits for or works in, "" if none */
    json_t *progress_token;      /* NULL: none is wanted */
    struct mcp_timer progress;
    unsigned ticks;
};
/* A tools/call request: begins it or answers what is wrong with it. */
void mcp_call_begin(struct mcp_server *s, const struct mcp_peer *peer, const struct mcp_message *m);
/* The running call of that session with that id, or NULL. */
struct mcp_call *mcp_call_find(struct mcp_server *s, const struct mcp_peer *peer, const json_t *id);
/* The running call of that exchange, or NULL. */
struct mcp_call *mcp_call_of_peer(struct mcp_server *s, const struct mcp_peer *peer);
/* Ends its work and frees it; no answer is sent. */
void mcp_call_cancel(struct mcp_call *call);
/* Answers with a result object (taken) and frees the call. */
void mcp_call_finish(struct mcp_call *call, json_t *take_structured, char *take_text, bool is_error);
/* Answers with an error that the model can act on. */
void mcp_call_fail(struct mcp_call *call, int code, const char *message, const char *hint);
void mcp_call_fail_with(struct mcp_call *call, const struct mcp_failure *why);
void mcp_call_fail_error(struct mcp_call *call, const boxlite_error *err);
/* A result with further content items (an array, taken) behind the text. */
void mcp_call_finish_more(struct mcp_call *call, json_t *take_structured, char *take_text, json_t *take_more);

/* Argument getters: the table has checked the types. */
const char *mcp_arg_str(const struct mcp_call *call, const char *name, const char *fallback);
int64_t mcp_arg_int(const struct mcp_call *call, const char *name, int64_t fallback);
bool mcp_arg_bool(const struct mcp_call *call, const char *name);

/* Names its environment, for progress to speak of. */
void mcp_call_in(struct mcp_call *call, const char *environment);
/* What is left of that for this call, at least 1. */
uint32_t mcp_call_yield_ms(const struct mcp_call *call);
/* Whether the argument "encoding" asks for base64; false: it is neither that nor text, answered. */
bool mcp_call_encoding(struct mcp_call *call, bool *ret_base64);
/* What a call asks for (0: nothing), within the server's limits. */
uint32_t mcp_timeout(const struct mcp_options *o, int64_t asked);

/* ---- Tools */

enum mcp_arg_type { MCP_STRING, MCP_INTEGER, MCP_BOOLEAN, MCP_STRING_LIST, MCP_STRING_MAP };
struct mcp_arg {
    const char *name;
    enum mcp_arg_type type;
    bool required, nul_allowed;
    const char *description; /* limits and defaults stated; checked by `min`, `max` (a string's: length in bytes) */
    int64_t min, max;
};
struct mcp_tool {
    const char *name, *title, *description;
    const struct mcp_arg *args; /* ends with a NULL name */
    const char *output_schema;  /* JSON text */
    bool read_only, idempotent, destructive; /* destructive: of what a user may miss */
    void (*start)(struct mcp_call *call);
};
extern const struct mcp_tool mcp_tool_execute_code, mcp_tool_run_command, mcp_tool_create_environment,
    mcp_tool_list_environments, mcp_tool_remove_environment, mcp_tool_read_output, mcp_tool_send_input,
    mcp_tool_read_file, mcp_tool_write_file, mcp_tool_diff_changes, mcp_tool_apply_changes;
const struct mcp_tool *mcp_tool_find(const char *name);
json_t *mcp_tools_list(const struct mcp_options *o);
/* NULL if the arguments fit the table, else what is wrong (caller frees). */
char *mcp_tool_check(const struct mcp_tool *tool, const json_t *arguments);

/* ---- Images from registries */

/* "docker.io/library/python:3" for "python:3". Caller frees. */
char *mcp_image_full_name(const char *image);
/* Shell patterns, separated by commas. */
bool mcp_patterns_match(const char *patterns, const char *text);
bool mcp_pull_allowed(const struct mcp_options *o, const char *image);
struct mcp_pull;
/* why NULL: it is here. The pull may be freed in it. */
typedef void (*mcp_pulled_fn)(void *data, const struct mcp_failure *why);
int mcp_pull_start(boxlite_runtime *rt, const char *image, mcp_pulled_fn fn, void *data, struct mcp_pull **ret,
                   boxlite_error **err);
/* How far it is, in one line. */
const char *mcp_pull_says(const struct mcp_pull *p);
/* Cancels it if it is under way; its function is not called any more. Accepts NULL. */
void mcp_pull_free(struct mcp_pull *p);

/* ---- Host folders */

/* The folder after links are followed, if the rule lets it be read or written (caller frees); else NULL and why (caller
 * frees). */
char *mcp_folder_allow(const struct mcp_options *o, const char *host, bool write, char **ret_why);
/* A list of HOST:GUEST[:ro] as [{"host", "guest", "ro"}] with resolved hosts; NULL and why. */
json_t *mcp_volumes_parse(const struct mcp_options *o, const json_t *list, char **ret_why);
/* Some may be written. */
bool mcp_folders_writable(const struct mcp_options *o);

/* ---- Changes of workspaces */

/* Called when the environment is ready, where blocking functions may be used. */
typedef void (*mcp_changes_fn)(struct mcp_call *call, struct mcp_environment *env);
void mcp_changes_start(struct mcp_call *call, mcp_changes_fn fn);
/* From the call's arguments paths, allow, dry_run, merge. */
int mcp_changes_options(const struct mcp_call *call, boxlite_change_options **ret, boxlite_error **err);
json_t *mcp_changes_json(const boxlite_changes *c);
#define MCP_CHANGES_SCHEMA                                                                         \
    "\"environment\":{\"type\":\"string\"},\"workspace\":{\"type\":\"string\"},\"status\":{\"type\":"   \
    "\"string\"},\"count\":{\"type\":\"integer\"},\"changes\":{\"type\":\"array\",\"items\":{\"type\":"  \
    "\"object\"},\"description\":\"path, kind, from, held (why it is held back), allow (what lets it through), "  \
    "conflict; the first 200\"},\"conflicts\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"        \
    "\"error\":{\"type\":\"string\"},\"code\":{\"type\":\"string\"},\"hint\":{\"type\":\"string\"}"

/* ---- Environments: a named box, created and started when first used */

struct mcp_environments;
struct mcp_environment_spec {
    const char *name;  /* NULL: made up */
    const char *image; /* NULL: the server's default */
    uint32_t cpus;     /* 0: the server's */
    uint64_t memory;   /* 0: the server's */
    int network;       /* -1: the server's */
    const json_t *env; /* object of strings or NULL */
    const json_t *volumes; /* of mcp_volumes_parse(), or NULL */
    const char *workspace; /* a resolved host folder, or NULL */
};
typedef void (*mcp_ready_fn)(void *data, struct mcp_environment *env, const struct mcp_failure *why);

struct mcp_environments *mcp_environments_new(struct mcp_server *s);
void mcp_environments_free(struct mcp_environments *all);
struct mcp_environments *mcp_server_environments(struct mcp_server *s);
/* The one of that name (NULL or "default": the default one, made if absent). 0 or a failure. */
int mcp_environment_get(struct mcp_environments *all, const char *name, struct mcp_environment **ret,
                        struct mcp_failure *why);
/* 0, or a failure that names the rule: EXISTS, BUSY (too many), DENIED (the policy), NO_MEMORY; text valid till the next
 * call. */
int mcp_environment_add(struct mcp_environments *all, const struct mcp_environment_spec *spec,
                        struct mcp_environment **ret, struct mcp_failure *why);
/* Calls fn (perhaps at once) when the box runs, or cannot be started. A box that was lost is started afresh. */
void mcp_environment_when_ready(struct mcp_environment *env, mcp_ready_fn fn, void *data);
/* Forgets a waiter. */
void mcp_environment_forget(struct mcp_environment *env, void *data);
boxlite_box *mcp_environment_box(const struct mcp_environment *env);
const char *mcp_environment_name(const struct mcp_environment *env);
const char *mcp_environment_image(const struct mcp_environment *env);
const char *mcp_environment_workspace(const struct mcp_environment *env); /* its host folder, or NULL */
const char *mcp_environment_doing(const struct mcp_environment *env); /* while it is not ready, or NULL */
const char *mcp_environment_digest(const struct mcp_environment *env); /* of its image; NULL: not known yet */
uint64_t mcp_environment_boot_ns(const struct mcp_environment *env); /* what the last start took */
uint64_t mcp_environment_memory(const struct mcp_environment *env);
/* Which of its VMs it has now, from 1 up. */
unsigned mcp_environment_generation(const struct mcp_environment *env);
/* The one of that name, never made. */
struct mcp_environment *mcp_environment_find(struct mcp_environments *all, const char *name);
/* All of them, with age and cost. */
json_t *mcp_environments_json(struct mcp_environments *all);
/* Takes it off the list, fails those who wait for it and ends its box; freed later, by mcp_environments_reap(). Allowed in its own callbacks. */
void mcp_environment_drop(struct mcp_environment *env);
void mcp_environments_reap(struct mcp_environments *all);
/* A number from 1 up that no other owner holds in this environment: names of code files. */
unsigned mcp_environment_take_slot(struct mcp_environment *env, const void *owner);
void mcp_environment_release_slot(struct mcp_environment *env, const void *owner);
/* Adds environment, engine, start_ms (if it was started during the call), restarted and started_again to a result. */
void mcp_environment_describe(struct mcp_call *call, const char *name, json_t *result);
/* The environment that a call's argument "environment" names; false: the call was answered with an error. */
bool mcp_call_environment(struct mcp_call *call, struct mcp_environment **ret);

/* ---- Jobs */

struct mcp_file {
    const char *path;
    const void *data;
    size_t len;
    bool append;
};
struct mcp_job;
/* Files that a command can bring along are no more than this together. */
#define MCP_CARRY_MAX (512u * 1024u)

struct mcp_job_spec {
    const char *const *argv;
    size_t argc;
    const void *input; /* written to stdin; NULL: none; copied */
    size_t input_len;
    bool keep_stdin;     /* stdin stays open for mcp_job_input(); else it ends after the input */
    const struct mcp_file *files; /* written before it starts, MCP_CARRY_MAX together: see put.c */
    size_t nfiles;
    const json_t *env;   /* object of strings or NULL */
    const char *workdir; /* NULL: the box's */
    uint32_t timeout_s;
    uint32_t yield_ms;   /* tell that it goes on after so long; 0: never */
    struct mcp_job *after; /* wait for its end first, in the same box; NULL */
    bool is_test, code_good; /* tests of code that has ended (or of `after`), with 0 or not */
    size_t capture;      /* bytes of stdout to hold; 0: what a result may have */
};
struct mcp_capture;
struct mcp_outcome {
    const char *name, *environment;
    unsigned generation; /* of the environment's box; 0: none yet */
    uint32_t number;     /* of the command in it; 0: not known */
    bool running;
    bool base64; /* set by the caller: outputs as exact bytes */
    boxlite_exec_result result;
    const char *failure; /* why it was not started, or NULL */
    uint32_t timeout_s;
    bool is_test, tests_passed;
    uint64_t memory;     /* of the environment */
    const struct mcp_capture *out, *err;
    uint64_t wall_ns;    /* seen from here */
};
typedef void (*mcp_job_fn)(void *data, struct mcp_job *job);
/* Waits for the environment, runs the command, calls fn once, when it has ended or yields, perhaps before this returns
 * (*ret is set by then). fn must not kill the job. */
int mcp_job_start(struct mcp_server *s, struct mcp_environment *env, const struct mcp_job_spec *spec, mcp_job_fn fn,
                  void *data, struct mcp_job **ret);
/* Answers a call whose job mcp_job_start() refused with that code. */
void mcp_call_fail_job(struct mcp_call *call, int r);
/* Kills what still runs and forgets it. Accepts NULL. */
void mcp_job_kill(struct mcp_job *job);
void mcp_jobs_free(struct mcp_server *s);
struct mcp_job *mcp_job_find(struct mcp_server *s, const char *name);
unsigned mcp_jobs_running(struct mcp_server *s, const char *environment);
/* True if there is no outcome, with the reason. */
bool mcp_job_failed(const struct mcp_job *job, struct mcp_failure *ret);
/* Borrowed from the job. */
void mcp_job_outcome(const struct mcp_job *job, struct mcp_outcome *ret);
/* Called once at the next output or at the end. A watched job is never forgotten. */
struct mcp_watch {
    struct mcp_watch *next;
    void (*fn)(void *data);
    void *data;
};
void mcp_job_watch(struct mcp_job *job, struct mcp_watch *watch);
void mcp_job_unwatch(struct mcp_job *job, struct mcp_watch *watch);
/* 0; STATE: it has ended; UNSUPPORTED: its input is closed; BUSY: too much waits. */
int mcp_job_input(struct mcp_job *job, const void *data, size_t len);
int mcp_job_end_input(struct mcp_job *job);
int mcp_job_signal(struct mcp_job *job, int signo);

/* The outcome's fields as JSON ("exit_code", "stdout", …), at most `budget` bytes as text, escapes counted, and the same
 * as text for people. */
json_t *mcp_outcome_json(const struct mcp_outcome *o, size_t budget, char **ret_text);
const char *mcp_signal_name(int number);
int mcp_signal_number(const char *name); /* 0: unknown */
#define MCP_OUTCOME_SCHEMA                                                                         \
    "\"exit_code\":{\"type\":\"integer\",\"description\":\"0 is success; 124 timed out; 126, 127 "  \
    "could not be started; 128+N ended by signal N; absent while it runs\"},"                       \
    "\"running\":{\"type\":\"boolean\",\"description\":\"it goes on: follow it with read_output\"}," \
    "\"process\":{\"type\":\"string\",\"description\":\"its name for read_output and send_input\"},"  \
    "\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},"                           \
    "\"stdout_bytes\":{\"type\":\"integer\"},\"stderr_bytes\":{\"type\":\"integer\"},"             \
    "\"stdout_lines\":{\"type\":\"integer\"},\"stderr_lines\":{\"type\":\"integer\"},"             \
    "\"truncated\":{\"type\":\"boolean\",\"description\":\"parts were left out: read_output has all\"}," \
    "\"not_utf8\":{\"type\":\"boolean\",\"description\":\"some bytes are shown as U+FFFD; "          \
    "encoding=base64 gives them exactly\"},\"encoding\":{\"type\":\"string\"},"                        \
    "\"timed_out\":{\"type\":\"boolean\"},\"oom_killed\":{\"type\":\"boolean\"},"                  \
    "\"signal\":{\"type\":\"string\"},\"duration_ms\":{\"type\":\"integer\"},"                     \
    "\"note\":{\"type\":\"string\",\"description\":\"what ended it, and what can be done\"}"
#define MCP_ENVIRONMENT_SCHEMA                                                                     \
    "\"environment\":{\"type\":\"string\"},\"engine\":{\"type\":\"string\"},\"start_ms\":{\"type\":"  \
    "\"integer\",\"description\":\"time to start the VM, if this call started it\"},\"restarted\":{"   \
    "\"type\":\"boolean\",\"description\":\"the environment was lost before and began afresh, earlier " \
    "files are gone\"},\"started_again\":{\"type\":\"boolean\",\"description\":\"the environment had been "  \
    "stopped because nobody used it: files and installed packages are there, processes and what lay in "  \
    "memory (/dev/shm) are not\"},\"error\":{\"type\":\"string\"},\"code\":{\"type\":\"string\"},\"hint\":{"     \
    "\"type\":\"string\"}"

/* ---- Languages */

struct mcp_language {
    const char *names[4];  /* as callers say it, the first is the proper one */
    const char *extension;
    const char *tools;     /* tried in this order */
    const char *how;       /* shell words after the tool; NULL: it is given the file */
    const char *images[3]; /* that would have it, in order: prefixes of local names; the first is whole, to be pulled */
};
#define MCP_LANGUAGES_MAX 48
struct mcp_languages;
/* The built-in table. 0 or -1. */
int mcp_languages_new(struct mcp_languages **ret);
void mcp_languages_free(struct mcp_languages *all);
/* Changes or adds a language: key file ("main.rb"), command ("ruby -w"; $file, $out), images ("ruby:3,ruby:"). What is
 * wrong with it (caller frees), or NULL. */
char *mcp_languages_set(struct mcp_languages *all, const char *name, const char *key, const char *value);
/* What an added one lacks (caller frees), or NULL. */
char *mcp_languages_wrong(const struct mcp_languages *all);
const struct mcp_language *mcp_languages_find(const struct mcp_languages *all, const char *name);
char *mcp_languages_names(const struct mcp_languages *all); /* "python, javascript, …"; caller frees */
/* The shell script that runs the file "$1" with "$2" (tools), "$3" (how), "$4" (the file that is its stdin; empty: none; "-":
 * the script's own, and the file is there already, else it is saved from stdin first),
 * "$5" (folder to work in; empty: /workspace). */
extern const char mcp_language_script[];
/* MCP_NO_TOOL: the first line of its stderr, with exit code 127, if no tool is there. */
#include "mcp/languages.def"
/* A local image for the language, or NULL; caller frees. */
char *mcp_language_image(struct mcp_server *s, const struct mcp_language *language);

/* ---- Files into an environment */

/* A shell script that writes files: name → content (object of strings) below the working folder, or at absolute names.
 * Caller frees. NULL: out of memory. */
char *mcp_put_script(const struct mcp_file *files, size_t n);

/* ---- Pictures that a program leaves */

/* Names that end like a picture's, or patterns of such, in a text, added to an array of strings; bounded. */
void mcp_images_named(json_t *names, const char *text);
void mcp_images_add(json_t *names, const char *name);
/* Python code that may plot: it names a library that does. */
bool mcp_code_plots(const char *text);
bool mcp_image_named(const char *path);
/* Its media type if name and content agree, else NULL. */
const char *mcp_image_type(const char *path, const void *data, size_t len);
struct mcp_images {
    const json_t *names;
    const char *mark; /* a file as old as the call */
    bool remove_mark;
    const char *workdir; /* NULL: the box's */
};
/* The job that fetches those that are newer than the mark. */
int mcp_images_start(struct mcp_server *s, struct mcp_environment *env, const struct mcp_images *wanted, mcp_job_fn fn,
                     void *data, struct mcp_job **ret);
/* What that job brought: "images" of the result, and the content items. */
json_t *mcp_images_take(const struct mcp_job *job, json_t *result);
#define MCP_IMAGES_SCHEMA                                                                          \
    "\"images\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"path\":{"        \
    "\"type\":\"string\"},\"bytes\":{\"type\":\"integer\"},\"shown\":{\"type\":\"boolean\"}}},"     \
    "\"description\":\"pictures that the program left; shown: also as image content, else read_file\"}"
/* A Python module, the matplotlib backend, and what makes matplotlib find and use it. */
extern const char mcp_figures_module[];
#define MCP_FIGURES_FILE ".boxlite/boxlite_figures.py"
#define MCP_FIGURES_BACKEND "module://boxlite_figures"
#define MCP_FIGURES_PATH MCP_WORKSPACE "/.boxlite:/tmp/.boxlite"

/* ---- Capture */

struct mcp_capture {
    char *head, *tail, *window; /* tail is a ring; window: the first error-looking lines behind the head */
    size_t head_len, tail_len, tail_at, window_len;
    size_t head_max, tail_max, window_max;
    uint64_t total, newlines, window_at;
    unsigned window_lines;
    bool open_line; /* the last line has no newline yet */
    uint16_t by_letter[32]; /* which of the error words begin with it */
    char line[512];
    size_t line_len;
};
struct mcp_shown {
    bool cut, not_utf8;
};
int mcp_capture_init(struct mcp_capture *c, size_t limit);
void mcp_capture_done(struct mcp_capture *c);
void mcp_capture_add(struct mcp_capture *c, const void *data, size_t len);
uint64_t mcp_capture_lines(const struct mcp_capture *c);
/* Valid UTF-8 of about `limit` bytes at most, with a line at each place that says what was left out. Caller frees. */
char *mcp_capture_text(const struct mcp_capture *c, size_t limit, struct mcp_shown *ret);
/* Head and tail as they are. Caller frees. */
char *mcp_capture_bytes(const struct mcp_capture *c, size_t *ret_len);

/* ---- Text */

/* Bytes at the end that begin a character, at the start that end one: 0 to 3. */
size_t mcp_utf8_cut_at_end(const char *p, size_t len);
size_t mcp_utf8_cut_at_start(const char *p, size_t len);
/* Valid UTF-8 into out, which has room for 3 * len; NUL counts as bad. Sets *ret_bad, never clears it. */
size_t mcp_utf8_clean(char *out, const char *p, size_t len, bool *ret_bad);
/* In place: without terminal control sequences; a lone CR becomes a line feed. */
void mcp_strip_controls(char *s);
char *mcp_base64(const void *data, size_t len);
int mcp_base64_decode(const char *text, char **ret, size_t *ret_len); /* 0, or -1 for what is none */

/* The one of the words (ends with NULL) that was probably meant, or NULL; - and _ are the same. */
const char *mcp_nearest(const char *word, const char *const *words);

uint64_t mcp_now_ns(void);
char *mcp_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
