// SPDX-License-Identifier: Apache-2.0
// The TypeScript SDK v2's client, in the era that is named as the second argument, lists tools and makes a call that fails.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const client = new Client({ name: "sdk-v2-test", version: "1" }, { versionNegotiation: { mode: process.argv[3] } });
await client.connect(
  new StdioClientTransport({
    command: process.argv[2],
    env: { BOXLITE_HOME: process.env.BOXLITE_HOME, PATH: process.env.PATH },
  }),
);
const tools = (await client.listTools()).tools.map((t) => t.name);
const result = await client.callTool({ name: "run_command", arguments: { command: "true", working_dir: "relative" } });
console.log(JSON.stringify({ revision: client.getNegotiatedProtocolVersion(), tools, result }));
await client.close();
