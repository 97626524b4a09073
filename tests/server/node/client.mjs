// Asks the endpoint with the real OpenAI SDK: `node client.mjs CASE URL`. What it saw is printed as JSON.
import OpenAI from "openai";

const [name, baseURL] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "sk-node", maxRetries: 0 });
const headers = { "X-Conversation-Id": "trip" };
const question = { role: "user", content: "When does the ferry leave?" };
const schema = { type: "object", properties: { pier: { type: "string" } }, required: ["pier"] };
const chatTool = { type: "function", function: { name: "ferry_time", description: "When it leaves.", parameters: schema } };
const responsesTool = { type: "function", name: "ferry_time", description: "When it leaves.", parameters: schema, strict: false };

function runTool(text) {
  return `pier ${JSON.parse(text).pier}: nine`;
}

async function plain() {
  const { data, response } = await client.chat.completions
    .create({ model: "served", messages: [question] }, { headers })
    .withResponse();
  const next = await client.chat.completions.create(
    { model: "served", messages: [{ role: "user", content: "And on Sunday?" }] },
    { headers },
  );
  return {
    conversation: response.headers.get("x-conversation-id"),
    texts: [data, next].map((one) => one.choices[0].message.content),
    usage: data.usage.prompt_tokens,
  };
}

async function wholeHistory() {
  const messages = [question];
  const conversations = [];
  for (const text of ["And on Sunday?", "And at night?", null]) {
    const { data, response } = await client.chat.completions.create({ model: "served", messages }).withResponse();
    conversations.push(response.headers.get("x-conversation-id"));
    messages.push(data.choices[0].message);
    if (text !== null) messages.push({ role: "user", content: text });
  }
  return { conversations, sent: messages.length };
}

async function streamed() {
  const stream = await client.chat.completions.create(
    { model: "served", messages: [question], stream: true, stream_options: { include_usage: true } },
    { headers },
  );
  const pieces = [];
  let usage = null;
  let finish = null;
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta?.content) pieces.push(chunk.choices[0].delta.content);
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  return { pieces, finish, usage: usage?.prompt_tokens };
}

async function tools() {
  const messages = [question];
  const options = { model: "served", tools: [chatTool], messages };
  const asked = (await client.chat.completions.create(options)).choices[0];
  messages.push(asked.message);
  for (const call of asked.message.tool_calls) {
    messages.push({ role: "tool", tool_call_id: call.id, content: runTool(call.function.arguments) });
  }
  const answered = (await client.chat.completions.create(options)).choices[0];
  return { finish: asked.finish_reason, results: messages.slice(2).map((one) => one.content), text: answered.message.content };
}

// The SDK's own loop: it collects the pieces of the calls, runs the tools and asks again.
async function streamedTools() {
  const runner = client.chat.completions.runTools({
    model: "served",
    stream: true,
    messages: [question],
    tools: [{ type: "function", function: { ...chatTool.function, parse: JSON.parse, function: ({ pier }) => `pier ${pier}: nine` } }],
  });
  const text = await runner.finalContent();
  return { roles: runner.messages.map((one) => one.role), text };
}

async function responses() {
  const input = [question];
  const options = { model: "served", tools: [responsesTool], store: false, input };
  const asked = await client.responses.create(options);
  input.push(...asked.output);
  for (const call of asked.output.filter((item) => item.type === "function_call")) {
    input.push({ type: "function_call_output", call_id: call.call_id, output: runTool(call.arguments) });
  }
  const answered = await client.responses.create(options);
  return { kinds: asked.output.map((item) => item.type), text: answered.output_text };
}

async function streamedResponses() {
  const stream = client.responses.stream({ model: "served", input: "When does the ferry leave?", store: false });
  const kinds = new Set();
  for await (const event of stream) kinds.add(event.type);
  const done = await stream.finalResponse();
  return { kinds: [...kinds], text: done.output_text };
}

// The next question names the answer before it, and nothing else.
async function previousResponse() {
  const first = await client.responses.create({ model: "served", input: "When does the ferry leave?" });
  const next = await client.responses.create({
    model: "served",
    input: "And on Sunday?",
    previous_response_id: first.id,
  });
  return { texts: [first.output_text, next.output_text] };
}

async function failing(ask) {
  try {
    await ask();
  } catch (error) {
    return {
      name: error.constructor.name,
      limited: error instanceof OpenAI.RateLimitError,
      status: error.status ?? null,
      code: error.code ?? null,
      type: error.type ?? null,
      message: error.message,
      retryAfter: error.headers?.get("retry-after") ?? null,
    };
  }
  return { name: null };
}

const ask = () => client.chat.completions.create({ model: "served", messages: [question] }, { headers });

async function askStreamed() {
  const stream = await client.chat.completions.create({ model: "served", messages: [question], stream: true }, { headers });
  const pieces = [];
  for await (const chunk of stream) pieces.push(chunk);
}

async function retry() {
  const patient = new OpenAI({ baseURL, apiKey: "sk-node", maxRetries: 2 });
  const answer = await patient.chat.completions.create({ model: "served", messages: [question] }, { headers });
  return { text: answer.choices[0].message.content };
}

async function models() {
  const found = [];
  for await (const one of client.models.list()) found.push(one.id);
  return { models: found };
}

const cases = {
  plain,
  "whole-history": wholeHistory,
  streamed,
  tools,
  "streamed-tools": streamedTools,
  responses,
  "streamed-responses": streamedResponses,
  "previous-response": previousResponse,
  error: () => failing(ask),
  "streamed-error": () => failing(askStreamed),
  retry,
  models,
};

console.log(JSON.stringify(await cases[name]()));
