"use strict";
// The timeline: which rectangles are seen at this zoom, and the controls. Drawing, zooming and moving are ECharts'.
(() => {
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const element = document.getElementById("chart");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const LANE = 20, MEMORY = data.memory.length ? 84 : 0, LEAST_NS = 20;
  const span = data.spanNs;
  const categories = Object.keys(data.colors);

  const lanes = data.lanes.map((lane) => {
    const start = new Float64Array(lane.start.length), end = new Float64Array(lane.start.length);
    let at = 0;
    lane.start.forEach((since, row) => {
      start[row] = at += since;
      end[row] = at + lane.length[row];
    });
    const slices = lane.busy ? { busy: bytes(lane.busy), leading: bytes(lane.leading) } : {};
    return { label: lane.label, kind: lane.kind, level: lane.level, name: lane.name, start, end, ...slices };
  });

  // Texts

  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
  const unitOf = (ns) => UNITS.find(([size]) => ns >= size) ?? UNITS[3];
  const duration = (ns) => {
    const [size, unit] = unitOf(Math.abs(ns));
    return `${size === 1 ? ns : (ns / size).toPrecision(4)} ${unit}`;
  };
  const memory = (size) => {
    const power = size >= 2 ** 30 ? 3 : size >= 2 ** 20 ? 2 : size >= 1024 ? 1 : 0;
    return `${+(size / 1024 ** power).toPrecision(4)} ${["B", "KiB", "MiB", "GiB"][power]}`;
  };
  const say = (id, text) => { document.getElementById(id).textContent = text; };

  // What is seen

  let view = [0, span];
  let items = [];
  let matches = null; // numbers of names, while something is searched
  const held = () => data.whole || data.windows.some(([low, high]) => low <= view[0] && view[1] <= high);

  const firstAfter = (values, wanted) => {
    let low = 0, high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < wanted) low = middle + 1; else high = middle;
    }
    return low;
  };

  /** The rows of a lane in view; those thinner than a pixel together, as tall as the share of it that is busy. */
  function rowsInView(lane, number, pixel) {
    const from = Math.max(0, firstAfter(lane.start, view[0]) - 64), to = firstAfter(lane.start, view[1]);
    const found = [];
    let heap = null;
    const put = () => { if (heap) found.push(heap); heap = null; };
    for (let row = from; row < to; row++) {
      const start = lane.start[row], end = lane.end[row];
      if (end < view[0]) continue;
      if (end - start >= pixel || matches?.has(lane.name[row])) {
        put();
        found.push({ lane: number, start, end, row, rows: 1, share: 1, name: lane.name[row] });
      } else if (heap && end - heap.start <= 2 * pixel) {
        heap.end = Math.max(heap.end, end);
        heap.busy += end - start;
        heap.rows += 1;
        heap.share = Math.max(0.2, Math.min(1, heap.busy / (heap.end - heap.start || 1)));
      } else {
        put();
        heap = { lane: number, start, end, row, rows: 1, busy: end - start, share: 1, name: lane.name[row] };
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

  const chart = echarts.init(element, null, { height: lanes.length * LANE + MEMORY + 72 });
  let palette = new Map();

  function draw(params, api) {
    const item = items[params.dataIndex];
    const [left, middle] = api.coord([item.start, item.lane]), [right] = api.coord([item.end, item.lane]);
    const area = params.coordSys, x = Math.max(left, area.x);
    const width = Math.max(Math.min(right, area.x + area.width) - x, 1);
    if (x >= area.x + area.width || right < area.x) return null;
    const height = (LANE - 4) * Math.max(item.share, 0.08), color = palette.get(item);
    const shape = { x, y: middle + (LANE - 4) / 2 - height, width, height };
    const faded = matches && !(item.row >= 0 && matches.has(item.name));
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
    const left = plotLeft(), top = 6, room = lanes.length * LANE;
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
      type: "category", inverse: true, data: lanes.map(labelOf), gridIndex: 0,
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
    const pick = held() ? rowsInView : slicesInView;
    items = lanes.flatMap((lane, number) => pick(lane, number, pixel));
    palette = new Map(items.map((item) => [item, colorOf(item)]));
    chart.setOption({ series: [{ id: "rows", data: items.map((item) => [item.lane, item.start, item.end]) }] });
    element.dataset.items = items.length;
    element.dataset.view = view.join(" ");
    const rows = data.rows.toLocaleString("en");
    const left = data.lanesLeftOut ? ` ${data.lanesLeftOut} less busy lanes are left out.` : "";
    if (data.whole) {
      say("detail", `All ${rows} rows are here.${left}`);
    } else if (held()) {
      say("detail", `Every row of this stretch.${left}`);
    } else {
      say("detail", `How busy each slice of time was, of ${rows} rows. Single rows are here for the ranges under ` +
        `“Go to”; all of them after nsysprof export --perfetto.${left}`);
    }
  }

  let waiting = false;
  chart.on("datazoom", () => {
    const { startValue, endValue } = chart.getOption().dataZoom[0];
    view = [Math.max(0, startValue), Math.min(span, endValue)];
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; refresh(); });
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

  function tell(item) {
    const lane = lanes[item.lane], when = `at ${duration(Math.round(item.start))}, ${lane.label}`;
    if (item.row < 0) {
      const of = lane.kind === "work" ? `, most of it ${categories[item.leading]}` : "";
      say("told", `${Math.round(100 * item.share)} % busy for ${duration(Math.round(item.end - item.start))} ${when}${of}`);
    } else if (item.rows > 1) {
      say("told", `${item.rows} rows within ${duration(item.end - item.start)} ${when}; zoom in to tell them apart. ` +
        `The first: ${data.names[item.name]}`);
    } else {
      say("told", `${data.names[item.name]}: ${duration(item.end - item.start)} ${when}`);
    }
  }
  for (const event of ["mouseover", "click"]) chart.on(event, { seriesId: "rows" }, (at) => tell(items[at.dataIndex]));

  // Search

  let hits = [], hit = -1;
  function search(text) {
    const wanted = text.trim().toLowerCase();
    hits = [];
    hit = -1;
    matches = wanted ? new Set(data.names.flatMap((name, at) => (name.toLowerCase().includes(wanted) ? [at] : []))) : null;
    if (matches) {
      lanes.forEach((lane, number) => lane.name.forEach((name, row) => {
        if (matches.has(name)) hits.push({ lane: number, start: lane.start[row], end: lane.end[row], row, rows: 1, name });
      }));
      hits.sort((one, other) => one.start - other.start);
    }
    const here = data.whole ? "" : " in the stretches that are here";
    say("found", matches ? `${hits.length.toLocaleString("en")} found${here}` : "");
    refresh();
  }
  function go(by) {
    if (!hits.length) return;
    hit = hit < 0 ? (by > 0 ? 0 : hits.length - 1) : (hit + by + hits.length) % hits.length;
    const found = hits[hit];
    const width = Math.min(view[1] - view[0], Math.max((found.end - found.start) * 30, 2000));
    const middle = (found.start + found.end) / 2;
    if (found.end - found.start > width) show(found.start, found.end); else show(middle - width / 2, middle + width / 2);
    say("found", `${hit + 1} of ${hits.length.toLocaleString("en")}`);
    tell(found);
  }

  // Controls

  const actions = {
    in: () => scale(0.5), out: () => scale(2), left: () => move(-0.3), right: () => move(0.3), all: () => show(0, span),
    next: () => go(1), previous: () => go(-1),
  };
  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => actions[button.dataset.do]());
  }
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Home: "all" };
  element.addEventListener("keydown", (event) => {
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
  const places = document.getElementById("places");
  for (const [text, start, end] of data.places) places.add(new Option(text, `${start} ${end}`));
  places.closest("label").hidden = data.places.length === 0;
  places.addEventListener("change", () => {
    if (!places.value) return;
    const [start, end] = places.value.split(" ").map(Number);
    // Rows are there for the stretch itself, and a large trace has none beside it.
    const margin = data.whole ? (end - start) * 0.03 : 0;
    const within = data.windows.find(([low, high]) => low <= start && start < high) ?? [0, span];
    show(start - margin, Math.min(end, within[1]) + margin);
  });

  const legend = document.getElementById("legend");
  const seen = new Set(data.nameCategories);
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
  show(0, span);
})();
