// The web page of a Mobula head: read-only views of the cluster, from the documents of /api/v1.
// All text of the cluster reaches the document through textContent, never as markup.

// ---- elements -----------------------------------------------------------------------------------

const $ = (id) => document.getElementById(id);

// Characters that change the direction of the text around them or have no width, controls that are
// no blanks, and parts of broken characters. A name with them could be shown as another name.
const invisible = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\p{Surrogate}/gu;
// The text with escapes in place of these characters.
const visible = (text) => (typeof text === "string" ? text.replace(invisible, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`) : text);

// Creates an element. `props` are attributes; `text` is its text, and functions are listeners.
function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = visible(value);
    else if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : name === "title" ? visible(value) : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined).map(visible));
  return node;
}

const badge = (text, kind) => el("span", { class: `badge ${kind ?? tone(text)}`, text });

// `parts` are [fraction, tone] from the left.
function bar(parts, label) {
  const track = el("span", { class: "track" });
  for (const [fraction, kind] of parts) {
    const fill = el("span", { class: `fill ${kind ?? ""}` });
    fill.style.width = `${Math.max(0, Math.min(1, fraction || 0)) * 100}%`;
    track.append(fill);
  }
  return el("span", { class: "bar" }, track, label ? el("span", { class: "label", text: label }) : null);
}

function panel(title, note, ...body) {
  return el("section", { class: "panel" },
    el("div", { class: "title" }, el("h2", { text: title }), note ? el("span", { class: "note", text: note }) : null),
    ...body);
}

// ---- texts --------------------------------------------------------------------------------------

const tones = {
  ok: /^(ALIVE|RUNNING|READY|CREATED|SUCCEEDED|FINISHED|TERMINATED|RESIDENT)$/,
  bad: /^(DEAD|FAILED|ERROR|STOPPED|INFEASIBLE|UNREACHABLE|\(Infeasible\))/,
  warn: /^(DRAINING|RESTARTING|SUSPECT|WARNING|PREEMPTING|RECALLED|STOPPING|RECOVERING|RESCHEDULING|STARTING|BLOCKED|PAUSED|INTERRUPTED)/,
  wait: /^(PENDING|SUBMITTED|\()/,
};
function tone(state) {
  for (const [kind, states] of Object.entries(tones)) if (states.test(state)) return kind;
  return "";
}
// Order of states in lists: failures first, then work that waits, then the rest.
const rank = (state) => ({ bad: 0, warn: 1, wait: 2 })[tone(state)] ?? 3;

const brief = (id) => (id ? String(id).slice(-8) : "");
const count = (value) => Number(value ?? 0).toLocaleString("en-US", { maximumFractionDigits: 2 });
const percent = (fraction) => `${Math.round(100 * (fraction || 0))} %`;
function bytes(value) {
  if (value === null || value === undefined) return "";
  let amount = Number(value);
  let unit = 0;
  for (; amount >= 1024 && unit < 5; unit++) amount /= 1024;
  return `${unit === 0 ? amount : amount.toFixed(amount < 10 ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}
function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "";
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}
const clock = (time) => (time ? new Date(time).toLocaleTimeString("en-GB") : "");
const day = (time) => (time ? new Date(time).toLocaleString("sv-SE") : "");
const amount = (name, value) => (/memory/.test(name) && value > 4096 ? bytes(value) : count(value));
const amounts = (set) => Object.entries(set ?? {}).map(([name, value]) => `${name} ${amount(name, value)}`).join(", ");
const sum = (list) => list.reduce((total, value) => total + (value || 0), 0);
const total = (counts) => sum(Object.values(counts ?? {}));

// ---- the head -----------------------------------------------------------------------------------

const token_key = "mobula.token";
let token = sessionStorage.getItem(token_key) ?? "";

class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Fetches a document of /api/v1. The head answers within 10 s.
async function api(path) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await fetch(`/api/v1/${path}`, {
    headers, cache: "no-store", credentials: "omit", redirect: "error",
    signal: AbortSignal.timeout(15_000),
  });
  const text = await response.text();
  let json = null;
  try {
    json = JSON.parse(text);
  } catch {
    throw new HttpError(response.status, "the answer is no JSON document");
  }
  if (!response.ok) throw new HttpError(response.status, json.message ?? response.statusText);
  return json;
}

// A word of a path. Half of a character cannot be encoded.
const in_path = (word) => encodeURIComponent(String(word).replace(/\p{Surrogate}/gu, "\ufffd"));
const with_query = (path, values) => `${path}?${new URLSearchParams(values)}`;

// Documents that views show. `period` in seconds is for those that the head's number of changes does
// not cover, because they come from other processes; the others are fetched after a change.
// Sources with a `limit` are lists of which the head sends the first rows alone, and `find` is their
// filter: a large cluster has 1,000 nodes and 10,000 actors.
const sources = {
  status: { path: "status", limit: 200 },
  nodes: { path: "nodes", limit: 50, period: 2 },
  gpus: { path: "gpus", limit: 64, period: 2 },
  jobs: { path: "jobs", limit: 200 },
  actors: { path: "actors", limit: 200 },
  groups: { path: "placement-groups", limit: 200 },
  events: { path: "events?limit=500&severity=INFO" },
  attention: { path: "events?limit=7&severity=WARNING" },
  counts: { path: "task-counts?owners=active", period: 2 },
  transfers: { path: "transfers?limit=300", period: 2 },
  timeline: { path: "timeline", period: 2 },
  logs: { path: "logs", limit: 200, period: 5 },
  experiments: { path: "experiments", period: 2 },
  experiment: { path: "", period: 2 }, // of the open view
};
const documents = {}; // by source: the latest document
let seen = { epoch: 0, number: -1 }; // the head's number of changes

function is_due(name) {
  const source = sources[name];
  const now = performance.now();
  if (source.next > now) return false;
  if (documents[name] === undefined) return true;
  return source.period !== undefined || source.seen !== `${seen.epoch}/${seen.number}`;
}

async function load(name) {
  const source = sources[name];
  const begin = performance.now();
  const version = `${seen.epoch}/${seen.number}`;
  const { limit, find } = source;
  const json = await api(limit ? with_query(source.path, { limit, ...(find ? { find } : {}) }) : source.path);
  if (limit !== source.limit || find !== source.find) return; // the next refresh fetches the part that is wanted now
  const took = performance.now() - begin;
  source.seen = version;
  // A large list is fetched less often: at most a tenth of the time goes into it.
  source.next = performance.now() + Math.max(900, 1000 * (source.period ?? 0) - 100, 10 * took);
  documents[name] = json;
  record(name, json);
}

// ---- history ------------------------------------------------------------------------------------

// Points [time in ms, value] by range and series. The head keeps them, so charts begin before the
// page opens; the page adds the values that it sees to the short range.
const ranges = { "10min": { ms: 10 * 60_000, series: {} }, "6h": { ms: 6 * 3600_000, series: {} } };
let range = "10min";
let recent_epoch = null; // epoch of the head whose last ten minutes were loaded

function note(series, value) {
  const { ms, series: all } = ranges["10min"];
  const points = (all[series] ??= []);
  points.push([Date.now(), value]);
  while (points.length > 2 && points[0][0] < Date.now() - ms) points.shift();
}

async function load_history(name) {
  const json = await api(with_query("history", { range: name }));
  const last = Date.now() - json.age_ms;
  for (const { name: series, values } of json.series) {
    const points = values.map((value, index) => [last - (values.length - 1 - index) * json.interval_ms, value])
      .filter((point) => point[1] !== null);
    // Values that the page noted itself are newer than those of the head, or follow them.
    const noted = (ranges[name].series[series] ?? []).filter((point) => name === "10min" && point[0] > last);
    ranges[name].series[series] = [...points, ...noted];
  }
}

// Loads the history when the page first meets a head, and the long range each ten seconds.
async function load_histories() {
  if (recent_epoch !== seen.epoch) {
    const epoch = seen.epoch;
    await load_history("10min");
    recent_epoch = recent_epoch === null ? seen.epoch : epoch; // the first answer may precede that of the poll
  }
  const long = ranges["6h"];
  if (range === "6h" && !(long.next > performance.now())) {
    long.next = performance.now() + 10_000;
    await load_history("6h");
  }
}

function record(name, json) {
  if (name === "status") {
    note("nodes", total(json.nodes));
    note("jobs", (json.jobs.RUNNING ?? 0) + (json.jobs.PENDING ?? 0));
    note("actors", json.actors.ALIVE ?? 0);
    note("leases", json.leases);
    note("waiting", json.waiting_total.requests);
    for (const [resource, use] of Object.entries(json.resources)) {
      note(`booked ${resource}`, use.total - use.available);
    }
    note("transfers", sum(json.transfers.map((each) => each.bytes)));
  } else if (name === "counts") {
    const states = {};
    for (const each of json.counts) states[each.state] = (states[each.state] ?? 0) + each.count;
    note("running", (states.RUNNING ?? 0) + (states.SUBMITTED_TO_WORKER ?? 0));
    note("failed", states.FAILED ?? 0);
  } else if (name === "nodes" && json.use.nodes > 0) {
    if (json.use.busy_cpus !== null) note("cpu", json.use.busy_cpus);
    note("memory", json.use.memory_used_bytes);
    note("gpu memory", json.use.gpu_used_bytes);
  }
}

// ---- charts -------------------------------------------------------------------------------------

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Sizes the canvas to its box in device pixels. Returns a context in CSS pixels, cleared.
function surface(canvas, height) {
  const width = canvas.clientWidth || canvas.parentElement?.clientWidth || 300;
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const paint = canvas.getContext("2d");
  paint.scale(scale, scale);
  paint.clearRect(0, 0, width, height);
  return { paint, width, height };
}

// Draws the last minutes of a series, filled below. `top` is the value at the upper edge.
function sparkline(canvas, series, top) {
  const points = ranges[range].series[series] ?? [];
  const { paint, width, height } = surface(canvas, 34);
  const now = Date.now();
  const span = Math.max(60_000, Math.min(ranges[range].ms, now - (points[0]?.[0] ?? now)));
  const most = Math.max(top ?? 0, 1e-9, ...points.map((point) => point[1]));
  const x = (time) => width * (1 - (now - time) / span);
  const y = (value) => height - 2 - (height - 5) * (value / most);
  paint.strokeStyle = color("grid");
  paint.beginPath();
  paint.moveTo(0, height - 1.5);
  paint.lineTo(width, height - 1.5);
  paint.stroke();
  canvas.dataset.points = String(points.length);
  if (points.length < 2) return;
  const line = new Path2D();
  line.moveTo(x(points[0][0]), y(points[0][1]));
  for (let i = 1; i < points.length; i++) {
    line.lineTo(x(points[i][0]), y(points[i - 1][1]));
    line.lineTo(x(points[i][0]), y(points[i][1]));
  }
  line.lineTo(width, y(points.at(-1)[1]));
  const area = new Path2D(line);
  area.lineTo(width, height);
  area.lineTo(x(points[0][0]), height);
  paint.globalAlpha = 0.16;
  paint.fillStyle = color("accent");
  paint.fill(area);
  paint.globalAlpha = 1;
  paint.lineWidth = 1.5;
  paint.strokeStyle = color("accent");
  paint.stroke(line);
}

const palette = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#2f9e9e", "#c9a227", "#9d755d", "#e377a8", "#7b6fd0", "#5aa5e8", "#8a9a2f", "#4a6fd6"];
const hues = new Map();
// Names get colors in the order of their first appearance.
function hue(name) {
  if (!hues.has(name)) hues.set(name, palette[hues.size % palette.length]);
  return hues.get(name);
}

let tip = null;
function show_tip(event, text) {
  if (!text) {
    tip?.remove();
    tip = null;
    return;
  }
  if (!tip) document.body.append((tip = el("div", { id: "tip" })));
  tip.textContent = visible(text);
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - box.width - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 16, window.innerHeight - box.height - 8)}px`;
}

// ---- tables -------------------------------------------------------------------------------------

const page_rows = 200;
const max_part_rows = 1000; // that the head sends of a list

// A cell shows the beginning of a long text. Details show the whole.
const shortened = (text) => (typeof text === "string" && text.length > 300 ? `${text.slice(0, 300)}…` : text);

// A table whose rows keep their elements between refreshes, so that focus and clicks survive.
// Columns: {name, get(row) -> value to sort and filter by, cell(row) -> node, cls}. `source` names
// the list of which the head sends a part: the head then applies the filter, and more rows are
// fetched when the table is sorted or shows more.
class Table {
  constructor({ columns, key, open, empty, order, source }) {
    Object.assign(this, { columns, key, open, order, source });
    this.rows = [];
    this.elements = new Map();
    this.limit = page_rows;
    this.filter = "";
    this.sort = null;
    this.body = el("tbody");
    this.heads = columns.map((column, index) =>
      el("th", { class: column.cls, text: column.name, scope: "col", click: () => this.sort_by(index) }));
    this.more = el("div", { class: "more", hidden: true });
    this.none = el("div", { class: "empty", text: empty, "data-testid": "empty", hidden: true });
    this.table = el("table", {}, el("thead", {}, el("tr", {}, this.heads)), this.body);
    this.node = el("div", {}, el("div", { class: "scroll" }, this.table), this.none, this.more);
    const opened = (event) => {
      const row = event.target.closest("tr");
      const item = this.shown?.get(row?.dataset.key);
      if (item && this.open) this.open(item);
    };
    this.body.addEventListener("click", opened);
    this.body.addEventListener("keydown", (event) => event.key === "Enter" && opened(event));
  }

  sort_by(index) {
    this.sort = this.sort?.index === index ? { index, down: !this.sort.down } : { index, down: false };
    if (this.missing > 0) this.want({ limit: max_part_rows });
    this.update(this.rows);
  }

  // Fetches another part of the list.
  want(part) {
    Object.assign(sources[this.source], part, { next: 0, seen: "" });
    kick();
  }

  set_filter(text) {
    this.filter = text;
    // The part is of the last filter, or rows are missing.
    if (this.source && (this.missing > 0 || sources[this.source].find)) this.want({ find: text });
    this.update(this.rows);
  }

  update(rows, part) {
    this.rows = rows;
    // Rows that match, and that the head has not sent.
    if (part) this.missing = Math.max(0, (part.matching ?? 0) - part.items.length);
    const wanted = this.filter.toLowerCase();
    const text = (row) => this.columns.map((column) => column.get(row) ?? "").join(" ").toLowerCase();
    let list = wanted ? rows.filter((row) => text(row).includes(wanted)) : rows.slice();
    if (this.sort) {
      const { index, down } = this.sort;
      const value = (row) => this.columns[index].get(row) ?? "";
      list.sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        const less = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
        return down ? -less : less;
      });
    } else if (this.order) {
      list.sort(this.order);
    }
    this.heads.forEach((head, index) => {
      if (this.sort?.index === index) head.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const left_out = Math.max(0, list.length - this.limit) + (this.missing ?? 0);
    list = list.slice(0, this.limit);
    this.shown = new Map();
    const elements = new Map();
    const nodes = list.map((row) => {
      const key = String(this.key(row));
      const node = this.elements.get(key) ?? el("tr", { "data-key": key, tabindex: this.open ? 0 : undefined });
      this.paint(node, row);
      elements.set(key, node);
      this.shown.set(key, row);
      return node;
    });
    const current = [...this.body.children];
    if (nodes.length !== current.length || nodes.some((node, i) => node !== current[i])) {
      const focused = document.activeElement;
      this.body.replaceChildren(...nodes);
      if (focused?.isConnected && this.body.contains(focused)) focused.focus({ preventScroll: true });
    }
    this.elements = elements;
    this.none.hidden = nodes.length > 0;
    this.table.hidden = nodes.length === 0;
    this.more.hidden = left_out <= 0;
    if (left_out > 0) {
      const at_most = this.source && sources[this.source].limit >= max_part_rows && list.length === rows.length;
      this.more.replaceChildren(`${count(left_out)} more rows. `, at_most ? "Filter the list to find them." : el("button", { type: "button", text: "Show more",
        click: () => {
          this.limit += 5 * page_rows;
          if (this.missing > 0) this.want({ limit: max_part_rows });
          this.update(this.rows);
        } }));
    }
  }

  paint(node, row) {
    const drawn = (node.drawn ??= []);
    this.columns.forEach((column, index) => {
      const value = column.get(row);
      const mark = column.mark ? column.mark(row) : value;
      if (drawn[index] === mark && node.children[index]) return;
      drawn[index] = mark;
      const cell = node.children[index] ?? node.appendChild(el("td", { class: column.cls }));
      if (column.cell) cell.replaceChildren(visible(column.cell(row) ?? ""));
      else cell.textContent = visible(shortened(value ?? ""));
    });
  }
}

const state_column = (get = (row) => row.state) => ({ name: "State", get, cell: (row) => badge(get(row)), cls: "nowrap" });
const id_column = (name, get) => ({ name, get: (row) => get(row) ?? "", cell: (row) => el("span", { class: "mono", text: brief(get(row)), title: get(row) ?? "" }), cls: "nowrap" });
const failures_first = (a, b) => rank(a.state) - rank(b.state);

// ---- details ------------------------------------------------------------------------------------

let chosen = 0; // number of the latest opened details, which ignores late answers of earlier ones

function facts(object) {
  const list = el("dl");
  for (const [name, value] of Object.entries(object)) {
    if (value === null || value === "" || name === "apiVersion" || name === "kind") continue;
    if (Array.isArray(value) && value.length === 0) continue;
    list.append(el("dt", { text: name.replaceAll("_", " ") }), el("dd", {}, fact(name, value)));
  }
  return list;
}

function fact(name, value) {
  if (Array.isArray(value)) {
    if (value.every((each) => typeof each !== "object")) return value.join(", ");
    return el("div", {}, value.slice(0, 50).map((each) => fact(name, each)));
  }
  if (typeof value === "object" && value !== null) {
    return Object.keys(value).length ? facts(value) : "–";
  }
  if (/_bytes$|^bytes$|^(gpu_)?memory$/.test(name) && typeof value === "number" && value > 4096) return bytes(value);
  if (name === "state" || name === "severity") return badge(value);
  if (/_id$/.test(name)) return el("span", { class: "mono", text: value });
  if (/_at$|^time$/.test(name)) return day(value);
  return String(value);
}

function open_drawer(title, ...content) {
  $("drawer").replaceChildren(
    el("div", { class: "title" }, el("h1", { text: title }),
      el("button", { type: "button", text: "Close", title: "Close (Esc)", click: close_drawer })),
    ...content.filter((each) => each !== null));
  $("drawer").hidden = false;
  return ++chosen;
}

function close_drawer() {
  $("drawer").hidden = true;
  ++chosen;
}

function open_item(title, item, { explain, logs, job, whole } = {}) {
  const actions = el("div", { class: "actions" });
  if (logs) actions.append(el("a", { href: `#/logs?${new URLSearchParams({ of: logs })}`, text: "Logs" }));
  if (job) actions.append(el("a", { href: `#/logs?${new URLSearchParams({ job })}`, text: "Output" }));
  const why = el("div", { "data-testid": "explanation" });
  const list = el("div", {}, facts(item));
  const number = open_drawer(title, actions, why, list);
  if (whole) api(whole).then((all) => number === chosen && list.replaceChildren(facts({ ...item, ...all })), () => {}); // the row stays
  if (!explain) return;
  why.replaceChildren(el("p", { class: "hint", text: "Asking why…" }));
  api(`explain/${in_path(explain)}`).then(
    (answer) => number === chosen && why.replaceChildren(...explanation(answer)),
    (error) => number === chosen && why.replaceChildren(el("div", { class: "why", text: error.message })));
}

function explanation(answer) {
  const parts = [el("div", { class: "why", text: answer.reason ?? "" })];
  if (answer.queue) parts.push(el("dl", {}, el("dt", { text: "before it" }), el("dd", { text: answer.queue.text })));
  if (answer.items?.length) {
    parts.push(el("h2", { text: "Nodes" }), el("table", {}, el("tbody", {}, answer.items.slice(0, 100).map((each) =>
      el("tr", {}, el("td", { class: "mono", text: brief(each.node_id), title: each.node_id }), el("td", { text: each.reason }))))));
  }
  if (answer.holders?.length) {
    parts.push(el("h2", { text: "Held by" }), el("table", {}, el("tbody", {}, answer.holders.slice(0, 100).map((each) =>
      el("tr", {}, el("td", { text: `${each.held_by} ${each.name}` }), el("td", { text: amounts(each.resources) }))))));
  }
  parts.push(el("h2", { text: "Request" }));
  return parts;
}

// ---- views --------------------------------------------------------------------------------------

// A view: {title, sources, first, make(params) -> {nodes, update(), note(), search, tools, live}}. It is made
// when it is opened, and drawn as soon as the documents of `first` are there, else all. `live` views are drawn every second, others after new documents.
const views = {};

function list_view(name, title, source, make) {
  views[name] = {
    title, sources: [source],
    make: () => {
      const table = new Table(make.table);
      return {
        search: table, tools: make.tools?.(),
        note: () => (make.note ? make.note(documents[source]) : `${count(documents[source].total ?? documents[source].items.length)} in all`),
        nodes: [el("section", { class: "panel" }, table.node)],
        update: () => table.update(make.rows ? make.rows(documents[source]) : documents[source].items,
          make.part ? make.part(documents[source]) : table.source && documents[source]),
      };
    },
  };
}

// ---- overview

function set_range(next) {
  range = next;
  for (const button of document.querySelectorAll(".ranges button")) button.setAttribute("aria-pressed", String(button.dataset.range === range));
  load_histories().then(draw, failed);
}

const range_buttons = () => el("div", { class: "ranges", role: "group", "aria-label": "Range of the charts" },
  ...[["10min", "10 min"], ["6h", "6 h"]].map(([name, text]) =>
    el("button", { text, "data-range": name, "data-testid": `range-${name}`, "aria-pressed": String(name === range), click: () => set_range(name) })));

function card(title, href, series, top) {
  const value = el("div", { class: "value", text: "–" });
  const sub = el("div", { class: "sub" });
  const canvas = el("canvas", { "aria-hidden": "true" });
  const node = el("a", { class: "card", href, "data-testid": `card-${title.toLowerCase().replaceAll(" ", "-")}` },
    el("h2", { text: title }), value, sub, canvas);
  return {
    node,
    set(number, small, below, bad) {
      value.replaceChildren(number, small ? el("small", { text: ` ${small}` }) : "");
      sub.replaceChildren(visible(below ?? ""), bad ? el("span", { class: "bad", text: `${below ? ", " : ""}${bad}` }) : "");
      sparkline(canvas, series, typeof top === "function" ? top() : top);
    },
  };
}

const states_text = (counts, without) => Object.entries(counts ?? {}).filter(([state]) => !without.includes(state))
  .map(([state, number]) => `${count(number)} ${state.toLowerCase().replaceAll("_", " ")}`).join(", ");

views.overview = {
  title: "Overview",
  sources: ["status", "counts", "nodes", "attention"],
  first: ["status"],
  make: () => {
    const cards = {
      nodes: card("Nodes", "#/overview", "nodes"),
      jobs: card("Jobs", "#/jobs", "jobs"),
      actors: card("Actors", "#/actors", "actors"),
      tasks: card("Running tasks", "#/tasks", "running"),
      queue: card("Waiting", "#/queue", "waiting"),
      cpu: card("CPU in use", "#/overview", "cpu", () => documents.nodes?.use.cpus),
      gpu: card("GPU booked", "#/gpus", "booked GPU", () => documents.status.resources.GPU?.total),
      memory: card("Memory in use", "#/overview", "memory", () => documents.nodes?.use.memory_bytes),
    };
    const resources = el("div", { class: "body" });
    const attention = new Table({
      key: (row) => row.event_id, empty: "No warnings and no errors",
      columns: [
        { name: "Time", get: (row) => row.last_at, cell: (row) => clock(row.last_at), cls: "nowrap dim" },
        { name: "Event", get: (row) => row.kind, cell: (row) => badge(row.kind, tone(row.severity)) },
        { name: "Text", get: (row) => row.text },
      ],
      open: (row) => open_item(row.kind, row),
    });
    const nodes = new Table({
      key: (row) => row.node_id, empty: "No node has joined", order: failures_first, source: "nodes",
      columns: [
        { name: "Node", get: (row) => row.host || row.address, cell: (row) => el("span", {}, row.host || row.address, " ", el("span", { class: "hint mono", text: brief(row.node_id) })) },
        state_column(),
        { name: "CPU", get: (row) => busy_part(row.use), cell: (row) => bar([[busy_part(row.use)]], percent(busy_part(row.use))) },
        { name: "Memory", get: (row) => row.use?.memory_used_bytes ?? 0, mark: (row) => `${row.use?.memory_used_bytes} ${row.use?.memory_bytes}`,
          cell: (row) => row.use && bar([[row.use.memory_used_bytes / row.use.memory_bytes, row.use.memory_used_bytes > 0.9 * row.use.memory_bytes ? "bad" : ""]], `${bytes(row.use.memory_used_bytes)} / ${bytes(row.use.memory_bytes)}`) },
        { name: "Object store", get: (row) => row.use?.store_used_bytes ?? 0, mark: (row) => `${row.use?.store_used_bytes} ${row.use?.store_spilled_bytes}`,
          cell: (row) => row.use && bar([[row.use.store_used_bytes / row.use.store_capacity_bytes]], `${bytes(row.use.store_used_bytes)}${row.use.store_spilled_bytes ? ` + ${bytes(row.use.store_spilled_bytes)} spilled` : ""}`) },
        { name: "Booked", get: (row) => booked_text(row.resources) },
        { name: "Note", get: (row) => row.reason ?? "" },
      ],
      open: (row) => open_item(`Node ${row.host}`, row, { logs: row.node_id, whole: `nodes/${row.node_id}` }),
    });
    return {
      nodes: [
        range_buttons(),
        el("div", { class: "cards" }, Object.values(cards).map((each) => each.node)),
        el("div", { class: "split" },
          panel("Resources", "booked of total", resources),
          panel("Needs attention", "latest warnings and errors", attention.node)),
        panel("Nodes", "", nodes.node),
      ],
      update: () => {
        const { status, counts } = documents;
        const part = documents.nodes;
        const use = part?.use.nodes > 0 ? part.use : null; // the sums of all nodes
        const tasks = {};
        for (const each of counts?.counts ?? []) tasks[each.state] = (tasks[each.state] ?? 0) + each.count;
        const gpu = status.resources.GPU ?? { total: 0, available: 0 };
        const waiting = status.waiting_total;
        const dead = (set) => (set.DEAD || set.FAILED ? `${count((set.DEAD ?? 0) + (set.FAILED ?? 0))} ${set.DEAD ? "dead" : "failed"}` : "");
        cards.nodes.set(count(total(status.nodes) - (status.nodes.DEAD ?? 0)), "", states_text(status.nodes, ["DEAD"]), dead(status.nodes));
        cards.jobs.set(count(status.jobs.RUNNING ?? 0), "running", states_text(status.jobs, ["RUNNING", "FAILED"]), dead(status.jobs));
        cards.actors.set(count(status.actors.ALIVE ?? 0), "alive", states_text(status.actors, ["ALIVE", "DEAD"]), dead(status.actors));
        if (counts) cards.tasks.set(count((tasks.RUNNING ?? 0) + (tasks.SUBMITTED_TO_WORKER ?? 0)), "", `${count(tasks.FINISHED ?? 0)} finished`, tasks.FAILED ? `${count(tasks.FAILED)} failed` : "");
        cards.queue.set(count(waiting.requests), "requests", `${count(waiting.shapes)} shapes`, waiting.infeasible ? `${count(waiting.infeasible)} infeasible` : "");
        cards.cpu.set(use && use.busy_cpus !== null ? (use.busy_cpus < 100 ? use.busy_cpus.toFixed(1) : count(Math.round(use.busy_cpus))) : "–", use ? `of ${count(use.cpus)} cores` : "", `${count(status.leases)} slots leased`);
        cards.gpu.set(count(gpu.total - gpu.available), `of ${count(gpu.total)}`, !gpu.total ? "no GPUs" : use ? `${bytes(use.gpu_used_bytes)} memory in use` : "");
        if (use) cards.memory.set(bytes(use.memory_used_bytes), `of ${bytes(use.memory_bytes)}`, `store ${bytes(use.store_used_bytes)}`);
        resources.replaceChildren(...Object.entries(status.resources).filter(([name]) => !name.startsWith("node:")).map(([name, use]) =>
          el("div", { class: "resource" }, el("span", { class: "name", text: name, title: name }),
            bar([[(use.total - use.available) / use.total]], `${amount(name, use.total - use.available)} / ${amount(name, use.total)}`))));
        if (documents.attention) attention.update(documents.attention.items.slice().reverse());
        if (part) nodes.update(part.items, part);
      },
    };
  },
};

// The used part of the processors of a node, 0 while it is unknown.
const busy_part = (use) => (use?.busy_cpus ?? 0) / Math.max(1, use?.cpus ?? 1);

const booked_text = (resources) => Object.entries(resources ?? {}).filter(([name, use]) => use.total > use.available && !/memory/.test(name))
  .map(([name, use]) => `${name} ${count(use.total - use.available)}/${count(use.total)}`).join(", ");

// ---- GPU map

// The largest holders of a GPU, whose device states the number of all.
function open_gpu(node, index) {
  const device = node.devices[index];
  const { holders, holder_count, ...known } = device;
  const rows = holders.map((each) => el("tr", {},
    el("td", { text: each.placement_group_id ? `group ${each.name || brief(each.placement_group_id)}` : each.actor_id ? `actor ${brief(each.actor_id)}` : `slot ${brief(each.slot_id)}` }),
    el("td", { text: `${each.placement_group_id ? `bundle ${each.bundle}: ` : ""}${count(each.amount)}${each.memory_bytes ? `, ${bytes(each.memory_bytes)}` : ""}` }),
    el("td", {}, badge(each.state ?? "", each.state === "OVER SHARE" ? "bad" : undefined)),
    el("td", { class: "mono", text: `job ${brief(each.job_id)}` })));
  const more = holder_count - holders.length;
  open_drawer(`GPU ${index} of ${node.host}`,
    device.over_share ? el("div", { class: "why", text: device.over_share }) : null,
    el("h2", { text: "Holders" }),
    rows.length ? el("table", { "data-testid": "holders" }, el("tbody", {}, rows)) : el("p", { class: "hint", "data-testid": "holders", text: "Nothing is booked on this device." }),
    more > 0 ? el("p", { class: "hint", text: `and ${count(more)} more with smaller shares` }) : null,
    el("h2", { text: "Device" }), facts({ ...known, node_id: node.node_id }));
}

views.gpus = {
  title: "GPU map",
  sources: ["gpus"],
  make: () => {
    const map = el("div");
    const more = el("p", { class: "hint" });
    const sections = new Map(); // by node: {mark, element}, made again only after a change
    // The head applies the filter, and sends the first nodes.
    const want = (part) => {
      Object.assign(sources.gpus, part, { next: 0, seen: "" });
      kick();
    };
    return {
      search: { set_filter: (text) => want({ find: text }) },
      note: () => `${count(documents.gpus.gpus)} GPUs`,
      nodes: [
        el("p", { class: "legend" },
          el("span", {}, swatch("booked"), "booked share"), el("span", {}, swatch("reserved"), "reserved by a placement group"),
          el("span", {}, swatch("memory"), "memory in use (right bar)"), el("span", {}, swatch("over"), "above its share")),
        map, more,
      ],
      update: () => {
        const { items, matching } = documents.gpus;
        const focused = document.activeElement?.dataset?.gpu;
        const elements = items.map((node) => {
          const mark = JSON.stringify(node);
          const known = sections.get(node.node_id);
          if (known?.mark === mark) return known.element;
          const element = el("section", { class: "node" },
            el("h2", {}, node.host || node.address, el("span", { text: `${node.devices.length} × ${node.devices[0].types?.[0] ?? "GPU"}` }), " ", node.state === "ALIVE" ? "" : badge(node.state)),
            el("div", { class: "gpus" }, node.devices.map((device, index) => gpu_tile(node, index))));
          sections.set(node.node_id, { mark, element });
          return element;
        });
        const current = [...map.children];
        if (elements.length !== current.length || elements.some((each, i) => each !== current[i])) map.replaceChildren(...elements);
        const left_out = matching - items.length;
        const at_most = sources.gpus.limit >= max_part_rows;
        more.replaceChildren(...(left_out <= 0 ? [] : [`${count(left_out)} more nodes. `, at_most ? "Filter the map to find them."
          : el("button", { type: "button", text: "Show more", click: () => want({ limit: Math.min(max_part_rows, 4 * sources.gpus.limit) }) })]));
        if (items.length === 0) map.append(el("section", { class: "panel" }, el("div", { class: "empty", "data-testid": "empty", text: documents.gpus.total ? "No node matches" : "No node of this cluster has GPUs" })));
        if (focused) map.querySelector(`[data-gpu="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
      },
    };
  },
};

function swatch(kind) {
  const node = el("i");
  node.style.background = { booked: "color-mix(in srgb, var(--accent) 30%, transparent)", memory: "color-mix(in srgb, var(--text) 55%, transparent)", over: "var(--bad)",
    reserved: "repeating-linear-gradient(45deg, var(--wait) 0 2px, transparent 2px 5px)",
    trial: "color-mix(in srgb, var(--accent) 55%, transparent)", best: "var(--ok)" }[kind];
  return node;
}

function gpu_tile(node, index) {
  const device = node.devices[index];
  const used = device.used_bytes ?? 0;
  const share = Math.min(1, device.booked / (device.total || 1));
  const memory = device.memory_bytes ?? 0;
  const layer = (name, fraction) => {
    const part = el("span", { class: name });
    part.style.height = `${100 * Math.min(1, fraction)}%`;
    return part;
  };
  const fill = el("i");
  fill.style.height = `${100 * Math.min(1, memory ? used / memory : 0)}%`;
  return el("button", {
    type: "button", class: `gpu${device.over_share ? " over" : ""}`, "data-testid": "gpu", "data-gpu": `${node.node_id}/${index}`,
    title: `GPU ${index}: ${percent(share)} booked${memory ? `, ${bytes(used)} of ${bytes(memory)} in use` : ""}`,
    click: () => open_gpu(node, index),
  },
  layer("reserved", device.reserved), layer("booked", share),
  memory ? el("span", { class: "memory" }, fill) : null,
  el("b", { text: `GPU ${index}` }),
  el("small", { text: memory ? `${bytes(used)} / ${bytes(memory)}` : device.id ?? "" }),
  el("small", { text: device.reserved ? `${device.reserved < 1 ? percent(device.reserved) : ""} reserved` : device.holder_count ? `${count(device.holder_count)} holder${device.holder_count > 1 ? "s" : ""}` : "free" }),
  el("span", { class: "big", text: percent(share) }));
}

// ---- queue

list_view("queue", "Queue", "status", {
  note: (status) => `${count(status.waiting_total.requests)} requests wait`,
  rows: (status) => status.waiting,
  part: (status) => ({ matching: status.waiting_matching, items: status.waiting }),
  table: {
    source: "status",
    key: (row) => `${row.kind} ${row.asks} ${row.reason}`, empty: "Nothing waits",
    order: (a, b) => rank(a.reason) - rank(b.reason) || b.count - a.count,
    open: (row) => open_item(`Waiting ${row.kind}: ${row.asks}`, row, { explain: row.id }),
    columns: [
      { name: "Kind", get: (row) => row.kind, cls: "nowrap" },
      { name: "Request", get: (row) => row.asks },
      { name: "Count", get: (row) => row.count, cell: (row) => count(row.count), cls: "num" },
      { name: "Jobs", get: (row) => row.jobs, cls: "num" },
      { name: "Reason", get: (row) => row.reason, cell: (row) => badge(row.reason.replace(/[()]/g, ""), tone(row.reason)), cls: "nowrap" },
      { name: "Why", get: (row) => row.text },
    ],
  },
});

// ---- jobs, actors, groups

const since = (time) => (time ? duration(Math.max(0, (Date.now() - Date.parse(time)) / 1000)) : "");

views.jobs = {
  title: "Jobs",
  sources: ["jobs"],
  make: () => {
    const table = new Table({
      key: (row) => row.job_id, empty: "No jobs", source: "jobs",
      order: (a, b) => failures_first(a, b) || String(b.started_at ?? b.submitted_at).localeCompare(String(a.started_at ?? a.submitted_at)),
      open: (row) => open_item(`Job ${row.name || brief(row.job_id)}`, row,
        { explain: row.state === "PENDING" ? row.job_id : undefined, logs: row.job_id, job: row.submitted ? row.job_id : undefined, whole: row.submitted ? `submissions/${row.job_id}` : undefined }),
      columns: [
        state_column(),
        { name: "Name", get: (row) => row.name },
        id_column("Id", (row) => row.job_id),
        { name: "Kind", get: (row) => (row.submitted ? "submitted" : "driver"), cls: "nowrap dim" },
        { name: "Started", get: (row) => row.started_at ?? "", cell: (row) => day(row.started_at), cls: "nowrap" },
        { name: "Duration", get: (row) => (row.ended_at ?? row.state) === "RUNNING" ? since(row.started_at) : row.ended_at && row.started_at ? duration((Date.parse(row.ended_at) - Date.parse(row.started_at)) / 1000) : "", cls: "num" },
        { name: "Holds", get: (row) => amounts(row.held) },
        { name: "Reason", get: (row) => [row.exit_code ? `exit code ${row.exit_code}` : "", row.reason ?? ""].filter(Boolean).join(": ") },
      ],
    });
    return {
      search: table, live: true, // durations grow
      note: () => `${count(documents.jobs.total)} in all`,
      nodes: [el("section", { class: "panel" }, table.node)],
      update: () => table.update(documents.jobs.items, documents.jobs),
    };
  },
};

list_view("actors", "Actors", "actors", {
  table: {
    key: (row) => row.actor_id, empty: "No actors", order: failures_first, source: "actors",
    open: (row) => open_item(`Actor ${row.class_name}`, row, { explain: row.state.startsWith("PENDING") ? row.actor_id : undefined, logs: row.actor_id }),
    columns: [
      state_column(),
      { name: "Class", get: (row) => row.class_name },
      { name: "Name", get: (row) => row.name, cls: "name" },
      id_column("Id", (row) => row.actor_id),
      id_column("Node", (row) => row.node_id),
      id_column("Job", (row) => row.job_id),
      { name: "Restarts", get: (row) => row.restarts, cell: (row) => (row.max_restarts ? `${row.restarts} / ${row.max_restarts < 0 ? "∞" : row.max_restarts}` : count(row.restarts)), cls: "num" },
      { name: "Resources", get: (row) => amounts(row.resources) },
      { name: "Reason", get: (row) => row.reason ?? "" },
    ],
  },
});

list_view("groups", "Placement groups", "groups", {
  table: {
    key: (row) => row.placement_group_id, empty: "No placement groups", source: "groups",
    order: (a, b) => b.infeasible - a.infeasible || failures_first(a, b),
    open: (row) => open_item(`Group ${row.name || brief(row.placement_group_id)}`, row, { explain: /PENDING|RESCHEDULING/.test(row.state) ? row.placement_group_id : undefined, whole: `placement-groups/${row.placement_group_id}` }),
    columns: [
      { ...state_column(), mark: (row) => `${row.state} ${row.infeasible}`, cell: (row) => (row.infeasible ? badge("INFEASIBLE") : badge(row.state)) },
      { name: "Name", get: (row) => row.name },
      id_column("Id", (row) => row.placement_group_id),
      { name: "Strategy", get: (row) => row.strategy, cls: "nowrap" },
      { name: "Bundles", get: (row) => row.bundle_count, mark: (row) => `${row.placed_bundles} ${row.bundle_count}`,
        cell: (row) => bar([[row.placed_bundles / row.bundle_count, "ok"]], `${count(row.placed_bundles)} / ${count(row.bundle_count)} placed`) },
      { name: "Each", get: (row) => amounts(row.each) },
      id_column("Job", (row) => row.job_id),
      { name: "Reason", get: (row) => row.reason ?? "" },
    ],
  },
});

// ---- tasks by name

const task_parts = { failed: ["FAILED"], running: ["RUNNING", "SUBMITTED_TO_WORKER"], finished: ["FINISHED"] };

list_view("tasks", "Tasks by name", "counts", {
  note: (document) => `${count(sum(document.counts.map((each) => each.count)))} calls that processes remember`,
  rows: (document) => {
    const names = new Map();
    for (const { name, state, count: number } of document.counts) {
      const row = names.get(name) ?? names.set(name, { name, failed: 0, running: 0, finished: 0, waiting: 0, all: 0 }).get(name);
      const part = Object.keys(task_parts).find((each) => task_parts[each].includes(state)) ?? "waiting";
      row[part] += number;
      row.all += number;
    }
    return [...names.values()];
  },
  table: {
    key: (row) => row.name, empty: "No process remembers a task",
    order: (a, b) => (b.failed > 0) - (a.failed > 0) || b.failed - a.failed || b.waiting - a.waiting || b.running - a.running || b.all - a.all,
    open: open_tasks,
    columns: [
      { name: "Name", get: (row) => row.name },
      ...["failed", "waiting", "running", "finished"].map((part) => ({
        name: part[0].toUpperCase() + part.slice(1), get: (row) => row[part], cls: "num",
        cell: (row) => (part === "failed" && row.failed ? badge(count(row.failed), "bad") : el("span", { class: row[part] ? "" : "zero", text: count(row[part]) })),
      })),
      { name: "Progress", get: (row) => row.finished / row.all, mark: (row) => `${row.failed} ${row.running} ${row.finished} ${row.all}`,
        cell: (row) => bar([[row.finished / row.all, "ok"], [row.failed / row.all, "bad"], [row.running / row.all], [row.waiting / row.all, "wait"]], `${percent((row.finished + row.failed) / row.all)} of ${count(row.all)}`) },
    ],
  },
});

function open_tasks(row) {
  const body = el("div", { "data-testid": "task-list" }, el("p", { class: "hint", text: "Loading…" }));
  const number = open_drawer(row.name, body);
  api(with_query("tasks", { name: row.name, limit: "50" })).then((list) => {
    if (number !== chosen) return;
    body.replaceChildren(...(list.items.length ? list.items.map((task) => el("div", { class: "why-row" },
      el("h2", {}, badge(task.state), " ", el("a", { href: `#/logs?${new URLSearchParams({ of: task.executor ?? task.node_id ?? "" })}`, class: "mono", text: brief(task.task_id), title: task.task_id })),
      task.error_message ? el("div", { class: "why", text: `${task.error_type}: ${task.error_message}` }) : null,
      el("p", { class: "hint", text: task.reason })))
      : [el("p", { class: "hint", text: "No process lists these calls any more." })]));
  }, (error) => number === chosen && body.replaceChildren(el("div", { class: "why", text: error.message })));
}

// ---- task stream

const stream_s = 60;
const lane_px = 16;

// Rows of the chart: a title per node, then the lanes of each process, one per concurrent call.
function stream_rows(timeline) {
  const nodes = new Map();
  for (const process of timeline.processes) {
    const spans = (process.ran ?? []).map(([begin, end, name, failed, task]) => ({ begin, end, failed, task, name: process.names[name] ?? "?", process }));
    for (const [begin, end, path, size, failed] of process.transfers ?? []) {
      spans.push({ begin, end, failed, process, transfer: true, name: `${path} ${bytes(size)}` });
    }
    if (spans.length === 0) continue;
    spans.sort((a, b) => a.begin - b.begin);
    const lanes = [];
    for (const span of spans) {
      const lane = lanes.find((each) => each.kind === !!span.transfer && each.end <= span.begin) ??
        lanes[lanes.push({ kind: !!span.transfer, end: 0, spans: [] }) - 1];
      lane.spans.push(span);
      lane.end = span.end;
    }
    const host = `${process.host} ${brief(process.node_id)}`;
    (nodes.get(host) ?? nodes.set(host, []).get(host)).push({ process, lanes: lanes.slice(0, 12) });
  }
  const rows = [];
  for (const [host, processes] of [...nodes].sort((a, b) => a[0].localeCompare(b[0]))) {
    rows.push({ title: `${host}: ${processes.length} process${processes.length > 1 ? "es" : ""}` });
    const ended = []; // lanes that ended processes share, if they do not overlap
    const first = ({ process, lanes }) => (process.ended ? lanes[0].spans[0].begin : process.pid);
    for (const { process, lanes } of processes.sort((a, b) => !!a.process.ended - !!b.process.ended || first(a) - first(b))) {
      lanes.forEach((lane, i) => {
        if (!process.ended) return rows.push({ lane, label: i > 0 ? "" : process.pid ? `pid ${process.pid}` : "transfers" });
        const free = ended.find((each) => each.end <= lane.spans[0].begin || each.begin >= lane.end);
        if (!free) return ended.push({ begin: lane.spans[0].begin, end: lane.end, spans: lane.spans.slice() });
        free.spans.push(...lane.spans);
        free.begin = Math.min(free.begin, lane.spans[0].begin);
        return (free.end = Math.max(free.end, lane.end));
      });
    }
    ended.forEach((lane, i) => rows.push({ lane, label: i === 0 ? "ended" : "" }));
  }
  return rows.slice(0, 1500);
}

views.stream = {
  title: "Task stream",
  sources: ["timeline"],
  make: () => {
    const canvas = el("canvas", { "data-testid": "stream-canvas", tabindex: 0, "aria-label": "Calls of the last 60 seconds" });
    const legend = el("p", { class: "legend" });
    const none = el("div", { class: "empty", "data-testid": "empty", text: "No call and no transfer ended in the last 60 s" });
    let hits = [];
    const hit = (event) => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      return hits.findLast((each) => x >= each.x - 1 && x <= each.x + each.w + 1 && y >= each.y && y <= each.y + lane_px);
    };
    canvas.addEventListener("mousemove", (event) => {
      const span = hit(event)?.span;
      show_tip(event, span && `${span.name}${span.failed ? "  FAILED" : ""}\n${duration((span.end - span.begin) / 1e6)}, ${clock(span.begin / 1000)}${span.task ? `\ntask ${brief(span.task)}` : ""}`);
    });
    canvas.addEventListener("mouseleave", (event) => show_tip(event, ""));
    canvas.addEventListener("click", (event) => {
      const span = hit(event)?.span;
      if (span) open_span(span);
    });
    return {
      note: () => {
        const calls = sum(documents.timeline.processes.map((each) => each.ran?.length ?? 0));
        const left = documents.timeline.left_out;
        return `${count(calls)} calls in the last ${stream_s} s${left ? `, ${count(left)} more are left out` : ""}`;
      },
      nodes: [legend, el("section", { class: "panel stream" }, canvas, none)],
      update: () => {
        const rows = stream_rows(documents.timeline);
        none.hidden = rows.length > 0;
        canvas.hidden = rows.length === 0;
        hits = rows.length ? draw_stream(canvas, rows, documents.timeline.now_us) : [];
        const names = new Map();
        for (const { lane } of rows) {
          for (const span of lane?.spans ?? []) if (!span.transfer) names.set(span.name, (names.get(span.name) ?? 0) + 1);
        }
        const top = [...names].sort((a, b) => b[1] - a[1]);
        legend.replaceChildren(...top.slice(0, 10).map(([name, number]) => {
          const mark = el("i");
          mark.style.background = hue(name);
          return el("span", {}, mark, `${name} (${count(number)})`);
        }), top.length > 10 ? `and ${top.length - 10} other names` : "");
      },
    };
  },
};

function draw_stream(canvas, rows, now) {
  const left = 112;
  const top = 24;
  const { paint, width, height } = surface(canvas, top + rows.length * lane_px + 12);
  const x = (time) => left + (width - left - 12) * (1 - (now - time) / (stream_s * 1e6));
  const [dim, grid, text, bad, soft] = ["dim", "grid", "text", "bad", "soft"].map(color);
  paint.font = "11px system-ui, sans-serif";
  paint.textBaseline = "middle";
  for (let s = 0; s <= stream_s; s += 10) {
    paint.fillStyle = dim;
    paint.textAlign = s === 0 ? "right" : "center";
    paint.fillText(s === 0 ? "now" : `-${s} s`, s === 0 ? width - 4 : x(now - s * 1e6), 13);
    paint.fillStyle = grid;
    paint.fillRect(Math.round(x(now - s * 1e6)), top, 1, height - top);
  }
  paint.textAlign = "left";
  const hits = [];
  rows.forEach((row, i) => {
    const y = top + i * lane_px;
    if (row.title) {
      paint.fillStyle = soft;
      paint.fillRect(0, y, width, lane_px);
      paint.fillStyle = text;
      paint.fillText(visible(row.title), 12, y + lane_px / 2);
      return;
    }
    paint.fillStyle = dim;
    paint.fillText(row.label, 12, y + lane_px / 2, left - 18);
    for (const span of row.lane.spans) {
      const begin = Math.max(left, x(span.begin));
      const w = Math.max(1, x(span.end) - begin);
      if (begin + w < left) continue;
      paint.fillStyle = span.failed ? bad : span.transfer ? dim : hue(span.name);
      if (span.transfer) paint.fillRect(begin, y + lane_px / 2 - 2, w, 4);
      else paint.fillRect(begin, y + 2, w, lane_px - 4);
      if (!span.transfer && w > 44) {
        paint.save();
        paint.beginPath();
        paint.rect(begin, y, w, lane_px);
        paint.clip();
        paint.fillStyle = "#fff";
        paint.fillText(visible(span.name), begin + 4, y + lane_px / 2 + 0.5);
        paint.restore();
      }
      hits.push({ x: begin, w, y, span });
    }
  });
  return hits;
}

function open_span(span) {
  const known = { name: span.name, began: clock(span.begin / 1000), duration: duration((span.end - span.begin) / 1e6),
    state: span.failed ? "FAILED" : "FINISHED", task_id: span.task, process_id: span.process.process_id, pid: span.process.pid, host: span.process.host, job_id: span.process.job_id };
  open_item(span.name, known, { logs: span.process.process_id });
}

// ---- transfers, events

list_view("transfers", "Transfers", "transfers", {
  note: (document) => document.counts.map((each) => `${each.path}: ${count(each.transfers)}, ${bytes(each.bytes)}`).join(" · ") || "none yet",
  table: {
    key: (row) => `${row.object_id}${row.group}${row.process_id}${row.node_id}${row.operation}${row.since_at}`, empty: "No transfers",
    order: (a, b) => failures_first(a, b) || a.since_ms - b.since_ms,
    open: (row) => open_item(`Transfer by ${row.path}`, row),
    columns: [
      state_column(),
      { name: "Path", get: (row) => row.path, cls: "nowrap" },
      { name: "Bytes", get: (row) => row.bytes, mark: (row) => `${row.bytes} ${row.size_bytes}`, cell: (row) => (row.size_bytes ? `${bytes(row.bytes)} of ${bytes(row.size_bytes)}` : bytes(row.bytes)), cls: "num" },
      { name: "Time", get: (row) => row.wire_seconds, cell: (row) => duration(row.wire_seconds), cls: "num" },
      { name: "Rate", get: (row) => (row.wire_seconds > 0 ? row.bytes / row.wire_seconds : 0), cell: (row) => (row.wire_seconds > 0 && row.bytes ? `${bytes(row.bytes / row.wire_seconds)}/s` : ""), cls: "num" },
      id_column("From", (row) => row.peer_node_id),
      id_column("To", (row) => row.node_id),
      { name: "Object or group", get: (row) => row.group || row.object_id, cell: (row) => (row.group ? `${row.group} ${row.operation}` : el("span", { class: "mono", text: brief(row.object_id), title: row.object_id })) },
      { name: "At", get: (row) => row.since_at, cell: (row) => clock(row.since_at), cls: "nowrap dim" },
      { name: "Reason", get: (row) => row.reason },
    ],
  },
});

list_view("events", "Events", "events", {
  note: (document) => `the latest ${count(document.items.length)}`,
  rows: (document) => document.items.slice().reverse(),
  tools: () => {
    const choice = el("select", { "aria-label": "Lowest severity", "data-testid": "severity" },
      ["DEBUG", "INFO", "WARNING", "ERROR"].map((severity) => el("option", { text: severity, selected: sources.events.path.endsWith(severity) })));
    choice.addEventListener("change", () => {
      sources.events = { path: `events?limit=500&severity=${choice.value}` };
      kick();
    });
    return choice;
  },
  table: {
    key: (row) => row.event_id, empty: "No events",
    open: (row) => open_item(row.kind, row),
    columns: [
      { name: "Time", get: (row) => row.last_at, cell: (row) => day(row.last_at), cls: "nowrap dim" },
      { name: "Severity", get: (row) => row.severity, cell: (row) => badge(row.severity), cls: "nowrap" },
      { name: "Kind", get: (row) => row.kind, cls: "nowrap" },
      { name: "Text", get: (row) => row.text },
      { name: "By", get: (row) => row.principal || "head", cls: "nowrap dim" },
      { name: "Count", get: (row) => row.count, cls: "num" },
    ],
  },
});

// ---- experiments

const trial_parts = [["terminated", "ok"], ["failed", "bad"], ["running", ""], ["paused", "warn"], ["pending", "wait"]];
const figure = (value) => (value === undefined || value === null ? "–" : Number(value.toPrecision(6)).toString());

function trial_progress(row) {
  const begun = total(row.counts);
  const all = Math.max(row.samples > 0 ? row.samples : 0, begun, 1);
  const parts = trial_parts.map(([name, kind]) => [(row.counts[name] ?? 0) / all, kind]);
  return bar(parts, `${count((row.counts.terminated ?? 0) + (row.counts.failed ?? 0))} / ${count(all)}`);
}

const trial_counts = (row) => trial_parts.filter(([name]) => row.counts[name]).map(([name]) => `${count(row.counts[name])} ${name}`).join(", ");
const experiment_link = (name) => `#/experiment?${new URLSearchParams({ name })}`;

list_view("experiments", "Experiments", "experiments", {
  table: {
    key: (row) => `${row.job_id} ${row.name}`, empty: "No experiment of Tune has reported to this head",
    order: (a, b) => (b.state === "RUNNING") - (a.state === "RUNNING") || a.age_s - b.age_s,
    open: (row) => (location.hash = experiment_link(row.name)),
    columns: [
      state_column(),
      { name: "Experiment", get: (row) => row.name },
      { name: "Trials", get: (row) => total(row.counts), mark: (row) => JSON.stringify([row.counts, row.samples]), cell: trial_progress },
      { name: "Now", get: trial_counts, mark: (row) => trial_counts(row) + row.waiting,
        cell: (row) => el("span", {}, el("span", { class: "lines", text: trial_counts(row).replaceAll(", ", "\n") }), row.waiting ? el("span", { class: "hint", text: `the next waits: ${row.waiting}` }) : null) },
      { name: "Best", get: (row) => row.best?.value ?? "", cell: (row) => (row.best ? el("span", {}, el("b", { text: figure(row.best.value) }), el("span", { class: "hint", text: ` ${row.metric}` })) : "–"), cls: "nowrap" },
      { name: "Parameters of the best trial", get: (row) => row.best?.config ?? "" },
      { name: "Searcher, scheduler", get: (row) => [row.searcher, row.scheduler].filter(Boolean).join("\n"), cls: "lines" },
      { name: "Time", get: (row) => row.elapsed_s, cell: (row) => duration(row.elapsed_s), cls: "num" },
    ],
  },
});

// The range of values with round marks: {low, high, marks, log}.
function scale_of(values) {
  let low = Math.min(...values);
  let high = Math.max(...values);
  if (low > 0 && high / low > 1000) {
    const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const step = Math.ceil((last - first) / 6);
    return { log: true, low: first, high: last, marks: Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => first + i * step) };
  }
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  const rough = (high - low) / 5;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * unit).find((each) => each >= rough);
  const first = Math.floor(low / step);
  const last = Math.ceil(high / step);
  return { log: false, low: first * step, high: last * step, marks: Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step) };
}

// Values of trials by their number, and the best value so far. Returns the drawn points.
function draw_trials(canvas, experiment) {
  const { paint, width, height } = surface(canvas, 260);
  const points = experiment.points;
  canvas.dataset.points = String(points.length);
  if (points.length === 0) return [];
  const first = points[0][0];
  const begins = experiment.curve.filter(([trial]) => trial <= first);
  const curve = [...(begins.length ? [[first, begins.at(-1)[1]]] : []), ...experiment.curve.filter(([trial]) => trial > first)];
  const scale = scale_of([...points, ...curve].map((point) => point[1]));
  const last = Math.max(points.at(-1)[0], first + 1);
  const text = scale.marks.map((mark) => (scale.log ? `1e${mark}` : figure(mark)));
  paint.font = "11px system-ui, sans-serif";
  const left = Math.max(...text.map((each) => paint.measureText(each).width)) + 24;
  const [right, top, bottom] = [width - 16, 12, height - 26];
  const x = (trial) => left + (right - left) * ((trial - first) / (last - first));
  const y = (value) => bottom - (bottom - top) * (((scale.log ? Math.log10(value) : value) - scale.low) / (scale.high - scale.low));
  paint.textBaseline = "middle";
  scale.marks.forEach((mark, i) => {
    const at = bottom - (bottom - top) * ((mark - scale.low) / (scale.high - scale.low));
    paint.fillStyle = color("grid");
    paint.fillRect(left, Math.round(at), right - left, 1);
    paint.fillStyle = color("dim");
    paint.textAlign = "right";
    paint.fillText(text[i], left - 8, at);
  });
  const step = Math.max(1, scale_of([first, last]).marks[1] - scale_of([first, last]).marks[0]);
  for (let trial = Math.ceil(first / step) * step; trial <= last; trial += step) {
    paint.textAlign = "center";
    paint.fillText(String(trial), x(trial), bottom + 14);
  }
  paint.strokeStyle = color("ok");
  paint.lineWidth = 2;
  paint.lineJoin = "round";
  paint.beginPath();
  curve.forEach(([trial, value], i) => {
    if (i > 0) paint.lineTo(x(trial), y(curve[i - 1][1]));
    paint[i ? "lineTo" : "moveTo"](x(trial), y(value));
  });
  if (curve.length) paint.lineTo(right, y(curve.at(-1)[1]));
  paint.stroke();
  const radius = points.length > 150 ? 2.5 : 3.5;
  const drawn = points.map(([trial, value]) => ({ trial, value, x: x(trial), y: y(value) }));
  for (const point of drawn) {
    const best = point.trial === experiment.best?.trial;
    paint.globalAlpha = best ? 1 : 0.55;
    paint.fillStyle = color(best ? "ok" : "accent");
    paint.beginPath();
    paint.arc(point.x, point.y, best ? radius + 2 : radius, 0, 2 * Math.PI);
    paint.fill();
  }
  paint.globalAlpha = 1;
  return drawn;
}

// One experiment. It has no entry in the list of views.
views.experiment = {
  title: "Experiment",
  of: "experiments",
  sources: ["experiment"],
  open: (params) => {
    delete documents.experiment;
    sources.experiment = { path: `experiments/${in_path(params.get("name") ?? "")}`, period: 2 };
  },
  make: (params) => {
    const figures = el("div", { class: "figures" });
    const canvas = el("canvas", { "data-testid": "trials-canvas", "aria-label": "Values of the trials" });
    const none = el("div", { class: "empty", text: "No trial has reported the metric yet" });
    const title = el("h2");
    const waits = el("div", { class: "warnings", hidden: true });
    let drawn = [];
    const nearest = (event) => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const distance = (each) => Math.hypot(each.x - x, each.y - y);
      const point = drawn.reduce((best, each) => (!best || distance(each) < distance(best) ? each : best), null);
      return point && distance(point) < 16 ? point : null;
    };
    const best_first = () => {
      const sign = documents.experiment.mode === "max" ? -1 : 1;
      const value = (row) => (row.value === undefined ? Infinity : sign * row.value);
      return (a, b) => (a.state === "FAILED") - (b.state === "FAILED") || value(a) - value(b) || b.trial - a.trial;
    };
    const table = new Table({
      key: (row) => row.trial, empty: "No trials",
      open: ({ best, ...row }) => open_item(`Trial ${row.trial}${best ? ", the best" : ""}`, row),
      columns: [
        { name: "Trial", get: (row) => row.trial, mark: (row) => `${row.trial} ${row.best}`, cell: (row) => el("span", {}, String(row.trial), row.best ? " " : "", row.best ? badge("best", "ok") : ""), cls: "nowrap" },
        state_column(),
        { name: "Value", get: (row) => row.value ?? "", cell: (row) => figure(row.value), cls: "num" },
        { name: "Iterations", get: (row) => row.iteration, cls: "num" },
        { name: "Time", get: (row) => row.seconds ?? "", cell: (row) => duration(row.seconds), cls: "num" },
        { name: "Node", get: (row) => row.node ?? "", cell: (row) => el("span", { class: "mono", text: brief(row.node), title: row.node ?? "" }), cls: "nowrap" },
        { name: "Parameters", get: (row) => row.config ?? "" },
        { name: "Error", get: (row) => row.error ?? "" },
      ],
    });
    canvas.addEventListener("mousemove", (event) => {
      const point = nearest(event);
      show_tip(event, point && `trial ${point.trial}\n${documents.experiment.metric} ${figure(point.value)}`);
    });
    canvas.addEventListener("mouseleave", (event) => show_tip(event, ""));
    canvas.addEventListener("click", (event) => {
      const point = nearest(event);
      const row = documents.experiment.trials.find((each) => each.trial === point?.trial);
      if (row) open_item(`Trial ${row.trial}`, row);
    });
    const fact_of = (name, ...value) => el("div", {}, el("span", { class: "hint", text: name }), el("div", {}, ...value));
    return {
      search: table,
      note: () => params.get("name") ?? "",
      nodes: [
        el("p", { class: "back" }, el("a", { href: "#/experiments", text: "← All experiments" })),
        waits, el("section", { class: "panel" }, el("div", { class: "body figures-body" }, figures)),
        el("section", { class: "panel stream" }, el("div", { class: "title" }, title,
          el("span", { class: "note legend" }, el("span", {}, swatch("trial"), "trial"), el("span", {}, swatch("best"), "best so far"))), canvas, none),
        panel("Trials", "the best, the running, and the latest failed ones", table.node),
      ],
      update: () => {
        const now = documents.experiment;
        title.textContent = visible(`${now.metric || "metric"} by trial`);
        waits.hidden = !now.waiting;
        waits.textContent = now.waiting ? visible(`The next trial waits: ${now.waiting}`) : "";
        figures.replaceChildren(
          fact_of("State", badge(now.state)), fact_of("Trials", trial_progress(now)), fact_of("Now", trial_counts(now) || "–"),
          fact_of(now.mode === "max" ? "Largest value" : "Least value", el("b", { class: "best", text: figure(now.best?.value) })),
          fact_of("Parameters of the best trial", now.best?.config || "–"),
          fact_of("Searcher", now.searcher || "–"), fact_of("Scheduler", now.scheduler || "–"), fact_of("Time", duration(now.elapsed_s)));
        none.hidden = now.points.length > 0;
        canvas.hidden = now.points.length === 0;
        drawn = now.points.length ? draw_trials(canvas, now) : [];
        table.order = best_first();
        table.update(now.trials.map((row) => ({ ...row, best: row.trial === now.best?.trial })));
      },
    };
  },
};

// ---- logs

const log_tail = 64 * 1024;
const log_lines = 5000;
// A line as a terminal shows it in the end, without colors.
const printed = (line) => line.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, "").replace(/\r$/, "").replace(/^.*\r/, "");

views.logs = {
  title: "Logs",
  sources: ["logs"],
  make: (params) => {
    const list = el("section", { class: "panel" });
    const text = el("pre", { "data-testid": "log-text", tabindex: 0 });
    const grep = el("input", { type: "search", placeholder: "Lines that match (regular expression)", "data-testid": "grep", "aria-label": "Filter lines" });
    const follow = el("input", { type: "checkbox", checked: true });
    const name = el("b");
    const wanted = { of: params.get("of") ?? "", job: params.get("job") ?? "", node: params.get("node") ?? "", log: params.get("log") ?? "" };
    // The head sends the first logs, or those of which a name or an id has the text.
    const search = {
      filter: wanted.of,
      set_filter: (find) => {
        wanted.of = find;
        if ((sources.logs.find ?? "") !== find) Object.assign(sources.logs, { find, next: 0, seen: "" });
        kick();
      },
    };
    search.set_filter(wanted.of);
    let lines = [];
    let rest = "";
    let from = null;
    let busy = false;
    const show = () => {
      let matches = () => true;
      try {
        const pattern = new RegExp(grep.value, "i");
        matches = (line) => pattern.test(line);
      } catch {
        matches = (line) => line.includes(grep.value);
      }
      const at_end = text.scrollTop + text.clientHeight >= text.scrollHeight - 40;
      text.textContent = visible((rest ? [...lines, rest] : lines).map(printed).filter(matches).join("\n"));
      if (at_end || from === null) text.scrollTop = text.scrollHeight;
    };
    grep.addEventListener("input", show);
    const take = (chunk) => {
      const parts = (rest + chunk.text).split("\n");
      rest = parts.pop();
      lines = lines.concat(parts).slice(-log_lines);
      if (chunk.bytes > 0 || from === null) show();
    };
    // Reads the next chunk: of the output of a submitted job by its offset, of other logs by a position.
    const read = async () => {
      if (wanted.job) {
        if (from === null) {
          const first = await api(with_query("log", { job_id: wanted.job, from: "0" }));
          from = first.end > first.bytes ? Math.max(0, first.end - log_tail) : first.bytes;
          if (first.end <= first.bytes) return take(first);
        }
        const chunk = await api(with_query("log", { job_id: wanted.job, from: String(from) }));
        from = chunk.from + chunk.bytes;
        return take(chunk);
      }
      const chunk = await api(with_query("log", { ...(wanted.node ? { node_id: wanted.node } : {}), log: wanted.log, from: from ?? `0:-${log_tail}` }));
      take(chunk);
      from = chunk.next;
    };
    return {
      search,
      live: true, // a log grows without a change of the list
      note: () => `${count(documents.logs.total)} logs`,
      nodes: [el("div", { class: "logs" }, list, el("section", { class: "panel text" },
        el("div", { class: "tools" }, name, grep, el("label", {}, follow, " follow")), text))],
      update: async () => {
        const { items: rows, matching } = documents.logs;
        if (!wanted.job && !wanted.log && rows.length) {
          const first = rows.find((row) => row.log !== "head" && !row.reason) ?? rows[0];
          wanted.log = first.log;
          wanted.node = first.node_id ?? "";
        }
        name.textContent = visible(wanted.job ? `output of job ${brief(wanted.job)}` : wanted.log);
        list.replaceChildren(...rows.map((row) => el("a", {
          class: "log", href: `#/logs?${new URLSearchParams({ node: row.node_id ?? "", log: row.log, of: wanted.of })}`, "data-testid": "log",
          "aria-current": !wanted.job && row.log === wanted.log && (row.node_id ?? "") === wanted.node ? "true" : undefined,
        }, row.log, " ", row.open ? badge("open", "ok") : badge("ended", ""),
        el("small", { text: [row.host, row.actor_id ? `actor ${brief(row.actor_id)}` : row.job_id ? `job ${brief(row.job_id)}` : "", row.size_bytes === null ? "" : bytes(row.size_bytes), clock(row.changed_at)].filter(Boolean).join(" · ") }),
        row.reason ? el("small", { text: row.reason }) : null)),
        matching > rows.length ? el("div", { class: "more", text: `${count(matching - rows.length)} more logs. Filter the list to find them.` }) : "",
        rows.length ? "" : el("div", { class: "empty", text: "No log has this text" }));
        if (busy || (from !== null && !follow.checked) || (!wanted.log && !wanted.job)) return;
        busy = true;
        try {
          await read();
        } catch (error) {
          if (!(error instanceof HttpError) || error.status === 401) throw error;
          if (from === null) text.textContent = visible(error.message);
        } finally {
          busy = false;
          text.dataset.read = "true";
        }
      },
    };
  },
};

// ---- routes -------------------------------------------------------------------------------------

const order = ["overview", "gpus", "queue", "jobs", "actors", "groups", "tasks", "stream", "transfers", "logs", "events", "experiments"];
const keys = "1234567890-=";
const key_of = (index) => keys[index];
const first_limits = Object.fromEntries(Object.entries(sources).map(([name, source]) => [name, source.limit]));
let view = null; // the open view: {name, made, sources, note, search}
let paused = false;
let theme = "";

function route() {
  const hash = location.hash;
  if (hash.startsWith("#mobula-")) {
    // The link of `mobula page`. The token leaves the address bar and the history at once.
    token = decodeURIComponent(hash.slice(1));
    sessionStorage.setItem(token_key, token);
    history_replace("#/overview");
    sign_out("", false);
  }
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const name = views[path] ? path : "overview";
  show_tip(null, "");
  close_drawer();
  for (const source of Object.keys(sources)) {
    if (source !== "status" && views[name].sources.includes(source)) continue;
    if (source !== "status") delete documents[source]; // a closed view keeps no memory
    if (source !== "status" || sources.status.find || sources.status.limit !== first_limits.status)
      Object.assign(sources[source], { next: 0, seen: "", limit: first_limits[source], find: "" });
  }
  views[name].open?.(new URLSearchParams(query ?? ""));
  const made = views[name].make(new URLSearchParams(query ?? ""));
  view = { name, made, sources: views[name].sources, note: el("span", { class: "note" }), warnings: el("ul", { class: "warnings", "data-testid": "warnings", hidden: true }) };
  const search = made.search && el("span", { class: "tools" }, made.tools ?? null, el("input", { type: "search", placeholder: "Filter (/)", "aria-label": "Filter rows", "data-testid": "filter", value: made.search.filter,
    input: (event) => made.search.set_filter(event.target.value) }));
  view.content = el("div", { "data-testid": "content", hidden: true }, made.nodes);
  if (name === "logs") view.content.style.height = "100%";
  $("main").replaceChildren(el("div", { class: "head" }, el("h1", { text: views[name].title, "data-testid": `view-${name}` }), view.note, search), view.warnings, view.content);
  for (const link of $("nav").children) {
    if (link.dataset.view === (views[name].of ?? name)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${views[name].title} – Mobula`;
  draw();
  kick();
}

const history_replace = (hash) => window.history.replaceState(null, "", hash);

const are_there = (names) => names.every((name) => documents[name] !== undefined);

// Draws the open view if the documents for its first picture are there.
async function draw() {
  const current = view;
  if (!current || !are_there(views[current.name].first ?? current.sources)) return;
  current.content.hidden = false;
  current.note.textContent = visible(current.made.note ? current.made.note() : "");
  const warnings = [...new Set(current.sources.flatMap((name) => documents[name]?.warnings ?? []))];
  current.warnings.hidden = warnings.length === 0;
  current.warnings.replaceChildren(...warnings.slice(0, 5).map((text) => el("li", { text })));
  const begin = performance.now();
  await current.made.update();
  document.documentElement.dataset.drawMs = String(Math.round(performance.now() - begin));
  if (are_there(current.sources)) document.documentElement.dataset.whole = current.name;
}

function draw_top() {
  const status = documents.status;
  if (!status) return;
  $("cluster").textContent = visible(`${status.cluster_name} · ${status.version}`);
  $("state").textContent = status.state;
  $("state").className = `badge ${tone(status.state)}`;
  const waiting = status.waiting_total.requests;
  $("nav").querySelector("[data-view=experiments]").hidden = !status.experiments;
  const badges = { queue: [waiting, "wait"], jobs: [status.jobs.FAILED, "bad"], actors: [status.actors.DEAD, ""] };
  for (const link of $("nav").children) {
    const [number, kind] = badges[link.dataset.view] ?? [];
    const mark = link.querySelector(".count");
    mark.hidden = !number;
    mark.className = `count badge ${kind ?? ""}`;
    mark.textContent = number > 9999 ? "9999+" : String(number ?? "");
  }
}

// ---- refresh ------------------------------------------------------------------------------------

const pause_for = (ms) => new Promise((done) => setTimeout(done, ms));
const min_refresh_ms = 1000;
let signed_in = true;
let lost_at = null; // time of the first failed request
let wake = null; // ends the wait between two refreshes

function kick() {
  wake?.();
}

function sign_out(reason, ask = true) {
  signed_in = !ask;
  $("signin").hidden = !ask;
  $("signin-reason").textContent = visible(reason);
  if (ask) $("token").focus();
  else kick();
}

function set_link(kind, text) {
  $("link").className = kind;
  $("link").textContent = text;
}

let banner_timer = 0;
function banner(text, good = false) {
  clearTimeout(banner_timer);
  $("banner").hidden = !text;
  $("banner").textContent = visible(text);
  $("banner").className = good ? "good" : "";
  document.body.classList.toggle("stale", !!text && !good);
  if (good) banner_timer = setTimeout(() => banner(""), 5000);
}

function connected() {
  if (lost_at) banner(`Connected to the head again after ${duration((Date.now() - lost_at) / 1000)}.`, true);
  lost_at = null;
  set_link("live", paused ? "paused" : `live · ${new Date().toLocaleTimeString("en-GB")}`);
}

// Returns the time in ms before the next try.
function failed(error) {
  if (error instanceof HttpError && (error.status === 401 || error.status === 403)) {
    sign_out(token ? `The head refused this token: ${error.message}` : "");
    set_link("lost", "signed out");
    banner("");
    return 1000;
  }
  if (error instanceof HttpError && error.status === 429) return 3000;
  if (error instanceof HttpError && error.status < 500) {
    banner(`The head refused a request: ${error.message}`);
    return 3000;
  }
  lost_at ??= Date.now();
  set_link("lost", "no connection");
  banner(`No connection to the head since ${clock(lost_at)}. What you see is older. Trying again…`);
  return 1000;
}

// Waits until the browser has painted. A hidden page never paints.
const painted = () => Promise.race([pause_for(100), new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))]);

const is_watching = () => signed_in && !paused && !document.hidden;

// Follows the head's number of changes with a request that it answers when the number moves.
async function follow_changes() {
  for (;;) {
    if (!is_watching()) {
      await pause_for(200);
      continue;
    }
    try {
      const first = seen.number < 0 || lost_at;
      const now = await api(first ? "changes" : with_query("changes", { since: seen.number, epoch: seen.epoch }));
      const moved = now.epoch !== seen.epoch || now.number !== seen.number;
      seen = { epoch: now.epoch, number: now.number };
      connected();
      if (moved) kick();
      await pause_for(min_refresh_ms);
    } catch (error) {
      await pause_for(failed(error));
    }
  }
}

async function load_status() {
  await load("status");
  draw_top();
}

// Refreshes the documents of the open view, at most once a second.
async function refresh() {
  for (;;) {
    const begin = performance.now();
    if (is_watching() && view && !lost_at) {
      const current = view;
      const is_first = !are_there(current.sources);
      try {
        const due = [...new Set(["status", ...current.sources])].filter(is_due);
        if (is_first && views[current.name].first && due.includes("status")) {
          // The first picture waits for no larger document: neither for the head to answer it, nor
          // for the browser to parse it.
          await load_status();
          if (current === view) await draw();
          await painted();
        }
        await Promise.all(due.map((name) => (name !== "status" ? load(name) : is_due(name) ? load_status() : null)));
        if (current.name === "overview") await load_histories();
        if (current === view && (due.length > 0 || current.made.live)) await draw();
      } catch (error) {
        await pause_for(failed(error));
      }
    }
    const soon = view && !are_there(view.sources) ? 100 : min_refresh_ms;
    await Promise.race([pause_for(Math.max(50, soon - (performance.now() - begin))), new Promise((done) => (wake = done))]);
    // A change wakes the loop early, but a refresh never follows within a second.
    const early = soon - (performance.now() - begin);
    if (early > 0 && view && are_there(view.sources)) await pause_for(early);
  }
}

// ---- keyboard, theme, start ---------------------------------------------------------------------

function set_theme(next) {
  theme = next;
  const dark = theme === "dark" || (theme === "" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light" : "Dark";
  draw();
}

function toggle_theme() {
  const dark = document.documentElement.dataset.theme === "dark";
  localStorage.setItem("mobula.theme", dark ? "light" : "dark");
  set_theme(dark ? "light" : "dark");
}

function toggle_pause() {
  paused = !paused;
  $("pause").textContent = paused ? "Resume" : "Pause";
  set_link(paused ? "" : "live", paused ? "paused" : "live");
  kick();
}

function toggle_help() {
  const help = $("help");
  if (help.open) return help.close();
  const rows = [["1 … 0, -, =", "Open a view"], ["/", "Filter the rows"], ["j, k or ↓, ↑", "Next, previous row"], ["Enter", "Details of the row"], ["Esc", "Close details"],
    ["p", "Pause or resume updates"], ["t", "Light or dark theme"], ["?", "This list"]];
  help.replaceChildren(el("h1", { text: "Keyboard" }), el("dl", {}, rows.flatMap(([keys, text]) => [el("dt", {}, el("kbd", { text: keys })), el("dd", { text })])));
  help.showModal();
}

function move_row(step) {
  const rows = [...$("main").querySelectorAll("tbody tr[tabindex], .gpu, .log")];
  if (rows.length === 0) return;
  const at = rows.indexOf(document.activeElement);
  rows[Math.max(0, Math.min(rows.length - 1, at + step))].focus();
}

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else if (!$("drawer").hidden) close_drawer();
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !signed_in) return;
  const number = keys.indexOf(event.key);
  if (number >= 0 && event.key) location.hash = `#/${order[number]}`;
  else if (event.key === "/") $("main").querySelector("input[type=search]")?.focus();
  else if (event.key === "j" || event.key === "ArrowDown") move_row(1);
  else if (event.key === "k" || event.key === "ArrowUp") move_row(-1);
  else if (event.key === "p") toggle_pause();
  else if (event.key === "t") toggle_theme();
  else if (event.key === "?") toggle_help();
  else return;
  event.preventDefault();
});

$("nav").append(...order.map((name, index) => el("a", { href: `#/${name}`, "data-view": name, "data-testid": `nav-${name}`, hidden: name === "experiments" },
  el("span", { class: "label", text: views[name].title.replace("Placement groups", "Groups") }), el("span", { class: "count badge", hidden: true }), el("kbd", { text: key_of(index) }))));
$("pause").addEventListener("click", toggle_pause);
$("theme").addEventListener("click", toggle_theme);
$("keys").addEventListener("click", toggle_help);
$("signin").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = "";
  sessionStorage.setItem(token_key, token);
  sign_out("", false);
});
window.addEventListener("hashchange", route);
window.addEventListener("resize", () => draw());
document.addEventListener("visibilitychange", kick);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme === "" && set_theme(""));
set_theme(localStorage.getItem("mobula.theme") ?? "");
route();
if (!token) sign_out("");
follow_changes();
refresh();
