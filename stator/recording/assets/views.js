// The sections of the page, each an element made of the figures.
const MOST = 25; // of a list, until more are asked for

// A list of which only the beginning is made at once.
function grows(items, element, holder, step = MOST) {
  let shown = 0;
  const button = make(`<button class="more"></button>`);
  const more = () => {
    const part = items.slice(shown, shown + step);
    part.forEach((item, i) => button.before(element(item, shown + i)));
    shown += part.length;
    button.hidden = shown >= items.length;
    button.textContent = `${number(items.length - shown)} more`;
  };
  button.onclick = more;
  holder.append(button);
  more();
  return holder;
}

function donut(parts) {
  const total = parts.reduce((sum, [value]) => sum + value, 0), around = 2 * Math.PI * 42;
  let turned = 0, rings = `<circle cx="55" cy="55" r="42" fill="none" stroke="var(--line)" stroke-width="16"/>`;
  for (const [value, color] of parts) {
    const length = total ? (value / total) * around : 0;
    if (length > 0) rings += `<circle cx="55" cy="55" r="42" fill="none" stroke="var(--${color})" stroke-width="16" stroke-dasharray="${length} ${around - length}" stroke-dashoffset="${-turned}" transform="rotate(-90 55 55)"/>`;
    turned += length;
  }
  return rings;
}

function glance(found) {
  const calls = found.process.calls, any = found.inside + found.outside > 0;
  const rows = [["inside", "inside of graphs", calls.graphs], ["outside", "outside, because of a break", calls.breaks], ["again", "outside, in code never captured", calls.native],
    ["idle", "not in a compiled function", calls.beside]].filter(([, , count], i) => count || i === 0);
  const tile = (value, word, kind, anchor) => `<a class="tile ${kind}" href="#${anchor}"><b>${value}</b><span>${word}</span></a>`;
  const harmful = found.breaks.some((one) => one.calls_outside);
  const count = (value, word) => `${word}${value === 1 ? "" : "s"}`;
  const dear = found.guards[0];
  return make(`<section class="glance"><div>
    <div class="share"><svg width="110" height="110" role="img" aria-label="share of tensor calls inside of graphs">${donut([[found.inside, "inside"], [calls.breaks, "outside"], [calls.native, "again"]])}
      <text x="55" y="61" text-anchor="middle" font-size="${found.share === 1 ? 17 : 19}" font-weight="650" fill="currentColor">${any ? percent(found.share) : "–"}</text></svg>
      <div><b>${any ? "of the tensor calls of compiled functions ran inside of graphs" : "No tensor call ran in a compiled function"}</b></div></div>
    <div class="legend">${rows.map(([color, word, value]) => `<i style="background:var(--${color})"></i><span>${word}</span><span>${number(value)}</span>`).join("")}</div></div>
    <div><div class="tiles">
      ${tile(number(found.graphs), count(found.graphs, "graph"), "", "functions")}
      ${tile(number(found.breaks.length), count(found.breaks.length, "break"), found.breaks.length ? (harmful ? "bad" : "warn") : "good", "breaks")}
      ${tile(number(found.process.recompiles.length), count(found.process.recompiles.length, "recompile"), found.process.limits.length ? "bad" : found.process.recompiles.length ? "warn" : "good", "recompiles")}
      ${tile(seconds(found.capture + found.backend + found.again), "capturing and compiling", "", "time")}
      ${tile(dear ? nanoseconds(dear.cost) : "–", "for the dearest guards", "", "guards")}</div>
    <ul class="first">${firstLooks(found).map(([color, text, anchor]) => `<li><i class="dot" style="background:var(--${color})"></i><a href="#${anchor}">${text}</a></li>`).join("")}</ul></div></section>`);
}

function time(found, choose) {
  const parts = [["capture", "first captures", found.capture], ["backend", "backends", found.backend], ["again", "captured again", found.again], ["idle", "the program itself", found.rest]];
  const total = parts.reduce((sum, part) => sum + part[2], 0) || 1;
  const section = make(`<section id="time"><h2>Time <small>${seconds(found.process.seconds)} in all; the wheel zooms, dragging moves, a click shows the capture</small></h2>
    <div class="split">${parts.map(([color, , value]) => (value ? `<div style="width:${(100 * value) / total}%;background:var(--${color})"></div>` : "")).join("")}</div>
    <div class="keys">${parts.map(([color, word, value]) => `<span><i style="background:var(--${color})"></i>${word} <b>${seconds(value)}</b> ${percent(value / total)}</span>`).join("")}</div>
    <canvas id="timeline"></canvas></section>`);
  requestAnimationFrame(() => timeline(section.querySelector("canvas"), found, choose));
  return section;
}

function code(lines, first, hit) {
  return lines.map((text, i) => `<span class="row${first + i === hit ? " hit" : ""}"><u>${first + i}</u>${python(text)}</span>`).join("");
}

function breaks(found) {
  if (!found.breaks.length) return null;
  const most = found.breaks[0].calls_outside || 1;
  const section = make(`<section id="breaks"><h2>Breaks <small>where graphs end early, by the tensor calls that ran outside because of it</small></h2></section>`);
  return grows(found.breaks, (one) => {
    const frames = one.source.map((frame, i) => `<div class="frame ${i + 1 < one.source.length ? "outer" : ""}"><div>${esc(frame.short)}:${frame.line} in <b>${esc(frame.function)}</b></div>
      ${frame.lines.length ? `<pre>${code(frame.lines, frame.first, frame.line)}</pre>` : ""}</div>`).join("");
    return make(`<div class="item"><div class="weigh"><b style="color:var(--${one.calls_outside ? "outside" : "soft"})">${number(one.calls_outside)}</b> <span class="soft">call${one.calls_outside === 1 ? "" : "s"} outside</span>
      ${bar(one.calls_outside / most, "outside")}<div class="soft" style="margin-top:6px">ended ${plural(one.times, "graph")}</div></div>
      <div style="min-width:0"><h3>${esc(one.reason[0].toUpperCase() + one.reason.slice(1))} <span class="soft">reason ${one.number}, ${esc(one.name)}</span></h3>
      <div class="chain">${frames}</div>${one.advice ? `<div class="advice">${esc(one.advice)}</div>` : ""}</div></div>`);
  }, section);
}

function change(one) {
  const found = /^(.*): was (.*), is (.*)$/.exec(one.text);
  const text = found ? `<code>${esc(found[1])}</code><code class="was">${esc(found[2])}</code>→<code class="is">${esc(found[3])}</code>` : `<code>${esc(one.text)}</code>`;
  return `<div class="change">${text}${one.now_dynamic ? `<span class="tag">now dynamic</span>` : ""}${one.used_at ? `<span class="soft code">${esc(one.used_at)}</span>` : ""}</div>`;
}

function recompiles(found) {
  if (!found.recompiles.length) return null;
  const most = found.recompiles.reduce((top, one) => Math.max(top, one.seconds), 1e-9);
  const section = make(`<section id="recompiles"><h2>Recompiles <small>captured again, because a guard did not hold; most costly first</small></h2></section>`);
  return grows(found.recompiles, (group) => {
    const at = place(group.place), slots = Math.min(group.limit, 16);
    const last = group.all.slice(-8).reverse().map((one) => `<div class="soft" style="margin-top:6px">entry ${one.entries}, ${seconds(one.seconds)}</div>${one.changes.slice(0, 5).map(change).join("")}`).join("");
    const advice = group.reached ? `<div class="advice">${esc(group.reached.advice.replace(/^ *- /gm, "").split("\n").join("; "))}</div>` : "";
    return make(`<div class="item"><div class="weigh"><b style="color:var(--again)">${seconds(group.seconds)}</b>${bar(group.seconds / most, "again")}
      <div class="soft" style="margin-top:6px">${plural(group.all.length, "time")} again</div></div>
      <div style="min-width:0"><h3>${esc(at.function)} <span class="soft">${esc(at.short)}:${at.line}</span> &nbsp;<span class="slots" title="entries taken of ${group.limit}">${Array.from({ length: slots }, (_, i) => `<i class="${i < group.entries ? "used" : ""}"></i>`).join("")}</span>
      <span class="soft">${group.entries} of ${group.limit}${group.reached ? " <b style='color:var(--outside)'>at the limit: other cases run eagerly</b>" : ""}</span></h3>${last}${group.all.length > 8 ? `<div class="soft">and ${group.all.length - 8} before</div>` : ""}${advice}</div></div>`);
  }, section);
}

function functions(found) {
  if (!found.functions.length) return null;
  const section = make(`<section id="functions"><h2>Functions <small>what was captured of each, with its source beside; green lines are in the graph, red ones ended it</small></h2>
    <div class="browse"><div><input placeholder="find a function or file" aria-label="find"><div class="list"></div></div><div class="detail"></div></div></section>`);
  const list = section.querySelector(".list"), detail = section.querySelector(".detail"), search = section.querySelector("input");
  const most = found.functions.reduce((top, one) => Math.max(top, one.capture + one.backend), 1e-9);
  let chosen = null;
  function show(own, id) {
    chosen = own.id;
    list.querySelectorAll(".entry").forEach((one) => one.classList.toggle("on", Number(one.dataset.id) === own.id));
    detail.replaceChildren(functionDetail(found, own, id ?? own.captures.find((one) => found.captures[one].operations) ?? own.captures[0]));
  }
  function fill() {
    const word = search.value.toLowerCase();
    const shown = found.functions.filter((one) => `${one.name} ${one.file}`.toLowerCase().includes(word));
    list.replaceChildren();
    grows(shown, (own) => {
      const entry = make(`<div class="entry${own.id === chosen ? " on" : ""}" data-id="${own.id}"><b>${esc(own.name)}</b><span class="soft">${esc(own.short)}:${own.line}</span>
        <div class="bar"><div style="width:${(100 * own.capture) / most}%;background:var(--capture)"></div><div style="width:${(100 * own.backend) / most}%;background:var(--backend)"></div></div>
        <span class="soft" style="direction:ltr">${seconds(own.capture + own.backend)}, ${plural(own.captures.length, "part")}${own.again ? `, ${own.again} again` : ""}${own.out.size ? `, <span style="color:var(--outside)">${plural(own.out.size, "break")}</span>` : ""}</span></div>`);
      entry.onclick = () => show(own);
      return entry;
    }, list, 60);
  }
  search.oninput = fill;
  fill();
  show(found.functions[0]);
  section.choose = (id) => {
    show(found.functions.find((one) => one.id === found.captures[id].function), id);
    section.scrollIntoView();
  };
  return section;
}

function functionDetail(found, own, id) {
  const capture = found.captures[id], texts = found.process.texts;
  const holder = make(`<div><div class="pills"></div><div class="both"></div></div>`);
  const shown = own.captures.length <= 40 ? own.captures : own.captures.slice(0, 40);
  if (!shown.includes(id)) shown.push(id);
  shown.forEach((one, i) => {
    const other = found.captures[one];
    const pill = make(`<span class="pill ${one === id ? "on" : ""} ${other.recompile === null ? "" : "again"}" title="${seconds(other.capture_seconds)} capture, ${seconds(other.backend_seconds)} backend">line ${other.line}: ${plural(other.operations, "op")}${other.recompile === null ? "" : " ↻"}</span>`);
    pill.onclick = () => holder.replaceWith(functionDetail(found, own, one));
    holder.firstElementChild.append(pill);
  });
  if (own.captures.length > shown.length) holder.firstElementChild.append(make(`<span class="soft">and ${own.captures.length - shown.length} more</span>`));
  const covered = new Map(capture.lines.filter(([file, , , calls]) => file === own.file && calls > 0).map(([, line, , calls]) => [line, calls]));
  const broke = capture.break === null ? null : found.process.breaks[capture.break];
  const ends = new Set(broke ? broke.stack.filter(([file]) => file === own.file).map(([, line]) => line) : []);
  const source = own.source.map((text, i) => {
    const line = own.line + i, calls = covered.get(line);
    const kind = ends.has(line) ? "out" : calls ? "in" : "";
    return `<span class="row ${kind}" data-line="${line}"><u>${line}</u>${python(text)}${calls ? `<em>${plural(calls, "op")}</em>` : ""}${ends.has(line) ? `<em style="color:var(--outside)">ends here</em>` : ""}</span>`;
  }).join("");
  const graph = texts[capture.graph].split("\n").filter((line) => line.trim()).slice(0, 1500).map((line) => {
    const node = /^%(\d+) =/.exec(line), position = node ? capture.nodes[Number(node[1])] : undefined;
    const at = position >= 0 && capture.lines[position] ? capture.lines[position][1] : "";
    const [left, right] = line.split(/ : (?=[^:]*$)/);
    return `<span class="row" data-line="${at}">${esc(left)}${right ? `<span class="soft"> : ${esc(right)}</span>` : ""}</span>`;
  }).join("");
  holder.lastElementChild.append(
    make(`<div class="pane"><h4>${esc(own.short)}</h4><pre>${source || `<span class="row soft">the source is not at hand</span>`}</pre></div>`),
    make(`<div class="pane graph"><h4>graph: ${plural(capture.operations, "operation")}, ${plural(capture.guards.length, "guard")}${broke ? `, ended by: ${esc(broke.reason)}` : ", to the return"}</h4><pre>${graph}</pre></div>`));
  linkLines(holder);
  if (capture.recompile !== null) holder.append(make(`<div style="margin-top:10px"><b>Captured again</b>${found.process.recompiles[capture.recompile].changes.slice(0, 6).map(change).join("")}</div>`));
  if (capture.regions.length) holder.append(make(`<div style="margin-top:10px"><b>Regions</b> <span class="soft">parts that repeat, compiled once</span><pre>${capture.regions.map(esc).join("\n")}</pre></div>`));
  return holder;
}

// A line of source and the operations that it made light up together.
function linkLines(holder) {
  holder.addEventListener("pointerover", (event) => {
    const line = event.target.closest(".row")?.dataset.line;
    holder.querySelectorAll(".row.lit").forEach((row) => row.classList.remove("lit"));
    if (line) holder.querySelectorAll(`.row[data-line="${line}"]`).forEach((row) => row.classList.add("lit"));
  });
}

function guards(found) {
  if (!found.guards.length) return null;
  const texts = found.process.texts, most = found.guards[0].cost, kinds = KINDS.map(() => 0);
  for (const { capture } of found.guards) for (const [text, cost] of capture.guards) if (cost > 0) kinds[kindOf(texts[text])] += cost;
  const all = kinds.reduce((sum, one) => sum + one, 0) || 1;
  const section = make(`<section id="guards"><h2>Guards <small>what each call checks before a graph may serve, dearest first</small></h2>
    <div class="split">${KINDS.map(([, color], i) => (kinds[i] ? `<div style="width:${(100 * kinds[i]) / all}%;background:var(--${color})"></div>` : "")).join("")}</div>
    <div class="keys">${KINDS.map(([word, color], i) => (kinds[i] ? `<span><i style="background:var(--${color})"></i>${word} <b>${percent(kinds[i] / all)}</b></span>` : "")).join("")}</div></section>`);
  return grows(found.guards, ({ capture, cost }) => {
    const own = found.process.functions[capture.function];
    const item = make(`<details><summary><div class="guard"><b>${nanoseconds(cost)}</b>${bar(cost / most, "capture")}<span><code>${esc(own.name)}</code> <span class="soft">${esc(own.short)}:${capture.line}, ${plural(capture.guards.length, "guard")}</span></span></div></summary></details>`);
    item.ontoggle = () => {
      if (item.children.length > 1) return;
      const rows = [...capture.guards].sort((a, b) => (b[1] || 0) - (a[1] || 0));
      item.append(grows(rows, ([text, one]) => make(`<div class="guard"><span>${nanoseconds(one)}</span>${bar((one || 0) / (rows[0][1] || 1), KINDS[kindOf(texts[text])][1])}<code>${esc(texts[text])}</code></div>`), make(`<div class="inner rows"></div>`), 40));
    };
    return item;
  }, section, 12);
}

function regions(found) {
  const with_regions = found.captures.map((one, id) => ({ one, id })).filter(({ one }) => one.regions.length);
  if (!with_regions.length) return null;
  const section = make(`<section id="regions"><h2>Regions <small>parts of graphs that repeat and were compiled once</small></h2></section>`);
  return grows(with_regions, ({ one }) => {
    const own = found.process.functions[one.function];
    return make(`<div class="item"><div class="weigh"><b>${one.regions.length}</b> <span class="soft">region${one.regions.length === 1 ? "" : "s"}</span></div><div style="min-width:0"><h3>${esc(own.name)} <span class="soft">${esc(own.short)}:${one.line}</span></h3><pre style="white-space:pre-wrap">${one.regions.map(esc).join("\n")}</pre></div></div>`);
  }, section);
}

function about(found) {
  const process = found.process;
  const settings = Object.entries(process.settings).map(([name, value]) => `<tr><td><code>${esc(name)}</code></td><td><code>${esc(value)}</code></td></tr>`).join("");
  const counters = Object.entries(process.counters).map(([name, value]) => `<tr><td>${esc(name)}</td><td>${name.endsWith("_seconds") ? seconds(value) : number(value)}</td></tr>`).join("");
  return make(`<section><details><summary><b>Settings and counters</b> <span class="soft">${settings ? "settings that were changed, and " : ""}what was counted</span></summary>
    <div class="inner" style="display:flex;gap:60px;flex-wrap:wrap">${settings ? `<table>${settings}</table>` : ""}<table>${counters}</table></div></details></section>`);
}
