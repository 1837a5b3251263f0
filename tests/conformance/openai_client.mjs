// Sends one request as the official client for Node does, and prints what came of it as JSON.
import OpenAI from "openai";

const { url, token, kind, body, headers } = JSON.parse(process.argv[2]);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 });
const result = {};

async function complete() {
  const answer = await client.chat.completions.create({ model: "parley", ...body }, { headers });
  if (body.stream) {
    let text = "";
    for await (const chunk of answer) {
      text += chunk.choices[0]?.delta?.content ?? "";
      result.finish_reason = chunk.choices[0]?.finish_reason ?? result.finish_reason;
      result.usage = chunk.usage ?? result.usage;
    }
    result.text = text;
  } else {
    result.text = answer.choices[0].message.content;
    result.finish_reason = answer.choices[0].finish_reason;
    result.usage = answer.usage;
    result.request_id = answer._request_id;
  }
}

async function respond() {
  let answer;
  if (body.stream) {
    // The client's own accumulator, which throws at an event that is out of its order.
    const stream = client.responses.stream({ model: "parley", ...body }, { headers });
    result.events = [];
    for await (const event of stream) {
      result.events.push(event.type);
    }
    answer = await stream.finalResponse();
  } else {
    answer = await client.responses.create({ model: "parley", ...body }, { headers });
  }
  result.id = answer.id;
  result.text = answer.output_text;
  result.finish_reason = answer.status;
  result.usage = answer.usage;
}

async function retrieve() {
  const answer = await client.responses.retrieve(body.id);
  result.text = answer.output_text;
  await client.responses.delete(body.id);
  await client.responses.retrieve(body.id);
}

try {
  await { complete, respond, retrieve }[kind]();
} catch (error) {
  result.error = error.constructor.name;
  result.status = error.status ?? null;
  result.code = error.code ?? null;
}
console.log(JSON.stringify(result));
