// What colours mean.
import { bytesText, element, plainName } from "./format";
import { Store } from "./store";
import { STACK_ORDER, colour } from "./theme";

// One entry for each category that the history has, as they are stacked from the top; with bytes where they are given.
export function categoryKeys(store: Store, bytes?: Float64Array): HTMLElement[] {
  const names = store.data.categories, used = new Set(store.history().timeline.blocks.category);
  return [...STACK_ORDER].reverse().filter(name => used.has(names.indexOf(name))).map(name => {
    const box = element("i");
    box.style.background = name === "failed request"
      ? `repeating-linear-gradient(-45deg,${colour("bad")} 0 2px,${colour("panel")} 2px 5px)` : colour("c-" + name);
    const value = bytes ? element("b", "", bytesText(bytes[names.indexOf(name)])) : null;
    return element("span", "key", box, plainName(name), value);
  });
}

export function legendOf(store: Store, note: string, withFree = false): HTMLElement {
  const made = element("div", "legend");
  const draw = () => {
    const keys = categoryKeys(store);
    if (withFree) keys.push(element("span", "key", element("i", "free"), "free"));
    if (note) keys.push(element("span", "soft", note));
    made.replaceChildren(...keys);
  };
  store.listen(change => { if (change === "theme" || change === "view") draw(); });
  draw();
  return made;
}
