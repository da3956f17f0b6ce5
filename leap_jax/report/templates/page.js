"use strict";
// Draws the figures and runs the rollout browser. Every text goes through textContent: none of it becomes markup.

const {figures, rollouts} = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Plots.

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function themed(layout) {
  const axis = {gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line"), automargin: true};
  return {
    ...layout,
    xaxis: {...axis, ...layout.xaxis},
    yaxis: {...axis, ...layout.yaxis},
    font: {color: colour("--text"), family: "system-ui, sans-serif", size: 12},
    hoverlabel: {bgcolor: colour("--card"), bordercolor: colour("--line"), font: {color: colour("--text")}},
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: {l: 50, r: 10, t: 24, b: 40},
    legend: {orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal"},
  };
}

function draw(index) {
  const view = document.querySelector(`select[data-plot="${index}"]`)?.value ?? 0;
  const figure = figures[index][view];
  Plotly.react(`plot-${index}`, figure.data, themed(figure.layout), {responsive: true, displaylogo: false, displayModeBar: false});
}

function drawAll() {
  figures.forEach((_, index) => draw(index));
}

document.querySelectorAll("select[data-plot]").forEach(select => select.addEventListener("change", () => draw(select.dataset.plot)));
dark.addEventListener("change", drawAll);
drawAll();

// Rollouts: what is shown.

const LISTED = 200;  // groups in the list at once
const FATES = {
  "passes in turn 1": rollout => rollout.pass === 1,
  "passes later": rollout => rollout.pass > 1 && rollout.pass === rollout.turns.length,
  "never passes": rollout => rollout.pass > rollout.turns.length,
};
const TIERS = ["#5b7f9e", "#2f9e6e", "#7fc29b", "#c3d98b", "#e3c567", "#e0a458"];

function matching(filters) {
  const wanted = filters.task.trim().toLowerCase();
  const fits = FATES[filters.outcome] ?? (rollout => !filters.outcome || rollout.turns.some(turn => turn.outcome === filters.outcome));
  return rollouts.groups.filter(group =>
    (!filters.run || rollouts.runs[group.run] === filters.run) &&
    (!filters.kind || group.kind === filters.kind) &&
    (!filters.step || group.step === Number(filters.step)) &&
    (!wanted || `${group.task} ${group.text}`.toLowerCase().includes(wanted)) &&
    group.rollouts.some(fits)
  ).map(group => ({group, fits}));
}

function fate(rollout) {
  if (rollout.pass === 0) return "not judged";
  return rollout.pass > rollout.turns.length ? "never passes" : `passes in turn ${rollout.pass}`;
}

function listed({group, fits}, chosen) {
  const chips = group.rollouts.map(rollout => {
    const passes = rollout.pass && rollout.pass <= rollout.turns.length;
    const chip = element("button", {
      type: "button", class: fits(rollout) ? "chip" : "chip dim", "aria-pressed": chosen?.group === group && chosen.rollout === rollout,
      "aria-label": `rollout ${rollout.id}, ${fate(rollout)}`,
    }, passes ? `${rollout.pass}` : rollout.pass ? "✕" : "?");
    chip.style.setProperty("--tier", passes ? TIERS[Math.min(rollout.pass, TIERS.length - 1)] : rollout.pass ? "#c8404d" : TIERS[0]);
    chip.addEventListener("click", () => choose(group, rollout));
    return chip;
  });
  const run = rollouts.runs.length > 1 ? `${rollouts.runs[group.run]}, ` : "";
  const text = element("div", {class: "text", title: group.text}, group.text ?? "");
  return element("div", {class: "group"}, `${run}${group.kind}, step ${group.step}, ${group.task}`, text, element("div", {class: "chips"}, ...chips));
}

// Rollouts: one of them.

function percent(logprob) {
  return `${(100 * Math.exp(logprob)).toPrecision(3)} %`;
}

// The text in pieces of one style and one token each.
function pieces(turn) {
  const found = [];
  let start = 0, style = 0, styleEnd = turn.styles[1], token = -1, tokenEnd = 0;
  while (start < turn.text.length) {
    while (styleEnd <= start && style + 2 < turn.styles.length) styleEnd += turn.styles[(style += 2) + 1];
    while (turn.lengths && tokenEnd <= start && token + 1 < turn.lengths.length) tokenEnd += turn.lengths[++token];
    const ends = [styleEnd, tokenEnd, turn.text.length].filter(end => end > start);
    const end = Math.min(...ends);
    found.push({text: turn.text.slice(start, end), style: turn.styles[style], token, logprob: tokenEnd > start ? turn.logprobs[token] : undefined});
    start = end;
  }
  return found;
}

function codeLines(turn, shaded) {
  const lines = [[]];
  for (const piece of turn.text ? pieces(turn) : []) {
    piece.text.split("\n").forEach((text, part) => {
      if (part) lines.push([]);
      if (!text) return;
      const span = element("span", {class: rollouts.styles[piece.style]}, text);
      if (shaded && piece.logprob !== undefined) {
        span.style.backgroundColor = `rgba(224,96,70,${Math.min(0.75, -piece.logprob / 4).toFixed(3)})`;
        span.title = `token ${piece.token + 1}: ${percent(piece.logprob)} (log-probability ${piece.logprob})`;
      }
      lines.at(-1).push(span);
    });
  }
  return lines;
}

// Lines are numbered as the compiler does, from the one after the fence.
function code(turn, before, {shaded, changes}) {
  const texts = turn.text.split("\n");
  const fence = texts.findIndex(text => text.startsWith("```"));
  const close = texts.findIndex((text, index) => index > fence && text.startsWith("```"));
  const named = new Set([...(turn.feedback ?? "").matchAll(/\bline (\d+)/g)].map(match => Number(match[1])));
  const rows = codeLines(turn, shaded).map((spans, index) => {
    const number = index - fence, numbered = index > fence && (close < 0 || index < close);
    const line = element("span", {class: numbered && named.has(number) ? "line named" : "line"}, ...spans);
    if (numbered) line.dataset.number = number;
    return line;
  });
  const inserted = [];
  if (changes && before) {
    const old = before.text.split("\n");
    for (const [i1, i2, j1, j2] of turn.diff ?? []) {
      for (let j = j1; j < j2; j++) rows[j].classList.add("added");
      inserted.push([j1, old.slice(i1, i2).map(text => element("span", {class: "line removed"}, text))]);
    }
  }
  for (const [place, removed] of inserted.reverse()) rows.splice(place, 0, ...removed);
  return element("pre", {class: "code", tabindex: 0}, ...rows);
}

function turnCard(rollout, index, options) {
  const turn = rollout.turns[index];
  const facts = [`${turn.tokens} tokens`];
  if (turn.outcome !== "correct" && turn.stage) facts.unshift(`at ${turn.stage}`);
  if (turn.advantage !== undefined) facts.push(`advantage ${turn.advantage}`);
  if (turn.logprobs) {
    const mean = turn.logprobs.reduce((sum, p) => sum + p, 0) / turn.logprobs.length;
    facts.push(`mean log-probability ${mean.toFixed(2)}, lowest ${Math.min(...turn.logprobs)}`);
  }
  if (turn.cut) facts.push(`cut, of ${turn.cut.toLocaleString("en")} characters`);
  const outcome = element("span", {class: `outcome ${turn.outcome}`}, turn.outcome);
  const header = element("header", {}, element("span", {}, `Turn ${index + 1}`), outcome, ...facts.map(fact => element("span", {}, fact)));
  const card = element("section", {class: "turn", "aria-label": `Turn ${index + 1}`}, header, code(turn, rollout.turns[index - 1], options));
  if (turn.feedback) card.append(element("pre", {class: "feedback"}, turn.feedback));
  return card;
}

function checkbox(name, label) {
  const box = element("input", {type: "checkbox", name});
  box.checked = options[name];
  box.addEventListener("change", () => { options[name] = box.checked; show(); });
  return element("label", {}, box, ` ${label}`);
}

function button(label, action) {
  const made = element("button", {type: "button"}, label);
  made.addEventListener("click", action);
  return made;
}

// State: the filters of the form, the chosen rollout, how it is shown. The address holds the choice.

const options = {shaded: true, changes: true};
let chosen = null;

const form = document.getElementById("filters");
const groupList = document.getElementById("group-list");
const rolloutView = document.getElementById("rollout-view");

function filters() {
  return Object.fromEntries(new FormData(form));
}

function show() {
  const found = matching(filters());
  const rows = found.slice(0, LISTED).map(match => listed(match, chosen));
  if (found.length > LISTED) rows.push(element("div", {class: "group"}, `and ${found.length - LISTED} more groups: narrow the filter`));
  if (!found.length) rows.push(element("div", {class: "group"}, "no group of the sample fits"));
  groupList.replaceChildren(...rows);
  if (!chosen) return rolloutView.replaceChildren();
  const {group, rollout} = chosen;
  const reward = rollout.reward === null ? "" : `, reward ${rollout.reward}`;
  const title = `${rollouts.runs[group.run]}, ${group.kind}, step ${group.step}, ${group.task}, rollout ${rollout.id}: ${fate(rollout)}${reward}`;
  const bar = element("div", {class: "bar"}, button("← previous (K)", () => move(-1)), button("next (J) →", () => move(1)));
  if (rollout.turns.some(turn => turn.logprobs)) bar.append(checkbox("shaded", "shade unlikely tokens"));
  if (rollout.turns.length > 1) bar.append(checkbox("changes", "changes to the turn before"));
  const header = element("header", {}, element("h3", {}, title), bar);
  if (group.text) header.append(element("pre", {class: "asked"}, group.text));
  const turns = element("div", {class: "turns"}, ...rollout.turns.map((_, index) => turnCard(rollout, index, options)));
  rolloutView.replaceChildren(header, turns);
}

function address({group, rollout}) {
  return new URLSearchParams({run: rollouts.runs[group.run], kind: group.kind, step: group.step, prompt: group.prompt, rollout: rollout.id}).toString();
}

function choose(group, rollout) {
  chosen = {group, rollout};
  history.replaceState(null, "", `#${address(chosen)}`);
  const place = groupList.scrollTop;
  show();
  groupList.scrollTop = place;
}

function move(by) {
  const all = matching(filters()).flatMap(({group, fits}) => group.rollouts.filter(fits).map(rollout => ({group, rollout})));
  const at = all.findIndex(one => chosen && one.rollout === chosen.rollout);
  const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
  if (!next) return;
  choose(next.group, next.rollout);
  document.querySelector('.chip[aria-pressed="true"]')?.scrollIntoView({block: "nearest"});
}

function followAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (!wanted.has("rollout")) return;
  for (const group of rollouts.groups) {
    for (const rollout of group.rollouts) {
      if (address({group, rollout}) !== wanted.toString()) continue;
      chosen = {group, rollout};
      show();
      document.getElementById("rollouts").scrollIntoView();
      document.querySelector('.chip[aria-pressed="true"]')?.scrollIntoView({block: "nearest"});
      return;
    }
  }
  chosen = null;
  show();
  rolloutView.replaceChildren("The rollout of this address is not in the sample.");
  document.getElementById("rollouts").scrollIntoView();
}

if (form) {
  const add = (name, values) => form.elements[name].append(...values.map(value => element("option", {value}, `${value}`)));
  add("run", rollouts.runs);
  add("step", [...new Set(rollouts.groups.map(group => group.step))].sort((a, b) => a - b));
  add("outcome", Object.keys(FATES));
  add("outcome", [...new Set(rollouts.groups.flatMap(group => group.rollouts.flatMap(rollout => rollout.turns.map(turn => turn.outcome))))].sort());
  form.addEventListener("input", show);
  form.addEventListener("submit", event => event.preventDefault());
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "j" || event.key === "J") move(1);
    if (event.key === "k" || event.key === "K") move(-1);
  });
  addEventListener("hashchange", followAddress);
  // At first a rollout that shows most: of training, debugged to the end, with success.
  const worth = ({group, rollout}) => rollout.turns.length + (rollout.pass === rollout.turns.length) / 2 + (group.kind === "train") / 4;
  const everyone = rollouts.groups.flatMap(group => group.rollouts.map(rollout => ({group, rollout})));
  chosen = everyone.reduce((best, one) => worth(one) > worth(best) ? one : best);
  show();
  followAddress();
}
