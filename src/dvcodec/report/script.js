"use strict";
(() => {
  const PAGE = 50;
  const SVG = "http://www.w3.org/2000/svg";
  const files = JSON.parse(document.getElementById("data").textContent);
  const size = files.path.length;
  const $ = (id) => document.getElementById(id);

  // ------------------------------------------------------------------------------------------------ numbers, elements
  const number = (n) => (n === null ? "–" : n.toLocaleString("en-US"));
  const counted = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;
  const brief = (x) => String(Number(x.toPrecision(3)));
  const bytes = (n) => {
    const units = ["B", "KiB", "MiB", "GiB"];
    while (n >= 1024 && units.length > 1) {
      n /= 1024;
      units.shift();
    }
    return `${n < 999.5 ? brief(n) : n.toFixed(0)} ${units[0]}`;
  };
  const share = (i) => (files.rows[i] && files.deleted[i] !== null ? files.deleted[i] / files.rows[i] : null);
  const percent = (x) => {
    if (x === null) return "–";
    if (x > 0 && x < 1e-5) return "<0.001 %";
    return x < 1 && x >= 0.9995 ? ">99.9 %" : `${brief(100 * x)} %`;
  };

  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const draw = (name, attributes = {}, ...children) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  // A picture of where in the file the deleted rows are; parts of one shade that touch are one rectangle.
  const strip = (i) => {
    const shades = files.strip[i];
    const known = files.deleted[i] !== null;
    const parts = [...shades].filter((shade) => shade !== "0").length;
    const words = known ? `deleted rows in ${parts} of 64 parts of the file` : "unknown";
    const svg = draw("svg", { class: "strip", viewBox: "0 0 64 1", preserveAspectRatio: "none", role: "img" });
    svg.append(draw("title", {}, words));
    for (let at = 0; at < shades.length; ) {
      let end = at;
      while (end < shades.length && shades[end] === shades[at]) end += 1;
      if (shades[at] !== "0") svg.append(draw("rect", { class: `d${shades[at]}`, x: at, y: 0, width: end - at, height: 1 }));
      at = end;
    }
    return svg;
  };
  const bar = (part) => {
    const svg = draw("svg", { class: "share", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" });
    svg.append(draw("rect", { class: "track", x: 0, y: 0, width: 100, height: 6 }));
    if (part) svg.append(draw("rect", { class: "bar", x: 0, y: 0, width: Math.max(100 * Math.min(part, 1), 1), height: 6 }));
    return svg;
  };

  // ------------------------------------------------------------------------------------------------ columns
  const mix = (i) => {
    const kinds = ["array", "bitset", "run"];
    const counts = files.containers.map((column) => column[i]);
    return kinds.flatMap((kind, k) => (counts[k] ? [counted(counts[k], kind)] : [])).join(", ");
  };
  const stored = (i) => {
    const n = files.stored[i];
    if (!n) return make("span", { class: "none" }, "–");
    const each = files.deleted[i] ? `, ${brief(n / files.deleted[i])} B per deleted row` : "";
    return make("span", { title: `${counted(n, "byte")}${each}` }, bytes(n));
  };
  const amount = (i) => {
    const part = share(i);
    const words = part === null ? "unknown" : `${number(files.deleted[i])} of ${counted(files.rows[i], "row")}`;
    return make("div", { class: "amount", title: words }, bar(part), make("span", {}, percent(part)));
  };
  const name = (i) => {
    const path = files.path[i];
    const cut = path.lastIndexOf("/") + 1;
    const title = files.folder + path;
    const open = make("button", { class: "open", type: "button", "aria-expanded": opened.has(i), "data-file": i, title }, path.slice(cut) || title);
    const cell = [open];
    if (cut > 0) cell.push(make("div", { class: "folder", title }, path.slice(0, cut)));
    if (files.errors[i]) cell.push(make("span", { class: "badge" }, "unreadable"));
    return cell;
  };
  const total = (i) => files.containers.reduce((sum, column) => sum + column[i], 0);
  const columns = [
    { key: "path", label: "Data file", kind: "name", value: (i) => files.path[i], cell: name },
    { key: "partition", label: "Partition", kind: "partition", value: (i) => files.partition[i], cell: (i) => [files.partition[i] ?? "–"] },
    { key: "share", label: "Deleted share", kind: "amounts number", value: share, cell: (i) => [amount(i)] },
    { key: "strip", label: "Where in the file", kind: "where", value: (i) => files.strip[i].replaceAll("0", "").length, cell: (i) => [strip(i)] },
    { key: "deleted", label: "Deleted", kind: "number", value: (i) => files.deleted[i], cell: (i) => [number(files.deleted[i])] },
    { key: "rows", label: "Rows", kind: "number", value: (i) => files.rows[i], cell: (i) => [number(files.rows[i])] },
    { key: "stored", label: "Vectors", kind: "number", value: (i) => files.stored[i], cell: (i) => [stored(i)] },
    { key: "containers", label: "Containers", kind: "containers", value: total, cell: (i) => [mix(i) || "–"] },
  ].filter((column) => column.key !== "partition" || files.partition.some((value) => value !== null));

  const worth = new Set(files.rewrite);
  const filters = [
    ["all data files", () => true],
    ["with deleted rows", (i) => files.deleted[i] > 0],
    ["all rows deleted", (i) => files.rows[i] > 0 && files.deleted[i] >= files.rows[i]],
    ["worth rewriting", (i) => worth.has(i)],
    ["unreadable vectors", (i) => i in files.errors],
  ].map(([label, test]) => ({ label, test, count: Array.from({ length: size }, (_, i) => i).filter(test).length }));

  // ------------------------------------------------------------------------------------------------ state
  const opened = new Set();
  const state = { key: "share", down: true, query: "", filter: 0, page: 0 };
  const texts = files.path.map((path, i) => `${path} ${files.partition[i] ?? ""}`.toLowerCase());
  const collator = new Intl.Collator("en", { numeric: true });
  let order = [];

  const arrange = () => {
    const { test } = filters[state.filter];
    const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
    const { value } = columns.find((column) => column.key === state.key);
    const values = files.path.map((_, i) => value(i));
    const sign = state.down ? -1 : 1;
    order = [];
    for (let i = 0; i < size; i += 1) if (test(i) && words.every((word) => texts[i].includes(word))) order.push(i);
    order.sort((a, b) => {
      const [x, y] = [values[a], values[b]];
      if (x === y) return a - b;
      if (x === null) return 1; // unknown values come last, in both directions
      if (y === null) return -1;
      return sign * (typeof x === "string" ? collator.compare(x, y) : x - y) || a - b;
    });
    state.page = Math.min(state.page, Math.max(Math.ceil(order.length / PAGE) - 1, 0));
  };

  // ------------------------------------------------------------------------------------------------ drawing
  const head = document.querySelector(".files thead tr");
  const body = document.querySelector(".files tbody");

  const detail = (i) => {
    const pairs = make("dl", { class: "pairs" });
    const entry = (title, ...values) => pairs.append(make("dt", {}, title), ...values.map((value) => make("dd", {}, value)));
    entry("Path", make("span", { class: "path" }, files.folder + files.path[i]));
    if (files.size[i] !== null) entry("Size", make("span", { title: counted(files.size[i], "byte") }, bytes(files.size[i])));
    for (const [file, offset, length, rows] of files.vectors[i]) {
      const where = [offset === null ? "" : `at byte ${number(offset)}`, length === null ? "" : counted(length, "byte"), rows === null ? "" : `${counted(rows, "row")} recorded`];
      entry("Vector", make("span", {}, make("span", { class: "path" }, files.places[file] || "inline"), ` ${where.filter(Boolean).join(", ")}`));
    }
    for (const error of files.errors[i] ?? []) entry("Error", error);
    const axis = make("div", { class: "axis", "aria-hidden": "true" }, make("span", {}, "first row"), make("span", {}, "last row"));
    const cell = make("td", { colspan: columns.length, role: "cell" }, ...(files.strip[i] ? [strip(i), axis] : []), pairs);
    return make("tr", { class: "detail", role: "row" }, cell);
  };

  const show = () => {
    const start = state.page * PAGE;
    const page = order.slice(start, start + PAGE);
    for (const cell of head.children) {
      if (cell.dataset.key === state.key) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    body.replaceChildren(
      ...page.flatMap((i) => {
        const row = make("tr", { role: "row" });
        for (const column of columns) {
          const first = column.key === "path";
          const attributes = { class: column.kind, role: first ? "rowheader" : "cell" };
          if (first) attributes.scope = "row";
          else attributes["data-label"] = column.label;
          const cell = make(first ? "th" : "td", attributes, ...column.cell(i));
          if (cell.textContent === "–") cell.classList.add("void");
          row.append(cell);
        }
        return opened.has(i) ? [row, detail(i)] : [row];
      }),
    );
    const shown = `${number(start + 1)}–${number(start + page.length)} of ${counted(order.length, "data file")}`;
    $("place").textContent = order.length ? shown : "No matching data files.";
    $("previous").disabled = state.page === 0;
    $("next").disabled = start + PAGE >= order.length;
    $("sort").value = `${state.key} ${state.down}`;
  };
  const update = (change) => {
    Object.assign(state, { page: 0 }, change);
    arrange();
    show();
  };

  for (const column of columns) {
    const button = make("button", { type: "button" }, column.label);
    const textual = column.key === "path" || column.key === "partition";
    button.addEventListener("click", () => update({ key: column.key, down: state.key === column.key ? !state.down : !textual }));
    head.append(make("th", { scope: "col", role: "columnheader", class: `${column.kind} c-${column.key}`, "data-key": column.key }, button));
    const ways = textual ? [["A to Z", false], ["Z to A", true]] : [["most first", true], ["least first", false]];
    for (const [way, down] of ways) $("sort").append(make("option", { value: `${column.key} ${down}` }, `${column.label}, ${way}`));
  }
  filters.forEach(({ label, count }, i) => $("show").append(make("option", { value: i }, `${label} (${number(count)})`)));

  $("sort").addEventListener("change", (event) => {
    const [key, down] = event.target.value.split(" ");
    update({ key, down: down === "true" });
  });
  $("show").addEventListener("change", (event) => update({ filter: Number(event.target.value) }));
  $("query").addEventListener("input", (event) => update({ query: event.target.value }));
  document.querySelector(".tools").addEventListener("submit", (event) => event.preventDefault());
  for (const [id, step] of [["previous", -1], ["next", 1]]) {
    $(id).addEventListener("click", () => {
      state.page += step;
      show();
      $("files").scrollIntoView();
    });
  }
  body.addEventListener("click", (event) => {
    const button = event.target.closest(".open");
    if (!button) return;
    const i = Number(button.dataset.file);
    if (!opened.delete(i)) opened.add(i);
    show();
    body.querySelector(`[data-file="${i}"]`).focus();
  });

  // ------------------------------------------------------------------------------------------------ theme
  const theme = $("theme");
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name_theme = () => {
    theme.textContent = dark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Change to ${dark() ? "light" : "dark"} colours`);
  };
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    name_theme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name_theme);

  name_theme();
  theme.hidden = false;
  update({});
  $("browser").hidden = false;
})();
