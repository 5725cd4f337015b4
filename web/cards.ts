// The verdict, its figures, the remedies as cards, and what else the explanation says.
import { Account, Card, Diagnosis, PageData } from "./data";
import { button, bytesText, element, plainName, section } from "./format";

export function verdict(data: PageData): HTMLElement {
  const { tone, label, headline, chips } = data.verdict;
  const made = element("section", "verdict " + tone);
  made.id = "verdict";
  const text = element("div", "verdict-text", element("h1", "", label), element("p", "headline", headline));
  const row = element("div", "chips");
  for (const chip of chips) row.append(element("span", "chip", chip));
  text.append(row);
  const figures = data.figures.slice(0, 6), tiles = element("div", "tiles" + (figures.length % 3 === 0 || figures.length === 5 ? " three" : ""));
  for (const figure of figures) {
    tiles.append(element("div", "tile", element("span", "tile-name", plainName(figure.name)),
      element("b", "", bytesText(figure.value_bytes)), figure.note ? element("small", "", figure.note) : null));
  }
  made.append(text, tiles);
  return made;
}

async function copy(text: string, from: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {  // a page from disk may have no clipboard: select the text, so that Ctrl+C takes it
    const range = document.createRange();
    range.selectNodeContents(from);
    const chosen = getSelection()!;
    chosen.removeAllRanges();
    chosen.addRange(range);
    return document.execCommand("copy");
  }
}

function copyButton(code: HTMLElement): HTMLElement {
  const text = code.textContent!;
  const take = button("copy", "copy", () => {
    void copy(text, code).then(done => {
      take.textContent = done ? "copied" : "press Ctrl+C";
      setTimeout(() => { take.textContent = "copy"; }, 1600);
    });
  }, "copy this line");
  return take;
}

function card(entry: Card, number: number, most: number, gained: boolean): HTMLElement {
  const made = element("article", "card", element("span", "number-badge", String(number)), element("h3", "", entry.action));
  const facts = element("div", "card-facts");
  if (entry.saves_bytes) {
    const bar = element("i", "saves-bar");
    bar.style.width = Math.max(2, Math.min(100, 100 * entry.saves_bytes / most)) + "%";
    made.append(element("div", "saves", element("b", "", bytesText(entry.saves_bytes)), gained ? " gained" : " saved", element("div", "track", bar)));
  }
  if (entry.cost) facts.append(element("span", "chip", "costs: " + entry.cost));
  made.append(facts);
  if (entry.setting) {
    const code = element("code", "setting", entry.setting);
    facts.append(copyButton(code));
    made.append(code);
  }
  return made;
}

export function cards(data: PageData): HTMLElement | null {
  const none = data.diagnoses[0]?.no_remedy;
  if (!data.cards.length && !none) return null;
  const made = section("remedies", data.cards_title), grid = element("div", "cards");
  if (none) made.append(element("p", "about", none));
  // One that outgrows all others (a cap raised to the whole card) must not make their bars vanish.
  const saves = data.cards.map(entry => entry.saves_bytes ?? 0).sort((a, b) => b - a);
  const most = saves.length > 1 && saves[1] > 0 ? Math.min(saves[0], saves[1] * 1.25) : saves[0] || 1;
  data.cards.forEach((entry, i) => grid.append(card(entry, i + 1, most, data.verb === "explain")));
  made.append(grid);
  return made;
}

function bars(account: Account): HTMLElement {
  const table = element("table", "bars");
  for (const part of [...account.parts].sort((a, b) => b.part_bytes - a.part_bytes)) {
    const bar = element("i", "bar");
    bar.style.width = (account.total_bytes ? 100 * part.part_bytes / account.total_bytes : 0) + "%";
    table.append(element("tr", "", element("td", "number", bytesText(part.part_bytes)),
      element("td", "", plainName(part.name)), element("td", "bar-cell", bar)));
  }
  return table;
}

function lines(title: string, rows: [string, string, string][]): HTMLElement | null {
  if (!rows.length) return null;
  const table = element("table", "lines");
  for (const [number, text, note] of rows) {
    table.append(element("tr", "", element("td", "number", number), element("td", "", text), element("td", "soft", note)));
  }
  return element("div", "block", element("h3", "", title), table);
}

const inner = (way: string, place: string) => way && way !== place ? "  ← " + way : "";
const orNothing = (bytes: number | null) => bytes === null ? "" : bytesText(bytes);

export function details(diagnosis: Diagnosis): HTMLElement {
  const made = element("div", "details");
  for (const account of diagnosis.accounts) {
    made.append(element("div", "block", element("h3", "", `${account.name}: ${bytesText(account.total_bytes)}`), bars(account)));
  }
  const parts = [
    lines("Facts", diagnosis.facts.map(fact => [orNothing(fact.value_bytes), fact.fact, ""])),
    lines("The same history would have needed",
      diagnosis.counterfactuals.map(other => [bytesText(other.needs_bytes), other.name, other.note])),
    lines("Who holds it", diagnosis.culprits.map(culprit => [bytesText(culprit.held_bytes),
      culprit.place + inner(culprit.module || culprit.innermost, culprit.place),
      `${plainName(culprit.category)}, ${culprit.blocks} ×`])),
  ];
  for (const part of parts) if (part) made.append(part);
  if (diagnosis.message) made.append(element("div", "block", element("h3", "", "Message"), element("pre", "", diagnosis.message)));
  return made;
}

// How to get a history next time, where there is none.
export function recording(data: PageData): HTMLElement | null {
  if (!data.recording_snippet) return null;
  const made = section("recording", "To see what was alive", "These lines at the start of the program write a snapshot when memory runs out.");
  const code = element("code", "setting", data.recording_snippet);
  made.append(element("div", "card-facts", copyButton(code)), code);
  return made;
}

// The failures after the first, each closed until asked for.
export function others(data: PageData): HTMLElement | null {
  const rest = data.diagnoses.slice(1, 60);
  if (!rest.length) return null;
  const made = section("others", `${data.diagnoses.length - 1} more`, "Other devices, ranks or failures of the same input.");
  for (const diagnosis of rest) {
    const fold = element("details", "fold", element("summary", "", element("b", "", plainName(diagnosis.cause)),
      " " + diagnosis.headline, element("span", "soft", diagnosis.line ? `  line ${diagnosis.line}` : "")));
    const grid = element("div", "cards");
    diagnosis.remedies.forEach((remedy, i) => grid.append(card({ ...remedy, cost: remedy.time_cost }, i + 1, remedy.saves_bytes ?? 1, true)));
    fold.append(grid, details(diagnosis));
    made.append(fold);
  }
  return made;
}
