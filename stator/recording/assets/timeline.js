// The process in time: one lane for each thread, captures and backends as blocks. Wheel zooms, dragging moves, a double click shows all.
function timeline(canvas, found, choose) {
  const process = found.process;
  const threads = [...new Set(process.captures.map((one) => one.thread))];
  const LANE = 34, TOP = 22, LEFT = threads.length > 1 ? 110 : 8, RIGHT = 8;
  const height = TOP + Math.max(1, threads.length) * LANE + 6;
  canvas.style.height = `${height}px`;
  const whole = [0, Math.max(process.seconds, 1e-6)];
  let view = [...whole], over = -1, dragged = null;
  const blocks = process.captures.map((one, id) => ({
    id, lane: threads.indexOf(one.thread), start: one.start, middle: one.start + one.capture_seconds,
    end: one.start + one.capture_seconds + one.backend_seconds, again: one.recompile !== null,
  }));
  const width = () => canvas.clientWidth - LEFT - RIGHT;
  const x = (time) => LEFT + ((time - view[0]) / (view[1] - view[0])) * width();
  const time = (at) => view[0] + ((at - LEFT) / width()) * (view[1] - view[0]);

  function axis(pen, colors) {
    const step = [1, 2, 5].flatMap((one) => Array.from({ length: 12 }, (_, i) => one * 10 ** (i - 7))).sort((a, b) => a - b)
      .find((one) => (one / (view[1] - view[0])) * width() >= 80) || view[1] - view[0];
    pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    for (let at = Math.ceil(view[0] / step) * step; at <= view[1]; at += step) {
      pen.fillStyle = colors.line;
      pen.fillRect(x(at), TOP - 4, 1, height);
      pen.fillStyle = colors.soft;
      pen.fillText(seconds(at), Math.min(x(at) + 3, canvas.clientWidth - 46), 13);
    }
    threads.forEach((name, lane) => {
      pen.fillStyle = colors.soft;
      if (threads.length > 1) pen.fillText(name.slice(0, 16), 8, TOP + lane * LANE + 20);
    });
  }

  function block(pen, y, from, to, color, highlighted) {
    const left = Math.max(LEFT, x(from)), right = Math.min(canvas.clientWidth - RIGHT, x(to));
    if (right < LEFT || left > canvas.clientWidth - RIGHT) return;
    pen.fillStyle = color;
    pen.fillRect(left, y - (highlighted ? 3 : 0), Math.max(right - left, 1.5), LANE - 12 + (highlighted ? 6 : 0));
  }

  function draw() {
    const style = getComputedStyle(document.documentElement);
    const colors = Object.fromEntries(["line", "soft", "capture", "backend", "again", "idle"].map((one) => [one, style.getPropertyValue(`--${one}`).trim()]));
    const scale = window.devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    axis(pen, colors);
    threads.forEach((_, lane) => {
      pen.globalAlpha = 0.35;
      block(pen, TOP + lane * LANE + 6, whole[0], whole[1], colors.idle);
      pen.globalAlpha = 1;
    });
    for (const one of blocks) {
      const y = TOP + one.lane * LANE + 6;
      block(pen, y, one.start, one.middle, one.again ? colors.again : colors.capture, one.id === over);
      if (one.end > one.middle) block(pen, y, one.middle, one.end, one.again ? colors.again : colors.backend, one.id === over);
    }
  }

  // The narrowest block under the pointer, with some room around it.
  function under(event) {
    const box = canvas.getBoundingClientRect();
    const lane = Math.floor((event.clientY - box.top - TOP) / LANE), at = event.clientX - box.left;
    let best = -1, narrow = Infinity;
    for (const one of blocks) {
      if (one.lane !== lane || x(one.start) - 3 > at || x(one.end) + 3 < at) continue;
      if (one.end - one.start < narrow) [best, narrow] = [one.id, one.end - one.start];
    }
    return best;
  }

  const tip = document.getElementById("tip");
  function tell(event) {
    const capture = process.captures[over];
    tip.hidden = over < 0;
    canvas.style.cursor = over < 0 ? "crosshair" : "pointer";
    if (over < 0) return;
    const own = process.functions[capture.function];
    tip.textContent = `${own.name}  ${own.short}:${capture.line}\n${plural(capture.operations, "operation")}; capture ${seconds(capture.capture_seconds)}, ` +
      `backend ${seconds(capture.backend_seconds)}${capture.recompile === null ? "" : "\ncaptured again: " + (process.recompiles[capture.recompile].changes[0]?.text || "")}`;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY + 18}px`;
  }

  canvas.addEventListener("pointermove", (event) => {
    if (dragged) {
      const shift = time(dragged.x) - time(event.clientX);
      view = [dragged.view[0] + shift, dragged.view[1] + shift];
      dragged = { x: event.clientX, view: [...view], moved: dragged.moved || Math.abs(event.movementX) > 1 };
    }
    over = under(event);
    tell(event);
    draw();
  });
  canvas.addEventListener("pointerleave", () => { over = -1; tip.hidden = true; draw(); });
  canvas.addEventListener("pointerdown", (event) => { dragged = { x: event.clientX, view: [...view], moved: false }; });
  window.addEventListener("pointerup", () => {
    if (dragged && !dragged.moved && over >= 0) choose(over);
    dragged = null;
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const middle = time(event.clientX - canvas.getBoundingClientRect().left), factor = event.deltaY > 0 ? 1.25 : 0.8;
    view = view.map((edge) => middle + (edge - middle) * factor);
    if (view[1] - view[0] >= whole[1]) view = [...whole];
    draw();
  }, { passive: false });
  canvas.addEventListener("dblclick", () => { view = [...whole]; draw(); });
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}
