// Puts the page together: one process at a time, several ranks side by side on top.
const DATA = JSON.parse(document.getElementById("data").textContent);
const ALL = DATA.processes.map(figuresOf);

function head(found) {
  const process = found.process, command = process.command.map((part, i) => (i ? part : part.split("/").pop())).join(" ");
  const bar = make(`<div style="display:contents"><h1>${esc(command || "a process")}</h1>
    <span class="soft">${esc(process.date.replace("T", " ").slice(0, 16))} UTC · CPython ${esc(process.python)} · torch ${esc(process.torch)} · Stator ${esc(process.stator)}</span>
    <span class="grow"></span><a href="#" id="download">the data (JSON)</a></div>`);
  bar.querySelector("#download").onclick = (event) => {
    event.preventDefault();
    const link = make(`<a download="stator-report.json"></a>`);
    link.href = URL.createObjectURL(new Blob([JSON.stringify(DATA)], { type: "application/json" }));
    link.click();
  };
  return bar;
}

// Ranks side by side: what differs stands out.
function ranks(chosen) {
  if (ALL.length < 2) return null;
  const columns = [["graphs", (one) => one.graphs], ["breaks", (one) => one.breaks.length], ["recompiles", (one) => one.process.recompiles.length],
    ["inside of graphs", (one) => percent(one.share)], ["capturing and compiling", (one) => seconds(one.capture + one.backend + one.again)]];
  const most = Math.max(...ALL.map((one) => one.capture + one.backend + one.again), 1e-9);
  const section = make(`<section><h2>Ranks <small>${ALL.length} processes; a click shows one of them</small></h2><table style="width:100%"><tr class="soft"><td>rank</td>${columns.map(([name]) => `<td>${name}</td>`).join("")}<td style="width:35%"></td></tr></table></section>`);
  ALL.forEach((one, i) => {
    const row = make(`<table><tr style="cursor:pointer"><td><span class="pill ${i === chosen ? "on" : ""}">${one.process.rank}</span></td>${columns.map(([, of], c) => {
      const differs = c < 3 && of(one) !== of(ALL[0]);
      return `<td style="${differs ? "color:var(--outside);font-weight:650" : ""}">${of(one)}</td>`;
    }).join("")}<td><div class="split" style="margin:4px 0;background:none">${[["capture", one.capture], ["backend", one.backend], ["again", one.again]].map(([color, value]) => `<div style="width:${(100 * value) / most}%;background:var(--${color})"></div>`).join("")}</div></td></tr></table>`).querySelector("tr");
    row.onclick = () => show(i);
    section.querySelector("table").append(row);
  });
  return section;
}

function show(chosen) {
  const found = ALL[chosen];
  document.getElementById("head").replaceChildren(head(found));
  const of_functions = functions(found);
  const parts = [ranks(chosen), glance(found), time(found, (id) => of_functions?.choose(id)), breaks(found), recompiles(found), of_functions, guards(found), regions(found), about(found)];
  if (found.process.captures_left_out) parts.push(make(`<footer>${number(found.process.captures_left_out)} further captures are not shown.</footer>`));
  parts.push(make(`<footer>process ${found.process.pid}; the figures are of one run on one machine</footer>`));
  document.getElementById("page").replaceChildren(...parts.filter(Boolean));
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

if (ALL.length) show(0);
