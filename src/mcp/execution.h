/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execution.h: one execute_code call under way: tool_execute_code.c (the call, its tests and its result) and program.c
 * (how the code becomes a running program).
 */
#ifndef BX_MCP_EXECUTION_H
#define BX_MCP_EXECUTION_H

#include "mcp/mcp.h"

#define MCP_EXECUTION_FILES_MAX 64

struct mcp_execution {
    struct mcp_server *server;
    struct mcp_call *call;
    char *env_name; /* never a pointer: it may be removed meanwhile */
    struct mcp_job *job;
    const struct mcp_language *language;
    char *file;              /* "main.py" */
    json_t *result, *images; /* images: names to look for */
    char *text;
    bool base64, plots;
    json_t *env;    /* of the program, or NULL */
    bool fresh;     /* its own environment */
    bool second;    /* the language's environment is in use */
    bool by_script; /* the files could not be carried */
    mcp_job_fn on_end;
};

/* Its environment, or NULL if that was removed. */
struct mcp_environment *mcp_execution_environment(const struct mcp_execution *x);
/* Frees it, and its environment if that is fresh. */
void mcp_execution_free(struct mcp_execution *x);
/* Answers the call with a failure and frees it. */
void mcp_execution_fail(struct mcp_execution *x, const struct mcp_failure *why);
/* Starts the next step; its answer is given if that cannot be. */
void mcp_execution_step(struct mcp_execution *x, struct mcp_job_spec *spec, mcp_job_fn fn);
/* Brings code, files and input into the environment and runs the program; x->on_end gets the program's job. */
void mcp_program_start(struct mcp_execution *x);

#endif
