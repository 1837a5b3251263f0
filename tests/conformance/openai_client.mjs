// Sends one request as the official client for Node does, and prints what came of it as JSON.
import OpenAI from "openai";

const { url, token, body, headers } = JSON.parse(process.argv[2]);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 });
const result = {};
try {
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
  }
} catch (error) {
  result.error = error.constructor.name;
  result.status = error.status ?? null;
  result.code = error.code ?? null;
}
console.log(JSON.stringify(result));
