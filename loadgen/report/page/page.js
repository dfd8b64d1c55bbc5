(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("data").textContent);
  var root = document.getElementById("charts");
  var sync = uPlot.sync("time");
  var plots = [];

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
        points: { show: data.times.length < 3 ? true : undefined, size: 4 },
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
    plots = data.charts.map(function (chart) {
      var box = document.getElementById("chart-" + chart.id);
      var rows = [data.times].concat(chart.series.map(function (s) { return s.values; }));
      return new uPlot(options(chart, box.clientWidth), rows, box);
    });
  }

  data.charts.forEach(function (chart) {
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
