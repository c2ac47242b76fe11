// What the data say, counted once: everything that the views show is made here.
function figuresOf(process) {
  const found = { process, captures: process.captures };
  const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);
  found.graphs = sum(process.captures, (one) => (one.operations > 0 ? 1 : 0));
  found.breaks = [...process.breaks].sort((a, b) => b.calls_outside - a.calls_outside || b.times - a.times || a.id - b.id);
  found.capture = sum(process.captures, (one) => (one.recompile === null ? one.capture_seconds : 0));
  found.backend = sum(process.captures, (one) => (one.recompile === null ? one.backend_seconds : 0));
  found.again = sum(process.captures, (one) => (one.recompile === null ? 0 : one.capture_seconds + one.backend_seconds));
  found.rest = Math.max(0, process.seconds - found.capture - found.backend - found.again);
  const calls = process.calls;
  found.inside = calls.graphs;
  found.outside = calls.breaks + calls.native;
  found.share = found.inside + found.outside ? found.inside / (found.inside + found.outside) : 0;
  found.guards = process.captures.map((one, id) => ({ id, capture: one, cost: one.guards_nanoseconds }))
    .filter((one) => one.cost !== null).sort((a, b) => b.cost - a.cost);
  found.functions = functionsOf(process);
  found.recompiles = recompilesOf(process);
  return found;
}

function functionsOf(process) {
  const list = process.functions.map((one, id) => ({ ...one, id, captures: [], capture: 0, backend: 0, operations: 0, again: 0, lines: new Map(), out: new Set() }));
  process.captures.forEach((capture, id) => {
    const own = list[capture.function];
    own.captures.push(id);
    own.capture += capture.capture_seconds;
    own.backend += capture.backend_seconds;
    own.operations += capture.operations;
    own.again += capture.recompile === null ? 0 : 1;
    for (const [file, line, , calls] of capture.lines) {
      if (file === own.file && calls > 0) own.lines.set(line, Math.max(calls, own.lines.get(line) || 0));
    }
  });
  // A break is shown in each function of its chain.
  for (const broke of process.breaks) {
    const frames = broke.stack.length ? broke.stack : [[place(broke.place).file, place(broke.place).line]];
    for (const own of list) {
      for (const [file, line] of frames) {
        if (file === own.file && line >= own.line && line < own.line + own.source.length) own.out.add(line);
      }
    }
  }
  return list.filter((one) => one.captures.length).sort((a, b) => b.capture + b.backend - a.capture - a.backend);
}

function recompilesOf(process) {
  const places = new Map();
  for (const one of process.recompiles) {
    if (!places.has(one.place)) places.set(one.place, { place: one.place, all: [], seconds: 0, limit: one.limit, entries: 0 });
    const group = places.get(one.place);
    group.all.push(one);
    group.seconds += one.seconds;
    group.entries = Math.max(group.entries, one.entries);
  }
  for (const one of process.limits) {
    if (places.has(one.place)) places.get(one.place).reached = one;
  }
  return [...places.values()].sort((a, b) => Number(!!b.reached) - Number(!!a.reached) || b.seconds - a.seconds);
}

// What to look at first, worst first: [color, text, anchor].
function firstLooks(found) {
  const looks = [];
  for (const one of found.breaks.slice(0, 2)) {
    if (one.calls_outside === 0) break;
    const at = place(one.place);
    looks.push(["outside", `<b>${plural(one.calls_outside, "tensor call")}</b> outside of graphs: <code>${esc(at.short)}:${at.line}</code> ${esc(one.reason)}`, "breaks"]);
  }
  for (const group of found.recompiles.slice(0, 2)) {
    const at = place(group.place);
    if (!group.reached && group.all.length < 2 && group.seconds < 0.05) continue;
    const why = group.all.at(-1).changes[0];
    looks.push([group.reached ? "outside" : "again",
      `<code>${esc(at.function)}</code> was captured <b>${plural(group.all.length, "time")} again</b>${group.reached ? ", and is at its limit" : ""}` +
      `${why ? `: ${esc(why.text)}` : ""} (${seconds(group.seconds)})`, "recompiles"]);
  }
  if (found.breaks.length && !looks.length) {
    looks.push(["again", `<b>${plural(found.breaks.length, "break")}</b>, which left no tensor call outside of graphs`, "breaks"]);
  }
  const dear = found.guards[0];
  if (dear && dear.cost > 20000) {
    looks.push(["again", `guards of <code>${esc(found.process.functions[dear.capture.function].name)}</code> take <b>${nanoseconds(dear.cost)}</b> at each call`, "guards"]);
  }
  if (!found.captures.length) looks.push(["again", "<b>Nothing was captured</b>: no compiled function was called", "functions"]);
  if (!looks.length) looks.push(["inside", "<b>Nothing to mend</b>: no break leaves tensor calls outside, nothing is captured again and again", "functions"]);
  return looks;
}

const KINDS = [
  ["tensors", "capture", /: (Tensor|Parameter|Buffer)|: [A-Z]\w*, (float|int|bool|complex|uint|bfloat)/],
  ["global state", "backend", /^global state/],
  ["modules and types", "inside", /^type\(| is unchanged in | is missing$/],
  ["code and functions", "again", / is the code of | is built-in | is module /],
  ["values", "idle", /./],
];
const kindOf = (text) => KINDS.findIndex(([, , pattern]) => pattern.test(text));
