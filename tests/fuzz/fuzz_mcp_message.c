/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_mcp_message.c: any line through the MCP server's message parser. Whatever comes, the result can be acted on: a
 * request has an id and a method, what is to be refused says with what and why, the rest is never answered.
 */
#include <stdint.h>
#include <stdlib.h>

#include "mcp/mcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mcp_message m;

    mcp_message_parse((const char *)data, size, &m);
    must((m.kind == MCP_BAD) == (m.error != 0) && (m.kind == MCP_BAD) == (m.why != NULL));
    must(!m.id || json_is_string(m.id) || json_is_number(m.id));
    must(!m.progress_token || json_is_string(m.progress_token) || json_is_number(m.progress_token));
    must(m.kind != MCP_REQUEST || (m.id && m.method));
    must(m.kind != MCP_NOTIFICATION || (!m.id && m.method));
    must(m.kind != MCP_ANSWER || !m.method);
    must(m.kind != MCP_REQUEST || !m.revision || mcp_revision_known(m.revision));
    must(m.error != MCP_RPC_UNSUPPORTED_REVISION || (m.revision && m.id));
    mcp_message_done(&m);
    must(m.json == NULL);
    return 0;
}
