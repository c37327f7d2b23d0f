// Two tools that the page itself can run when the model asks and the person agrees: a clock and a calculator. They show how calls work
// and need nothing but the page. `run` gets the parsed arguments and returns text; what it throws is told to the model.

import { evaluate } from "./calculator.js";

export const tools = {
  clock: {
    label: "Clock",
    description: "The current date and time, in the person's time zone or in a named one.",
    parameters: {
      type: "object",
      properties: { time_zone: { type: "string", description: "IANA name such as Europe/Paris; left out for the person's own." } },
    },
    run({ time_zone: timeZone }) {
      const zone = timeZone || Intl.DateTimeFormat().resolvedOptions().timeZone;
      const options = { dateStyle: "full", timeStyle: "long", timeZone: zone };
      return new Intl.DateTimeFormat("en-GB", options).format(new Date());
    },
  },
  calculator: {
    label: "Calculator",
    description: "The value of an expression of numbers with + - * / % ^, brackets, pi, e, sqrt, abs, ln, log, sin, cos, tan, round, floor, ceil, min and max.",
    parameters: { type: "object", properties: { expression: { type: "string" } }, required: ["expression"] },
    run({ expression }) {
      return String(evaluate(String(expression ?? "")));
    },
  },
};

/** The definitions of the named tools, as the request carries them. */
export function definitions(names) {
  return names
    .filter((name) => Object.hasOwn(tools, name))
    .map((name) => ({ type: "function", function: { name, description: tools[name].description, parameters: tools[name].parameters } }));
}

/** Runs a call; the text is for the model, whether it went well or not. */
export function run(name, argumentText) {
  if (!Object.hasOwn(tools, name)) return `There is no tool of the name ${name}.`;
  try {
    return tools[name].run(JSON.parse(argumentText || "{}") ?? {});
  } catch (error) {
    return `Error: ${error.message}`;
  }
}
