(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("data").textContent);
  var samples = data.samples, times = samples.map(function (s) { return s.at_s; });
  var root = document.getElementById("charts");
  var sync = uPlot.sync("time");
  var plots = [];

  function curve(name, value, dashed) { return { name: name, values: samples.map(value), dashed: dashed }; }

  // latency has no value where there is none, since a logarithmic scale has no place for 0.
  function latency(name, of, which, dashed) {
    return curve(name, function (s) { return s[of][which] > 0 ? s[of][which] : null; }, dashed);
  }

  function verdicts(name, value) {
    return curve(name, function (s) { return s.score ? value(s.score) : null; });
  }

  // clean replaces what would turn the direction of a text, or has no shape.
  function clean(text) { return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd"); }

  // errorCurves returns the five most frequent causes, and the rest together.
  function errorCurves() {
    var all = samples.length ? samples[samples.length - 1].errors : {};
    var causes = Object.keys(all).filter(function (c) { return all[c] > 0; });
    causes.sort(function (a, b) { return all[b] - all[a] || (a < b ? -1 : 1); });
    var shown = causes.length === 6 ? 6 : 5; // the last one needs no other curve than "others" would
    var groups = causes.slice(0, shown).map(function (c) { return { name: clean(c), causes: [c] }; });
    if (causes.length > shown) { groups.push({ name: "others", causes: causes.slice(shown) }); }
    return groups.map(function (g) {
      var before = 0, at = 0;
      return curve(g.name, function (s) {
        var sum = g.causes.reduce(function (n, c) { return n + (s.errors[c] || 0); }, 0);
        var rate = s.at_s > at ? Math.max(sum - before, 0) / (s.at_s - at) : 0;
        before = sum;
        at = s.at_s;
        return rate;
      });
    });
  }

  var charts = [
    { id: "connections", title: "Connections", unit: "count", series: [
      curve("open", function (s) { return s.welcomed; }),
      curve("wanted", function (s) { return s.wanted; }, true),
      curve("connecting", function (s) { return s.connecting; })] },
    { id: "heartbeats", title: "Heartbeats", unit: "per second", series: [
      curve("sent", function (s) { return s.per_second.sent; }),
      curve("answered", function (s) { return s.per_second.answered; })] },
    { id: "connects", title: "Connections begun", unit: "per second", series: [
      curve("connects", function (s) { return s.per_second.connects; })] },
    { id: "rtt", title: "Heartbeat to answer", unit: "ms", log: true, series: [
      latency("p50", "rtt", "p50_ms"), latency("p99", "rtt", "p99_ms"), latency("max", "rtt", "max_ms"),
      latency("p99 from plan", "rtt_planned", "p99_ms", true)] },
    { id: "lateness", title: "The generator's own lateness", unit: "ms", log: true, series: [
      latency("p50", "lateness", "p50_ms"), latency("p99", "lateness", "p99_ms"), latency("max", "lateness", "max_ms")] },
    { id: "errors", title: "Errors", unit: "per second", series: errorCurves() },
    { id: "verdicts", title: "Verdicts so far", unit: "count", series: [
      verdicts("right", function (v) { return v.right; }),
      verdicts("wrong", function (v) { return v.false_offline + v.missed_offline + v.wrong_reason + v.sequence_gaps + v.order_violations; })] },
    { id: "cpu", title: "Processors that the generator kept busy", unit: "cores", series: [
      curve("cores", function (s) { return s.cpu; })] },
    { id: "memory", title: "Memory of the generator", unit: "MiB", series: [
      curve("resident", function (s) { return s.memory / 1048576; })] }
  ].filter(function (chart) { // there is something to see: two points at least, and not only zeros
    return chart.series.some(function (s) {
      return s.values.filter(function (x) { return x !== null; }).length > 1 && s.values.some(Boolean);
    });
  });

  function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function trim(x, digits) { return String(Number(x.toPrecision(digits))); }

  // value writes a number with its unit, as short as it can be.
  function value(unit, x) {
    if (x === null || x === undefined) { return "–"; }
    if (unit === "ms") {
      if (x === 0) { return "0"; }
      if (x < 0.9995) { return trim(x * 1000, 3) + " µs"; }
      return x < 999.5 ? trim(x, 3) + " ms" : trim(x / 1000, 3) + " s";
    }
    if (unit === "MiB") { return x >= 1024 ? trim(x / 1024, 3) + " GiB" : trim(x, 3) + " MiB"; }
    if (unit === "cores") { return trim(x, 3); }
    var per = unit === "per second" ? "/s" : "";
    if (x >= 1e6) { return trim(x / 1e6, 4) + "M" + per; }
    if (x >= 1e4) { return trim(x / 1e3, 4) + "k" + per; }
    return trim(x, 4) + per;
  }

  // exact is for the legend.
  function exact(unit, x) {
    if (x === null || x === undefined || unit === "ms" || unit === "MiB" || unit === "cores") { return value(unit, x); }
    return Math.round(x).toLocaleString("en") + (unit === "per second" ? "/s" : "");
  }

  function two(n) { return (n < 10 ? "0" : "") + n; }

  function clock(s) {
    s = Math.round(s);
    var rest = two(Math.floor(s / 60) % 60) + ":" + two(s % 60);
    return s >= 3600 ? Math.floor(s / 3600) + ":" + rest : rest;
  }

  // bands shades every second phase and writes the names of all that have room for it.
  function bands() {
    function each(u, what) {
      var c = u.ctx, box = u.bbox;
      c.save();
      c.beginPath();
      c.rect(box.left, box.top, box.width, box.height);
      c.clip();
      data.spans.forEach(function (span, i) {
        what(c, box, span, i, u.valToPos(span.from_s, "x", true), u.valToPos(span.to_s, "x", true));
      });
      c.restore();
    }
    return {
      hooks: {
        drawClear: function (u) {
          each(u, function (c, box, span, i, from, to) {
            if (i % 2 === 0) {
              c.fillStyle = css("--band");
              c.fillRect(from, box.top, to - from, box.height);
            }
          });
        },
        draw: function (u) {
          each(u, function (c, box, span, i, from, to) {
            c.font = Math.round(11 * devicePixelRatio) + "px system-ui, sans-serif";
            c.textAlign = "left";
            c.textBaseline = "top";
            c.fillStyle = css("--quiet");
            from = Math.max(from, box.left);
            to = Math.min(to, box.left + box.width);
            if (c.measureText(span.name).width < to - from - 6) {
              c.fillText(span.name, from + 4, box.top + 3);
            }
          });
        }
      }
    };
  }

  function axis(more) {
    return Object.assign({
      stroke: function () { return css("--quiet"); },
      grid: { stroke: function () { return css("--grid"); }, width: 1 },
      ticks: { stroke: function () { return css("--line"); }, width: 1, size: 4 },
      font: "11px system-ui, sans-serif"
    }, more);
  }

  function options(chart, width) {
    var series = [{ label: "time", value: function (u, x) { return x === null ? "–" : clock(x); } }];
    chart.series.forEach(function (s, i) {
      series.push({
        label: s.name,
        stroke: function () { return css("--c" + (i % 6)); },
        width: 1.5,
        dash: s.dashed ? [5, 4] : undefined,
        points: { show: times.length < 3 ? true : undefined, size: 4 },
        value: function (u, x) { return exact(chart.unit, x); }
      });
    });
    return {
      width: width,
      height: 230,
      cursor: { sync: { key: sync.key }, drag: { x: true, y: false } },
      scales: { x: { time: false }, y: chart.log ? { distr: 3, log: 10 } : { range: function (u, min, max) { return [0, max > 0 ? max * 1.12 : 1]; } } },
      series: series,
      axes: [
        axis({ size: 32, values: function (u, list) { return list.map(clock); }, space: 60, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400] }),
        axis({ size: 62, values: function (u, list) { return list.map(function (x) { return x === null ? "" : value(chart.unit, x); }); } })
      ],
      plugins: [bands()]
    };
  }

  function draw() {
    plots.forEach(function (p) { p.destroy(); });
    plots = charts.map(function (chart) {
      var box = document.getElementById("chart-" + chart.id);
      var rows = [times].concat(chart.series.map(function (s) { return s.values; }));
      return new uPlot(options(chart, box.clientWidth), rows, box);
    });
  }

  charts.forEach(function (chart) {
    var figure = document.createElement("section"), title = document.createElement("h3"), box = document.createElement("div");
    title.textContent = chart.title;
    box.id = "chart-" + chart.id;
    figure.append(title, box);
    root.append(figure);
  });
  draw();

  var width = root.clientWidth;
  addEventListener("resize", function () {
    if (root.clientWidth === width) { return; }
    width = root.clientWidth;
    plots.forEach(function (p) {
      p.setSize({ width: p.root.parentNode.clientWidth, height: 230 });
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  root.dataset.drawn = String(plots.length);
})();
