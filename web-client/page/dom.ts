/** The element of `index.html` with this id; throws TypeError where the page and the script don't fit each other. */
export function byId<Element extends HTMLElement>(id: string, type: abstract new (...args: never[]) => Element): Element {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new TypeError(`#${id} is not a ${type.name}`);
  return element;
}

export function create<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, properties: Partial<HTMLElementTagNameMap[Tag]> = {}, ...children: (Node | string)[]): HTMLElementTagNameMap[Tag] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
