// Texts: escaped, shortened, with units; elements from strings.
const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const esc = (text) => String(text).replace(/[&<>"']/g, (one) => ESCAPES[one]);
const number = (value) => Math.round(value).toLocaleString("en-US");
const plural = (value, word) => `${number(value)} ${word}${value === 1 ? "" : "s"}`;

function seconds(value) {
  if (value >= 100) return `${value.toFixed(0)} s`;
  if (value >= 1) return `${value.toFixed(2)} s`;
  if (value >= 1e-3) return `${(1e3 * value).toFixed(value < 1e-2 ? 2 : 1)} ms`;
  return value > 0 ? `${(1e6 * value).toFixed(0)} µs` : "0";
}

function nanoseconds(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1000 ? `${(value / 1000).toFixed(2)} µs` : `${value.toFixed(value < 10 ? 1 : 0)} ns`;
}

const percent = (share) => (share > 0 && share < 0.01 ? "<1 %" : `${Math.floor(100 * share + 0.5)} %`);

function make(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html.trim();
  return holder.content.firstElementChild;
}

const WORDS = new Set(("and as assert async await break class continue def del elif else except False finally for from global if import in is " +
  "lambda None nonlocal not or pass raise return True try while with yield self").split(" "));
const TOKENS = /("""[^]*?"""|'''[^]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(#.*)|([A-Za-z_]\w*)/g;

// One line of Python with colours.
function python(line) {
  let out = "", last = 0;
  for (const found of line.matchAll(TOKENS)) {
    out += esc(line.slice(last, found.index));
    const text = esc(found[0]);
    if (found[1]) out += `<span class="s">${text}</span>`;
    else if (found[2]) out += `<span class="c">${text}</span>`;
    else out += WORDS.has(found[3]) ? `<span class="k">${text}</span>` : text;
    last = found.index + found[0].length;
  }
  return out + esc(line.slice(last));
}

const place = (text) => {
  const found = /^(.*):(\d+) in (.*)$/.exec(text);
  if (!found) return { file: text, short: text, line: 0, function: "" };
  return { file: found[1], short: found[1].split("/").slice(-2).join("/"), line: Number(found[2]), function: found[3] };
};

const bar = (share, color) => `<div class="bar"><div style="width:${(100 * Math.min(1, share)).toFixed(2)}%;background:var(--${color})"></div></div>`;
