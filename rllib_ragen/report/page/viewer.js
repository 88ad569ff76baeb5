"use strict";
// What models said is only ever put on the page as text (textContent), never as markup.
const runs = JSON.parse(document.getElementById("data").textContent);
const get = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const number = (value) => (Math.abs(value) < 1e-9 ? "0" : value.toFixed(2).replace(/\.?0+$/, ""));
const unique = (values) => [...new Set(values)];
const state = { run: 0, iteration: null, group: null, filter: "all", colour: "advantages", search: "" };

function fill(select, values, chosen, label = String) {
  select.replaceChildren(...values.map((value) => {
    const option = make("option", "", label(value));
    option.value = value;
    return option;
  }));
  select.value = chosen;
}

const texts = (trajectory) => trajectory.turns.flatMap((turn) => [turn.state, turn.reply]);
function passes(trajectory) {
  const { filter } = state;
  return filter === "all" || (filter === "success" && trajectory.success)
    || (filter === "no success" && !trajectory.success) || filter === trajectory.stop;
}
function shown() {
  const wanted = state.search.toLowerCase();
  return runs[state.run].trajectories.filter((trajectory) => passes(trajectory)
    && (!wanted || texts(trajectory).some((text) => text.toLowerCase().includes(wanted))));
}

function choose(values, wanted) { return values.includes(wanted) ? wanted : values[0]; }

function draw() {
  const found = shown();
  const iterations = unique(found.map((trajectory) => trajectory.iteration));
  state.iteration = choose(iterations, state.iteration);
  const here = found.filter((trajectory) => trajectory.iteration === state.iteration);
  const groups = unique(here.map((trajectory) => trajectory.group));
  const size = (group) => here.filter((trajectory) => trajectory.group === group).length;
  state.group = choose([...groups].sort((a, b) => size(b) - size(a)), state.group);
  fill(get("iteration"), iterations, state.iteration);
  fill(get("group"), groups, state.group, (group) => (size(group) > 1 ? `${group} (${size(group)} members)` : group));
  get("earlier").disabled = iterations.indexOf(state.iteration) <= 0;
  get("later").disabled = iterations.indexOf(state.iteration) >= iterations.length - 1;
  get("count").textContent = `${found.length} of ${runs[state.run].trajectories.length} trajectories`;
  drawMatches(found);
  // Members are compared with each other, so those that a filter leaves out are shown where their group is.
  const members = runs[state.run].trajectories.filter((trajectory) =>
    trajectory.iteration === state.iteration && trajectory.group === state.group);
  // Not Math.max(...all of them): an engine takes some 100,000 arguments, and long replies have more tokens.
  let top = 1e-9;
  for (const member of members) for (const turn of member.turns) {
    for (const advantage of turn.advantages) top = Math.max(top, Math.abs(advantage));
  }
  get("members").replaceChildren(...members.map((trajectory) => drawMember(trajectory, top)));
}

function drawMatches(found) {
  const wanted = state.search.toLowerCase();
  get("matches").replaceChildren(...(wanted ? found.slice(0, 50) : []).map((trajectory) => {
    const text = texts(trajectory).find((candidate) => candidate.toLowerCase().includes(wanted));
    const at = text.toLowerCase().indexOf(wanted);
    const snippet = text.slice(Math.max(0, at - 30), at + wanted.length + 60).replace(/\s+/g, " ");
    const { iteration, group, member } = trajectory;
    const button = make("button", "", `iteration ${iteration}, group ${group}, member ${member}: …${snippet}…`);
    button.addEventListener("click", () => { Object.assign(state, { iteration, group }); draw(); });
    return button;
  }));
}

function drawMember(trajectory, top) {
  const card = make("div", "member");
  const head = make("div", trajectory.success ? "good" : "bad");
  head.append(make("b", "", `member ${trajectory.member}`),
    ` return ${number(trajectory.return)}, ${trajectory.stop.replace("_", " ")}`);
  card.append(head);
  if (trajectory.error) card.append(make("div", "bad", trajectory.error));
  trajectory.turns.forEach((turn, index) => card.append(drawTurn(turn, index, top)));
  return card;
}

function drawTurn(turn, index, top) {
  const node = make("div", "turn");
  node.append(make("div", "dim", `turn ${index + 1}`), make("pre", "", turn.state));
  const reply = make("div", "reply");
  if (turn.tokens.length) turn.tokens.forEach((text, i) => reply.append(drawToken(turn, text, i, top)));
  else reply.textContent = turn.reply;
  const facts = make("dl", "facts");
  const fact = (name, value, className) => facts.append(make("dt", "", name), make("dd", className, value));
  fact("thought", turn.well_formed ? turn.thought || "(empty)" : "(reply is malformed)", turn.well_formed ? "" : "bad");
  fact("actions", `${turn.actions.join(" || ") || "none"} (${turn.num_run} run)`, turn.valid ? "" : "bad");
  fact("reward", number(turn.reward), turn.reward > 0 ? "good" : "");
  node.append(reply, facts);
  return node;
}

function drawToken(turn, text, i, top) {
  const token = make("span", "", text);
  const logprob = turn.logprobs[i];
  const advantage = turn.advantages[i];
  token.title = `log-prob ${logprob.toFixed(3)}, p ${Math.exp(logprob).toFixed(3)}`
    + (advantage === undefined ? ", not trained on" : `, advantage ${advantage.toFixed(3)}`);
  if (state.colour === "advantages" && advantage !== undefined) {
    paint(token, advantage < 0 ? "--bad" : "--good", Math.abs(advantage) / top);
  }
  if (state.colour === "logprobs") paint(token, "--s1", Math.min(1, -logprob / 3));
  return token;
}
function paint(node, colour, share) {
  node.style.background = `color-mix(in srgb, var(${colour}) ${Math.round(55 * share)}%, transparent)`;
}

function step(by) {
  const iterations = unique(shown().map((trajectory) => trajectory.iteration));
  state.iteration = iterations[iterations.indexOf(state.iteration) + by] ?? state.iteration;
  draw();
}
function start() {
  fill(get("run"), runs.map((_, index) => index), 0, (index) => runs[index].name);
  const stops = () => unique(runs[state.run].trajectories.map((trajectory) => trajectory.stop)).sort();
  const refill = () => fill(get("filter"), ["all", "success", "no success", ...stops()], "all", (s) => s.replace("_", " "));
  refill();
  get("run").addEventListener("change", (event) => {
    Object.assign(state, { run: Number(event.target.value), filter: "all" });
    refill();
    draw();
  });
  get("iteration").addEventListener("change", (event) => { state.iteration = Number(event.target.value); draw(); });
  for (const id of ["group", "filter", "colour"]) {
    get(id).addEventListener("change", (event) => { state[id] = event.target.value; draw(); });
  }
  get("search").addEventListener("input", (event) => { state.search = event.target.value; draw(); });
  get("earlier").addEventListener("click", () => step(-1));
  get("later").addEventListener("click", () => step(1));
  get("theme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).colorScheme;
    const isDark = dark === "dark" || (dark !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
  });
  draw();
}
start();
