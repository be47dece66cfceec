// Elements from names, attributes and children. Text is always text: nothing is parsed as HTML.
type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: any) => void)>;

function fill<T extends Element>(element: T, attributes: Attributes, children: Child[]): T {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children)
    if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  return element;
}

export const h = <K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] =>
  fill(document.createElement(tag), attributes, children);
export const s = (tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
