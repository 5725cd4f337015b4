// Light and dark, and the colours of categories. The style sheet has the values; canvases ask for them here.
export const STACK_ORDER = ["parameter", "optimizer_state", "gradient", "other", "input", "activation", "scratch", "data", "failed request"];

const cache = new Map<string, string>();

export function colour(name: string): string {
  let value = cache.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue("--" + name.replace(/[_ ]/g, "-")).trim();
    cache.set(name, value);
  }
  return value;
}

export function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function watchTheme(changed: () => void): { toggle: () => void } {
  const again = () => {
    cache.clear();
    changed();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let before: string | undefined;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    again();
  });
  addEventListener("afterprint", () => {
    if (before) document.documentElement.dataset.theme = before;
    else delete document.documentElement.dataset.theme;
    again();
  });
  return {
    toggle: () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      again();
    },
  };
}

// A canvas as large as it is shown, in the pixels of the screen; its context counts in those of the page.
export function fit(canvas: HTMLCanvasElement): [CanvasRenderingContext2D, number, number] {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return [context, width, height];
}

// Diagonal lines, for what failed and for what is free.
export function hatch(context: CanvasRenderingContext2D, ink: string, ground: string): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const brush = tile.getContext("2d")!;
  brush.fillStyle = ground;
  brush.fillRect(0, 0, 8, 8);
  brush.strokeStyle = ink;
  brush.lineWidth = 2;
  brush.beginPath();
  for (const offset of [-8, 0, 8]) {
    brush.moveTo(offset, 8);
    brush.lineTo(offset + 8, 0);
  }
  brush.stroke();
  return context.createPattern(tile, "repeat") ?? ink;
}
