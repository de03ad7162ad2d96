// Shows /status.json, again every two seconds. Texts of the server become text nodes only.
"use strict";

const PERIOD_MS = 2000;
const PHASES = ["receive", "queue", "compute", "verify"];
const at = (id) => document.getElementById(id);
let token = "";

// An element with a class and children, which are elements or texts.
function element(tag, name, ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${count >= 100 || unit === 0 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

function duration(us) {
  if (us < 1000) return `${us} µs`;
  return us < 1e6 ? `${(us / 1000).toFixed(us < 1e5 ? 2 : 0)} ms` : `${(us / 1e6).toFixed(2)} s`;
}

function uptime(seconds) {
  const [days, hours] = [Math.floor(seconds / 86400), Math.floor((seconds % 86400) / 3600)];
  if (days > 0) return `${days} d ${hours} h`;
  const minutes = Math.floor((seconds % 3600) / 60);
  return hours > 0 ? `${hours} h ${minutes} min` : minutes > 0 ? `${minutes} min` : `${seconds} s`;
}

function bar(part) {
  const filled = element("i");
  filled.style.width = `${Math.min(100, 100 * part)}%`;
  return element("div", "bar", filled);
}

function card(title, lines, part) {
  const texts = lines.map((line) => element("p", "", line));
  const made = element("div", "card", element("h3", "", title), ...texts);
  if (part !== undefined) made.append(bar(part));
  return made;
}

// What a GPU holds, in words; `total` is null if it does not answer.
function holdings(total) {
  if (!total) return "does not answer";
  const pinned = total.pinned_bases > 0
    ? `, ${total.pinned_bases} pinned (${bytes(total.pinned_bytes)})`
    : "";
  return `${total.bases} bases (${bytes(total.bytes)})${pinned}`;
}

function device(info, residency) {
  const gpu = info.gpu;
  if (!gpu) return card(info.name, [`engine ${info.kind}`]);
  const used = gpu.arena_bytes - gpu.arena_free_bytes;
  const readings = [
    gpu.temperature_c !== null && `${gpu.temperature_c} °C`,
    gpu.power_mw !== null && `${Math.round(gpu.power_mw / 1000)} W`,
    gpu.clock_mhz !== null && `${gpu.clock_mhz} MHz`,
  ].filter(Boolean);
  const lines = [
    `memory for jobs: ${bytes(used)} of ${bytes(gpu.arena_bytes)}`,
    `capability ${gpu.capability}, self-test ${gpu.self_test}`,
  ];
  const held = residency.find((it) => it.device === gpu.index);
  if (held) lines.push(holdings(held.total));
  if (readings.length > 0) lines.push(readings.join(", "));
  if (gpu.ecc_uncorrected) lines.push(`${gpu.ecc_uncorrected} uncorrected memory errors`);
  return card(`GPU ${gpu.index}: ${info.name}`, lines, used / gpu.arena_bytes);
}

function devices(report) {
  const cards = report.devices.map((info) => device(info, report.residency));
  const shown = report.devices.map((info) => info.gpu && info.gpu.index);
  for (const held of report.residency.filter((it) => !shown.includes(it.device))) {
    cards.push(card(`GPU ${held.device}`, [held.total ? "does not serve" : holdings(null)]));
  }
  if (!report.devices_are_current) {
    cards.push(element("p", "empty", "a device does not answer: readings may be old"));
  }
  return cards;
}

function limit({ name, unit, used, max }) {
  const text = (count) => (unit === "bytes" ? bytes(count) : String(count));
  return card(name, [`${text(used)} of ${text(max)}`], max > 0 ? used / max : 0);
}

function timeline(job, longest) {
  const parts = PHASES.filter((phase) => job[`${phase}_us`] > 0).map((phase) => {
    const part = element("i", phase);
    part.style.width = `${(100 * job[`${phase}_us`]) / longest}%`;
    part.title = `${phase} ${duration(job[`${phase}_us`])}`;
    return part;
  });
  return element("div", "timeline", ...parts);
}

const total = (job) => PHASES.reduce((sum, phase) => sum + job[`${phase}_us`], 0);
const title = (job) => `${job.call} 2^${job.lg_n}`;
const owner = (job) => (job.owner ? `${job.owner.tenant}, ${job.owner.caller}` : job.engine);

function jobRow(job, longest) {
  const batch = job.batch_jobs > 1 ? `, ${job.batch_jobs} at once` : "";
  const row = element(
    "div", "job",
    element("span", "name", `${title(job)}${batch}`),
    element("span", "owner", owner(job)),
    timeline(job, longest),
    element("span", "time", duration(total(job))),
  );
  row.title = job.device;
  return row;
}

function table(columns, rows, title = () => "") {
  const head = element("tr", "", ...columns.map(([name]) => element("th", "", name)));
  const cells = (row) => columns.map(([, cell]) => element("td", "", cell(row)));
  const body = rows.map((row) => {
    const made = element("tr", "", ...cells(row));
    made.title = title(row);
    return made;
  });
  return element("table", "", head, ...body);
}

const BASES_COLUMNS = [
  ["bases", (it) => it.label || `${it.id.slice(0, 16)}…`],
  ["GPU", (it) => String(it.device)],
  ["tenant", (it) => it.tenant],
  ["points", (it) => `${it.points} in ${it.group.toUpperCase()}`],
  ["size", (it) => bytes(it.bytes)],
  ["tables", (it) => String(it.tables)],
  ["pinned", (it) => (it.pinned ? "yes" : "no")],
];

// The name of a tenant, and what it uses, in the order of the report.
const tenantColumns = ([tenant]) => Object.keys(tenant).map((key) => [
  key === "name" ? "tenant" : key.replaceAll("_", " "),
  (it) => (key.includes("bytes") ? bytes(it[key]) : String(it[key])),
]);

const STEP_COLUMNS = [
  ["step", (it) => it.operation],
  ["method", (it) => it.method],
  ["time", (it) => duration(it.time_us)],
];

function slowJob(job, open) {
  const modelled = job.modelled_us ? `, modelled ${duration(job.modelled_us)}` : "";
  const time = duration(job.compute_us + job.verify_us);
  const made = element(
    "details", "",
    element("summary", "", `${title(job)}: ${time}${modelled}; ${owner(job)}`),
    element("p", "", job.device),
    table(STEP_COLUMNS, job.steps),
  );
  if (job.more_steps > 0) made.append(element("p", "", `and ${job.more_steps} more steps`));
  // The same job stays open when the page is shown again.
  made.dataset.job = `${job.ended_unix_ms} ${job.compute_us}`;
  made.open = open.has(made.dataset.job);
  return made;
}

function some(rows, text) {
  return rows.length > 0 ? rows : [element("p", "empty", text)];
}

function show(report) {
  at("version").textContent = report.version;
  const state = at("state");
  const { waiting, accepted } = report.queue;
  state.textContent = report.not_ready
    ? `not ready: ${report.not_ready}`
    : `ready, up ${uptime(report.uptime_s)}; jobs: ${accepted} accepted, ${waiting} waiting`;
  state.classList.toggle("bad", Boolean(report.not_ready));
  state.title = `${report.engine}: ${report.engine_reason}`;
  at("devices").replaceChildren(...devices(report));
  const held = report.residency.flatMap(({ device, bases = [] }) =>
    bases.map((it) => ({ device, ...it })),
  );
  at("bases-section").hidden = held.length === 0;
  at("bases").replaceChildren(table(BASES_COLUMNS, held, (it) => it.id));
  at("limits").replaceChildren(...report.limits.map(limit));
  at("tenants-section").hidden = !report.tenants;
  if (report.tenants) {
    at("tenants").replaceChildren(table(tenantColumns(report.tenants), report.tenants));
  }
  const longest = Math.max(1, ...report.jobs.map(total));
  const jobs = report.jobs.map((job) => jobRow(job, longest));
  at("jobs").replaceChildren(...some(jobs, "no job has ended yet"));
  const open = new Set([...document.querySelectorAll("details[open]")].map((it) => it.dataset.job));
  at("slow").replaceChildren(...some(report.slow_jobs.map((job) => slowJob(job, open)), "none"));
}

async function refresh() {
  const state = at("state");
  try {
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    const answer = await fetch("/status.json", { headers, cache: "no-store" });
    if (answer.ok) {
      show(await answer.json());
    } else {
      if (answer.status === 401 || answer.status === 403) token = "";
      state.textContent = await answer.text();
      state.classList.add("bad");
    }
  } catch (error) {
    state.textContent = `no answer: ${error.message}`;
    state.classList.add("bad");
  }
  setTimeout(refresh, PERIOD_MS);
}

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
});
refresh();
