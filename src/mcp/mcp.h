/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp.h: the parts of the MCP server and how they hang together.
 *
 *   main.c        options, signals, the poll loop
 *   transport.c   lines in from stdin, whole lines out to stdout; bounded both ways
 *   message.c     one line to one message: what it is, its era, what is wrong with it (pure, fuzzed)
 *   server.c      the MCP methods; answers are queued, never waited for
 *   call.c        a tools/call from its start to its one answer
 *   tools.c       the table of tools; argument checks
 *   tool_*.c      one tool each
 *   environment.c a named box and its life
 *   job.c         one command in an environment, its output captured, its end reported
 *   capture.c     bounded head and tail of an output, made valid UTF-8
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
#define MCP_DEPTH_MAX 128u
#define MCP_CALLS_MAX 64u /* tool calls that run at once */
#define MCP_ENVIRONMENTS_MAX 16u

/* ---- Options: flags over environment variables over defaults (main.c) */

struct mcp_options {
    const char *home;    /* NULL: the library's rule */
    const char *image;   /* of the default environment */
    const char *engine;  /* NULL: auto */
    uint32_t cpus;
    uint64_t memory;     /* bytes */
    uint64_t disk;       /* bytes, 0: the library's default */
    int network;         /* BOXLITE_NETWORK_* */
    uint32_t timeout_s;  /* of a command, default and with max_timeout_s the cap */
    uint32_t max_timeout_s;
    size_t output_limit; /* bytes of stdout that a result carries; stderr gets half */
    bool verbose;
};

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

/* ---- Messages */

#define MCP_RPC_PARSE_ERROR (-32700)
#define MCP_RPC_INVALID_REQUEST (-32600)
#define MCP_RPC_METHOD_NOT_FOUND (-32601)
#define MCP_RPC_INVALID_PARAMS (-32602)
#define MCP_RPC_INTERNAL (-32603)
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

int mcp_server_new(const struct mcp_options *options, int in_fd, int out_fd, struct mcp_server **ret);
/* Cancels what runs, ends all boxes, frees. */
void mcp_server_free(struct mcp_server *s);
struct mcp_transport *mcp_server_transport(struct mcp_server *s);
const struct mcp_options *mcp_server_options(const struct mcp_server *s);
/* The library's runtime, opened at first use; NULL with the error. */
boxlite_runtime *mcp_server_runtime(struct mcp_server *s, boxlite_error **err);
/* The runtime's descriptor, or -1 while there is none. */
int mcp_server_fd(const struct mcp_server *s);
void mcp_server_dispatch(struct mcp_server *s);
/* Messages out. What is `take` is freed, also on failure. */
void mcp_server_answer(struct mcp_server *s, const json_t *id, bool stateless, json_t *take_result);
void mcp_server_refuse(struct mcp_server *s, const json_t *id, int code, const char *message, json_t *take_data);
/* The client's name as it last said it, or "". */
const char *mcp_server_client(const struct mcp_server *s);
/* Its running calls (call.c). */
struct mcp_calls *mcp_server_calls(struct mcp_server *s);

/* ---- Calls: one tools/call each; finished once, by the tool, by a failure or by a cancellation */

struct mcp_tool;
struct mcp_calls {
    struct mcp_call *first;
    unsigned count;
};
struct mcp_call {
    struct mcp_server *server;
    struct mcp_call *next;
    const struct mcp_tool *tool;
    json_t *id;
    bool stateless;              /* of the stateless era */
    json_t *arguments;           /* checked against the tool's table */
    void *state;                 /* the tool's */
    void (*cancel)(struct mcp_call *call); /* ends the work and frees state; set by the tool */
    uint64_t started_ns;
};
/* A tools/call request: begins it or answers what is wrong with it. */
void mcp_call_begin(struct mcp_server *s, const struct mcp_message *m);
/* The running call with that id, or NULL. */
struct mcp_call *mcp_call_find(struct mcp_server *s, const json_t *id);
/* Ends its work and frees it; no answer is sent. */
void mcp_call_cancel(struct mcp_call *call);
/* Answers with a result object (taken) and frees the call. */
void mcp_call_finish(struct mcp_call *call, json_t *take_structured, char *take_text, bool is_error);
/* Answers with an error that the model can act on. */
void mcp_call_fail(struct mcp_call *call, int code, const char *message, const char *hint);
void mcp_call_fail_error(struct mcp_call *call, const boxlite_error *err);

/* Argument getters: the table has checked the types. */
const char *mcp_arg_str(const struct mcp_call *call, const char *name, const char *fallback);
int64_t mcp_arg_int(const struct mcp_call *call, const char *name, int64_t fallback);

/* What a call asks for (0: nothing), within the server's limits. */
uint32_t mcp_timeout(const struct mcp_options *o, int64_t asked);

/* ---- Tools */

enum mcp_arg_type { MCP_STRING, MCP_INTEGER, MCP_STRING_LIST, MCP_STRING_MAP };
struct mcp_arg {
    const char *name;
    enum mcp_arg_type type;
    bool required;
    const char *description; /* limits and defaults stated; checked by `min`, `max` (a string's: length in bytes) */
    int64_t min, max;
};
struct mcp_tool {
    const char *name, *title, *description;
    const struct mcp_arg *args; /* ends with a NULL name */
    const char *output_schema;  /* JSON text */
    bool idempotent;
    void (*start)(struct mcp_call *call);
};
extern const struct mcp_tool mcp_tool_execute_code, mcp_tool_run_command, mcp_tool_create_environment;
const struct mcp_tool *mcp_tool_find(const char *name);
json_t *mcp_tools_list(const struct mcp_options *o);
/* NULL if the arguments fit the table, else what is wrong (caller frees). */
char *mcp_tool_check(const struct mcp_tool *tool, const json_t *arguments);

/* ---- Environments: a named box, created and started when first used */

struct mcp_environment;
struct mcp_environments;
struct mcp_environment_spec {
    const char *name;  /* NULL: made up */
    const char *image; /* NULL: the server's default */
    uint32_t cpus;     /* 0: the server's */
    uint64_t memory;   /* 0: the server's */
    int network;       /* -1: the server's */
    const json_t *env; /* object of strings or NULL */
};
typedef void (*mcp_ready_fn)(void *data, struct mcp_environment *env, const boxlite_error *err);

struct mcp_environments *mcp_environments_new(struct mcp_server *s);
void mcp_environments_free(struct mcp_environments *all);
struct mcp_environments *mcp_server_environments(struct mcp_server *s);
/* The one of that name (NULL or "default": the default one, made if absent). 0 or NOT_FOUND. */
int mcp_environment_get(struct mcp_environments *all, const char *name, struct mcp_environment **ret);
/* 0, EXISTS, BUSY (MCP_ENVIRONMENTS_MAX), NO_MEMORY. */
int mcp_environment_add(struct mcp_environments *all, const struct mcp_environment_spec *spec,
                        struct mcp_environment **ret);
/* Calls fn (perhaps at once) when the box runs, or cannot be started. A box that was lost is started afresh. */
void mcp_environment_when_ready(struct mcp_environment *env, mcp_ready_fn fn, void *data);
/* Forgets a waiter. */
void mcp_environment_forget(struct mcp_environment *env, void *data);
boxlite_box *mcp_environment_box(const struct mcp_environment *env);
const char *mcp_environment_name(const struct mcp_environment *env);
const char *mcp_environment_image(const struct mcp_environment *env);
uint64_t mcp_environment_boot_ns(const struct mcp_environment *env); /* what the last start took */
size_t mcp_environment_output_limit(const struct mcp_environment *env);
/* Takes it off the list and ends its box; freed later, by mcp_environments_reap(). Allowed in its own callbacks. */
void mcp_environment_drop(struct mcp_environment *env);
void mcp_environments_reap(struct mcp_environments *all);
/* A number from 1 up that no other owner holds in this environment: names of code files. */
unsigned mcp_environment_take_slot(struct mcp_environment *env, const void *owner);
void mcp_environment_release_slot(struct mcp_environment *env, const void *owner);
/* Adds environment, engine, start_ms (if it was started after since_ns) and restarted to a result. */
void mcp_environment_describe(struct mcp_environment *env, uint64_t since_ns, json_t *result);
/* The environment that a call's argument "environment" names; false: the call was answered with an error. */
bool mcp_call_environment(struct mcp_call *call, struct mcp_environment **ret);

/* ---- Jobs */

struct mcp_job_spec {
    const char *const *argv;
    size_t argc;
    const void *input; /* written to stdin, then end of file; NULL: none; copied */
    size_t input_len;
    const char *workdir; /* NULL: the box's */
    uint32_t timeout_s;
};
struct mcp_job;
struct mcp_outcome {
    boxlite_exec_result result;
    char *out, *err;         /* valid UTF-8, head and tail */
    uint64_t out_bytes, err_bytes; /* as produced */
    bool out_cut, err_cut;
    const char *failure;     /* why it was not started, or NULL */
    uint64_t wall_ns;        /* seen from here */
};
typedef void (*mcp_job_fn)(void *data, const struct mcp_outcome *outcome, const boxlite_error *err);
/* Waits for the environment, runs the command, calls fn once (never before this returns) unless freed before. */
int mcp_job_start(struct mcp_environment *env, const struct mcp_job_spec *spec, mcp_job_fn fn, void *data,
                  struct mcp_job **ret);
/* Kills what still runs. Accepts NULL; allowed in fn. */
void mcp_job_free(struct mcp_job *job);
/* The outcome's fields as JSON ("exit_code", "stdout", …) and as text for people. */
json_t *mcp_outcome_json(const struct mcp_outcome *o);
char *mcp_outcome_text(const struct mcp_outcome *o);
#define MCP_OUTCOME_SCHEMA                                                                         \
    "\"exit_code\":{\"type\":\"integer\",\"description\":\"0 is success; 124 timed out; 126, 127 "  \
    "could not be started; 128+N ended by signal N\"},"                                            \
    "\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},"                           \
    "\"stdout_bytes\":{\"type\":\"integer\"},\"stderr_bytes\":{\"type\":\"integer\"},"             \
    "\"truncated\":{\"type\":\"boolean\",\"description\":\"the middle of an output was left out\"}," \
    "\"timed_out\":{\"type\":\"boolean\"},\"oom_killed\":{\"type\":\"boolean\"},"                  \
    "\"duration_ms\":{\"type\":\"integer\"}"

/* ---- Capture */

struct mcp_capture {
    char *head, *tail; /* tail is a ring */
    size_t head_len, tail_len, tail_at;
    size_t head_max, tail_max;
    uint64_t total;
};
int mcp_capture_init(struct mcp_capture *c, size_t limit);
void mcp_capture_done(struct mcp_capture *c);
void mcp_capture_add(struct mcp_capture *c, const void *data, size_t len);
/* Valid UTF-8 (each bad byte U+FFFD), with a line in the middle that says what was left out. Caller frees. */
char *mcp_capture_text(const struct mcp_capture *c, bool *ret_cut);

uint64_t mcp_now_ns(void);
char *mcp_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
