// Addresses of views, in the fragment: they work on a server, under any mount, and in a file.

export function address(view, parameters = {}) {
  const known = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const text = new URLSearchParams(known.map(([name, value]) => [name, String(value)])).toString();
  return text ? `#/${view}?${text}` : `#/${view}`;
}

export function parseAddress(hash) {
  const match = /^#\/([a-z]*)(?:\?(.*))?$/s.exec(hash);
  if (!match) return { view: "", parameters: {} };
  return { view: match[1], parameters: Object.fromEntries(new URLSearchParams(match[2] ?? "")) };
}
