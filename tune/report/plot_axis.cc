#include "tune/report/plot_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mobula::internal::tune {
namespace {

// 1, 2, or 5 times a power of ten: about `count` steps cover the span.
double rounded_step(double span, std::size_t count) {
  const double raw = span / static_cast<double>(std::max<std::size_t>(count, 1));
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double ratio = raw / power;
  return power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10);
}

std::string category_of(const Value& value) {
  return value.is_text()    ? value.text()
         : value.is_truth() ? (value.truth() ? "true" : "false")
                            : short_number(value.number());
}

}  // namespace

std::string short_number(double number) {
  const double size = std::abs(number);
  if (std::isfinite(number) && size >= 1e4 && size < 1e7 && number == std::floor(number)) {
    return fmt::format("{:.0f}", number);
  }
  return fmt::format("{:.4g}", number);
}

std::string short_text(const Value& value) {
  constexpr std::size_t max_bytes = 40;
  std::string text = category_of(value);
  if (text.size() <= max_bytes) return text;
  std::size_t end = max_bytes;
  // Not within a character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

PlotAxis PlotAxis::of_range(double low, double high) {
  PlotAxis axis;
  axis.low_ = low;
  axis.high_ = high > low ? high : low + std::max(1e-12, std::abs(low) * 0.1 + 1e-9);
  return axis;
}

PlotAxis PlotAxis::of_numbers(const std::vector<double>& values) {
  double low = INFINITY;
  double high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) return of_range(0, 1);
  constexpr double decades = 100;
  PlotAxis axis = of_range(low, high);
  if (low > 0 && high / low > decades) {
    axis.is_log_ = true;
    axis.low_ = std::log10(low);
    axis.high_ = std::log10(high);
    return axis;
  }
  const double margin = (axis.high_ - axis.low_) * 0.04;
  axis.low_ -= margin;
  axis.high_ += margin;
  return axis;
}

PlotAxis PlotAxis::of_values(const std::vector<Value>& values) {
  const bool numbers = std::all_of(values.begin(), values.end(), [](const Value& value) {
    return value.is_number() || value.is_integer();
  });
  if (numbers) {
    std::vector<double> all;
    for (const auto& value : values) all.push_back(value.number());
    return of_numbers(all);
  }
  PlotAxis axis;
  for (const auto& value : values) axis.categories_.push_back(category_of(value));
  std::sort(axis.categories_.begin(), axis.categories_.end());
  axis.categories_.erase(std::unique(axis.categories_.begin(), axis.categories_.end()),
                         axis.categories_.end());
  if (axis.categories_.size() > max_categories) axis.categories_.resize(max_categories);
  return axis;
}

std::optional<double> PlotAxis::position(double value) const {
  const double at = is_log_ ? (value > 0 ? std::log10(value) : low_) : value;
  if (std::isnan(at)) return std::nullopt;
  return std::clamp((at - low_) / (high_ - low_), 0.0, 1.0);
}

std::optional<double> PlotAxis::position(const Value& value) const {
  if (categories_.empty()) return position(value.number());
  const auto found = std::find(categories_.begin(), categories_.end(), category_of(value));
  if (found == categories_.end()) return std::nullopt;
  return (static_cast<double>(found - categories_.begin()) + 0.5) /
         static_cast<double>(categories_.size());
}

std::vector<std::pair<double, std::string>> PlotAxis::ticks(std::size_t about) const {
  std::vector<std::pair<double, std::string>> ticks;
  for (std::size_t i = 0; i < categories_.size(); ++i) {
    ticks.emplace_back((static_cast<double>(i) + 0.5) / static_cast<double>(categories_.size()),
                       short_text(Value(categories_[i])));
  }
  if (!categories_.empty()) return ticks;
  const double step = is_log_
                          ? std::max(1.0, std::ceil((high_ - low_) / static_cast<double>(about)))
                          : rounded_step(high_ - low_, about);
  for (double at = std::ceil(low_ / step - 1e-9) * step; at <= high_ + step * 1e-6; at += step) {
    const double shown = std::abs(at) < step * 1e-6 ? 0 : at;
    ticks.emplace_back((at - low_) / (high_ - low_),
                       short_number(is_log_ ? std::pow(10.0, shown) : shown));
  }
  return ticks;
}

}  // namespace mobula::internal::tune
