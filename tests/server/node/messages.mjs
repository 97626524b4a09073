// Asks the endpoint with Anthropic's SDK, or with the AI SDK: `node messages.mjs CASE URL FILE`. FILE has the texts
// of the user as JSON; the history is read from it and written back, so that a later run goes on. What the
// client saw is printed as JSON.
import { createAnthropic } from "@ai-sdk/anthropic";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { readFileSync, writeFileSync } from "node:fs";

const [name, baseURL, file] = process.argv.slice(2);
const state = JSON.parse(readFileSync(file, "utf8"));
const { model, system, asked, history } = state;
const description = "When a ferry leaves.";
const schema = { type: "object", properties: { pier: { type: "string" } }, required: ["pier"] };
const said = [];
// The AI SDK reports what happens in a stream to a function, and may end as if nothing had happened.
const streamErrors = [];
const runTool = ({ pier }) => `${pier} leaves at nine`;

async function talkWithSdk(streams) {
  const client = new Anthropic({ baseURL, apiKey: "sk-of-the-client", maxRetries: state.retries ?? 0 });
  const options = { model, system, max_tokens: 1000, thinking: { type: "adaptive" }, messages: history };
  options.tools = [{ name: "ferry_time", description, input_schema: schema }];
  for (const text of asked) {
    history.push({ role: "user", content: text });
    for (;;) {
      const answer = streams ? await client.messages.stream(options).finalMessage() : await client.messages.create(options);
      said.push({ id: answer.id, stop: answer.stop_reason, content: answer.content });
      history.push({ role: "assistant", content: answer.content });
      const calls = answer.content.filter((block) => block.type === "tool_use");
      if (!calls.length) break;
      const content = calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: runTool(call.input) }));
      history.push({ role: "user", content });
    }
  }
}

async function talkWithAiSdk(streams) {
  const anthropic = createAnthropic({ baseURL: `${baseURL}/v1`, apiKey: "sk-of-the-client" });
  const tools = { ferry_time: tool({ description, inputSchema: jsonSchema(schema), execute: runTool }) };
  const options = { model: anthropic(model), system, tools, maxRetries: state.retries ?? 0, stopWhen: stepCountIs(5) };
  options.providerOptions = { anthropic: { thinking: { type: "adaptive" } } };
  for (const text of asked) {
    history.push({ role: "user", content: text });
    const result = await (streams ? streamText : generateText)({ ...options, messages: history, onError: ({ error }) => streamErrors.push(error) });
    const steps = await result.steps;
    if (streamErrors.length) throw streamErrors[0];
    history.push(...(await result.responseMessages));
    said.push(...steps.map((step) => ({ id: step.response.id, stop: step.finishReason, content: [step.text, step.reasoningText ?? ""] })));
  }
}

const cases = {
  sdk: () => talkWithSdk(false),
  "sdk-streamed": () => talkWithSdk(true),
  ai: () => talkWithAiSdk(false),
  "ai-streamed": () => talkWithAiSdk(true),
};
let error = null;
try {
  await cases[name]();
} catch (raised) {
  const problem = streamErrors[0] ?? raised;
  error = { name: problem.constructor.name, status: problem.status ?? problem.statusCode ?? null, retryAfter: problem.headers?.get?.("retry-after") ?? problem.responseHeaders?.["retry-after"] ?? null, message: problem.message };
}
writeFileSync(file, JSON.stringify(state));
console.log(JSON.stringify({ said, error }));
