// SPDX-License-Identifier: Apache-2.0
// The TypeScript SDK's own client calls the three tools of the server that is named as the argument.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const transport = new StdioClientTransport({
  command: process.argv[2],
  env: { BOXLITE_HOME: process.env.BOXLITE_HOME, PATH: process.env.PATH },
});
const client = new Client({ name: "sdk-test", version: "1" });
await client.connect(transport);
const call = async (name, args) =>
  (await client.callTool({ name, arguments: args }, undefined, { timeout: 180000 })).structuredContent;
const results = { tools: (await client.listTools()).tools.map((t) => t.name) };
results.execute_code = await call("execute_code", {
  code: "print(6*7)", language: "python", test_command: "python3 main.py",
});
results.create_environment = await call("create_environment", { image: "boxlite/base:bookworm", name: "other" });
results.run_command = await call("run_command", { command: "echo from other", environment: "other" });
await client.close();
console.log(JSON.stringify(results));
