// Elements, made without any markup: text from a database can only ever become a text node.

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties and children. Strings become text nodes; null and false are left out. */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for a drawing. */
export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    // A policy without 'unsafe-inline' refuses style attributes, but not the style object.
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "class") element.setAttribute("class", value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(4)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** Put other children in the place of those that an element has. */
export function replace(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

const ICONS = {
  search: "M11 11l3.5 3.5M12.5 7.5a5 5 0 1 1-10 0 5 5 0 0 1 10 0z",
  sun: "M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1M11 8a3 3 0 1 1-6 0 3 3 0 0 1 6 0z",
  moon: "M13.5 9.8A6 6 0 0 1 6.2 2.5a6 6 0 1 0 7.3 7.3z",
  system: "M2 3h12v8H2zM6 14h4M8 11v3",
  left: "M10 3L5 8l5 5",
  right: "M6 3l5 5-5 5",
  down: "M3 6l5 5 5-5",
  menu: "M2 4h12M2 8h12M2 12h12",
  diff: "M5 3v7M2 6.5h6M8 13h6",
  pin: "M6 2h4l-.5 5L12 9.5H4L6.5 7zM8 9.5V14",
  close: "M4 4l8 8M12 4l-8 8",
  warning: "M8 2l6.5 11.5h-13zM8 6.5v3.5M8 12v.2",
  reset: "M3 8a5 5 0 1 0 1.5-3.5L3 6M3 2.5V6h3.5",
  undo: "M3 6h7a3.5 3.5 0 0 1 0 7H6M3 6l3-3M3 6l3 3",
  trash: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.6 9h5.8l.6-9",
};

/** A small drawing beside a word; on its own it needs a label on what holds it. */
export function icon(name) {
  return svg(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    svg("path", { d: ICONS[name] }),
  );
}

/** A link that goes to a view of this page. */
export function link(address, properties, ...children) {
  return h("a", { href: address, ...properties }, ...children);
}
