#include "tune/report/report_page.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "tune/report/report_plots.h"
#include "tune/report/svg_plot.h"

namespace mobula::internal::tune {
namespace {

constexpr std::array style{
    R"css(:root{color-scheme:dark}*{box-sizing:border-box})css",
    R"css(body{margin:0;background:#0e1118;color:#d7dce6;font:14px/1.5 system-ui,"Segoe UI",sans-serif})css",
    R"css(main{max-width:1180px;margin:0 auto;padding:28px 24px 48px})css",
    R"css(h1{font-size:24px;font-weight:650;margin:0;letter-spacing:-.01em;overflow-wrap:anywhere})css",
    R"css(h2{font-size:15px;font-weight:600;margin:0 0 2px})css",
    R"css(header{display:flex;gap:12px;align-items:center;flex-wrap:wrap})css",
    R"css(.chip{font-size:12px;padding:2px 10px;border-radius:99px;background:#232a3a;color:#a9b4c8})css",
    R"css(.chip.finished{background:#153c33;color:#6fe0b8}.chip.running{background:#173453;color:#7cc0ff})css",
    R"css(.chip.failed,.chip.interrupted,.chip.stopped{background:#43251f;color:#ff9d7d})css",
    R"css(.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:20px 0})css",
    R"css(.tile,.card{background:#161b26;border:1px solid #232a39;border-radius:12px})css",
    R"css(.tile{padding:12px 16px}.tile b{display:block;font-size:21px;font-weight:620;line-height:1.3;)css",
    R"css(font-variant-numeric:tabular-nums;overflow-wrap:anywhere})css",
    R"css(.tile span,.note{color:#8c97ab;font-size:12.5px})css",
    R"css(.card{padding:16px 18px;margin:0 0 16px}.note{margin:0 0 8px})css",
    R"css(.grid2{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:16px})css",
    R"css(.slices{display:grid;grid-template-columns:repeat(auto-fill,minmax(255px,1fr));gap:6px 14px})css",
    R"css(svg{display:block;width:100%;height:auto;font:11px system-ui,sans-serif})css",
    R"css(svg text{fill:#8c97ab}svg .title{fill:#a9b4c8}svg .name{fill:#d7dce6;font-size:12px})css",
    R"css(svg .halo{fill:#c5cddc;paint-order:stroke;stroke:#161b26;stroke-width:4px})css",
    R"css(path{fill:none}.grid{stroke:#222939}.axis{stroke:#56617a})css",
    R"css(.best{stroke:#f7e25b;stroke-width:2}.area{fill:#f7e25b14})css",
    R"css(.point{fill:#5b8bd0;opacity:.65}.new{fill:#f7e25b}.bar{fill:#4f8fe0})css",
    R"css(.dots{stroke-width:4.5;stroke-linecap:round;opacity:.8})css",
    R"css(.curve{stroke-width:1.4;opacity:.75}.thread{stroke-width:1.2;opacity:.5})css",
    R"css(.s0{stroke:#515585}.s1{stroke:#3f7cac}.s2{stroke:#2fa89c}.s3{stroke:#7bd06d}.s4{stroke:#f7e25b})css",
    R"css(.thread.s4{opacity:.85;stroke-width:1.6})css",
    R"css(.completed{fill:#2fa89c}.stopped{fill:#5a6480}.paused{fill:#8567c9}.running{fill:#4f8fe0})css",
    R"css(.failed{fill:#e0614a})css",
    R"css(.on{opacity:1!important;stroke:#fff!important;stroke-width:2.5!important})css",
    R"css(.legend{display:inline-flex;gap:14px;color:#8c97ab;font-size:12px;flex-wrap:wrap})css",
    R"css(.legend i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:5px})css",
    R"css(.ramp{width:90px!important;background:linear-gradient(90deg,#515585,#3f7cac,#2fa89c,#7bd06d,#f7e25b)})css",
    R"css(.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums})css",
    R"css(th,td{text-align:left;padding:6px 12px 6px 0;border-bottom:1px solid #232a39;white-space:nowrap})css",
    R"css(th{color:#8c97ab;font-weight:500;font-size:12.5px}tr:last-child td{border:0})css",
    R"css(tr.on td{color:#f7e25b}tr.on{outline:0})css",
    R"css(#tip{position:fixed;pointer-events:none;background:#000c;color:#fff;border:1px solid #3a4358;)css",
    R"css(border-radius:6px;padding:2px 9px;font-size:12px;display:none})css",
    R"css(footer{color:#6d778b;font-size:12px;margin-top:20px})css"};

// Highlights the trial under the pointer in all plots.
constexpr std::array script{
    R"js(const tip=document.getElementById('tip');let on=[];)js",
    R"js(const off=()=>{on.forEach(e=>e.classList.remove('on'));on=[];tip.style.display='none'};)js",
    R"js(document.querySelectorAll('title').forEach(t=>{const e=t.parentNode;)js",
    R"js(if(e.dataset&&e.dataset.t){e.dataset.l=t.textContent;t.remove()}});)js",
    R"js(document.addEventListener('pointermove',v=>{const e=v.target.closest&&v.target.closest('[data-t]');off();)js",
    R"js(if(!e)return;on=[...document.querySelectorAll('[data-t="'+e.dataset.t+'"]')];)js",
    R"js(on.forEach(x=>x.classList.add('on'));tip.textContent=e.dataset.l||'trial '+e.dataset.t;)js",
    R"js(tip.style.display='block';tip.style.left=Math.min(v.clientX+14,innerWidth-tip.offsetWidth-8)+'px';)js",
    R"js(tip.style.top=v.clientY+14+'px'});)js",
    R"js(document.addEventListener('pointerleave',off);)js"};

template <class Lines>
std::string joined(const Lines& lines) {
  std::string text;
  for (const char* line : lines) text += std::string(line) + "\n";
  return text;
}

std::string span_text(std::int64_t ms) {
  const std::int64_t seconds = ms / 1000;
  if (seconds < 60) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

std::string count_text(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), " ");
  }
  return digits;
}

std::string tile(const std::string& value, const std::string& label) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>", html_text(value),
                     html_text(label));
}

std::string tiles(const ReportModel& model) {
  std::string all = tile(count_text(model.trial_count), "trials");
  if (!model.best.empty()) {
    const auto& best = model.best.front();
    all += tile(short_number(best.value),
                fmt::format("best {} ({}), trial {}", model.experiment.metric,
                            model.experiment.mode == Mode::max ? "max" : "min", best.trial));
  }
  for (const auto& [state, count] : model.counts) {
    all += tile(count_text(count), std::string(state_name(state)));
  }
  return "<div class=\"tiles\">" + all + tile(span_text(model.elapsed_ms), "elapsed") + "</div>";
}

std::string card(const std::string& title, const std::string& note, const std::string& content,
                 const std::string& legend = {}) {
  if (content.empty()) return {};
  return fmt::format("<section class=\"card\"><h2>{}</h2><p class=\"note\">{}</p>{}{}</section>",
                     html_text(title), html_text(note), legend, content);
}

std::string best_table(const ReportModel& model) {
  if (model.best.empty()) return {};
  std::vector<std::string> names = model.parameters;
  constexpr std::size_t most_columns = 12;
  if (names.size() > most_columns) names.resize(most_columns);
  std::string rows = "<tr><th>trial</th><th>" + html_text(model.experiment.metric) + "</th>";
  for (const auto& name : names) rows += "<th>" + html_text(short_text(Value(name))) + "</th>";
  rows += "</tr>";
  for (const auto& trial : model.best) {
    rows += fmt::format("<tr data-t=\"{0}\"><td>{0}</td><td>{1}</td>", trial.trial,
                        short_number(trial.value));
    for (const auto& name : names) {
      const Value* const value = trial.config.find(name);
      rows += "<td>" + (value == nullptr ? "–" : html_text(short_text(*value))) + "</td>";
    }
    rows += "</tr>";
  }
  return "<div class=\"scroll\"><table>" + rows + "</table></div>";
}

std::string sampled_note(std::size_t shown, std::int64_t all, const std::string& what) {
  if (static_cast<std::int64_t>(shown) >= all)
    return fmt::format("All {} {}.", count_text(all), what);
  return fmt::format("{} of {} {}.", shown, count_text(all), what);
}

constexpr const char* ramp =
    R"(<div class="legend"><span><i class="ramp"></i>worse to better</span></div>)";
constexpr const char* ends =
    R"(<div class="legend"><span><i style="background:#2fa89c"></i>completed</span>)"
    R"(<span><i style="background:#5a6480"></i>stopped</span>)"
    R"(<span><i style="background:#8567c9"></i>paused</span>)"
    R"(<span><i style="background:#4f8fe0"></i>running</span>)"
    R"(<span><i style="background:#e0614a"></i>failed</span></div>)";

std::string cards(const ReportModel& model) {
  std::string all =
      card("Optimization history",
           sampled_note(model.history.size(), model.valued_count, "trials with a value") +
               " The line is the best value so far.",
           history_plot(model));
  all += card("Best trials", "Point at a row to find the trial in all plots.", best_table(model));
  all += card("Parallel coordinates",
              sampled_note(model.sample.size(), model.valued_count, "trials with a value") +
                  " The most important parameters are on the left.",
              parallel_plot(model), ramp);
  all += "<div class=\"grid2\">" +
         card("Parameter importance",
              "PED-ANOVA: how far a parameter among the best tenth differs from all trials.",
              importance_plot(model)) +
         card("Early stopping", "Trials that reached an iteration.", survivors_plot(model)) +
         "</div>";
  all +=
      card("Intermediate values", sampled_note(model.curves.size(), model.valued_count, "trials"),
           curves_plot(model), ramp);
  const std::string slices = slice_plots(model);
  all += card("Slices",
              sampled_note(model.slices.size(), model.valued_count, "trials with a value") +
                  " The value over each parameter.",
              slices.empty() ? "" : "<div class=\"slices\">" + slices + "</div>", ramp);
  all +=
      card("Timeline by node", sampled_note(model.attempts.size(), model.attempt_count, "attempts"),
           timeline_plot(model), ends);
  return all;
}

}  // namespace

std::string report_page(const ReportModel& model) {
  const std::string name = html_text(model.experiment.name);
  const std::string body = fmt::format(
      "<main><header><h1>{}</h1><span class=\"chip {}\">{}</span></header>{}{}<footer>Seed {}. "
      "Written by mobula tune plot.</footer></main><div id=\"tip\"></div>",
      name, html_text(model.state), html_text(model.state), tiles(model), cards(model),
      model.experiment.seed);
  return fmt::format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{}</title><style>{}</style></head><body>{}<script>{}"
      "</script></body></html>\n",
      name, joined(style), body, joined(script));
}

}  // namespace mobula::internal::tune
