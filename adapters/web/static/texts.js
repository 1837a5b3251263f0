// The texts of the page in its language: texts.en.json, which the server puts here.

export const texts = { TEXTS: "" };

// `{name}` stands for that value.
export const fill = (text, values) => text.replace(/{(\w+)}/g, (_, name) => String(values[name]));
