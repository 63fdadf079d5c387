/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_fixture.h: a shim in its whole, with a fake engine, a fake agent and fake clients, all on
 * one loop.
 *
 * The fake engine only hands its end of the agent's channel to the fake agent. What the agent does
 * by itself is said by flags in the fixture; the rest is done by the test. Every wait is for an
 * event, with a deadline.
 */
#ifndef BX_TESTS_SHIM_FIXTURE_H
#define BX_TESTS_SHIM_FIXTURE_H

#include "box/shim.h"
#include "harness.h"

#define FX_CLIENTS 330 /* more than a shim takes */
#define FX_ATTACHMENTS 8

struct fx_stream {
    struct bx_buf got;    /* kept if `keep` of the client is set */
    uint64_t bytes, held; /* held: received, no credit given back yet */
    bool eof, reset;
};

struct fx_client {
    struct fx *fx;
    struct bx_conn *conn;
    struct bx_conn_io *io;
    bool closed, keep, hold; /* hold: gives no credit back */
    bool ignore;             /* takes whatever comes */
    bool check;              /* stdout must be fx_pattern() from its place `at` on */
    uint64_t at;
    int state, code; /* of the last STATE event */
    char *error, *hint, *engine;
    unsigned started; /* STARTED events */
    struct fx_stream streams[FX_ATTACHMENTS][3];
    uint64_t request, answered; /* last request sent; answer seen */
    bool refused;               /* by REPLY_ERROR */
    struct bx_buf reply;        /* payload of it, whole messages */
};

struct fx_vm {
    struct fx *fx;
    const struct bx_vmm_events *events;
    void *data;
    int agent_fd;
    bool killed, freed, ended;
    struct bx_source *later;
};

struct fx {
    struct bx_loop *loop;
    struct bx_shim_world world;
    struct bx_box_config config;
    int home_fd, box_fd;
    struct bx_shim *shim;
    struct fx_vm *vm;
    unsigned kills;

    /* What fakes do by themselves. */
    bool no_agent, no_ready, no_started, no_off, no_kill, no_pause;
    int choose_error, start_error;
    bool echo; /* the agent's commands are cat */

    struct bx_conn *agent;
    struct bx_conn_io *agent_io;
    bool agent_closed, shutdown;
    unsigned execs; /* EXEC messages */
    uint32_t exec;  /* number of the last one */
    struct bx_exec_spec spec;
    uint32_t signal_exec;
    int signal; /* the last one */
    unsigned signals, clocks;
    struct bx_buf in; /* bytes of standard inputs */
    uint64_t in_bytes;
    bool in_eof, in_hold;
    unsigned writable, rows;

    struct fx_client clients[FX_CLIENTS];
    size_t nclients;
};

/* A box with a kernel, a root image and a disk that fakes accept; change config, flags, then
 * start. */
void fx_init(struct fx *fx);
/* Writes the config and starts the shim with clients[0] as its starter. */
struct fx_client *fx_start(struct fx *fx);
/* The same, and waits for RUNNING. */
struct fx_client *fx_run(struct fx *fx);
void fx_done(struct fx *fx);
/* The same for a test that has made boxes before. */
void fx_init_again(struct fx *fx, bool again);
/* Releases what a disconnected client holds. */
void fx_forget(struct fx_client *c);

/* Runs the loop until it holds; fails the test if that does not come. */
#define FX_UNTIL(fx, cond)                                                                         \
    do {                                                                                           \
        uint64_t fx_end_ = fx_deadline();                                                          \
        while (!(cond)) {                                                                          \
            fx_turn((fx), fx_end_, __LINE__, #cond);                                               \
        }                                                                                          \
    } while (0)
uint64_t fx_deadline(void);
void fx_turn(struct fx *fx, uint64_t deadline, int line, const char *cond);
/* Handles everything that is there, until nothing comes any more. */
void fx_settle(struct fx *fx);

struct fx_client *fx_connect(struct fx *fx);
void fx_disconnect(struct fx_client *c);
/* Sends a request of pairs (tag, number), ended by 0; its answer is awaited: 0 or the code. */
int fx_ask(struct fx_client *c, unsigned type, ...);
/* Sends it only. */
void fx_send(struct fx_client *c, unsigned type, ...);
uint64_t fx_answer(const struct fx_client *c, uint16_t tag);
int fx_answer_code(const struct fx_client *c);
char *fx_answer_text(const struct fx_client *c, uint16_t tag);
void fx_open(struct fx_client *c, uint32_t attachment);
/* Opens and attaches from an offset of stdout on. */
int fx_attach(struct fx_client *c, uint32_t attachment, uint32_t exec, uint64_t offset);
/* Starts a command (argv "true"): its number, or a code. */
int fx_exec(struct fx_client *c, bool detached, bool stdin_open);

void fx_agent_msg(struct fx *fx, unsigned type, ...);
void fx_agent_text(struct fx *fx, uint16_t type, uint16_t tag, const char *text);
/* Output of a command, as much as the shim gives credit for: the number of bytes taken. */
size_t fx_output(struct fx *fx, uint32_t exec, int stream, const void *p, size_t len);
void fx_output_eof(struct fx *fx, uint32_t exec);
void fx_exited(struct fx *fx, uint32_t exec, int code);
/* len bytes of the pattern, from stream offset *at on, all of it: runs the loop as needed. */
void fx_output_pattern(struct fx *fx, uint32_t exec, uint64_t *at, uint64_t len);
uint8_t fx_pattern(uint64_t offset);
void fx_vm_end(struct fx *fx, enum bx_vmm_end how, const char *error);
void fx_console(struct fx *fx, const char *text);
bool fx_exists(struct fx *fx, const char *name);

#endif
