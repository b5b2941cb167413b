"use strict";
// The timeline: which rectangles are seen at this zoom, and the controls. Drawing, zooming and moving are ECharts'.
(async () => {
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const element = document.getElementById("chart");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const MEMORY = data.memory.length ? 84 : 0, LEAST_NS = 20;
  const LEAST_LANE = 20, MOST_LANE = 64;
  let laneHeight = LEAST_LANE;
  const span = data.spanNs;
  const categories = Object.keys(data.colors);

  const rows = await timelineRows(data);
  const { firstAfter } = rows;
  const lanes = rows.lanes;
  for (const [number, lane] of lanes.entries()) lane.number = number;
  for (const lane of lanes) if (lane.busy) Object.assign(lane, { busy: bytes(lane.busy), leading: bytes(lane.leading) });
  document.documentElement.classList.add("timeline");

  // Lanes: what several streams of a device do is also shown in one, below its idle time; each may be hidden, folded to
  // its first level, or pinned above the others

  const devices = new Map();
  for (const lane of data.ofRanks ? [] : lanes) {
    if (lane.kind !== "work") continue;
    const device = lane.label.replace(/,? ?stream .*/, "");
    if (!devices.has(device)) devices.set(device, []);
    devices.get(device).push(lane.number);
  }
  for (const [device, of] of devices) {
    if (of.length < 2 || !lanes[of[0]].label.includes("stream")) continue;
    const none = new Float64Array(0);
    const label = `${device || "GPU"} busy`;
    lanes.push({ label, kind: "busy", level: 0, rows: 0, first: 0, start: none, end: none, name: none, of, number: lanes.length });
  }
  const groups = []; // the levels of a thread, a stream
  for (const lane of lanes) {
    const last = groups.at(-1);
    if (last && last.label === lane.label && last.owner === lane.owner) last.lanes.push(lane.number);
    else groups.push({ label: lane.label, owner: lane.owner, kind: lane.kind, lanes: [lane.number], hidden: false, folded: false, pinned: false });
  }
  const isDevice = (group) => group.kind === "idle" || group.kind === "busy";
  groups.sort((one, other) => isDevice(other) - isDevice(one)); // sorting keeps the order of the others
  let shown = []; // the numbers of the lanes that are drawn, from top to bottom
  let placeOf = new Map();
  function arrange() {
    const order = [...groups].sort((one, other) => other.pinned - one.pinned).filter((group) => !group.hidden);
    shown = order.flatMap((group) => (group.folded ? group.lanes.slice(0, 1) : group.lanes));
    placeOf = new Map(shown.map((number, place) => [number, place]));
  }
  arrange();

  // Texts

  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
  const unitOf = (ns) => UNITS.find(([size]) => ns >= size) ?? UNITS[3];
  const duration = (ns, digits = 4) => {
    const [size, unit] = unitOf(Math.abs(ns));
    return `${size === 1 ? ns : (ns / size).toPrecision(digits)} ${unit}`;
  };
  const about = (ns) => duration(Math.round(ns), ns >= 999.5e9 ? 4 : 3).replace("1.00e+3", "1000"); // in a sentence
  const memory = (size) => {
    const power = size >= 2 ** 30 ? 3 : size >= 2 ** 20 ? 2 : size >= 1024 ? 1 : 0;
    return `${+(size / 1024 ** power).toPrecision(4)} ${["B", "KiB", "MiB", "GiB"][power]}`;
  };
  const say = (id, text) => { document.getElementById(id).textContent = text; };

  // What is seen

  let view = [0, span];
  let items = [];
  let matches = null; // which names are looked for, while something is searched
  let lit = null; // which rows belong to the range that was chosen, while one is
  let selected = null; // the stretch of time that was marked
  const held = () => data.whole || data.windows.some(([low, high]) => low <= view[0] && view[1] <= high);

  /** The rows of a lane in view; those thinner than a pixel together, as tall as the share of it that is busy. */
  function rowsInView(lane, number, pixel) {
    const from = Math.max(0, firstAfter(lane.start, view[0]) - 64), to = firstAfter(lane.start, view[1]);
    const found = [];
    let heap = null;
    const put = () => {
      if (heap) heap.share = Math.min(1, heap.busy / Math.max(pixel, heap.end - heap.start));
      if (heap) found.push(heap);
      heap = null;
    };
    for (let row = from; row < to; row++) {
      const start = lane.start[row], end = lane.end[row], length = end - start;
      if (end < view[0]) continue;
      const isLit = lit !== null && lit[lane.first + row] === 1;
      if (length >= pixel || (matches && matches[lane.name[row]])) {
        put();
        found.push({ lane: number, start, end, row, rows: 1, share: 1, name: lane.name[row], isLit });
      } else if (heap && end - heap.start <= 2 * pixel) {
        heap.end = Math.max(heap.end, end);
        heap.busy += length;
        heap.rows += 1;
        heap.isLit ||= isLit;
        if (length > heap.longest) { heap.longest = length; heap.name = lane.name[row]; }
      } else {
        put();
        heap = { lane: number, start, end, row, rows: 1, busy: length, longest: length, share: 1, name: lane.name[row], isLit };
      }
    }
    put();
    return found;
  }

  /** How busy the slices in view were, some together where they are thinner than a pixel. */
  function slicesInView(lane, number, pixel) {
    const width = span / data.bins, step = Math.max(1, Math.ceil(pixel / width)), found = [];
    const last = Math.min(data.bins, Math.ceil(view[1] / width));
    for (let bin = Math.floor(view[0] / width / step) * step; bin < last; bin += step) {
      let sum = 0, most = 0, leading = 0;
      for (let each = bin; each < Math.min(bin + step, data.bins); each++) {
        sum += lane.busy[each];
        if (lane.busy[each] > most) { most = lane.busy[each]; leading = lane.leading[each]; }
      }
      if (sum) {
        const share = sum / 255 / step;
        found.push({ lane: number, start: bin * width, end: (bin + step) * width, row: -1, share, leading });
      }
    }
    return found;
  }

  // Colours

  const placeOfItem = (item) => placeOf.get(item.at ?? item.lane);
  function colorOf(item) {
    const lane = lanes[item.lane];
    if (lane.kind === "range") return css("--range");
    if (lane.kind === "api") return css("--faint");
    return data.colors[item.row < 0 ? categories[item.leading] : data.nameCategories[item.name]] ?? css("--faint");
  }
  const inkOn = (color) => {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
    return 0.3 * red + 0.59 * green + 0.11 * blue > 140 ? "#1b1f24" : "#ffffff";
  };

  // Drawing

  const heightNow = () => Math.max(1, shown.length) * laneHeight + MEMORY + 72;
  const chart = echarts.init(element, null, { height: heightNow() });
  let palette = new Map();

  function draw(params, api) {
    const item = items[params.dataIndex];
    const place = placeOfItem(item), [left, middle] = api.coord([item.start, place]), [right] = api.coord([item.end, place]);
    const area = params.coordSys, x = Math.max(left, area.x);
    const width = Math.max(Math.min(right, area.x + area.width) - x, 1);
    if (x >= area.x + area.width || right < area.x) return null;
    const height = (laneHeight - 4) * Math.max(item.share, 0.08), color = palette.get(item);
    const shape = { x, y: middle + (laneHeight - 4) / 2 - height, width, height };
    // What was searched for is bright, whatever is selected.
    const isHit = matches && item.row >= 0 && item.rows === 1 && matches[item.name];
    const faded = !isHit && (matches || (lit && !item.isLit));
    const drawn = { type: "rect", shape, style: { fill: color, opacity: faded ? 0.25 : 1 } };
    if (width > 3 && item.rows === 1) Object.assign(drawn.style, { stroke: css("--paper"), lineWidth: 0.5 });
    drawn.textContent = { style: { text: "" } }; // an element that is used again would keep its text
    if (item.rows === 1 && width > 34) {
      const text = data.shortNames[item.name];
      drawn.textContent = { style: { text, fill: inkOn(color), width: width - 6, overflow: "truncate", fontSize: 11 } };
      drawn.textConfig = { position: "insideLeft" };
    }
    return drawn;
  }

  const isNarrow = () => element.clientWidth < 600;
  const plotLeft = () => (isNarrow() ? 84 : 150);
  const labelOf = (lane) => {
    if (lane.level) return "";
    return isNarrow() ? lane.label.replace(/pid (?=\d)/, "p").replace(/thread (?=\d)/, "t") : lane.label;
  };

  function axes() {
    const line = { lineStyle: { color: css("--line") } }, text = { color: css("--ink"), fontSize: 11 };
    const left = plotLeft(), top = 6, room = Math.max(1, shown.length) * laneHeight;
    const time = (gridIndex, shown) => ({
      type: "value", min: 0, max: span, gridIndex, axisLine: line, splitLine: line, minorTick: { show: false },
      splitNumber: isNarrow() ? 3 : 8,
      axisLabel: {
        ...text, show: shown, hideOverlap: true, showMinLabel: false, showMaxLabel: false,
        formatter: (ns) => {
          const [size, unit] = unitOf(Math.max(view[1] - view[0], 1));
          return `${+(ns / size).toFixed(3)} ${unit}`;
        },
      },
    });
    const grids = [{ left, right: 24, top, height: room, outerBoundsMode: "none" }];
    const yAxis = [{
      type: "category", inverse: true, data: shown.map((number) => labelOf(lanes[number])), gridIndex: 0, triggerEvent: true,
      axisLine: line, axisTick: { show: false }, splitLine: { show: true, ...line },
      axisLabel: { ...text, interval: 0, width: left - 10, overflow: "truncate" },
    }];
    if (MEMORY) {
      const highest = Math.max(1, ...data.memory.map((series) => series.bytes.reduce((a, b) => Math.max(a, b), 0)));
      let step = 2 ** Math.floor(Math.log2(highest / 2)); // whole units of memory, which count by two
      if (2 * step < highest) step *= 2 * step * 1.5 >= highest ? 1.5 : 2;
      grids.push({ left, right: 24, top: top + room + 16, height: MEMORY - 16, outerBoundsMode: "none" });
      yAxis.push({
        type: "value", gridIndex: 1, splitNumber: 2, axisLine: line, splitLine: line, name: data.memoryWord,
        nameLocation: "middle", nameGap: left - 16, nameTextStyle: text,
        axisLabel: { ...text, formatter: memory }, min: 0, max: 2 * step, interval: step,
      });
    }
    return { grid: grids, xAxis: MEMORY ? [time(0, false), time(1, true)] : [time(0, true)], yAxis };
  }

  function drawArrow(params, api) {
    const points = [[0, 1], [2, 3]].map(([x, y]) => api.coord([api.value(x), api.value(y)]));
    const style = { stroke: css("--ink"), fill: "none", lineWidth: 1.5 };
    const [[, fromY], [toX, toY]] = points, back = toY > fromY ? -5 : 5;
    const tip = { type: "polygon", shape: { points: [[toX, toY], [toX - 4, toY + back], [toX + 4, toY + back]] } };
    return {
      type: "group", silent: true,
      children: [{ type: "polyline", shape: { points }, style }, { ...tip, style: { fill: css("--ink") } }],
    };
  }
  function drawSelection(params, api) {
    const [left] = api.coord([api.value(0), 0]), [right] = api.coord([api.value(1), 0]), area = params.coordSys;
    const shape = { x: left, y: area.y, width: Math.max(1, right - left), height: area.height };
    return { type: "rect", silent: true, shape, style: { fill: css("--accent"), opacity: 0.2 } };
  }

  function option() {
    const both = MEMORY ? [0, 1] : [0];
    const zoom = { xAxisIndex: both, filterMode: "none", minValueSpan: Math.min(LEAST_NS, span) };
    return {
      animation: false,
      textStyle: { fontFamily: "system-ui, sans-serif" },
      ...axes(),
      dataZoom: [
        { type: "inside", id: "inside", zoomOnMouseWheel: "ctrl", ...zoom },
        {
          type: "slider", id: "slider", bottom: 8, showDataShadow: false, height: 24, showDetail: false, brushSelect: false,
          left: plotLeft(), right: 24, borderColor: css("--line"), ...zoom,
        },
      ],
      series: [
        { type: "custom", id: "rows", renderItem: draw, encode: { x: [1, 2], y: 0 }, clip: true, data: [] },
        { type: "custom", id: "arrows", renderItem: drawArrow, encode: { x: [0, 2], y: [1, 3] }, clip: true, silent: true, data: [], z: 5 },
        { type: "custom", id: "selection", renderItem: drawSelection, encode: { x: [0, 1] }, clip: true, silent: true, data: [], z: 4 },
        ...data.memory.map((series) => ({
          type: "line", xAxisIndex: 1, yAxisIndex: 1, step: "end", symbol: "none", silent: true,
          lineStyle: { width: 1, color: "#2f8fd0" }, areaStyle: { color: "#2f8fd0", opacity: 0.35 },
          data: [...series.time.map((time, at) => [time, series.bytes[at]]), [span, series.bytes.at(-1)]],
        })),
      ],
    };
  }

  function refresh() {
    const pixel = (view[1] - view[0]) / Math.max(100, element.clientWidth - plotLeft());
    // A lane without rows of its own is always drawn by how busy its slices were.
    const pick = (lane, number) => lane.of
      ? lane.of.flatMap((each) => pick(lanes[each], each)).map((item) => ({ ...item, at: number }))
      : held()
      ? [...(lane.busy && data.whole ? slicesInView(lane, number, pixel) : []), ...rowsInView(lane, number, pixel)]
      : slicesInView(lane, number, pixel);
    items = shown.flatMap((number) => pick(lanes[number], number));
    palette = new Map(items.map((item) => [item, colorOf(item)]));
    chart.setOption({ series: [{ id: "rows", data: items.map((item) => [placeOfItem(item), item.start, item.end]) }] });
    element.dataset.items = items.length;
    element.dataset.lanes = shown.map((number) => lanes[number].label).join("|");
    element.dataset.view = view.join(" ");
    const count = data.rows.toLocaleString("en");
    const left = data.lanesLeftOut ? ` ${data.lanesLeftOut} less busy lanes are left out.` : "";
    if (data.detail) {
      say("detail", data.detail);
    } else if (data.whole) {
      say("detail", `All ${count} rows are here.${left}`);
    } else if (held()) {
      say("detail", `Every row of this stretch.${left}`);
    } else {
      say("detail", `How busy each slice of time was, of ${count} rows. Single rows are here for the ranges under ` +
        `“Go to”; all of them after nsysprof export --perfetto.${left}`);
    }
  }

  let waiting = false;
  chart.on("datazoom", () => {
    const { startValue, endValue } = chart.getOption().dataZoom[0];
    view = [Math.max(0, startValue), Math.min(span, endValue)];
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; refresh(); sum(); });
  });

  function show(start, end) {
    const width = Math.min(span, Math.max(end - start, LEAST_NS));
    const low = Math.max(0, Math.min(start, span - width));
    chart.dispatchAction({ type: "dataZoom", dataZoomId: "inside", startValue: low, endValue: low + width });
  }
  function scale(factor) {
    const middle = (view[0] + view[1]) / 2, half = ((view[1] - view[0]) * factor) / 2;
    show(middle - half, middle + half);
  }
  function move(share) {
    const by = (view[1] - view[0]) * share;
    show(view[0] + by, view[1] + by);
  }

  // Telling

  const whenOf = (item) => `at ${duration(Math.round(item.start))}, ${lanes[item.lane].label}`;
  /** What else is known of a row of work: its size, how quick it was copied, its grid, and how long it waited after its call began. */
  function factsOf(item) {
    if (item.row < 0 || item.rows > 1 || lanes[item.lane].kind !== "work") return [];
    const { bytes: size, memory: host, grid, call } = rows.factsOf(rows.rowOf(item)), told = [];
    const rate = size / (item.end - item.start);
    if (size) told.push(`${memory(size)}${rate ? `, ${rate.toPrecision(3)} GB/s` : ""}${host ? `, ${host} memory` : ""}`);
    if (grid) told.push(grid);
    if (call >= 0) {
      const begun = rows.item(call);
      told.push(`begins ${duration(Math.round(Math.max(0, item.start - begun.start)))} after its call, ${plainCall(data.names[begun.name])}, began`);
    }
    return told;
  }
  function tell(item) {
    const lane = lanes[item.lane];
    if (item.row < 0 && data.ofRanks) {
      say("told", `${lane.label}: ${categories[item.leading]} ${Math.round(100 * item.share)} % of ` +
        `${duration(Math.round(item.end - item.start))} at ${duration(Math.round(item.start))}`);
    } else if (item.row < 0) {
      const of = lane.kind === "work" || lane.kind === "idle" ? `, most of it ${categories[item.leading]}` : "";
      say("told", `${Math.round(100 * item.share)} % busy for ${duration(Math.round(item.end - item.start))} ${whenOf(item)}${of}`);
    } else if (item.rows > 1) {
      say("told", `${item.rows} rows within ${duration(item.end - item.start)} ${whenOf(item)}; zoom in to tell them apart. ` +
        `The longest: ${data.names[item.name]}`);
    } else {
      say("told", `${data.names[item.name]}: ${duration(item.end - item.start)} ${[whenOf(item), ...factsOf(item)].join("; ")}`);
    }
    point(item.row < 0 || item.rows > 1 ? null : item);
    const place = item.row < 0 || item.rows > 1 ? null : tableRowOf(item);
    document.getElementById("to-table").hidden = !place;
    toTable = place;
  }
  /** Draws arrows from a call to its work. */
  function point(item) {
    const row = item && rows.rowOf(item), isCall = item && lanes[item.lane].kind === "api";
    const arrows = (item ? rows.linked(row) : []).map((other) => {
      const [call, work] = isCall ? [item, rows.item(other)] : [rows.item(other), item];
      return [call.start, placeOf.get(call.lane), work.start, placeOf.get(work.lane)];
    }).filter(([, from, , to]) => from !== undefined && to !== undefined);
    chart.setOption({ series: [{ id: "arrows", data: arrows }] });
    element.dataset.arrows = arrows.length;
  }
  /** Lights what a range launched, adopted and captured, and says how much it was. */
  function light(item) {
    const { marks, sums } = rows.workOfRange(rows.rowOf(item));
    lit = marks;
    const part = ([count, ns], verb) => `${verb} ${count.toLocaleString("en")} ${data.words} (${about(ns)})`;
    const caused = sums.caused[0] ? `, ${part(sums.caused, "and by helper threads or in captured graphs")}` : "";
    say("told", `${data.names[item.name]}: ${duration(item.end - item.start)} ${whenOf(item)}; ` +
      `${part(sums.launched, "launched")}${caused}. The rest is pale; Escape ends that.`);
    refresh();
  }
  /** Lights a collective on all ranks, and says which came first and which last. */
  function lightCollective(item) {
    const found = [];
    lit = new Uint8Array(rows.start.length);
    for (let row = 0; row < rows.start.length; row++) if (rows.name[row] === item.name) { lit[row] = 1; found.push(row); }
    found.sort((one, other) => rows.start[one] - rows.start[other]);
    const of = (row) => lanes[rows.item(row).lane].label.match(/^rank \d+/)[0], [first, last] = [found[0], found.at(-1)];
    const apart = duration(Math.round(rows.start[last] - rows.start[first]));
    say("told", `${data.names[item.name]}: ${duration(item.end - item.start)} ${whenOf(item)}. ` + (found.length > 1
      ? `${of(first)} came first and ${of(last)} last, ${apart} later, of ${found.length} ranks. ` : "") +
      "The rest is pale; Escape ends that.");
    refresh();
  }
  function unlight() {
    if (lit) { lit = null; refresh(); }
  }
  // The same text at the pointer
  const tip = document.getElementById("tip");
  function showTip(at) {
    const item = items[at.dataIndex], frame = tip.parentElement, { offsetX: x, offsetY: y } = at.event;
    const name = item.row < 0 ? "" : item.rows > 1 ? `${item.rows} rows, the longest: ${data.names[item.name]}` : data.names[item.name];
    const length = item.row < 0 ? `${Math.round(100 * item.share)} % busy` : duration(item.end - item.start);
    tip.textContent = [name, `${length} ${whenOf(item)}`, ...factsOf(item)].filter(Boolean).join("\n");
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min(x + 14, frame.clientWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + 18}px`;
  }
  chart.on("mouseover", { seriesId: "rows" }, (at) => tell(items[at.dataIndex]));
  chart.on("mousemove", { seriesId: "rows" }, showTip);
  chart.on("mouseout", { seriesId: "rows" }, () => { point(null); tip.hidden = true; });
  chart.on("click", { seriesId: "rows" }, (at) => {
    const item = items[at.dataIndex];
    tell(item);
    if (item.row < 0 || item.rows > 1) unlight();
    else if (data.ofRanks) lightCollective(item);
    else if (lanes[item.lane].kind === "range") light(item);
    else unlight();
  });

  // Sums of what is in view, or of the stretch that was marked with the shift key

  let summing = 0;
  function sum() {
    clearTimeout(summing);
    summing = setTimeout(() => {
      if (!held()) { say("sums", ""); return; }
      const [low, high] = selected ?? view, { busy, byCategory } = rows.sums(low, high);
      const share = busy === null || data.ofRanks ? "" : `, the ${data.words === "operators" ? "CPU" : "GPU"} busy for ${(100 * busy / (high - low)).toPrecision(3)} % (${about(busy)})`;
      const parts = byCategory.map(([category, [ns, count]]) => `${category} ${about(ns)} in ${count.toLocaleString("en")}`);
      say("sums", `${selected ? "Marked" : "In view"}: ${about(high - low)}${share}${parts.length ? ": " : ""}${parts.join(", ")}.`);
    }, 150);
  }
  function mark(stretch) {
    selected = stretch;
    chart.setOption({ series: [{ id: "selection", data: stretch ? [stretch] : [] }] });
    sum();
  }
  let markedFrom = null;
  const timeAt = (event) => {
    const x = event.clientX - element.getBoundingClientRect().left;
    return Math.max(0, Math.min(span, chart.convertFromPixel({ xAxisIndex: 0 }, x)));
  };
  element.addEventListener("pointerdown", (event) => {
    if (!event.shiftKey) return;
    event.stopPropagation();
    markedFrom = timeAt(event);
    chart.setOption({ dataZoom: [{ id: "inside", disabled: true }] });
  }, true);
  addEventListener("pointermove", (event) => {
    if (markedFrom !== null) mark([Math.min(markedFrom, timeAt(event)), Math.max(markedFrom, timeAt(event))]);
  });
  addEventListener("pointerup", () => {
    if (markedFrom === null) return;
    markedFrom = null;
    chart.setOption({ dataZoom: [{ id: "inside", disabled: false }] });
  });

  // Tables: from a row to its place here, and back

  const tables = (data.ofRanks ? [] : ["ranges-rows", "top-kernels-rows", "top-operators-rows", "api-calls-rows"])
    .map((id) => document.getElementById(id)).filter(Boolean);
  const textOf = (row) => {
    const cell = row.cells[0], whole = cell.querySelector("details p");
    const shown = (cell.querySelector("summary") ?? cell).firstChild?.textContent.trim() ?? "";
    return { shown, whole: whole ? whole.textContent : shown };
  };
  const plainCall = (name) => name.replace(/_v\d{4}$/, "");
  const tableRows = new Map(); // by the text of the first cell and by the whole name
  for (const table of tables) {
    for (const row of table.tBodies[0].rows) {
      const { shown, whole } = textOf(row);
      for (const key of [shown, whole]) if (!tableRows.has(`${table.id} ${key}`)) tableRows.set(`${table.id} ${key}`, row);
      const button = document.createElement("button");
      button.type = "button";
      button.className = "to-timeline";
      button.textContent = "\u2197";
      button.title = "Show in the timeline";
      button.setAttribute("aria-label", `Show ${shown} in the timeline`);
      button.addEventListener("click", () => showRow(table.id, shown, whole));
      row.cells[0].append(" ", button);
    }
  }
  let toTable = null;
  const families = new Map(data.places.flatMap(([family, names]) => names.map((name) => [name, family])));
  function tableRowOf(item) {
    const { kind } = lanes[item.lane], name = data.names[item.name];
    const key = kind === "range" ? families.get(item.name) ?? name : kind === "api" ? plainCall(name) : name;
    const id = kind === "range" ? ["ranges-rows"] : kind === "api" ? ["api-calls-rows"] : ["top-kernels-rows", "top-operators-rows"];
    return id.map((each) => tableRows.get(`${each} ${key}`)).find(Boolean) ?? null;
  }
  document.getElementById("to-table").addEventListener("click", () => {
    if (!toTable) return;
    toTable.hidden = false;
    toTable.classList.add("chosen");
    toTable.querySelector(".to-timeline").focus({ preventScroll: true });
    toTable.scrollIntoView({ block: "center" });
  });
  function showRow(id, shown, whole) {
    for (const row of document.querySelectorAll("tr.chosen")) row.classList.remove("chosen");
    element.scrollIntoView({ block: "center" });
    element.focus({ preventScroll: true });
    const place = id === "ranges-rows" ? data.places.findIndex(([family]) => family === shown || family === whole) : -1;
    if (place >= 0) {
      places.value = place;
      goToPlace();
      return;
    }
    const wanted = whole.slice(0, 300);
    matches = Uint8Array.from(data.names, (name) => name === whole || plainCall(name) === whole || (whole.length > 300 && name.startsWith(wanted)));
    field.value = shown;
    hit = -1;
    tellMatches();
    refresh();
    go(1);
  }

  // Search: every row of the trace counts

  const idleNames = new Set(lanes.filter((lane) => lane.kind === "idle").flatMap((lane) => [...new Set(lane.name)]));
  let hit = -1;
  function tellMatches() {
    const total = matches ? data.nameCounts.reduce((sum, count, name) => sum + (matches[name] ? count : 0), 0) : 0;
    const here = data.whole || !total ? "" : "; the arrows go through those whose rows are here";
    say("found", matches ? `${total.toLocaleString("en")} found${here}` : "");
  }
  function search(text) {
    const wanted = text.trim().toLowerCase();
    hit = -1;
    // Idle time is found where it is asked for.
    const counts = (at) => wanted.startsWith("idle") || !idleNames.has(at);
    matches = wanted ? Uint8Array.from(data.names, (name, at) => counts(at) && (name.toLowerCase().includes(wanted) || data.shortNames[at].toLowerCase().includes(wanted))) : null;
    tellMatches();
    refresh();
  }
  function go(by) {
    if (!matches) return;
    // The first hit is the one nearest to what is in view.
    const near = hit < 0 ? rows.nearest(matches, view[0]) : -1;
    const found = near >= 0 ? { ...rows.step(matches, near, by), row: near } : rows.step(matches, hit, by);
    if (!found || found.row < 0) return;
    if (near >= 0) found.rank = rows.rankOf(matches, near);
    hit = found.row;
    const item = rows.item(hit), length = item.end - item.start;
    const width = Math.min(view[1] - view[0], Math.max(length * 30, 2000)), middle = (item.start + item.end) / 2;
    if (length > width) show(item.start, item.end); else show(middle - width / 2, middle + width / 2);
    say("found", `${(found.rank + 1).toLocaleString("en")} of ${found.count.toLocaleString("en")}`);
    tell(item);
  }

  // Instances of a range

  const places = document.getElementById("places");
  let instances = [], instance = -1;
  function goToPlace() {
    if (places.value === "") return;
    instances = rows.instances(data.places[places.value][1]);
    // Where steps are known, the first look is at one that is usual: the first instance in the stretch that is shown.
    const [low, high] = data.opensAt, typical = instances.findIndex((row) => rows.start[row] >= low && rows.start[row] < high);
    showInstance(Math.max(0, typical));
  }
  function showInstance(number) {
    if (!instances.length) { say("instance", "not in the stretches that are here"); return; }
    instance = (number + instances.length) % instances.length;
    const row = instances[instance], item = rows.item(row);
    const margin = data.whole ? (item.end - item.start) * 0.03 : 0;
    const within = data.windows.find(([low, high]) => low <= item.start && item.start < high) ?? [0, span];
    show(item.start - margin, Math.min(item.end, within[1]) + margin);
    if (data.ofRanks) lightCollective(item);
    say("instance", `${(instance + 1).toLocaleString("en")} of ${instances.length.toLocaleString("en")}: ` +
      `${data.names[item.name]}, ${duration(item.end - item.start)}`);
  }

  // Controls

  const actions = {
    in: () => scale(0.5), out: () => scale(2), left: () => move(-0.3), right: () => move(0.3), all: () => show(0, span),
    next: () => go(1), previous: () => go(-1),
    taller: () => grow(1.4), lower: () => grow(1 / 1.4), full: () => fill(!isFull()),
    later: () => showInstance(instance + 1), earlier: () => showInstance(instance - 1),
  };
  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => actions[button.dataset.do]());
  }
  const keys = {
    "]": "later", "[": "earlier", "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Home: "all",
    w: "in", s: "out", a: "left", d: "right", f: "full",
  };
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { unlight(); mark(null); fill(false); return; }
    if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[keys[event.key]]();
  });
  // Where the page is only scrolled past, the wheel is the page's.
  const wheel = (zooms) => chart.setOption({ dataZoom: [{ id: "inside", zoomOnMouseWheel: zooms }] });
  element.addEventListener("focus", () => wheel(true));
  element.addEventListener("blur", () => wheel("ctrl"));
  const field = document.getElementById("search");
  field.addEventListener("input", () => search(field.value));
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") go(event.shiftKey ? -1 : 1); });
  data.places.forEach(([text], at) => places.add(new Option(text, at)));
  places.closest("label").hidden = data.places.length === 0;
  places.addEventListener("change", goToPlace);
  for (const bar of document.querySelectorAll(".bars [data-span]")) {
    bar.addEventListener("click", () => {
      const [low, high] = bar.dataset.span.split(" ").map((ns) => Number(BigInt(ns) - BigInt(data.originNs)));
      element.scrollIntoView({ block: "center" });
      show(low, high);
    });
  }

  // Heights, the whole screen, and which lanes are shown

  function lay() {
    arrange();
    chart.resize({ width: element.clientWidth, height: heightNow() });
    chart.setOption(axes());
    refresh();
  }
  function grow(factor) {
    laneHeight = Math.round(Math.max(LEAST_LANE, Math.min(MOST_LANE, laneHeight * factor)));
    lay();
  }
  const part = document.getElementById("timeline-part"), fullButton = document.querySelector('[data-do="full"]');
  const isFull = () => part.classList.contains("whole");
  function fill(whole) {
    if (whole === isFull()) return;
    part.classList.toggle("whole", whole);
    fullButton.setAttribute("aria-pressed", whole);
    const room = innerHeight - part.querySelectorAll(".controls")[0].offsetHeight - MEMORY - 260;
    laneHeight = whole ? Math.max(LEAST_LANE, Math.min(MOST_LANE, Math.floor(room / shown.length))) : LEAST_LANE;
    lay();
    element.focus({ preventScroll: true });
  }
  part.addEventListener("keydown", (event) => { if (event.key === "Escape") fill(false); });
  const list = document.getElementById("lanes");
  for (const group of groups) {
    const entry = document.createElement("li"), told = group.label;
    const box = (word, isOn, change) => {
      const label = document.createElement("label"), input = document.createElement("input");
      input.type = "checkbox";
      input.checked = isOn;
      input.setAttribute("aria-label", `${word}: ${told}`);
      input.addEventListener("change", () => { change(input.checked); lay(); });
      label.append(input, ` ${word}`);
      entry.append(label);
      return input;
    };
    const title = document.createElement("span");
    title.textContent = told;
    entry.append(title);
    box("show", true, (on) => { group.hidden = !on; });
    box("pin", false, (on) => { group.pinned = on; });
    if (group.lanes.length > 1) group.box = box("fold", false, (on) => { group.folded = on; });
    list.append(entry);
  }
  chart.on("click", { componentType: "yAxis" }, (at) => {
    const group = groups.find((each) => each.lanes.includes(shown[at.dataIndex]));
    if (!group?.box) return;
    group.folded = !group.folded;
    group.box.checked = group.folded;
    lay();
  });

  const legend = document.getElementById("legend");
  const seen = new Set(data.nameCategories.filter((_, at) => data.nameCounts[at] || data.ofRanks));
  for (const category of categories.filter((name) => seen.has(name))) {
    const entry = document.createElement("li"), box = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const fill = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, value] of [["width", "100%"], ["height", "100%"], ["fill", data.colors[category]]]) {
      fill.setAttribute(name, value);
    }
    box.append(fill);
    entry.append(box, category);
    legend.append(entry);
  }

  chart.setOption(option());
  refresh();
  addEventListener("theme", () => { chart.setOption({ ...axes(), dataZoom: option().dataZoom }); refresh(); });
  new ResizeObserver(() => {
    chart.resize({ width: element.clientWidth });
    chart.setOption(axes());
    refresh();
  }).observe(element);
  show(...data.opensAt);
})();
