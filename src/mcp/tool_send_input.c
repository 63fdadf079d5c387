/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_send_input.c: to a command that runs: bytes for its standard input, the end of that, or a signal.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/mcp.h"

static const struct mcp_arg args[] = {
    {"process", MCP_STRING, true, false, "Name that run_command gave, for example \"p3\".", 0, 15},
    {"text", MCP_STRING, false, true,
     "Text for its standard input, up to 8 MiB; add a newline where one is needed. Only for commands that were started "
     "with background=true.", 0, 8 << 20},
    {"end_of_input", MCP_BOOLEAN, false, false, "Close its standard input, after the text. Default false.", 0, 0},
    {"signal", MCP_STRING, false, false,
     "Signal to send: INT, TERM, HUP, QUIT, USR1, USR2, STOP, CONT, or KILL (ends it and everything it started).", 0, 16},
    {0},
};

static const struct {
    int code;
    const char *message, *hint;
} refusals[] = {
    {BOXLITE_E_STATE, "the command does not run", "read_output shows how it ended"},
    {BOXLITE_E_UNSUPPORTED, "its standard input is closed", "start it with background=true to keep it open"},
    {BOXLITE_E_BUSY, "it does not read its input: too much waits for it already", "wait until it reads"},
};

static void refuse(struct mcp_call *call, int code)
{
    for (size_t i = 0; i < BX_ARRAY_SIZE(refusals); i++) {
        if (refusals[i].code == code) {
            mcp_call_fail(call, code, refusals[i].message, refusals[i].hint);
            return;
        }
    }
    mcp_call_fail(call, code, boxlite_error_name(code), NULL);
}

static void start(struct mcp_call *call)
{
    struct mcp_job *job = mcp_job_find(call->server, mcp_arg_str(call, "process", ""));
    const json_t *text = json_object_get(call->arguments, "text");
    const char *name = mcp_arg_str(call, "signal", NULL);
    bool end = mcp_arg_bool(call, "end_of_input");
    int signo = name ? mcp_signal_number(name) : 0;
    int r = 0;

    if (!job) {
        mcp_call_fail(call, BOXLITE_E_NOT_FOUND, "there is no process of that name",
                      "names come from run_command and execute_code");
        return;
    }
    if ((name && signo == 0) || (!json_is_string(text) && !end && !name)) {
        mcp_call_fail(call, BOXLITE_E_INVALID, name ? "argument signal: no such signal" : "there is nothing to send",
                      "give text, end_of_input or signal");
        return;
    }
    if (json_is_string(text)) {
        r = mcp_job_input(job, json_string_value(text), json_string_length(text));
    }
    if (r == 0 && end) {
        r = mcp_job_end_input(job);
    }
    if (r == 0 && signo > 0) {
        r = mcp_job_signal(job, signo);
    }
    if (r < 0) {
        refuse(call, r);
        return;
    }
    mcp_call_finish(call,
                    json_pack("{s:s, s:I}", "process", mcp_arg_str(call, "process", ""), "sent_bytes",
                              (json_int_t)json_string_length(text)),
                    strdup("sent; read_output shows what it does"), false);
}

const struct mcp_tool mcp_tool_send_input = {
    .name = "send_input",
    .title = "Send input to a running command",
    .description = "Send text, end of input, or a signal to a command that runs in the sandbox (started with run_command "
                   "background=true, or still running): answer prompts, feed an interpreter, interrupt or stop it.",
    .args = args,
    .output_schema = "{\"type\":\"object\",\"properties\":{\"process\":{\"type\":\"string\"},\"sent_bytes\":{\"type\":"
                     "\"integer\"},\"error\":{\"type\":\"string\"},\"code\":{\"type\":\"string\"},\"hint\":{\"type\":"
                     "\"string\"}}}",
    .start = start,
};
