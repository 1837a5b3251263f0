// Small parts that the page is built of.

const SVG = "http://www.w3.org/2000/svg";

export function node(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

// The address of a persona's picture.
export const pictureOf = (digest) => `/pictures/${digest}`;

export function faultLine(text, label, action) {
  const line = node("p", "fault", icon("fault"), node("span", "", text));
  line.setAttribute("role", "alert");
  if (action) {
    const button = node("button", "", label);
    button.type = "button";
    button.addEventListener("click", () => { line.remove(); action(); });
    line.append(button);
  }
  return line;
}
