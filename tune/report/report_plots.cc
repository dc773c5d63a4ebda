#include "tune/report/report_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "tune/report/svg_plot.h"

namespace mobula::internal::tune {
namespace {

using Positions = std::vector<std::pair<double, double>>;

constexpr std::size_t most_axes = 10;
constexpr std::size_t most_slices = 12;

// The axis of the metric. Bad outliers beyond the best nine tenths are clipped to the border, so
// that the good trials are visible.
PlotAxis value_axis(std::vector<double> values, Mode mode) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return PlotAxis::of_range(0, 1);
  const double sign = sign_of(mode);
  std::sort(values.begin(), values.end(), [&](double a, double b) { return sign * a > sign * b; });
  const double best = values.front();
  const double cut = values[(values.size() - 1) * 9 / 10];
  const double limit = cut + (cut - best) * 0.75;
  const double worst = sign * values.back() < sign * limit && cut != best ? limit : values.back();
  return PlotAxis::of_numbers({best, worst});
}

std::vector<double> values_of(const std::vector<ReportTrial>& trials) {
  std::vector<double> values;
  for (const auto& trial : trials) values.push_back(trial.value);
  return values;
}

// Positions by class of standing, the best last, so that they are on top.
using Classed = std::array<Positions, 5>;

void add_to_class(Classed& classed, double standing, double x, double y) {
  const std::string name = standing_class(standing);
  classed[static_cast<std::size_t>(name.back() - '0')].emplace_back(x, y);
}

void draw_dots(SvgPlot& plot, const Classed& classed) {
  for (std::size_t i = 0; i < classed.size(); ++i) {
    plot.dots(classed[i], fmt::format("class=\"dots s{}\"", i));
  }
}

std::string trial_title(const ReportTrial& trial, const std::string& metric) {
  return fmt::format("trial {}: {} = {}", trial.trial, metric, short_number(trial.value));
}

}  // namespace

std::string history_plot(const ReportModel& model) {
  if (model.history.empty()) return {};
  const auto last = static_cast<double>(std::max<std::int64_t>(1, model.trial_count - 1));
  const PlotAxis x = PlotAxis::of_range(0, last);
  const PlotAxis y = value_axis(values_of(model.history), model.experiment.mode);
  SvgPlot plot({.height = 320, .x_title = "trial", .y_title = model.experiment.metric});
  plot.draw_x_axis(x);
  plot.draw_y_axis(y);
  Positions steps;
  for (const auto& trial : model.history) {
    const double at = *x.position(static_cast<double>(trial.trial));
    const double value = y.position(trial.value).value_or(0);
    if (!trial.improved) continue;
    if (!steps.empty()) steps.emplace_back(at, steps.back().second);
    steps.emplace_back(at, value);
  }
  for (const auto& trial : model.history) {
    const double at = *x.position(static_cast<double>(trial.trial));
    plot.circle(
        at, y.position(trial.value).value_or(0), trial.improved ? 4 : 2.6,
        fmt::format("class=\"{}\" data-t=\"{}\"", trial.improved ? "new" : "point", trial.trial),
        trial_title(trial, model.experiment.metric));
  }
  if (!steps.empty()) steps.emplace_back(1, steps.back().second);
  plot.line(steps, "class=\"best\"");
  return plot.svg();
}

std::string curves_plot(const ReportModel& model) {
  if (model.curves.empty()) return {};
  std::vector<double> values;
  std::vector<double> steps;
  for (const auto& curve : model.curves) {
    for (const auto& [step, value] : curve.points) {
      steps.push_back(step);
      values.push_back(value);
    }
  }
  const auto [first, last] = std::minmax_element(steps.begin(), steps.end());
  const PlotAxis x = PlotAxis::of_range(*first, *last);
  const PlotAxis y = value_axis(values, model.experiment.mode);
  SvgPlot plot({.height = 320, .x_title = "iteration", .y_title = model.experiment.metric});
  plot.draw_x_axis(x);
  plot.draw_y_axis(y);
  for (const auto& curve : model.curves) {
    Positions line;
    for (const auto& [step, value] : curve.points) {
      if (const auto at = y.position(value)) line.emplace_back(*x.position(step), *at);
    }
    plot.line(line, fmt::format("class=\"curve {}\" data-t=\"{}\"", standing_class(curve.standing),
                                curve.trial));
  }
  return plot.svg();
}

std::string parallel_plot(const ReportModel& model) {
  if (model.sample.size() < 2 || model.parameters.empty()) return {};
  const std::size_t count = std::min(model.parameters.size(), most_axes);
  std::vector<PlotAxis> axes;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Value> values;
    for (const auto& trial : model.sample) {
      if (const Value* value = trial.config.find(model.parameters[i])) values.push_back(*value);
    }
    axes.push_back(PlotAxis::of_values(values));
  }
  axes.push_back(value_axis(values_of(model.sample), model.experiment.mode));
  SvgPlot plot({.height = 380, .left = 74, .right = 74, .top = 44, .bottom = 20});
  // The worst first, so that the best are on top.
  for (auto trial = model.sample.rbegin(); trial != model.sample.rend(); ++trial) {
    Positions line;
    for (std::size_t i = 0; i <= count; ++i) {
      const Value* value = i < count ? trial->config.find(model.parameters[i]) : nullptr;
      std::optional<double> at;
      if (i == count) at = axes[i].position(trial->value);
      if (value != nullptr) at = axes[i].position(*value);
      // An inactive parameter is below the axis.
      line.emplace_back(static_cast<double>(i) / static_cast<double>(count), at.value_or(-0.03));
    }
    plot.line(line, fmt::format("class=\"thread {}\" data-t=\"{}\"",
                                standing_class(trial->standing), trial->trial));
  }
  for (std::size_t i = 0; i <= count; ++i) {
    const double at = plot.x(static_cast<double>(i) / static_cast<double>(count));
    plot.append(fmt::format("<path class=\"axis\" d=\"M{} {}V{}\"/>", pixels(at), pixels(plot.y(1)),
                            pixels(plot.y(0))));
    const std::string name = i < count ? model.parameters[i] : model.experiment.metric;
    plot.text(at, i % 2 == 0 ? 16 : 32, short_text(Value(name)),
              "class=\"name\" text-anchor=\"middle\"");
    for (const auto& [position, words] : axes[i].ticks(5)) {
      plot.text(at + (i == count ? 7 : -7), plot.y(position) + 4, words,
                fmt::format("class=\"halo\" text-anchor=\"{}\"", i == count ? "start" : "end"));
    }
  }
  return plot.svg();
}

std::string slice_plots(const ReportModel& model) {
  if (model.slices.size() < 2) return {};
  const PlotAxis y = value_axis(values_of(model.slices), model.experiment.mode);
  std::string all;
  for (std::size_t i = 0; i < std::min(model.parameters.size(), most_slices); ++i) {
    const std::string& name = model.parameters[i];
    std::vector<Value> values;
    for (const auto& trial : model.slices) {
      if (const Value* value = trial.config.find(name)) values.push_back(*value);
    }
    const PlotAxis x = PlotAxis::of_values(values);
    SvgPlot plot({.width = 300,
                  .height = 200,
                  .left = 48,
                  .right = 12,
                  .top = 10,
                  .bottom = 40,
                  .x_title = short_text(Value(name))});
    plot.draw_x_axis(x, 3);
    plot.draw_y_axis(y, 4);
    Classed classed;
    std::uint64_t shift = 1;
    for (const auto& trial : model.slices) {
      const Value* value = trial.config.find(name);
      auto at = value == nullptr ? std::nullopt : x.position(*value);
      if (!at) continue;
      if (x.has_categories()) {
        // Spread equal values.
        shift = shift * 6364136223846793005ULL + 1442695040888963407ULL;
        *at += (static_cast<double>(shift >> 40) / 16777216.0 - 0.5) * 0.06;
      }
      add_to_class(classed, trial.standing, *at, y.position(trial.value).value_or(0));
    }
    draw_dots(plot, classed);
    all += plot.svg();
  }
  return all;
}

std::string importance_plot(const ReportModel& model) {
  if (model.importances.empty()) return {};
  const std::size_t count = std::min(model.importances.size(), most_slices);
  constexpr double row = 26;
  const double height = 20 + row * static_cast<double>(count);
  SvgPlot plot({.width = 460, .height = height, .left = 150, .right = 60, .top = 8, .bottom = 8});
  const double largest = std::max(1e-9, model.importances.front().share);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& each = model.importances[i];
    const double top = 10 + row * static_cast<double>(i);
    const double width = std::max(1.0, plot.inner_width() * each.share / largest);
    plot.text(142, top + 14, short_text(Value(each.parameter)),
              "class=\"name\" text-anchor=\"end\"");
    plot.rectangle(150, top + 3, width, 15, "class=\"bar\" rx=\"3\"");
    plot.text(150 + width + 7, top + 15, fmt::format("{:.0f} %", each.share * 100));
  }
  return plot.svg();
}

std::string survivors_plot(const ReportModel& model) {
  if (model.survivors.size() < 2) return {};
  const auto first = static_cast<double>(model.survivors.front().first);
  const auto last = static_cast<double>(model.survivors.back().first);
  double most = 1;
  for (const auto& each : model.survivors) most = std::max(most, static_cast<double>(each.second));
  const PlotAxis x = PlotAxis::of_range(first, last);
  const PlotAxis y = PlotAxis::of_range(0, most * 1.05);
  SvgPlot plot({.width = 460,
                .height = 240,
                .left = 60,
                .x_title = "iteration",
                .y_title = "trials that reached it"});
  plot.draw_x_axis(x, 6);
  plot.draw_y_axis(y, 4);
  Positions line;
  for (const auto& [step, count] : model.survivors) {
    const double at = *x.position(static_cast<double>(step));
    // The count applies from the previous iteration on.
    const double height = *y.position(static_cast<double>(count));
    if (!line.empty()) line.emplace_back(line.back().first, height);
    line.emplace_back(at, height);
  }
  Positions area = line;
  area.emplace_back(line.back().first, 0);
  area.emplace_back(line.front().first, 0);
  plot.line(area, "class=\"area\"");
  plot.line(line, "class=\"best\"");
  return plot.svg();
}

namespace {

// Attempts of one node that overlap are in different lanes.
struct Lanes {
  std::vector<std::int64_t> ends;
  std::size_t lane_for(std::int64_t begin, std::int64_t end) {
    for (std::size_t lane = 0; lane < ends.size(); ++lane) {
      if (ends[lane] <= begin) {
        ends[lane] = end;
        return lane;
      }
    }
    ends.push_back(end);
    return ends.size() - 1;
  }
};

std::string attempt_class(const StoredAttempt& attempt) {
  if (attempt.ended_ms == 0) return "running";
  if (attempt.kind == "completed") return "completed";
  if (attempt.kind == "stopped" || attempt.kind == "paused") return attempt.kind;
  return "failed";
}

struct Bar {
  const StoredAttempt* attempt;
  std::int64_t begin, end;
  std::size_t lane;
};

}  // namespace

std::string timeline_plot(const ReportModel& model) {
  if (model.attempts.empty()) return {};
  const std::int64_t begin = model.attempts.front().began_ms;
  std::int64_t end = begin + 1;
  for (const auto& each : model.attempts) end = std::max({end, each.began_ms, each.ended_ms});
  std::map<std::string, Lanes> nodes;
  std::map<std::string, std::vector<Bar>> bars;
  for (const auto& each : model.attempts) {
    // Clocks jump: a bar never ends before it begins.
    const std::int64_t ended = std::max(each.began_ms, each.ended_ms == 0 ? end : each.ended_ms);
    const std::size_t lane = nodes[each.node].lane_for(each.began_ms, ended);
    bars[each.node].push_back({&each, each.began_ms, ended, lane});
  }
  std::size_t lanes = 0;
  for (const auto& [node, each] : nodes) lanes += each.ends.size();
  const double row = lanes > 40 ? 6 : 12;
  const double height =
      54 + row * static_cast<double>(lanes) + 10 * static_cast<double>(nodes.size());
  SvgPlot plot({.height = height, .left = 120, .x_title = "seconds after the first shown attempt"});
  plot.draw_x_axis(PlotAxis::of_range(0, static_cast<double>(end - begin) / 1000));
  const auto x = [&](std::int64_t at) {
    return plot.x(
        std::clamp(static_cast<double>(at - begin) / static_cast<double>(end - begin), 0.0, 1.0));
  };
  double top = 14;
  for (const auto& [node, all] : bars) {
    plot.text(112, top + row, short_text(Value(node.empty() ? "node" : node)),
              "class=\"name\" text-anchor=\"end\"");
    for (const auto& bar : all) {
      plot.rectangle(x(bar.begin), top + row * static_cast<double>(bar.lane),
                     std::max(1.5, x(bar.end) - x(bar.begin) - 0.5), row - 2,
                     fmt::format("class=\"{}\" data-t=\"{}\"", attempt_class(*bar.attempt),
                                 bar.attempt->trial),
                     fmt::format("trial {}: {}", bar.attempt->trial,
                                 bar.attempt->kind.empty() ? "running" : bar.attempt->kind));
    }
    top += row * static_cast<double>(nodes[node].ends.size()) + 10;
  }
  return plot.svg();
}

}  // namespace mobula::internal::tune
