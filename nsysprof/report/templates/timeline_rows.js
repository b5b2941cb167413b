"use strict";
// The rows of the timeline as typed arrays, and questions about them. Nothing in this file draws.
const timelineRows = async (data) => {
  // A column has the lowest byte of every value first, then the next ones.
  const planesOf = async (text) => {
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
  const unpack = async (text, Numbers) => {
    const planes = await planesOf(text), size = Numbers.BYTES_PER_ELEMENT, count = planes.length / size;
    const bytes = new Uint8Array(planes.length);
    for (let from = 0, plane = 0; plane < size; plane++) for (let at = plane; at < bytes.length; at += size) bytes[at] = planes[from++];
    return new Numbers(bytes.buffer, 0, count);
  };
  /** Whole numbers of 64 bits, which stay exact up to 2^53. */
  const unpackWhole = async (text) => {
    const planes = await planesOf(text), numbers = new Float64Array(planes.length / 8);
    for (let from = 0, scale = 1; from < planes.length; scale *= 256) {
      for (let at = 0; at < numbers.length; at++) numbers[at] += scale * planes[from++];
    }
    return numbers;
  };
  const summed = (numbers) => { for (let at = 1; at < numbers.length; at++) numbers[at] += numbers[at - 1]; return numbers; };
  const { columns } = data;
  const [start, end, name, call, cause] = await Promise.all([
    unpackWhole(columns.start), unpackWhole(columns.length), unpack(columns.name, Uint32Array),
    unpack(columns.call, Int32Array).then(summed), unpack(columns.cause, Int32Array).then(summed),
  ]);
  const sizes = columns.bytes ? await unpackWhole(columns.bytes) : null;
  const hosts = columns.memory ? await unpack(columns.memory, Uint8Array) : null;
  const gridOf = columns.grid ? await unpack(columns.grid, Uint16Array) : null;
  const laneOf = new Uint16Array(start.length);
  let first = 0;
  const lanes = data.lanes.map((lane, number) => {
    const last = first + lane.rows;
    laneOf.fill(number, first, last);
    const mine = { ...lane, first, start: start.subarray(first, last), end: end.subarray(first, last) };
    mine.name = name.subarray(first, last);
    summed(mine.start);
    for (let row = 0; row < lane.rows; row++) mine.end[row] += mine.start[row];
    first = last;
    return mine;
  });

  /** How many rows of ascending values are below the wanted one. */
  const firstAfter = (values, wanted) => {
    let low = 0, high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < wanted) low = middle + 1; else high = middle;
    }
    return low;
  };
  const item = (row) => ({
    lane: laneOf[row], start: start[row], end: end[row], row: row - lanes[laneOf[row]].first, rows: 1, share: 1, name: name[row],
  });
  /** What is known of a row of work beside its times: its size, the memory on the host's side, its grid and its call. */
  const factsOf = (row) => ({
    bytes: sizes ? sizes[row] : 0, memory: ["", "pageable", "pinned"][hosts ? hosts[row] : 0],
    grid: gridOf ? data.grids[gridOf[row]] : "", call: call[row] ? call[row] - 1 : -1,
  });
  const rowOf = (each) => lanes[each.lane].first + each.row;

  // Links between calls, work and ranges; 0 is none.

  let issued = null; // the rows of work of each call, made when first asked for
  function workOf(row) {
    if (!issued) {
      issued = new Map();
      call.forEach((number, work) => { if (number) { if (issued.has(number)) issued.get(number).push(work); else issued.set(number, [work]); } });
    }
    return issued.get(row + 1) ?? [];
  }
  /** The rows at the other ends of arrows: the call of some work, or the work of a call. */
  const linked = (row) => (call[row] ? [call[row] - 1] : workOf(row).slice(0, 200));

  const isThreadOf = (range, other) =>
    range.owner === other.owner || (range.owner === range.process && range.process === other.process);
  /** What a range launched, and what it adopted or captured, as marks of rows and as sums. */
  function workOfRange(row) {
    const range = lanes[laneOf[row]], marks = new Uint8Array(start.length);
    const sums = { launched: [0, 0], caused: [0, 0] };
    marks[row] = 1;
    const inside = (other) =>
      start[other] >= start[row] && start[other] <= end[row] && isThreadOf(range, lanes[laneOf[other]]);
    for (const lane of lanes) {
      if (lane.kind !== "work") continue;
      for (let work = lane.first; work < lane.first + lane.rows; work++) {
        const kind = call[work] && inside(call[work] - 1) ? "launched" : cause[work] && inside(cause[work] - 1) ? "caused" : "";
        if (!kind) continue;
        marks[work] = 1;
        if (kind === "launched") marks[call[work] - 1] = 1;
        sums[kind][0] += 1;
        sums[kind][1] += end[work] - start[work];
      }
    }
    return { marks, sums };
  }

  // Searching: every row that is here, in order of start

  const isBefore = (one, other) => start[one] < start[other] || (start[one] === start[other] && one < other);
  /** How many rows of these names come before a row. */
  function rankOf(wanted, found) {
    let rank = 0;
    for (let row = 0; row < start.length; row++) if (wanted[name[row]] && isBefore(row, found)) rank += 1;
    return rank;
  }
  /** The next (by 1) or previous (by -1) row whose name is wanted, and its place among them; null without one. */
  function step(wanted, from, by) {
    const isAhead = (one, other) => (by > 0 ? isBefore(one, other) : isBefore(other, one));
    let next = -1, edge = -1, count = 0;
    for (let row = 0; row < start.length; row++) {
      if (!wanted[name[row]]) continue;
      count += 1;
      if ((from < 0 || isAhead(from, row)) && (next < 0 || isAhead(row, next))) next = row;
      if (edge < 0 || isAhead(row, edge)) edge = row;
    }
    if (!count) return null;
    const found = next < 0 ? edge : next; // after the last one comes the first
    return { row: found, rank: rankOf(wanted, found), count };
  }
  /** The first row of these names that starts at or after a time, or the last one before it; -1 without one. */
  function nearest(wanted, time) {
    let after = -1, before = -1;
    for (let row = 0; row < start.length; row++) {
      if (!wanted[name[row]]) continue;
      if (start[row] >= time) { if (after < 0 || isBefore(row, after)) after = row; }
      else if (before < 0 || isBefore(before, row)) before = row;
    }
    return after < 0 ? before : after;
  }

  // Sums over a stretch of time

  const MOST_MERGED = 300_000;
  /** The busy time of all streams together (null where there are too many rows), and time and number by category. */
  function sums(low, high) {
    const byCategory = new Map(), pieces = [];
    for (const lane of lanes) {
      if (lane.kind !== "work") continue;
      for (let row = Math.max(0, firstAfter(lane.start, low) - 64); row < lane.rows && lane.start[row] < high; row++) {
        if (lane.end[row] <= low) continue;
        const from = Math.max(low, lane.start[row]), until = Math.min(high, lane.end[row]);
        const category = data.nameCategories[lane.name[row]];
        const sum = byCategory.get(category) ?? [0, 0];
        sum[0] += until - from;
        sum[1] += 1;
        byCategory.set(category, sum);
        if (pieces.length <= MOST_MERGED) pieces.push([from, until]);
      }
    }
    pieces.sort((one, other) => one[0] - other[0]);
    let busy = 0, reached = low;
    for (const [from, until] of pieces) {
      if (until > reached) { busy += until - Math.max(from, reached); reached = until; }
    }
    return { busy: pieces.length > MOST_MERGED ? null : busy, byCategory: [...byCategory].sort((a, b) => b[1][0] - a[1][0]) };
  }

  /** The instances of ranges with these names, in order of start. */
  function instances(names) {
    const wanted = new Set(names), found = [];
    for (const lane of lanes) {
      if (lane.kind !== "range" && !data.ofRanks) continue;
      for (let row = 0; row < lane.rows; row++) if (wanted.has(lane.name[row])) found.push(lane.first + row);
    }
    return found.sort((one, other) => start[one] - start[other]);
  }

  return { lanes, firstAfter, item, rowOf, factsOf, linked, workOfRange, step, rankOf, nearest, sums, instances, start, end, name };
};
