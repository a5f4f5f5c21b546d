"use strict";
// Draws each chart from the table below it, in the colours of the page's theme.
(() => {
  const root = document.documentElement;
  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  const printing = window.matchMedia("print");
  const storage = {
    get() { try { return localStorage.getItem("generic-trainer-theme"); } catch { return null; } },
    set(value) { try { localStorage.setItem("generic-trainer-theme", value); } catch { /* not in a frame */ } },
  };
  const charts = [];
  let smoothing = 0;

  function setTheme() {
    const theme = printing.matches ? "light" : storage.get() || chosen || (preferred.matches ? "dark" : "light");
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light theme" : "Dark theme";
    charts.forEach((chart) => chart.draw());
  }
  let chosen = "";
  const button = document.getElementById("theme");
  button.hidden = false;
  document.getElementById("scriptless").remove();
  button.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    storage.set(chosen);
    setTheme();
  });
  preferred.addEventListener("change", setTheme);
  printing.addEventListener("change", setTheme);

  const number = (cell) => (cell.textContent === "" ? null : Number(cell.textContent));
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const short = (value) => {
    if (typeof value !== "number") return value;
    const size = Math.abs(value);
    if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(2).replace(/\.?0+e/, "e");
    return String(Number(value.toPrecision(4)));
  };

  // The columns of a table: {name, values, dashed, colour, low, high}, and the first one's values.
  function read(table, named) {
    const rows = [...table.tBodies[0].rows];
    const column = (index) => rows.map((row) => number(row.cells[index]));
    const x = rows.map((row) => (named ? row.cells[0].textContent : number(row.cells[0])));
    const series = [];
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      if (index === 0) return;
      const last = series[series.length - 1];
      if ("low" in head.dataset) last.low = column(index);
      else if ("high" in head.dataset) last.high = column(index);
      else series.push({ name: head.textContent, values: column(index), dashed: "dashed" in head.dataset, colour: Number(head.dataset.colour) });
    });
    return { x, series, label: table.tHead.rows[0].cells[0].textContent };
  }

  // An exponential moving average, as TensorBoard's, without its bias to zero at the start.
  function smooth(values) {
    let sum = 0, weight = 0;
    return values.map((value) => {
      if (value === null || smoothing === 0) return value;
      sum = sum * smoothing + (1 - smoothing) * value;
      weight = weight * smoothing + (1 - smoothing);
      return sum / weight;
    });
  }

  // The range of the values after the beginning, if the first ones would squash their curves; else null.
  function rangeOfLater(columns) {
    const present = (values) => values.filter((value) => value !== null);
    const later = columns.flatMap((values) => present(values.slice(Math.max(1, Math.ceil(values.length / 20)))));
    const all = columns.flatMap(present);
    if (later.length < 8) return null;
    const low = Math.min(...later), high = Math.max(...later), margin = 0.1 * (high - low);
    if (margin === 0 || Math.max(...all) - Math.min(...all) < 3 * (high - low)) return null;
    return { min: low - margin, max: high + margin };
  }

  class ChartView {
    constructor(figure) {
      this.figure = figure;
      this.plot = figure.querySelector(".plot");
      this.named = figure.dataset.kind === "names";
      Object.assign(this, read(figure.querySelector("table"), this.named));
      this.hidden = new Set();
      this.logarithmic = false;
      const isCurve = !this.named && figure.closest("#curves");
      this.later = isCurve ? rangeOfLater(this.series.map((one) => one.values)) : null;
      this.full = false;
      if (this.named) this.plot.style.height = `${50 + 19 * this.x.length}px`;
      this.addControls(figure.querySelector(".controls"), "logarithmic" in figure.querySelector("table").dataset);
      new ResizeObserver(() => this.chart && this.chart.resize()).observe(this.plot);
    }

    addControls(place, mayBeLogarithmic) {
      const toggle = (text, pressed, act, key) => {
        const button = document.createElement("button");
        button.type = "button";
        button.setAttribute("aria-pressed", pressed);
        if (key) button.append(key);
        button.append(text);
        button.addEventListener("click", () => {
          button.setAttribute("aria-pressed", act());
          this.draw();
        });
        place.append(button);
        return button;
      };
      this.keys = this.series.map((one) => {
        if (this.series.length < 2) return null;
        const key = document.createElement("span");
        key.className = one.dashed ? "key dashed" : "key";
        toggle(one.name, true, () => {
          if (!this.hidden.delete(one.name)) this.hidden.add(one.name);
          return !this.hidden.has(one.name);
        }, key);
        return key;
      });
      if (mayBeLogarithmic) {
        toggle("Log scale", false, () => (this.logarithmic = !this.logarithmic)).classList.add("option");
      }
      if (this.later) toggle("From the start", false, () => (this.full = !this.full)).classList.add("option");
    }

    draw() {
      if (this.chart) this.chart.dispose();
      this.chart = echarts.init(this.plot, null, { renderer: "svg" });
      const quiet = colour("--quiet"), line = colour("--line");
      const style = { axisLine: { lineStyle: { color: line } }, axisLabel: { color: quiet, formatter: short }, splitLine: { lineStyle: { color: line, opacity: 0.6 } } };
      const shown = this.series.map((one) => ({ ...one, ink: colour(`--c${one.colour % 8}`) }));
      shown.forEach((one, index) => this.keys[index] && (this.keys[index].style.borderTopColor = one.ink));
      const visible = shown.filter((one) => !this.hidden.has(one.name));
      const names = { ...style, type: "category", data: this.x, inverse: true, axisLabel: { color: quiet, width: 150, overflow: "truncate" }, splitLine: { show: false } };
      const range = this.later && !this.full && !this.logarithmic ? this.later : {};
      const values = { ...style, type: this.logarithmic ? "log" : "value", scale: true, ...range };
      this.chart.setOption({
        animation: false,
        aria: { enabled: true, label: { description: this.plot.getAttribute("aria-label") } },
        textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
        grid: { left: 8, right: 24, top: 14, bottom: this.named ? 8 : 26, containLabel: true },
        tooltip: {
          trigger: "axis", confine: true, renderMode: "richText", valueFormatter: short,
          axisPointer: { type: this.named ? "shadow" : "line" },
          backgroundColor: colour("--panel"), borderColor: line, textStyle: { color: colour("--text") },
        },
        xAxis: this.named ? values : { ...style, type: "value", scale: true, name: this.label, nameLocation: "middle", nameGap: 28, nameTextStyle: { color: quiet }, minInterval: this.x.every(Number.isInteger) ? 1 : 0, splitLine: { show: false } },
        yAxis: this.named ? names : values,
        // With Ctrl, so that the wheel alone scrolls the page; two fingers on a touch screen.
        dataZoom: this.named ? [] : [{ type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseMove: true, moveOnMouseWheel: false, filterMode: "none" }],
        series: this.named ? visible.flatMap((one) => this.points(one)) : visible.map((one, index) => this.curve(one, index === 0)),
      });
      this.plot.dataset.drawn = this.plot.querySelectorAll("svg path").length;
    }

    curve(one, isFirst) {
      const points = smooth(one.values).map((value, index) => [this.x[index], value]).filter((point) => point[1] !== null);
      return {
        name: one.name, type: "line", data: points, color: one.ink, showSymbol: points.length < 30, symbolSize: 5,
        lineStyle: { width: 2, type: one.dashed ? "dashed" : "solid" },
        markLine: isFirst && "mark" in this.figure.dataset ? this.mark() : undefined,
      };
    }

    // A vertical line, such as at the published weights.
    mark() {
      const ink = colour("--quiet"), text = this.figure.dataset.markLabel;
      return {
        silent: true, symbol: "none", animation: false, lineStyle: { color: ink, type: "dotted" },
        label: { formatter: text || "published", color: ink, position: text ? "insideStartTop" : "insideEndTop" }, data: [{ xAxis: Number(this.figure.dataset.mark) }],
      };
    }

    points(one) {
      const data = one.values.map((value, index) => [value, index]);
      const drawn = [{ name: one.name, type: "scatter", data, color: one.ink, symbolSize: 9, encode: { x: 0, y: 1, tooltip: 0 } }];
      if (one.low) {
        const ends = one.low.map((low, index) => (low === null ? null : [{ coord: [low, index] }, { coord: [one.high[index], index] }]));
        drawn[0].markLine = {
          silent: true, symbol: "none", animation: false, label: { show: false },
          lineStyle: { color: one.ink, width: 2, type: "solid", opacity: 0.55 }, data: ends.filter(Boolean),
        };
      }
      return drawn;
    }
  }

  function addSmoothing(section) {
    const label = document.createElement("label");
    label.className = "smoothing";
    const range = Object.assign(document.createElement("input"), { type: "range", min: 0, max: 0.95, step: 0.05, value: 0 });
    range.addEventListener("input", () => {
      smoothing = Number(range.value);
      charts.filter((chart) => section.contains(chart.figure)).forEach((chart) => chart.draw());
    });
    label.append("Smoothing", range);
    section.querySelector("h2").after(label);
  }

  // Makes boxes focusable by keyboard only if they can scroll.
  function updateTabStops() {
    document.querySelectorAll(".scroll, pre").forEach((box) => {
      const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
      if (scrolls) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    });
  }

  document.querySelectorAll("figure.chart").forEach((figure) => charts.push(new ChartView(figure)));
  const curves = document.getElementById("curves");
  if (curves && [...curves.querySelectorAll("tbody")].some((body) => body.rows.length > 10)) addSmoothing(curves);
  setTheme();
  updateTabStops();
  document.addEventListener("toggle", updateTabStops, true);
  window.addEventListener("resize", updateTabStops);
})();
