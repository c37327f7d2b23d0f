// Arithmetic by recursive descent: sum, product, sign, power, atom. No evaluation of code, which the page's policy forbids anyway.

const functions = {
  sqrt: Math.sqrt,
  abs: Math.abs,
  ln: Math.log,
  log: Math.log10,
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  round: Math.round,
  floor: Math.floor,
  ceil: Math.ceil,
  min: Math.min,
  max: Math.max,
};
const constants = { pi: Math.PI, e: Math.E };
const deepest = 100;

/** The value of an expression, rounded to 15 digits so that 0.1 + 0.2 is 0.3. Throws an error that says what was not understood. */
export function evaluate(text) {
  const parts = text.match(/\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|[a-z]+|\*\*|[-+*/%^(),]|\S/gi) ?? [];
  let at = 0;
  let depth = 0;
  const peek = () => parts[at]?.toLowerCase();
  const take = (...wanted) => wanted.includes(peek()) && parts[at++];
  const expect = (wanted) => {
    if (!take(wanted)) throw new Error(`expected ${wanted} ${at < parts.length ? `instead of ${parts[at]}` : "at the end"}`);
  };

  function sum() {
    if (++depth > deepest) throw new Error("too many brackets");
    let value = product();
    for (let sign; (sign = take("+", "-")); ) value = sign === "+" ? value + product() : value - product();
    depth--;
    return value;
  }
  function product() {
    let value = signed();
    for (let sign; (sign = take("*", "/", "%")); ) {
      const right = signed();
      if (sign !== "*" && right === 0) throw new Error("division by zero");
      value = sign === "*" ? value * right : sign === "/" ? value / right : value % right;
    }
    return value;
  }
  function signed() {
    let minus = false;
    for (let sign; (sign = take("+", "-")); ) if (sign === "-") minus = !minus;
    const value = power();
    return minus ? -value : value;
  }
  function power() {
    const value = atom();
    if (!take("^", "**")) return value;
    if (++depth > deepest) throw new Error("too many powers");
    const raised = value ** signed();
    depth--;
    return raised;
  }
  function atom() {
    const part = peek();
    if (part === undefined) throw new Error("the expression ends too early");
    if (take("(")) {
      const value = sum();
      expect(")");
      return value;
    }
    at++;
    if (/^[.\d]/.test(part)) return Number(part);
    if (Object.hasOwn(constants, part)) return constants[part];
    if (!Object.hasOwn(functions, part)) throw new Error(`${part} is not known`);
    expect("(");
    const values = [sum()];
    while (take(",")) values.push(sum());
    expect(")");
    return functions[part](...values);
  }

  const value = sum();
  if (at < parts.length) throw new Error(`${parts[at]} was not expected`);
  if (!Number.isFinite(value)) throw new Error("the value is not a finite number");
  return Number(value.toPrecision(15));
}
